"""When an answer is recorded, and what is never recorded: the stages one by one, and a recorder that writes nowhere."""

from __future__ import annotations

import errno
import gzip
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.websocket import WebSocketData, WebSocketMessage
from wsproto.frame_protocol import Opcode

from addons.clients import ClientTable
from addons.conversation_keys import LONGEST_KEY, ConversationKeys
from addons.destinations import Destinations
from addons.flows import Flows
from addons.identify import Identify
from addons.providers import ProviderTable
from addons.remember import INLINE_BYTES as INLINE_REQUEST
from addons.remember import Remember
from addons.sender import Senders
from addons.tap import INLINE_BYTES, Tap
from addons.wire import Wire, wire_for
from addons.wire.anthropic import AnthropicMessages
from memory.conversations.said import Call, Message, Said
from memory.exchange import Decision, Exchange
from tests.addons.parts import MESSAGES, flow_to
from tests.addons.recording import Notebook
from tests.addons.wires import sse

NOW = datetime(2026, 3, 4, 5, 6, 8, tzinfo=UTC)
ASKED = {"model": "claude-test", "messages": [{"role": "user", "content": "When is high tide?"}]}
SOCKET = "https://api.openai.com/v1/responses"


def events(*texts: str, stop: bool = True) -> list[bytes]:
    """A streamed answer, event by event."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test-2026", "content": []}
    said: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in texts),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        *([{"type": "message_stop"}] if stop else []),
    ]
    return [sse([event], named=True) for event in said]


def document(text: str) -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test-2026"}
    return json.dumps(message | {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}).encode()


class Desk:
    """The stages that have to do with it. `remembered` are the clients with a memory."""

    def __init__(
        self,
        remembered: Sequence[str] = ("claude-code",),
        *,
        largest_answer: int = 10**8,
        clock: Callable[[], datetime] = lambda: NOW,
    ) -> None:
        self.flows, self.notebook = Flows(), Notebook()
        self.remembered = set(remembered)
        keys = ConversationKeys()
        self.remember = Remember(self.flows, self._recorder_of, clock=clock)
        self.identify = Identify(
            ProviderTable(()),
            Destinations(),
            self.flows,
            keys,
            client_of=Senders(ClientTable((), b"")).client_of,
            largest_body=10**8,
            remembers=self.remember.remembers,
        )
        self.tap = Tap(self.flows, keys, largest_answer=largest_answer, on_answer=self.remember.answered)

    def _recorder_of(self, client: str) -> Notebook | None:
        return self.notebook if client in self.remembered else None

    async def asked(
        self, url: str = MESSAGES, body: Any = ASKED, *, decision: Decision | None = None, **headers: str
    ) -> http.HTTPFlow:
        flow = flow_to(
            url, body, headers={"user-agent": "claude-cli/2"} | {k.replace("_", "-"): v for k, v in headers.items()}
        )
        self.identify.requestheaders(flow)
        await self.identify.request(flow)
        self.flows.take_body(flow)
        self.exchange(flow).decision = decision or Decision()
        await self.remember.request(flow)
        return flow

    def exchange(self, flow: http.HTTPFlow) -> Exchange:
        exchange = self.flows.of(flow)
        assert exchange
        return exchange

    def begin(self, flow: http.HTTPFlow, status: int = 200, **headers: str) -> None:
        flow.response = http.Response.make(status, b"")
        flow.response.headers.clear()
        flow.response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
        flow.server_conn.timestamp_tcp_setup = time.time()
        self.tap.responseheaders(flow)

    def send(self, flow: http.HTTPFlow, *chunks: bytes) -> None:
        """The chunks pass through; nothing of them is changed."""
        assert flow.response
        assert callable(flow.response.stream)
        assert [flow.response.stream(chunk) for chunk in chunks] == list(chunks)

    async def end(self, flow: http.HTTPFlow) -> None:
        self.send(flow, b"")
        await self.tap.response(flow)
        self.flows.end(flow)

    async def answered(self, flow: http.HTTPFlow, *chunks: bytes, status: int = 200, **headers: str) -> None:
        self.begin(flow, status, **headers)
        self.send(flow, *chunks)
        await self.end(flow)


async def test_a_streamed_answer_is_recorded_before_its_last_event_is_passed_on() -> None:
    desk = Desk()
    flow = await desk.asked()
    desk.begin(flow, content_type="text/event-stream")
    *first, last = events("At ", "noon.")
    desk.send(flow, *first, last[:-1])
    assert desk.notebook.said == []
    desk.send(flow, last[-1:])
    said = Said(
        key=None,
        messages=(Message("user", "When is high tide?"),),
        answer=Message("assistant", "At noon."),
        model="claude-test-2026",
        at=desk.exchange(flow).started_at,
        answered_at=NOW,
        complete=True,
        answer_id="msg_1",
    )
    assert desk.notebook.said == [("claude-code", said)]
    await desk.end(flow)
    assert len(desk.notebook.said) == 1


async def test_an_encoded_one_as_well() -> None:
    desk, body = Desk(), gzip.compress(b"".join(events("At noon.")))
    flow = await desk.asked()
    desk.begin(flow, content_type="text/event-stream", content_encoding="gzip")
    desk.send(flow, body)
    assert desk.notebook.answers == [("At noon.", True)]
    await desk.end(flow)
    assert desk.notebook.answers == [("At noon.", True)]


async def test_a_document_of_known_length_is_recorded_before_its_last_byte_is_passed_on() -> None:
    desk, body = Desk(), document("At noon.")
    flow = await desk.asked()
    desk.begin(flow, content_type="application/json", content_length=str(len(body)))
    desk.send(flow, body[:-1])
    assert desk.notebook.said == []
    desk.send(flow, body[-1:])
    assert desk.notebook.answers == [("At noon.", True)]
    await desk.end(flow)
    assert desk.notebook.answers == [("At noon.", True)]


async def test_a_document_of_unknown_length_is_recorded_before_the_end_of_the_message_is() -> None:
    desk, body = Desk(), document("At noon.")
    flow = await desk.asked()
    desk.begin(flow, content_type="application/json")
    desk.send(flow, body, b"")
    assert desk.notebook.said == []
    await desk.tap.response(flow)  # mitmproxy passes the end on after this hook
    assert desk.notebook.answers == [("At noon.", True)]


async def test_a_long_document_is_read_in_a_thread_and_none_of_it_is_passed_on_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[int] = []

    def whole(parts: Any, body: Any) -> None:
        threads.append(threading.get_ident())
        original(parts, body)

    parts = type(AnthropicMessages().answer())
    original = parts.whole
    monkeypatch.setattr(parts, "whole", whole)
    text = "x" * (INLINE_BYTES + 1)
    desk, body = Desk(), document(text)
    flow = await desk.asked()
    desk.begin(flow, content_type="application/json; charset=utf-8", content_length=str(len(body)))
    assert flow.response
    assert flow.response.stream is False
    flow.response.data.content = body
    await desk.tap.response(flow)
    assert desk.notebook.answers == [(text, True)]
    assert desk.exchange(flow).response_bytes == len(body)
    assert threads != []
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(("remembered", "largest"), [((), 10**8), (("claude-code",), INLINE_BYTES)])
async def test_other_long_documents_stream(remembered: Sequence[str], largest: int) -> None:
    desk, body = Desk(remembered, largest_answer=largest), document("x" * (INLINE_BYTES + 1))
    flow = await desk.asked()
    await desk.answered(flow, body, content_type="application/json", content_length=str(len(body)))
    assert desk.notebook.said == []


async def test_an_answer_that_breaks_off_is_recorded_as_such_when_the_flow_ends() -> None:
    desk = Desk()
    flow = await desk.asked()
    desk.begin(flow, content_type="text/event-stream")
    desk.send(flow, *events("At ", "noon.")[:3])
    assert desk.notebook.said == []
    await desk.tap.error(flow)
    assert desk.notebook.answers == [("At ", False)]


async def test_a_stream_that_is_over_without_saying_so_is_not_complete() -> None:
    desk = Desk()
    await desk.answered(await desk.asked(), *events("At noon.", stop=False), content_type="text/event-stream")
    assert desk.notebook.answers == [("At noon.", False)]


async def test_an_answer_that_ends_with_an_error_is_not_complete() -> None:
    desk = Desk()
    error = sse([{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}])
    await desk.answered(await desk.asked(), *events("At ")[:3], error, content_type="text/event-stream")
    assert desk.notebook.answers == [("At ", False)]


async def test_a_client_that_leaves_after_the_last_event_has_a_complete_answer() -> None:
    desk = Desk()
    flow = await desk.asked()
    desk.begin(flow, content_type="text/event-stream")
    desk.send(flow, *events("At noon."))
    await desk.tap.error(flow)
    assert desk.notebook.answers == [("At noon.", True)]


async def test_a_stream_that_says_many_times_that_it_is_over_is_recorded_with_all_of_its_text() -> None:
    """As those of early Gemini models, each of whose events has a reason to stop."""
    desk = Desk(["unknown"])
    url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-test:streamGenerateContent?alt=sse"
    flow = await desk.asked(url, {"contents": [{"role": "user", "parts": [{"text": "When?"}]}]}, user_agent="")
    pieces = [
        sse([{"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}]}])
        for text in ("At ", "noon.")
    ]
    await desk.answered(flow, *pieces, content_type="text/event-stream")
    assert desk.notebook.answers == [("At ", True), ("At noon.", True)]


# What is never recorded


@pytest.mark.parametrize(
    ("url", "body", "headers"),
    [
        (f"{MESSAGES}/count_tokens", ASKED, {}),
        (MESSAGES, ASKED | {"max_tokens": 1}, {}),
        (MESSAGES, ASKED | {"output_config": {"format": {"type": "json_schema"}}}, {}),
        (MESSAGES, ASKED, {"x_claude_code_request_class": "auxiliary"}),
    ],
)
async def test_side_requests_are_not(url: str, body: Any, headers: dict[str, str]) -> None:
    desk = Desk()
    flow = await desk.asked(url, body, **headers)
    assert desk.exchange(flow).side_request
    await desk.answered(flow, *events("Tides"), content_type="text/event-stream")
    assert (desk.notebook.said, desk.notebook.prepared) == ([], 0)


async def test_what_is_blocked_is_not() -> None:
    desk = Desk()
    flow = await desk.asked(decision=Decision("block", "tides stay home"))
    assert (desk.notebook.prepared, desk.flows.asked_of(desk.exchange(flow))) == (0, None)


async def test_what_is_blocked_once_no_target_has_taken_it_is_not() -> None:
    desk = Desk()
    flow = await desk.asked(decision=Decision("redirect", "tides stay home", targets=("lab",)))
    desk.begin(flow, content_type="application/json")
    desk.exchange(flow).decision = Decision("block", "tides stay home")
    desk.send(flow, document("At noon."))
    await desk.end(flow)
    assert desk.notebook.said == []


async def test_what_is_led_to_a_target_is_as_the_client_saw_it() -> None:
    desk = Desk()
    flow = await desk.asked(decision=Decision("redirect", "tides stay home", targets=("lab",)))
    await desk.answered(flow, document("At noon."), content_type="application/json")
    assert [(said.answer.text, said.model) for _, said in desk.notebook.said] == [("At noon.", "claude-test-2026")]


@pytest.mark.parametrize("status", [301, 400, 429, 500, 529])
async def test_answers_with_the_status_of_an_error_are_not(status: int) -> None:
    desk = Desk()
    await desk.answered(await desk.asked(), document("No."), status=status, content_type="application/json")
    assert (desk.notebook.said, desk.notebook.prepared) == ([], 1)


@pytest.mark.parametrize("body", [b'{"type": "error", "error": {"message": "No."}}', b"", b"<h1>Not here</h1>"])
async def test_answers_that_say_nothing_are_not(body: bytes) -> None:
    desk = Desk()
    await desk.answered(await desk.asked(), body, content_type="application/json")
    assert desk.notebook.said == []


async def test_an_answer_of_our_own_is_not() -> None:
    desk = Desk()
    flow = flow_to(MESSAGES, ASKED, headers={"user-agent": "claude-cli/2"})
    desk.identify.requestheaders(flow)
    await desk.identify.request(flow)
    flow.response = http.Response.make(200, document("At noon."))
    await desk.remember.request(flow)
    assert (desk.notebook.prepared, desk.flows.asked_of(desk.exchange(flow))) == (0, None)


async def test_of_clients_without_a_memory_nothing_is_kept_and_nothing_converted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object) -> Any:
        pytest.fail("nothing of it may be touched")

    monkeypatch.setattr(AnthropicMessages, "content", never)
    monkeypatch.setattr(Flows, "hear", never)
    monkeypatch.setattr(Flows, "ask", never)
    monkeypatch.setattr(Notebook, "prepare", never)
    monkeypatch.setattr(Notebook, "record", never)
    monkeypatch.setattr("addons.tap.Listener.over", never)
    desk = Desk(["codex"])
    flow = await desk.asked()
    await desk.answered(flow, *events("At noon."), content_type="text/event-stream")
    assert [vars(desk.flows)[name] for name in ("_heard", "_asked")] == [{}, {}]


async def test_a_memory_that_is_switched_off_meanwhile_gets_nothing_more() -> None:
    desk = Desk()
    flow = await desk.asked()
    desk.remembered.clear()
    await desk.answered(flow, *events("At noon."), content_type="text/event-stream")
    assert desk.notebook.said == []


# What is kept of the request


async def test_a_long_request_is_converted_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []
    here = threading.get_ident()

    def watched(path: str) -> Wire:
        threads.append(threading.get_ident() == here)
        return wire_for(path)

    monkeypatch.setattr("addons.remember.wire_for", watched)
    desk = Desk()
    for text in ("short", "x" * INLINE_REQUEST):
        body = ASKED | {"messages": [{"role": "user", "content": text}]}
        await desk.answered(await desk.asked(body=body), *events("Yes."), content_type="text/event-stream")
    assert threads == [True, False]
    assert [len(said.messages[0].text) for _, said in desk.notebook.said] == [5, INLINE_REQUEST]


async def test_the_clients_own_key_and_what_it_goes_on_from() -> None:
    desk = Desk(["unknown", "claude-code"])
    await desk.answered(
        await desk.asked(x_claude_code_session_id="k" * 300), document("Noon."), content_type="application/json"
    )
    for body in (
        {"input": "When?", "previous_response_id": "resp_0"},
        {"input": "When?", "prompt_cache_key": "tulip"},
        {"input": "When?", "conversation": "conv_1"},
        {"input": "When?"},
    ):
        answer = {
            "id": "resp_1",
            "status": "completed",
            "output": [{"type": "message", "content": [{"text": "Noon."}]}],
        }
        flow = await desk.asked(SOCKET, {"model": "gpt-test"} | body, user_agent="")
        await desk.answered(flow, json.dumps(answer).encode(), content_type="application/json")
    assert [(one.key, one.previous, one.continues, one.answer_id) for _, one in desk.notebook.said] == [
        ("k" * LONGEST_KEY, None, False, "msg_1"),
        (None, "resp_0", True, "resp_1"),
        ("tulip", None, False, "resp_1"),
        ("conv_1", None, True, "resp_1"),
        (None, None, False, "resp_1"),
    ]


async def test_nothing_is_left_when_a_flow_ends() -> None:
    desk = Desk()
    flow = await desk.asked()
    assert desk.flows.asked_of(desk.exchange(flow))
    desk.flows.end(flow)
    assert [vars(desk.flows)[name] for name in ("_heard", "_asked")] == [{}, {}]


# WebSockets


class Socket:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.flow = flow_to(
            SOCKET, method="GET", headers={"user-agent": "codex_exec", "session-id": "tulip"}, status=101
        )
        self.flow.websocket = WebSocketData()

    async def say(self, message: dict[str, Any], *, from_client: bool, decision: Decision | None = None) -> None:
        assert self.flow.websocket
        content = json.dumps(message).encode()
        self.flow.websocket.messages.append(WebSocketMessage(Opcode.TEXT, from_client, content))
        if from_client:
            await self.desk.identify.websocket_message(self.flow)
            self.desk.exchange(self.flow).decision = decision or Decision()
            await self.desk.remember.websocket_message(self.flow)
        self.desk.tap.websocket_message(self.flow)


def created(text: str, **more: Any) -> dict[str, Any]:
    given = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
    return {"type": "response.create", "model": "gpt-test", "input": given, **more}


def completed(number: int, text: str) -> list[dict[str, Any]]:
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text}
    done = {"id": f"resp_{number}", "model": "gpt-test-2026", "status": "completed"}
    return [
        {"type": "response.created", "response": {"id": f"resp_{number}"}},
        delta,
        {"type": "response.completed", "response": done},
    ]


async def test_each_turn_on_a_websocket_is_recorded_before_its_last_message_is_passed_on() -> None:
    desk = Desk(["codex"])
    socket = Socket(desk)
    for number, more in ((1, {}), (2, {"previous_response_id": "resp_1"})):
        await socket.say(created(f"Question {number}", **more), from_client=True)
        *first, last = completed(number, f"Answer {number}")
        for message in first:
            await socket.say(message, from_client=False)
        assert len(desk.notebook.said) == number - 1
        await socket.say(last, from_client=False)
        assert len(desk.notebook.said) == number
        desk.flows.end(socket.flow)
    assert [
        (one.key, one.messages, one.answer.text, one.previous, one.continues, one.answer_id, one.complete)
        for _, one in desk.notebook.said
    ] == [
        ("tulip", (Message("user", "Question 1"),), "Answer 1", None, False, "resp_1", True),
        ("tulip", (Message("user", "Question 2"),), "Answer 2", "resp_1", True, "resp_2", True),
    ]


async def test_a_socket_that_ends_in_the_midst_of_an_answer() -> None:
    desk = Desk(["codex"])
    socket = Socket(desk)
    await socket.say(created("Question"), from_client=True)
    for message in completed(1, "Ans")[:2]:
        await socket.say(message, from_client=False)
    desk.tap.websocket_end(socket.flow)
    assert desk.notebook.answers == [("Ans", False)]


@pytest.mark.parametrize(
    ("message", "decision"),
    [
        ({"type": "session.update"}, Decision()),
        (created("Warm up", generate=False), Decision()),
        (created("Question"), Decision("block", "tides stay home")),
    ],
)
async def test_messages_that_are_no_turn_are_not_kept(message: dict[str, Any], decision: Decision) -> None:
    desk = Desk(["codex"])
    socket = Socket(desk)
    await socket.say(message, from_client=True, decision=decision)
    assert [vars(desk.flows)[name] for name in ("_heard", "_asked")] == [{}, {}]
    assert desk.notebook.prepared == 0


# Faults


async def test_a_full_disk_is_one_warning_and_the_answer_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.notebook.fault = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for _ in range(2):
        await desk.answered(await desk.asked(), *events("At noon."), content_type="text/event-stream")
    warning = f"Conversations cannot be written down ({os.strerror(errno.ENOSPC)}): they go on unrecorded"
    assert desk.remember.warnings == [warning]
    assert [record.getMessage() for record in caplog.records] == [warning]
    desk.notebook.fault = None
    await desk.answered(await desk.asked(), *events("At noon."), content_type="text/event-stream")
    assert (desk.remember.warnings, desk.notebook.answers) == ([], [("At noon.", True)])


async def test_a_fault_of_ours_is_shown_and_the_answer_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.notebook.fault = ZeroDivisionError("At" + " noon.")
    await desk.answered(await desk.asked(), *events("At noon."), content_type="text/event-stream")
    assert desk.remember.warnings == ["A conversation was not recorded: ZeroDivisionError"]
    assert "A conversation could not be recorded: ZeroDivisionError" in caplog.text
    assert "At noon" not in caplog.text


async def test_a_request_that_cannot_be_converted_goes_its_way(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError("high" + " tide")

    monkeypatch.setattr(AnthropicMessages, "content", broken)
    desk = Desk()
    await desk.answered(await desk.asked(), *events("At noon."), content_type="text/event-stream")
    assert desk.remember.warnings == ["A conversation was not recorded: ZeroDivisionError"]
    assert "high tide" not in caplog.text
    assert desk.notebook.said == []


async def test_calls_of_tools_are_part_of_the_answer() -> None:
    desk = Desk()
    body = json.dumps(
        {
            "type": "message",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "tides.md"}},
            ],
        }
    ).encode()
    await desk.answered(await desk.asked(), body, content_type="application/json")
    [(_, said)] = desk.notebook.said
    assert said.answer == Message("assistant", "I look.", (Call("t1", "Read", '{"path": "tides.md"}'),))
    assert said.model == "claude-test"
