"""What the tap makes of an answer's copy, and that nothing it meets there disturbs the answer itself."""

from __future__ import annotations

import gzip
import json
import time
from typing import Any

import pytest
from mitmproxy import http

from addons.conversation_keys import ConversationKeys
from addons.flows import Flows
from addons.tap import INLINE_BYTES, Tap
from addons.wire.answer import Answer, AnswerParts
from addons.wire.facts import RequestFacts
from memory.exchange import Exchange, Usage
from tests.addons.parts import exchange_of, flow_to

ANSWER = {
    "id": "msg_tulip",
    "type": "message",
    "role": "assistant",
    "model": "claude-test",
    "content": [{"type": "text", "text": "At noon."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 12, "output_tokens": 3, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2},
}


class Desk:
    def __init__(self, *, largest_answer: int = 10**7) -> None:
        self.flows, self.keys = Flows(), ConversationKeys()
        self.tap = Tap(self.flows, self.keys, largest_answer=largest_answer)
        self.exchange = exchange_of(conversation="tulip")

    def answered(self, **headers: str) -> http.HTTPFlow:
        """A flow whose answer has begun."""
        flow = flow_to(status=200)
        assert flow.response
        flow.response.headers.clear()
        flow.response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
        flow.server_conn.timestamp_tcp_setup = time.time()
        self.flows.begin(flow, self.exchange)
        self.tap.responseheaders(flow)
        return flow

    async def end(self, flow: http.HTTPFlow, *chunks: bytes) -> Answer | None:
        assert flow.response
        assert callable(flow.response.stream)
        assert [flow.response.stream(chunk) for chunk in (*chunks, b"")] == [*chunks, b""]
        await self.tap.response(flow)
        return self.flows.answer_of(flow)


async def test_the_answer_is_put_together_and_counted() -> None:
    desk, body = Desk(), gzip.compress(json.dumps(ANSWER).encode())
    flow = desk.answered(content_type="application/json", content_encoding="gzip")
    answer = await desk.end(flow, body[:9], body[9:])
    assert answer
    assert (answer.text, answer.stop_reason, answer.complete) == ("At noon.", "end_turn", True)
    assert desk.exchange.usage == Usage(12, 3, 5, 2)
    assert desk.exchange.response_bytes == len(body)
    later = RequestFacts(previous="msg_tulip", opening="Another beginning")
    assert desk.keys.key(desk.exchange, later) == "tulip"


async def test_a_long_answer_is_read_in_a_thread() -> None:
    long = ANSWER | {"content": [{"type": "text", "text": "x" * (INLINE_BYTES + 1)}]}
    desk = Desk()
    answer = await desk.end(desk.answered(content_type="application/json"), json.dumps(long).encode())
    assert answer
    assert len(answer.text) == INLINE_BYTES + 1


async def test_an_answer_that_breaks_off_is_kept_as_far_as_it_came() -> None:
    desk = Desk()
    flow = desk.answered(content_type="text/event-stream")
    started = {"type": "message_start", "message": ANSWER | {"content": [], "usage": {"input_tokens": 12}}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "At no"}}
    assert flow.response
    assert callable(flow.response.stream)
    for event in (started, block, delta):
        flow.response.stream(b"data: %s\n\n" % json.dumps(event).encode())
    await desk.tap.error(flow)
    answer = desk.flows.answer_of(flow)
    assert answer
    assert (answer.text, answer.complete, answer.usage.input) == ("At no", False, 12)


@pytest.mark.parametrize("last", [None, {"type": "message_stop"}])
async def test_a_stream_that_ends_without_its_last_event_is_cut(last: dict[str, Any] | None) -> None:
    desk = Desk()
    events = [{"type": "message_start", "message": ANSWER | {"content": []}}, *([last] if last else [])]
    body = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)
    answer = await desk.end(desk.answered(content_type="text/event-stream"), body)
    assert answer
    assert answer.cut is (last is None)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("text/html", b"<h1>Not here</h1>"), ("application/json", b'{"input_tokens": 3}'), ("", b""), ("", b'{"cut')],
)
async def test_what_is_no_stream_is_not_called_cut(content_type: str, body: bytes) -> None:
    desk = Desk()
    answer = await desk.end(desk.answered(content_type=content_type), body)
    assert answer
    assert answer.cut is False


@pytest.mark.parametrize(
    ("encoding", "body"), [("gzip", b"no gzip"), ("snappy", b"{}"), ("gzip", gzip.compress(b"0" * 10**6))]
)
async def test_an_encoding_that_lies_or_explodes_leaves_the_answer_unread(encoding: str, body: bytes) -> None:
    desk = Desk(largest_answer=10**5)
    answer = await desk.end(desk.answered(content_encoding=encoding), body, b"more")
    assert answer == Answer()
    assert list(desk.tap.failures) == []


class Broken:
    """Parts with a fault of our own."""

    done = False

    def add(self, event: Any) -> None:
        raise ZeroDivisionError(event)

    whole = add

    def answer(self) -> Answer:
        raise ZeroDivisionError("At" + " noon.")


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json"])
async def test_a_fault_of_ours_is_shown_and_the_answer_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, content_type: str
) -> None:
    def broken(_: object) -> AnswerParts:
        return Broken()

    monkeypatch.setattr("addons.wire.anthropic.AnthropicMessages.answer", broken)
    desk = Desk()
    assert await desk.end(desk.answered(content_type=content_type), b'data: {"type": "ping"}\n\n', b"more") is None
    assert list(desk.tap.failures) == ["An answer was not read: ZeroDivisionError"]
    assert caplog.text.count("An answer could not be read: ZeroDivisionError\n") >= 1
    assert "At noon" not in caplog.text


def test_what_is_no_request_to_a_model_streams_too_and_our_own_answers_do_not() -> None:
    desk = Desk()
    foreign, own, upgrade = flow_to("http://files.example/", status=200), flow_to(status=403), flow_to(status=101)
    for flow in (foreign, upgrade):
        flow.server_conn.timestamp_tcp_setup = time.time()
    own.server_conn.timestamp_tcp_setup = None
    for flow in (foreign, own, upgrade):
        desk.tap.responseheaders(flow)
    assert [flow.response.stream for flow in (foreign, own, upgrade) if flow.response] == [True, False, False]


def test_conversation_keys() -> None:
    keys, exchange = ConversationKeys(), exchange_of(conversation="tulip")
    keys.answered(exchange, "resp_1")
    keys.answered(exchange, None)
    keys.answered(exchange_of(conversation=None), "resp_2")
    keys.answered(exchange, "x" * 201)

    def key(of: Exchange = exchange, **facts: Any) -> str | None:
        return keys.key(of, RequestFacts(**facts))

    assert key(conversation="rose" * 100, previous="resp_1") == "rose" * 50
    assert key(previous="resp_1") == "tulip"
    assert key(exchange_of(provider="other"), previous="resp_1") is None
    assert [key(previous="resp_2"), key(previous="x" * 201), key()] == [None, None, None]
    hello, again, other = key(opening="Hello"), key(opening="Hello", previous="unknown"), key(opening="Hullo")
    assert hello
    assert (hello == again, hello == other, hello.startswith("opening-"), len(hello)) == (True, False, True, 24)
    assert ConversationKeys().key(exchange, RequestFacts(opening="Hello")) != hello


def test_of_the_answers_the_latest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addons.conversation_keys.MOST_ANSWERS", 2)
    keys = ConversationKeys()
    for number in range(3):
        keys.answered(exchange_of(conversation=f"chat-{number}"), f"resp_{number}")
    known = [keys.key(exchange_of(), RequestFacts(previous=f"resp_{number}")) for number in range(3)]
    assert known == [None, "chat-1", "chat-2"]
