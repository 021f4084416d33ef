"""JSON of any shape, as an answer or as a request, is read without an error, and what is read can be written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addons.wire import wire_for
from addons.wire.claude_code import asks_aside
from addons.wire.shapes import clean, error_of, items, json_text, member, tokens
from memory.slices import KnownSpans, slice_object

PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/m:generateContent",
    "ollama": "/api/chat",
}
KEYS = {
    "openai-chat": (
        "choices", "index", "delta", "message", "messages", "content", "refusal", "reasoning", "tool_calls", "function",
        "function_call", "custom", "name", "arguments", "input", "id", "finish_reason", "usage", "prompt_tokens",
        "prompt_tokens_details", "cached_tokens", "x_groq", "error", "object", "detail", "type", "text", "thinking",
        "role", "tools", "tool_call_id", "model",
    ),
    "openai-responses": (
        "type", "response", "output", "output_index", "content_index", "summary_index", "item", "item_id", "delta",
        "text", "refusal", "arguments", "input", "action", "code", "call_id", "id", "name", "content", "summary",
        "status", "error", "incomplete_details", "reason", "usage", "input_tokens", "input_tokens_details", "role",
        "instructions", "tools", "client_metadata", "x-codex-turn-metadata", "generate", "model", "stdout",
    ),
    "gemini": (
        "candidates", "content", "contents", "parts", "text", "thought", "functionCall", "function_call", "name",
        "args", "id", "functionResponse", "response", "request", "usageMetadata", "promptTokenCount",
        "thoughtsTokenCount", "promptFeedback", "blockReason", "finishReason", "error", "index", "role", "tools",
        "functionDeclarations", "systemInstruction", "modelVersion", "responseId", "traceId",
    ),
    "ollama": (
        "message", "messages", "content", "thinking", "response", "tool_calls", "function", "name", "arguments", "done",
        "done_reason", "eval_count", "prompt_eval_count", "error", "prompt", "system", "role", "tools", "model",
    ),
}  # fmt: skip
WORDS = (
    "user", "assistant", "tool", "system", "model", "message", "thinking", "text", "function_call", "mcp_call",
    "function_call_output", "response.create", "response.created", "response.completed", "response.incomplete",
    "response.failed", "response.output_item.added", "response.output_item.done", "response.output_text.delta",
    "response.output_text.done", "response.reasoning_summary_text.delta", "response.function_call_arguments.done",
    "error", "additional_tools", "reasoning", "half \ud800 pair",
)  # fmt: skip


def any_json(protocol: str) -> st.SearchStrategy[Any]:
    text = st.sampled_from(WORDS) | st.text(st.characters(), max_size=5)
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | text,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS[protocol]) | text, inner, max_size=6)
        ),
        max_leaves=25,
    )


ANY_JSON = {protocol: any_json(protocol) for protocol in PATHS}


@pytest.mark.parametrize("protocol", PATHS)
@given(st.data())
def test_answers(protocol: str, data: st.DataObject) -> None:
    wire = wire_for(PATHS[protocol])
    assert wire.id == protocol
    parts = wire.answer()
    assert parts is not None
    for event in data.draw(st.lists(ANY_JSON[protocol], max_size=4)):
        parts.add(event)
    parts.whole(data.draw(ANY_JSON[protocol]))
    answer = parts.answer()
    assert isinstance(parts.done, bool)
    assert not (answer.complete and answer.error is not None)
    repr(answer).encode()
    "".join([answer.text, answer.thinking, answer.model, answer.id or "", answer.error or ""]).encode()
    for call in answer.tool_calls:
        (call.id + call.name + call.arguments).encode()


@pytest.mark.parametrize("protocol", PATHS)
@given(st.data())
def test_requests(protocol: str, data: st.DataObject) -> None:
    wire, body = wire_for(PATHS[protocol]), data.draw(ANY_JSON[protocol])
    content = wire.content(PATHS[protocol], body)
    wire.read(PATHS[protocol], {}, body)
    asks_aside({"user-agent": "claude-cli/2"}, body)
    for text in [content.system, *content.tools, *[message.text for message in content.messages]]:
        text.encode()
    for message in content.messages:
        for call in message.tool_calls:
            (call.id + call.name + call.arguments).encode()
        for result in message.tool_results:
            (result.id + result.text).encode()


REQUESTS: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "High tide?"}]}],
        "tools": [{"type": "function", "function": {"name": "tide"}}],
    },
    "openai-responses": {
        "type": "response.create",
        "response": {"input": [{"role": "user", "content": "High tide?"}], "tools": [{"name": "tide"}]},
    },
    "gemini": {
        "request": {
            "contents": [{"role": "user", "parts": [{"text": "High tide?"}]}],
            "tools": [{"functionDeclarations": [{"name": "tide"}]}],
        }
    },
    "ollama": {
        "messages": [{"role": "user", "content": "High tide?"}],
        "tools": [{"type": "function", "function": {"name": "tide"}}],
    },
}


@pytest.mark.parametrize("protocol", PATHS)
def test_a_body_that_was_cut_for_scanning_says_the_same(protocol: str) -> None:
    """Its arrays are lazy sequences."""
    body, wire = REQUESTS[protocol], wire_for(PATHS[protocol])
    cut = slice_object(json.dumps(body).encode(), KnownSpans(seed=7, most_bytes=10_000)).outline()
    content = wire.content(PATHS[protocol], cut)
    assert content == wire.content(PATHS[protocol], body)
    assert content.last_user is not None
    assert (content.last_user.text, content.tools) == ("High tide?", ("tide",))


def deep() -> Any:
    value: Any = "high tide"
    for _ in range(100_000):
        value = {"args": value}
    return value


def test_what_is_nested_too_deep_is_no_text() -> None:
    assert json_text(deep()) == ""
    assert json_text({"port": deep()}) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), ("as it is", "as it is"), ({"a": "é"}, '{"a": "é"}'), (range(2), "[0, 1]"), (True, "true")],
)
def test_json_text(value: Any, text: str) -> None:
    assert json_text(value) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("tide", "tide"),
        ("🌊", "🌊"),
        ("\ud83c\udf0a", "🌊"),
        ("a \ud83c b", "a \N{REPLACEMENT CHARACTER} b"),
        ("\udf0a\ud83c", "\N{REPLACEMENT CHARACTER}" * 2),
    ],
)
def test_clean(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    ("value", "count"),
    [(0, 0), (7, 7), (-1, None), (True, None), (1.0, None), ("7", None), (10**400, None), (None, None)],
)
def test_tokens(value: Any, count: int | None) -> None:
    assert tokens(value) == count


def test_shapes() -> None:
    assert member({"a": {"b": 1}}, "a", "b") == 1
    assert member({"a": [1]}, "a", "b") is None
    assert (items([1]), items("ab"), items({"a": 1}), items(None)) == ([1], (), (), ())
    assert (error_of({"error": {}}), error_of({"error": False}), error_of(None)) == (None, None, None)
    assert error_of({"error": {"message": "half \ud800"}}) == "half \N{REPLACEMENT CHARACTER}"
