"""When the turns on a WebSocket are recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mitmproxy.websocket import WebSocketData, WebSocketMessage
from wsproto.frame_protocol import Opcode

from memory.conversations.said import Message
from memory.exchange import Decision
from tests.addons.parts import flow_to
from tests.addons.remembering import SOCKET, Desk


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
