"""Anthropic Messages: what an answer and a request say, exactly, and compared with Anthropic's own SDK."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.types.beta import BetaMessage
from hypothesis import given, settings
from hypothesis import strategies as st
from jiter import from_json

from addons.wire.answer import MOST_TEXT, Answer, ToolCall
from addons.wire.anthropic import AnthropicAnswer, AnthropicMessages
from addons.wire.content import Message, RequestContent, ToolResult
from memory.exchange import Usage
from tests.addons.answers import read_encoded
from tests.addons.playback import ENCODERS
from tests.addons.wires import EVENTS, SIZES, added, read_answer, said_whole, sse

JSON = "application/json"
START = {
    "type": "message_start",
    "message": {
        "id": "msg_harbour",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 21,
            "cache_creation_input_tokens": 1200,
            "cache_read_input_tokens": 8000,
            "output_tokens": 1,
        },
    },
}
STOP = {"type": "message_stop"}


def begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def message_delta(stop_reason: str | None, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": stop_reason, "stop_sequence": None}, "usage": usage}


TURN = [
    START,
    begin(0, type="thinking", thinking="", signature=""),
    {"type": "ping"},
    delta(0, "thinking_delta", thinking="The tide "),
    delta(0, "thinking_delta", thinking="turns at four."),
    delta(0, "signature_delta", signature="c2lnbmVk"),
    stop(0),
    begin(1, type="redacted_thinking", data="b3BhcXVl"),
    stop(1),
    begin(2, type="thinking", thinking="", signature=""),
    delta(2, "thinking_delta", thinking="So ask the harbour."),
    stop(2),
    begin(3, type="text", text=""),
    delta(3, "text_delta", text="Die Flut 🌊 kommt "),
    stop(3),
    begin(4, type="text", text="", citations=[]),
    delta(
        4,
        "citations_delta",
        citation={
            "type": "char_location",
            "cited_text": "um vier",
            "document_index": 0,
            "document_title": "Tides",
            "start_char_index": 0,
            "end_char_index": 7,
            "file_id": None,
        },
    ),
    delta(4, "text_delta", text="um vier."),
    stop(4),
    begin(5, type="server_tool_use", id="srvtoolu_1", name="web_search", input={}),
    delta(5, "input_json_delta", partial_json=""),
    delta(5, "input_json_delta", partial_json='{"query": "'),
    delta(5, "input_json_delta", partial_json='tide \\"Friday\\""}'),
    stop(5),
    begin(6, type="web_search_tool_result", tool_use_id="srvtoolu_1", content=[]),
    stop(6),
    begin(7, type="mcp_tool_use", id="mcptoolu_1", name="ask", server_name="harbour", input={}),
    delta(7, "input_json_delta", partial_json='{"berth":7}'),
    stop(7),
    begin(8, type="mcp_tool_result", tool_use_id="mcptoolu_1", is_error=False, content=[{"type": "text", "text": "x"}]),
    stop(8),
    begin(9, type="tool_use", id="toolu_1", name="clock", input={}),
    delta(9, "input_json_delta", partial_json=""),
    stop(9),
    begin(10, type="tool_use", id="toolu_2", name="note", input={"line": "given at once"}),
    stop(10),
    message_delta("tool_use", output_tokens=89, input_tokens=25, cache_read_input_tokens=8100),
    STOP,
]
TURN_ANSWER = Answer(
    text="Die Flut 🌊 kommt um vier.",
    thinking="The tide turns at four.\nSo ask the harbour.",
    tool_calls=(
        ToolCall("srvtoolu_1", "web_search", '{"query": "tide \\"Friday\\""}'),
        ToolCall("mcptoolu_1", "ask", '{"berth":7}'),
        ToolCall("toolu_1", "clock", "{}"),
        ToolCall("toolu_2", "note", '{"line": "given at once"}'),
    ),
    usage=Usage(input=25, output=89, cache_read=8100, cache_write=1200),
    stop_reason="tool_use",
    model="claude-sonnet-4-5-20250929",
    id="msg_harbour",
    complete=True,
)
MESSAGE = {
    "id": "msg_harbour",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
    "content": [
        {"type": "thinking", "thinking": "The tide turns at four.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "thinking", "thinking": "So ask the harbour.", "signature": "c2lnbmVk"},
        {"type": "text", "text": "Die Flut 🌊 kommt ", "citations": None},
        {"type": "text", "text": "um vier.", "citations": None},
        {"type": "tool_use", "id": "toolu_1", "name": "clock", "input": {}},
        {"type": "tool_use", "id": "toolu_2", "name": "note", "input": {"line": "Ebbe"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 25, "output_tokens": 89, "cache_read_input_tokens": 0},
}


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("size", SIZES)
def test_a_stream_is_put_together(size: int, encoding: str) -> None:
    assert read_encoded(AnthropicAnswer(), sse(TURN, named=True), EVENTS, size, encoding) == TURN_ANSWER


@pytest.mark.parametrize("size", SIZES)
def test_a_message_is_read(size: int) -> None:
    assert read_answer(AnthropicMessages().answer(), json.dumps(MESSAGE).encode(), JSON, size) == Answer(
        text="Die Flut 🌊 kommt um vier.",
        thinking="The tide turns at four.\nSo ask the harbour.",
        tool_calls=(ToolCall("toolu_1", "clock", "{}"), ToolCall("toolu_2", "note", '{"line": "Ebbe"}')),
        usage=Usage(input=25, output=89, cache_read=0),
        stop_reason="tool_use",
        model="claude-sonnet-4-5-20250929",
        id="msg_harbour",
        complete=True,
    )


def test_what_came_before_a_stream_broke_off_stands() -> None:
    text = added(AnthropicAnswer(), *TURN[:14])
    assert (text.text, text.complete, text.usage) == ("Die Flut 🌊 kommt ", False, Usage(21, 1, 8000, 1200))
    tool = added(AnthropicAnswer(), *TURN[:22])
    assert tool.tool_calls == (ToolCall("srvtoolu_1", "web_search", '{"query": "'),)
    assert (tool.stop_reason, tool.complete) == (None, False)
    assert added(AnthropicAnswer(), *TURN[:-1]).complete is False


@pytest.mark.parametrize("size", SIZES)
def test_an_error_in_a_stream_ends_it(size: int) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    answer = read_answer(AnthropicAnswer(), sse([*TURN[:14], error, STOP], named=True), EVENTS, size)
    assert (answer.text, answer.error, answer.complete) == ("Die Flut 🌊 kommt ", "Overloaded", False)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("body", "content_type", "error"),
    [
        (
            b'{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"},"request_id":"r"}',
            JSON,
            "model: claude-9",
        ),
        (b'{"type":"error","error":{"type":"api_error"}}', "text/event-stream", "api_error"),
        (b'{\n  "message": "Too many requests"\n}\n', JSON, "Too many requests"),
        (b'{"detail": "no such route"}', "", "no such route"),
        (b"<html><h1>502 Bad Gateway</h1></html>", "text/html", None),
        (b"upstream connect error", "text/plain", None),
        (b'{"type":"error","error":{"mess', JSON, None),
        (b'["error"]', JSON, None),
        (b"", "", None),
    ],
)
def test_the_body_of_an_error(body: bytes, content_type: str, error: str | None, size: int) -> None:
    assert read_answer(AnthropicAnswer(), body, content_type, size) == Answer(error=error)


def test_counting_tokens_is_answered_with_no_text() -> None:
    assert said_whole(AnthropicAnswer(), {"input_tokens": 12}) == Answer(complete=True)


def test_it_is_done_when_it_says_so_and_when_it_fails() -> None:
    parts = AnthropicAnswer()
    for event in TURN:
        assert not parts.done
        parts.add(event)
    assert parts.done
    failed = AnthropicAnswer()
    failed.add({"type": "error"})
    assert (failed.done, failed.answer().error) == (True, "error")


def test_another_model_may_go_on() -> None:
    fallback = begin(0, type="fallback", **{"from": {"model": "claude-opus-4-7"}, "to": {"model": "claude-sonnet-4-5"}})
    assert added(AnthropicAnswer(), START, fallback).model == "claude-sonnet-4-5"


def test_usage_that_is_not_said_again_stays() -> None:
    answer = added(AnthropicAnswer(), START, message_delta("end_turn", output_tokens=5), message_delta(None))
    assert answer.usage == Usage(21, 5, 8000, 1200)
    assert answer.stop_reason == "end_turn"


def test_half_characters_are_joined_and_halves_alone_are_no_harm() -> None:
    pieces = [delta(0, "text_delta", text=text) for text in ("\ud83c", "\udf0a", " \ud83c!")]
    data = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in pieces)
    assert read_answer(AnthropicAnswer(), data, EVENTS, 7).text == "🌊 �!"


def test_an_answer_is_kept_up_to_a_length() -> None:
    parts = AnthropicAnswer()
    parts.add(delta(0, "thinking_delta", thinking="t" * 1000))
    parts.add(begin(1, type="tool_use", id="toolu_1", name="note"))
    parts.add(delta(1, "input_json_delta", partial_json="j" * 1000))
    for _ in range(5):
        parts.add(delta(2, "text_delta", text="x" * (MOST_TEXT // 4)))
    answer = parts.answer()
    assert MOST_TEXT - 3000 < len(answer.text) < MOST_TEXT - 2000
    assert (len(answer.thinking), len(answer.tool_calls[0].arguments)) == (1000, 1000)


# Compared with the SDK


def sdk_message(data: bytes) -> BetaMessage:
    """What Anthropic's SDK puts together from the same bytes."""
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=data)
    )
    with (
        anthropic.Anthropic(api_key="k", http_client=anthropic.DefaultHttpxClient(transport=transport)) as client,
        client.beta.messages.stream(
            model="harbour-1", max_tokens=9, messages=[{"role": "user", "content": "?"}]
        ) as stream,
    ):
        return stream.get_final_message()


def assert_like_sdk(answer: Answer, message: BetaMessage) -> None:
    blocks = message.to_dict()["content"]
    assert isinstance(blocks, list)
    of: dict[str, list[Any]] = {"text": [], "thinking": [], "tool": []}
    for block in blocks:
        kind = str(block["type"])
        of.setdefault("tool" if kind.endswith("tool_use") else kind, []).append(block)
    assert answer.text == "".join(block["text"] for block in of["text"])
    assert answer.thinking == "\n".join(block["thinking"] for block in of["thinking"] if block["thinking"])
    assert [
        (call.id, call.name, from_json(call.arguments.encode(), partial_mode=True)) for call in answer.tool_calls
    ] == [(block["id"], block["name"], block["input"]) for block in of["tool"]]
    usage = message.usage
    assert answer.usage == Usage(
        usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    )
    assert (answer.id, answer.model, answer.stop_reason) == (message.id, message.model, message.stop_reason)


@pytest.mark.parametrize("count", [len(TURN), 5, 14, 24, 36])
def test_our_stream_is_read_as_the_sdk_reads_it(count: int) -> None:
    data = sse(TURN[:count], named=True)
    assert_like_sdk(read_answer(AnthropicAnswer(), data, EVENTS, 7), sdk_message(data))


def test_recorded_streams_are_read_as_the_sdk_reads_them(shared_data: Path) -> None:
    files = sorted((shared_data / "llm" / "anthropic").rglob("*.sse"))
    assert len(files) == 11
    for file in files:
        data = file.read_bytes()
        message = sdk_message(data)
        answers = {
            read_encoded(AnthropicAnswer(), data, EVENTS, size, encoding) for size in SIZES for encoding in ENCODERS
        }
        assert len(answers) == 1, file
        assert_like_sdk(answers.pop(), message)


def test_recorded_messages_are_read_as_the_sdk_reads_them(shared_data: Path) -> None:
    files = sorted((shared_data / "llm" / "anthropic").rglob("*.response.json"))
    assert len(files) == 6
    for file in files:
        data = file.read_bytes()
        message = BetaMessage.construct(**json.loads(data))
        answers = {
            read_encoded(AnthropicAnswer(), data, JSON, size, encoding) for size in SIZES for encoding in ENCODERS
        }
        assert len(answers) == 1, file
        answer = answers.pop()
        assert_like_sdk(answer, BetaMessage.model_validate(message.to_dict()))
        assert answer.complete


# Requests


def test_a_request_says() -> None:
    body = {
        "model": "claude-sonnet-4-5",
        "system": [
            {"type": "text", "text": "You are Harbour Hand.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "Be brief."},
        ],
        "tools": [
            {"name": "clock", "input_schema": {"type": "object"}},
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "odd"},
        ],
        "messages": [
            {"role": "user", "content": "When is the tide?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Ask the clock.", "signature": "c2ln"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "toolu_1", "name": "clock", "input": {"zone": "Büsum"}},
                    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tide"}},
                    {
                        "type": "web_search_tool_result",
                        "tool_use_id": "srvtoolu_1",
                        "content": [{"type": "web_search_result", "title": "Tides", "url": "https://tides.example"}],
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "four"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "content": [
                            {"type": "text", "text": "one"},
                            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                            {"type": "text", "text": "two"},
                        ],
                    },
                    {"type": "tool_result", "tool_use_id": "toolu_3"},
                ],
            },
            {"role": "system", "content": "The harbour closes at five."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "And"},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "left out"}},
                    {"type": "text", "text": "today?"},
                ],
            },
        ],
    }
    content = AnthropicMessages().content("/v1/messages", body)
    assert content == RequestContent(
        system="You are Harbour Hand.\nBe brief.",
        messages=(
            Message("user", "When is the tide?"),
            Message(
                "assistant",
                "I look.",
                (
                    ToolCall("toolu_1", "clock", '{"zone": "Büsum"}'),
                    ToolCall("srvtoolu_1", "web_search", '{"query": "tide"}'),
                ),
                (ToolResult("srvtoolu_1", ""),),
            ),
            Message(
                "user",
                tool_results=(
                    ToolResult("toolu_1", "four"),
                    ToolResult("toolu_2", "one\ntwo"),
                    ToolResult("toolu_3", ""),
                ),
            ),
            Message("system", "The harbour closes at five."),
            Message("user", "And\ntoday?"),
        ),
        tools=("clock", "web_search"),
    )
    assert content.last_user == content.messages[4]


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ({"system": "Be brief."}, RequestContent(system="Be brief.")),
        ({"messages": [{"role": "user", "content": ""}]}, RequestContent(messages=(Message("user"),))),
        ({"messages": [{"role": "robot", "content": "hi"}, "hi", {"content": "hi"}, {"role": []}]}, RequestContent()),
        ({"messages": {"role": "user"}, "tools": "clock", "system": 7}, RequestContent()),
        ({}, RequestContent()),
        ([], RequestContent()),
        (None, RequestContent()),
        ("text", RequestContent()),
    ],
)
def test_a_request_of_another_shape_says_less(body: Any, content: RequestContent) -> None:
    assert AnthropicMessages().content("/v1/messages", body) == content


ODD = st.sampled_from([None, True, -1, 0, 2**60, 1.5, "", "a", "\ud83c", [], ["a"], [{}], {}, {"type": "text"}, [[]]])
WORDS = [*START, *START["message"], *START["message"]["usage"], "index", "delta", "content_block", "text", "thinking"]  # type: ignore[misc]
KINDS = ["text", "thinking", "tool_use", "fallback", "tool_result", "text_delta", "thinking_delta", "input_json_delta"]


def with_type(kinds: list[str], inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from([*WORDS, "partial_json", "name", "input", "to", "tool_use_id", "error"])
    return st.builds(lambda kind, rest: rest | {"type": kind}, st.sampled_from(kinds), st.dictionaries(keys, inner))


BLOCK = with_type(KINDS, ODD)
EVENT = with_type(sorted({str(event["type"]) for event in TURN} | {"error"}), ODD | BLOCK | st.lists(BLOCK, max_size=2))


@settings(max_examples=100)
@given(
    st.lists(EVENT | ODD, max_size=8),
    st.dictionaries(st.sampled_from(["content", "messages", "system"]), ODD | BLOCK | st.lists(BLOCK)) | ODD,
)
def test_json_of_any_shape_gives_an_answer_that_can_be_written(events: list[Any], body: Any) -> None:
    answers = (added(AnthropicAnswer(), *events), said_whole(AnthropicAnswer(), body))
    for said in (*answers, AnthropicMessages().content("", body)):
        json.dumps(asdict(said), ensure_ascii=False).encode()
