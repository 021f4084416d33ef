"""What is never recorded."""

from __future__ import annotations

from typing import Any

import pytest
from mitmproxy import http

from addons.flows import Flows
from addons.wire.anthropic import AnthropicMessages
from memory.exchange import Decision
from tests.addons.parts import MESSAGES, flow_to
from tests.addons.recording import Notebook
from tests.addons.remembering import ASKED, Desk, document, events


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
