"""Where requests go at a target, whatever their path at the provider."""

from __future__ import annotations

import pytest

from addons.target_paths import path_at_target
from memory.exchange import Protocol

CLAUDE = "/model/anthropic.claude-v2%3A1/converse-stream"


@pytest.mark.parametrize(
    ("protocol", "path", "expected"),
    [
        ("anthropic", "/v1/messages?beta=true", "/v1/messages"),
        ("anthropic", "/v1/messages/count_tokens", "/v1/messages/count_tokens"),
        ("anthropic", "/proxy/anthropic/v1/messages/", "/v1/messages"),
        ("anthropic", "/v1/complete", None),
        ("openai-chat", "/v1/chat/completions", "/v1/chat/completions"),
        ("openai-chat", "/api/v1/chat/completions", "/v1/chat/completions"),
        ("openai-chat", "/openai/deployments/gpt-x/chat/completions?api-version=1", "/v1/chat/completions"),
        ("openai-responses", "/v1/responses", "/v1/responses"),
        ("openai-responses", "/backend-api/codex/responses", "/v1/responses"),
        ("openai-responses", "/v1/responses/compact", "/v1/responses/compact"),
        ("openai-responses", "/v1/responses/input_tokens", "/v1/responses/input_tokens"),
        ("ollama", "/api/chat", "/api/chat"),
        ("ollama", "/api/generate", "/api/generate"),
        ("gemini", "/v1beta/models/gemini-x:streamGenerateContent?alt=sse", "/v1beta/models/gemini-x:streamGenerateContent"),
        ("gemini", "/v1/models/gemini-x:generateContent", "/v1/models/gemini-x:generateContent"),
        ("gemini", "/v1beta/tunedModels/mine-1:generateContent", "/v1beta/tunedModels/mine-1:generateContent"),
        (
            "gemini",
            "/v1/projects/p/locations/l/publishers/google/models/gemini-x:countTokens",
            "/v1beta/models/gemini-x:countTokens",
        ),
        ("gemini", "/v1internal:generateContent", None),
        ("bedrock", CLAUDE, CLAUDE),
        ("bedrock", "/model/arn:aws:x/y/invoke", "/model/arn:aws:x/y/invoke"),
        ("unknown", "/v1/anything", None),
    ],
)  # fmt: skip
def test_the_path_is_the_protocols_own(protocol: Protocol, path: str, expected: str | None) -> None:
    assert path_at_target(protocol, path, "", None) == expected


@pytest.mark.parametrize(
    ("protocol", "path", "expected"),
    [
        ("gemini", "/v1beta/models/gemini-x:generateContent", "/v1beta/models/org%2Fgemma%3A7b:generateContent"),
        ("gemini", "/v1/tunedModels/mine:generateContent", "/v1/models/org%2Fgemma%3A7b:generateContent"),
        ("bedrock", CLAUDE, "/model/org%2Fgemma%3A7b/converse-stream"),
        ("openai-chat", "/v1/chat/completions", "/v1/chat/completions"),
    ],
)
def test_a_model_is_named_where_the_path_names_it(protocol: Protocol, path: str, expected: str) -> None:
    assert path_at_target(protocol, path, "", "org/gemma:7b") == expected


@pytest.mark.parametrize(
    ("protocol", "path", "prefix", "expected"),
    [
        ("openai-chat", "/v1/chat/completions", "/v1", "/v1/chat/completions"),
        ("openai-chat", "/v1/chat/completions", "/api/v1", "/api/v1/chat/completions"),
        ("openai-chat", "/v1/chat/completions", "/api/paas/v4", "/api/paas/v4/chat/completions"),
        ("openai-chat", "/v1/chat/completions", "/openai", "/openai/v1/chat/completions"),
        ("anthropic", "/v1/messages", "/v1", "/v1/messages"),
        ("ollama", "/api/chat", "/v1", "/v1/api/chat"),
        ("gemini", "/v1beta/models/x:generateContent", "/v1beta", "/v1beta/models/x:generateContent"),
    ],
)
def test_a_version_at_the_end_of_the_targets_url_stands_for_the_paths(
    protocol: Protocol, path: str, prefix: str, expected: str
) -> None:
    assert path_at_target(protocol, path, prefix, None) == expected
