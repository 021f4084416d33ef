"""What each wire format claims and reads, on bodies of our own, on real ones, and on JSON of any shape."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy.http import Headers

from addons.wire import WIRES, RequestFacts, bare_path, wire_for
from addons.wire.facts import canonical, first_of_role, header, text_of


def read(path: str, body: Any, headers: dict[str, str] | None = None) -> RequestFacts:
    sent = Headers([(name.encode(), value.encode()) for name, value in (headers or {}).items()])
    return wire_for(path).read(bare_path(path), sent, body)


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        ("/v1/messages", "anthropic"),
        ("/v1/messages?beta=true", "anthropic"),
        ("/v1/messages/", "anthropic"),
        ("/v1/messages/count_tokens", "anthropic"),
        ("/api/anthropic/v1/messages", "anthropic"),
        ("/v1/messages/batches", "unknown"),
        ("/messages", "unknown"),
        ("/v1/chat/completions", "openai-chat"),
        ("/openai/deployments/gpt-4o/chat/completions?api-version=2025-01-01", "openai-chat"),
        ("/chat/completions", "openai-chat"),
        ("/v1/completions", "unknown"),
        ("/v1/responses", "openai-responses"),
        ("/backend-api/codex/responses", "openai-responses"),
        ("/v1/responses/compact", "openai-responses"),
        ("/v1/responses/input_tokens", "openai-responses"),
        ("/v1/responses/resp_1/cancel", "unknown"),
        ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini"),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "gemini"),
        ("/v1beta/models/gemini-2.5-pro:countTokens", "gemini"),
        ("/v1internal:streamGenerateContent?alt=sse", "gemini"),
        ("/v1beta/models/gemini-2.5-pro:embedContent", "unknown"),
        ("/v1beta/openai/chat/completions", "openai-chat"),
        ("/api/chat", "ollama"),
        ("/api/generate", "ollama"),
        ("/api/embed", "unknown"),
        ("/", "unknown"),
        ("", "unknown"),
        ("/v1/other?next=/v1/messages", "unknown"),
    ],
)
def test_the_path_tells_the_protocol(path: str, protocol: str) -> None:
    assert wire_for(path).id == protocol


def test_no_path_is_claimed_by_two_protocols() -> None:
    paths = [
        "/v1/messages",
        "/v1/chat/completions",
        "/v1/responses",
        "/models/m:generateContent",
        "/api/chat",
        "/model/m/converse",
    ]
    assert [[wire.id for wire in WIRES[:-1] if wire.claims(path)] for path in paths] == [
        [wire.id] for wire in WIRES[:-1]
    ]
    assert WIRES[-1].id == "unknown"


@pytest.mark.parametrize(
    ("path", "bare"),
    [("/a/b?c=d/", "/a/b"), ("/a/b/", "/a/b"), ("/a/b//", "/a/b"), ("/", ""), ("", ""), ("?x", "")],
)
def test_a_bare_path(path: str, bare: str) -> None:
    assert bare_path(path) == bare


# ---- Anthropic

QUESTION = {"role": "user", "content": "When is high tide?"}
OPENING = '{"content": "When is high tide?", "role": "user"}'


def test_anthropic() -> None:
    body = {"model": "claude-test", "messages": [QUESTION, {"role": "assistant", "content": "At noon."}]}
    assert read("/v1/messages", body) == RequestFacts("claude-test", None, OPENING, side_request=False)
    assert read("/v1/messages/count_tokens", body) == RequestFacts("claude-test", None, OPENING, side_request=True)
    assert read("/v1/messages/count_tokens/", body).side_request
    assert not read("/v1/messages/?beta=true", body).side_request


@pytest.mark.parametrize(
    ("headers", "user_id", "conversation"),
    [
        ({"X-Claude-Code-Session-Id": "tulip"}, None, "tulip"),
        ({"x-claude-code-session-id": "tulip"}, json.dumps({"session_id": "rose"}), "tulip"),
        ({"X-Claude-Code-Session-Id": ""}, json.dumps({"session_id": "rose"}), "rose"),
        ({}, json.dumps({"device_id": "d", "account_uuid": "", "session_id": "rose"}), "rose"),
        ({}, "user_0f_account__session_lily", "lily"),
        ({}, "user_0f", None),
        ({}, json.dumps({"device_id": "d"}), None),
        ({}, "17", None),
        ({}, '"_session_x"', None),
        ({}, "", None),
        ({}, None, None),
        ({}, "[" * 100_000, None),
        ({}, 17, None),
        ({}, {"session_id": "rose"}, None),
    ],
)
def test_the_conversation_of_claude_code(headers: dict[str, str], user_id: Any, conversation: str | None) -> None:
    assert read("/v1/messages", {"metadata": {"user_id": user_id}}, headers).conversation == conversation


def test_the_opening_is_the_first_message_of_the_user_without_moving_cache_markers() -> None:
    text = {"type": "text", "text": "When is high tide?"}
    marked = {"role": "user", "content": [text | {"cache_control": {"type": "ephemeral"}}]}
    plain = {"content": [text], "role": "user"}
    instructions = {"role": "system", "content": "Be brief."}
    openings = {read("/v1/messages", {"messages": [instructions, first]}).opening for first in (marked, plain)}
    assert openings == {'{"content": [{"text": "When is high tide?", "type": "text"}], "role": "user"}'}


# ---- OpenAI


def test_openai_chat() -> None:
    system = {"role": "system", "content": "Be brief."}
    body = {"model": "gpt-test", "messages": [system, QUESTION], "prompt_cache_key": "tulip"}
    assert read("/v1/chat/completions", body) == RequestFacts("gpt-test", None, OPENING)
    assert read("/v1/chat/completions", {"model": "gpt-test"}) == RequestFacts("gpt-test")


def test_azure_names_the_deployment_in_the_path() -> None:
    path = "/openai/deployments/our-gpt/chat/completions?api-version=1"
    assert read(path, {"messages": [QUESTION]}) == RequestFacts("our-gpt", None, OPENING)
    assert read(path, {"model": "gpt-test"}).model == "gpt-test"


@pytest.mark.parametrize(
    ("given", "opening"),
    [
        ("When is high tide?", "When is high tide?"),
        ([{"role": "developer", "content": "Be brief."}, QUESTION], OPENING),
        ([{"type": "additional_tools", "role": "developer", "tools": []}, QUESTION], OPENING),
        ([{"type": "function_call_output", "call_id": "c", "output": "noon"}], None),
        ([], None),
        (None, None),
        (7, None),
    ],
)
def test_openai_responses(given: Any, opening: str | None) -> None:
    assert read("/v1/responses", {"model": "gpt-test", "input": given}) == RequestFacts("gpt-test", None, opening)


@pytest.mark.parametrize(
    ("headers", "body", "conversation"),
    [
        ({"session-id": "tulip"}, {"prompt_cache_key": "rose"}, "tulip"),
        ({"session_id": "tulip"}, {}, "tulip"),
        ({"conversation_id": "tulip"}, {}, "tulip"),
        ({"session-id": ""}, {"prompt_cache_key": "rose"}, "rose"),
        ({}, {"prompt_cache_key": "rose", "conversation": "lily"}, "rose"),
        ({}, {"conversation": "lily"}, "lily"),
        ({}, {"conversation": {"id": "lily"}}, "lily"),
        ({}, {"conversation": {"id": 7}}, None),
        ({}, {"conversation": []}, None),
        ({}, {}, None),
    ],
)
def test_the_conversation_of_openai_responses(
    headers: dict[str, str], body: dict[str, Any], conversation: str | None
) -> None:
    assert wire_for("/v1/responses").read("/v1/responses", headers, body).conversation == conversation


@pytest.mark.parametrize(
    ("path", "side"),
    [
        ("/v1/responses", False),
        ("/v1/responses/", False),
        ("/v1/responses/compact", True),
        ("/v1/responses/input_tokens", True),
    ],
)
def test_counting_and_compacting_are_side_requests(path: str, side: bool) -> None:
    assert read(path, {}).side_request is side


# ---- Gemini, Ollama, anything else

PARTS = {"parts": [{"text": "When is high tide?"}]}


def test_gemini() -> None:
    asked = {"role": "user", **PARTS}
    opening = json.dumps({"parts": [{"text": "When is high tide?"}], "role": "user"})
    path = "/v1beta/models/gemini-test:generateContent"
    assert read(path, {"contents": [asked]}) == RequestFacts("gemini-test", None, opening)
    assert read(path, {"contents": [PARTS]}).opening == json.dumps(PARTS)
    assert read(path, {"contents": [{"role": "model", **PARTS}]}).opening is None
    assert read("/v1/projects/p/locations/l/publishers/google/models/g:streamGenerateContent", {}).model == "g"
    assert read("/v1beta/models/gemini-test:countTokens", {}).side_request


def test_gemini_clis_wrapper() -> None:
    body = {
        "model": "models/gemini-test",
        "project": "p",
        "request": {"contents": [{"role": "user", **PARTS}], "session_id": "tulip"},
    }
    facts = read("/v1internal:streamGenerateContent?alt=sse", body)
    assert (facts.model, facts.conversation, facts.side_request) == ("gemini-test", "tulip", False)
    assert facts.opening is None  # nothing has to be told apart by it
    del body["request"]["session_id"]  # type: ignore[attr-defined]
    facts = read("/v1internal:streamGenerateContent?alt=sse", body)
    assert facts.opening == json.dumps({"parts": [{"text": "When is high tide?"}], "role": "user"})


def test_ollama() -> None:
    assert read("/api/chat", {"model": "qwen3:8b", "messages": [QUESTION]}) == RequestFacts("qwen3:8b", None, OPENING)
    assert read("/api/generate", {"model": "qwen3:8b", "prompt": "Tide?"}) == RequestFacts("qwen3:8b", None, "Tide?")


@pytest.mark.parametrize(("body", "model"), [({"model": "m"}, "m"), ({"model": 7}, ""), ([], ""), (None, "")])
def test_of_anything_else_only_a_model_key_is_read(body: Any, model: str) -> None:
    assert read("/v1/embeddings", body) == RequestFacts(model)


# ---- the shapes they share


@pytest.mark.parametrize(
    ("body", "path", "text"),
    [
        ({"a": "b"}, ("a",), "b"),
        ({"a": {"b": "c"}}, ("a", "b"), "c"),
        ({"a": ""}, ("a",), None),
        ({"a": 1}, ("a",), None),
        ({"a": "b"}, ("a", "b"), None),
        (["a"], ("a",), None),
        (None, ("a",), None),
        ({"a": "half \ud800 pair"}, ("a",), "half ? pair"),
    ],
)
def test_text_of(body: Any, path: tuple[str, ...], text: str | None) -> None:
    assert text_of(body, *path) == text


def test_header_takes_the_first_that_is_not_empty() -> None:
    assert header({"a": "", "b": "1", "c": "2"}, "a", "b", "c") == "1"
    assert header({}, "a") is None


def test_first_of_role() -> None:
    assert first_of_role([QUESTION, {"role": "user", "content": "Later"}]) == OPENING
    assert first_of_role([QUESTION], "assistant") is None
    assert first_of_role("user") is None


def test_a_message_nested_too_deep_is_no_opening() -> None:
    deep: Any = "high tide"
    for _ in range(5000):
        deep = [deep]
    assert canonical(deep) is None
    assert read("/v1/messages", {"model": "m", "messages": [{"role": "user", "content": deep}]}) == RequestFacts("m")
    assert read("/models/m:generateContent", {"contents": [{"parts": deep}]}) == RequestFacts("m")


KEYS = (
    "model", "messages", "metadata", "user_id", "role", "content", "contents", "parts", "request", "input", "prompt",
    "conversation", "id", "session_id", "prompt_cache_key", "cache_control",
)  # fmt: skip
ANY_TEXT = st.text(st.characters()) | st.sampled_from(("user", "assistant", '{"session_id": 1}', "_session_"))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | ANY_TEXT, inner, max_size=6),
    max_leaves=25,
)


PATHS = (
    "/v1/messages",
    "/openai/deployments/d/chat/completions",
    "/v1/responses",
    "/v1beta/models/m:generateContent",
    "/v1internal:countTokens",
    "/api/generate",
    "/anything",
)


@given(ANY_JSON)
def test_json_of_any_shape_gives_facts(body: Any) -> None:
    for path in PATHS:
        facts = wire_for(path).read(path, {}, body)
        facts.model.encode()
        for text in (facts.conversation, facts.opening):
            assert text is None or isinstance(text, str)


# ---- requests that real programs sent

EXPECTED = (
    ("/v1/messages", "anthropic"),
    ("/chat/completions", "openai-chat"),
    ("/v1/responses", "openai-responses"),
    (":generateContent", "gemini"),
    (":streamGenerateContent", "gemini"),
    ("/v1/conversations", "unknown"),
    ("/converse", "bedrock"),
    ("/converse-stream", "bedrock"),
)
"""How the paths of the recorded requests end."""


def test_real_requests_are_recognised_and_their_model_is_read(shared_data: Path) -> None:
    recorded = json.loads((shared_data / "llm" / "index.json").read_text("utf-8"))
    counts: Counter[str] = Counter()
    for one in recorded:
        if one["method"] != "POST":
            continue
        path = urlsplit(one["url"]).path
        [protocol] = [protocol for end, protocol in EXPECTED if path.endswith(end)]
        body = json.loads((shared_data / one["req"]).read_bytes())
        facts = read(path, body)
        in_path = {
            "gemini": path.rpartition("/")[2].partition(":")[0],
            "bedrock": unquote(path.rpartition("/")[0].rpartition("/")[2]),
        }.get(protocol, "")
        assert (wire_for(path).id, facts.model) == (protocol, in_path or body.get("model", "")), one["req"]
        assert (facts.conversation is None and facts.opening is None) == (protocol == "unknown"), one["req"]
        assert not facts.side_request
        counts[protocol] += 1
    assert counts == {
        "anthropic": 9, "openai-chat": 19, "openai-responses": 12, "gemini": 11, "bedrock": 6, "unknown": 1
    }  # fmt: skip
