"""When an answer is recorded: the stages one by one, and a recorder that writes nowhere."""

from __future__ import annotations

import errno
import gzip
import json
import os
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from addons.conversation_keys import LONGEST_KEY
from addons.remember import INLINE_BYTES as INLINE_REQUEST
from addons.tap import INLINE_BYTES
from addons.wire import Wire, wire_for
from addons.wire.anthropic import AnthropicMessages
from memory.conversations.said import Call, Message, Said
from memory.exchange import Decision
from tests.addons.remembering import ASKED, NOW, SOCKET, Desk, document, events
from tests.addons.wires import sse


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


async def test_what_is_led_to_a_target_is_as_the_client_saw_it() -> None:
    desk = Desk()
    flow = await desk.asked(decision=Decision("redirect", "tides stay home", targets=("lab",)))
    await desk.answered(flow, document("At noon."), content_type="application/json")
    assert [(said.answer.text, said.model) for _, said in desk.notebook.said] == [("At noon.", "claude-test-2026")]


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
