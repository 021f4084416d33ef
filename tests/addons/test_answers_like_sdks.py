"""An answer is what the provider's own SDK makes of the same bytes, in whatever chunks they come."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from addons.demo.dialects import gemini, ollama, openai_chat, openai_responses
from addons.demo.reply import Moment, Reply, ToolCall
from addons.wire import answer as answers
from addons.wire import bare_path, wire_for
from addons.wire.answer import Answer
from memory.exchange import Usage
from tests.addons import sdk_answers
from tests.addons.wires import EVENTS, SIZES, read_answer, sse

JSON = "application/json"
SDKS = {
    "openai-chat": sdk_answers.openai_chat,
    "openai-responses": sdk_answers.openai_responses,
    "gemini": sdk_answers.gemini,
}
PATHS = {"openai-chat": "/chat/completions", "openai-responses": "/responses", "gemini": "/m:generateContent"}


def ours(protocol: str, data: bytes, content_type: str) -> Answer:
    """The answer, which is the same at every size of chunks."""
    wire = wire_for(PATHS.get(protocol, "/api/chat"))
    found = []
    for size in SIZES:
        parts = wire.answer()
        assert parts is not None
        found.append(read_answer(parts, data, content_type, size))
    assert all(one == found[0] for one in found)
    return found[0]


# ---- answers of our own

REPLIES = [
    Reply("High tide is at noon, low tide at six. 🌊", usage=Usage(31, 12, 16)),
    Reply("", (ToolCall("tide", {"port": "nörd", "days": [1, 2]}),), Usage(31, 12, 0)),
    Reply("I look\nit up.", (ToolCall("tide", {}), ToolCall("moon", {"full": True})), Usage(3, 2, 1)),
]
REQUEST: Mapping[str, Any] = {"model": "test-1", "stream_options": {"include_usage": True}}


def scripted(reply: Reply) -> Iterator[tuple[str, bytes, str]]:
    """The reply as each protocol says it."""
    request, moment = dict(REQUEST), Moment(7, 1_780_000_000)
    for protocol, dialect in (("openai-chat", openai_chat), ("openai-responses", openai_responses), ("gemini", gemini)):
        yield protocol, dialect.whole(request, reply, moment), JSON
        yield protocol, b"".join(dialect.stream(request, reply, moment)), EVENTS


@pytest.mark.parametrize("reply", REPLIES)
def test_scripted_answers(reply: Reply) -> None:
    for protocol, data, content_type in scripted(reply):
        answer = ours(protocol, data, content_type)
        assert answer == SDKS[protocol](data, content_type), (protocol, content_type)
        assert (answer.text, answer.complete, answer.error) == (reply.text, True, None)
        assert [(call.name, json.loads(call.arguments)) for call in answer.tool_calls] == [
            (call.name, call.arguments) for call in reply.tool_calls
        ]
        assert reply.usage is not None
        assert (answer.usage.input, answer.usage.output, answer.usage.cache_read or 0) == (
            reply.usage.input, reply.usage.output, reply.usage.cache_read
        )  # fmt: skip


@pytest.mark.parametrize("reply", REPLIES)
def test_scripted_answers_in_other_framings(reply: Reply) -> None:
    """Gemini's array of documents, and Ollama, whose lines hold no more than what was scripted."""
    request, moment = dict(REQUEST), Moment(7, 1_780_000_000)
    streamed = ours("gemini", b"".join(gemini.stream(request, reply, moment)), EVENTS)
    assert ours("gemini", b"".join(gemini.array(request, reply, moment)), JSON) == streamed
    chat = request | {"messages": []}
    calls = tuple(
        answers.ToolCall("", one.name, json.dumps(one.arguments, ensure_ascii=False)) for one in reply.tool_calls
    )
    for data, content_type in (
        (ollama.whole(chat, reply, moment), JSON),
        (b"".join(ollama.stream(chat, reply, moment)), "application/x-ndjson"),
    ):
        answer = ours("ollama", data, content_type)
        assert replace(answer, usage=Usage()) == Answer(
            reply.text, tool_calls=with_ids(calls, answer), stop_reason="stop", model="test-1", complete=True
        )
        assert reply.usage is not None
        assert (answer.usage.input, answer.usage.output) == (reply.usage.input, reply.usage.output)


def with_ids(calls: tuple[answers.ToolCall, ...], answer: Answer) -> tuple[answers.ToolCall, ...]:
    """Ids are what the scripted model made up."""
    return tuple(replace(call, id=given.id) for call, given in zip(calls, answer.tool_calls, strict=True))


CHUNKS = [
    {"choices": [], "id": "", "model": "", "prompt_filter_results": []},
    {"delta": {"role": "assistant", "content": "", "reasoning": "The moon "}},
    {"delta": {"reasoning": "pulls."}},
    {"delta": {"content": "High "}},
    {"delta": {"content": "tide"}, "finish_reason": "length"},
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}},
    {"choices": [], "moderation": None},
]


def test_a_chat_with_thinking_that_is_cut_off() -> None:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test"}
    events = [
        head | (one if "choices" in one else {"choices": [{"index": 0, "finish_reason": None, **one}]})
        for one in CHUNKS[1:]
    ]
    data = sse(events, done=True)
    answer = ours("openai-chat", data, EVENTS)
    assert answer == sdk_answers.openai_chat(data, EVENTS)
    assert answer == Answer(
        "High tide",
        "The moon pulls.",
        usage=Usage(9, 4),
        stop_reason="length",
        model="gpt-test",
        id="c1",
        complete=True,
    )
    assert ours("openai-chat", sse([CHUNKS[0], *events], done=True), EVENTS) == answer


def test_a_gemini_answer_with_thinking() -> None:
    head = {"modelVersion": "gemini-test-1", "responseId": "r1"}
    pieces = [
        [{"text": "The moon ", "thought": True}],
        [{"text": "pulls.", "thought": True}, {"text": "High "}],
        [{"text": "tide."}, {"functionCall": {"name": "tide", "args": {"port": "nörd"}, "id": "f1"}}],
    ]
    events = [head | {"candidates": [{"content": {"parts": parts, "role": "model"}}]} for parts in pieces]
    counted = {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 5, "cachedContentTokenCount": 8}
    end = {"candidates": [{"finishReason": "MAX_TOKENS"}], "usageMetadata": counted}
    data = sse([*events, head | end])
    answer = ours("gemini", data, EVENTS)
    assert answer == sdk_answers.gemini(data, EVENTS)
    assert answer == Answer(
        "High tide.",
        "The moon pulls.",
        (answers.ToolCall("f1", "tide", '{"port": "nörd"}'),),
        Usage(9, 9, 8),
        "MAX_TOKENS",
        model="gemini-test-1",
        id="r1",
        complete=True,
    )


def test_a_response_with_thinking_and_tools_of_all_kinds() -> None:
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Moon first."}]},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "High tide.", "annotations": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "tide", "arguments": "{}"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "exec", "input": "ls"},
        {"type": "mcp_call", "id": "mcp_1", "server_label": "harbour", "name": "buoys", "arguments": '{"a": 1}'},
    ]
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-test-1"}
    counted = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 4, "total_tokens": 13}
    text = {"output_index": 1, "item_id": "msg_1", "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": head | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": output[0] | {"summary": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": output[0]},
        {"type": "response.output_item.added", "output_index": 1, "item": output[1] | {"content": []}},
        {"type": "response.content_part.added", "part": {"type": "output_text", "text": "", "annotations": []}, **text},
        {"type": "response.output_text.delta", "delta": "High ", "logprobs": [], **text},
        {"type": "response.output_text.delta", "delta": "tide.", "logprobs": [], **text},
        {"type": "response.output_text.done", "text": "High tide.", "logprobs": [], **text},
        *[
            {"type": f"response.output_item.{step}", "output_index": index, "item": output[index]}
            for index in (2, 3, 4)
            for step in ("added", "done")
        ],
    ]
    end = {"type": "response.completed", "response": head | {"status": "completed", "output": output, "usage": counted}}
    numbered = [one | {"sequence_number": number} for number, one in enumerate([*events, end])]
    data = sse(numbered, named=True)
    answer = ours("openai-responses", data, EVENTS)
    assert answer == sdk_answers.openai_responses(data, EVENTS)
    document = json.dumps(end["response"]).encode()
    assert answer == ours("openai-responses", document, JSON) == sdk_answers.openai_responses(document, JSON)
    put_together = ours("openai-responses", sse(events, named=True), EVENTS)
    assert put_together == replace(answer, usage=Usage(), stop_reason=None, complete=False, cut=True)
    assert [call.name for call in answer.tool_calls] == ["tide", "exec", "buoys"]


# ---- recorded answers


def test_recorded_answers(shared_data: Path) -> None:
    counts: Counter[str] = Counter()
    for one in json.loads((shared_data / "llm" / "index.json").read_text("utf-8")):
        protocol = wire_for(urlsplit(one["url"]).path).id
        if protocol not in SDKS or one["method"] != "POST":
            continue
        data = (shared_data / one["resp"]).read_bytes()
        content_type = one["content_type"][0]
        theirs = SDKS[protocol](data, content_type, one["status"])
        answer = ours(protocol, data, content_type)
        if answer.error is not None and "event-stream" in content_type:
            assert (answer.error, answer.usage) == ("Token limit reached", Usage(43, 10, 0))
            theirs = replace(theirs, usage=answer.usage)  # it stands beside the error, which the SDK raises at once
        assert answer == theirs, one["resp"]
        assert answer.complete is (answer.error is None), one["resp"]
        counts[protocol] += 1
    assert counts == {"openai-chat": 19, "openai-responses": 12, "gemini": 11}


def test_recorded_websockets(shared_data: Path) -> None:
    texts, calls, requests = [], [], []
    for name in ("codex_ws_multi_response_trace", "openai_responses_trace"):
        trace = json.loads((shared_data / "llm" / "websocket" / f"{name}.jsonl").read_text("utf-8"))
        wire = wire_for(trace["request"]["path"])
        for sent in trace["request"].get("ws_events") or [trace["request"]["body"]]:
            facts, content = wire.read("/v1/responses", {}, sent), wire.content("/v1/responses", sent)
            requests.append((facts.previous, facts.side_request, content.last_user and content.last_user.text))
            assert (content.system.split("\n")[0], content.tools[0]) == (sent["instructions"], "exec_command")
        parts = wire.answer()
        assert parts is not None
        for received in trace["response"]["ws_events"]:
            parts.add(received)
            if parts.done and received["type"] == "response.completed":
                answer = parts.answer()
                assert answer.complete
                texts.append(answer.text)
                calls += [(call.id, call.name, call.arguments) for call in answer.tool_calls]
    assert texts == ["", "", "FINAL_OK", "Hello! How can I help?"]
    assert calls == [("call_sanitized", "exec_command", '{"cmd":"pwd"}')]
    assert requests == [
        (None, True, None),
        ("resp_prefetch", False, "你好，调用一个工具，然后结束"),
        ("resp_tool", False, None),
        (None, False, "Hello"),
    ]


def test_no_other_recorded_websocket_makes_the_reading_fail(shared_data: Path) -> None:
    for file in sorted((shared_data / "llm" / "websocket").glob("test_*.jsonl")):
        for protocol in PATHS.values():
            wire = wire_for(protocol)
            parts = wire.answer()
            assert parts is not None
            for line in file.read_text("utf-8").splitlines():
                message = json.loads(line)["data"]
                parts.add(message)
                wire.content(bare_path(protocol), message)
            parts.answer()
