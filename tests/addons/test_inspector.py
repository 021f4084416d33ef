"""The inspector's list of flows is bounded, and nobody's live flow is ended for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.addons.view import View
from mitmproxy.test import taddons, tflow
from mitmproxy.websocket import WebSocketMessage
from wsproto.frame_protocol import Opcode

from addons.inspector import Inspector
from addons.providers import ProviderTable
from tests.addons.parts import flow_to


class Clock:
    """Stands in for the loop's `call_later`: what was put off runs when a test says so."""

    def __init__(self) -> None:
        self.later: list[tuple[Any, ...]] = []

    def call_later(self, seconds: float, *call: Any) -> None:
        assert seconds == 1
        self.later.append(call)

    def call_soon(self, *call: Any) -> None:
        self.later.append(call)

    def tick(self) -> None:
        due, self.later = self.later, []
        for call, *arguments in due:
            call(*arguments)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("addons.inspector.asyncio.get_running_loop", lambda: clock)
    return clock


@pytest.fixture
async def view() -> AsyncIterator[View]:
    view = View()
    with taddons.context(view):
        yield view


def inspector(keep_flows: int = 100, keep_bytes: int = 10**9) -> Inspector:
    return Inspector(ProviderTable(), keep_flows=keep_flows, keep_bytes=keep_bytes)


def answered(view: View, size: int = 0, url: str = "https://api.anthropic.com/v1/messages") -> http.HTTPFlow:
    flow = flow_to(url, b"x" * size, status=200)
    assert flow.response
    flow.response.content = b""
    flow.live = False
    view.add([flow])
    return flow


def shown(view: View) -> list[Any]:
    return list(view._store.values())


async def test_only_the_last_flows_are_kept(view: View, clock: Clock) -> None:
    keeper = inspector(keep_flows=2)
    flows = [answered(view) for _ in range(4)]
    for flow in flows:
        keeper.response(flow)
    assert shown(view) == flows
    clock.tick()
    assert shown(view) == flows[2:]


async def test_together_they_never_exceed_the_bytes(view: View, clock: Clock) -> None:
    keeper = inspector(keep_bytes=100)
    flows = [answered(view, size) for size in (40, 60, 1, 100, 101)]
    kept: list[list[int]] = []
    for flow in flows:
        keeper.response(flow)
        clock.tick()
        kept.append([len(one.request.raw_content or b"") for one in shown(view) if one in flows[: len(kept) + 1]])
    assert kept == [[40], [40, 60], [60, 1], [100], []]


async def test_the_bytes_are_those_of_both_bodies_and_all_messages(view: View, clock: Clock) -> None:
    keeper = inspector(keep_bytes=60)
    flow = tflow.twebsocketflow()
    flow.request.host, flow.request.port, flow.live = "api.openai.com", 443, False
    view.add([flow])
    assert flow.response
    assert flow.websocket
    flow.request.content, flow.response.content = b"x" * 20, b"x" * 20
    size = 40 + sum(len(message.content) for message in flow.websocket.messages)
    assert size > 60
    keeper.response(flow)
    keeper.error(flow)
    assert clock.later == []  # it goes on as long as its messages do
    keeper.websocket_end(flow)
    clock.tick()
    assert shown(view) == []


async def test_an_open_websocket_forgets_its_old_messages(
    view: View, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("addons.inspector.SOCKET_BYTES", 25)
    keeper, flow = inspector(), tflow.twebsocketflow()
    assert flow.websocket
    flow.websocket.messages.clear()
    kept: list[list[bytes]] = []
    for letter in b"abcde":
        flow.websocket.messages.append(WebSocketMessage(Opcode.TEXT, True, bytes([letter]) * 10))
        keeper.websocket_message(flow)
        kept.append([message.content[:1] for message in flow.websocket.messages])
        clock.tick()
    assert kept == [[b"a"], [b"a", b"b"], [b"a", b"b", b"c"], [b"c", b"d"], [b"c", b"d", b"e"]]
    keeper.websocket_end(flow)
    assert keeper._sockets == {}


def streamed(keeper: Inspector, flow: http.HTTPFlow, *chunks: bytes) -> None:
    """The answer as mitmproxy streams it: nothing of it stays with the flow."""
    assert flow.response
    flow.response.stream, flow.response.data.content = bytes, None
    keeper.responseheaders(flow)
    assert callable(flow.response.stream)
    assert [flow.response.stream(chunk) for chunk in chunks] == list(chunks)


async def test_a_streamed_answer_can_be_read_in_the_inspector(view: View, clock: Clock) -> None:
    keeper, whole, partial = inspector(), answered(view), answered(view)
    streamed(keeper, whole, b"data: 1\n\n", b"data: 2\n\n", b"")
    keeper.response(whole)
    streamed(keeper, partial, b"data: 1\n")
    keeper.error(partial)
    assert [flow.response.content for flow in (whole, partial) if flow.response] == [
        b"data: 1\n\ndata: 2\n\n",
        b"data: 1\n",
    ]
    assert keeper._answers == {}


async def test_a_long_answer_is_not_kept(view: View, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addons.inspector.ANSWER_BYTES", 3)
    keeper, fits, long = inspector(), answered(view), answered(view)
    for flow, chunks in ((fits, [b"ab", b"c"]), (long, [b"ab", b"cd", b"ef"])):
        streamed(keeper, flow, *chunks)
        keeper.response(flow)
    assert [flow.response.data.content for flow in (fits, long) if flow.response] == [b"abc", None]


async def test_open_answers_are_kept_within_the_bytes_too(view: View, clock: Clock) -> None:
    keeper, first, second = inspector(keep_bytes=5), answered(view), answered(view)
    streamed(keeper, first, b"abc")
    streamed(keeper, second, b"def", b"g")  # six are too many, so this one goes
    assert first.response
    assert callable(first.response.stream)
    first.response.stream(b"de")
    for flow in (first, second):
        keeper.response(flow)
    assert [flow.response.data.content for flow in (first, second) if flow.response] == [b"abcde", None]
    assert (keeper._answers, keeper._open_bytes) == ({}, 0)


async def test_without_an_inspector_nothing_of_an_answer_is_kept(clock: Clock) -> None:
    flow = flow_to(status=200)
    assert flow.response
    flow.response.stream = bytes
    with taddons.context():
        inspector().responseheaders(flow)
    assert flow.response.stream is bytes


async def test_a_flow_that_fails_is_kept_like_one_that_is_answered(view: View, clock: Clock) -> None:
    keeper = inspector(keep_flows=1)
    first, second = answered(view), answered(view)
    keeper.response(first)
    second.response, second.error = None, tflow.terr()
    keeper.error(second)
    clock.tick()
    assert shown(view) == [second]


async def test_flows_of_other_hosts_are_removed(view: View, clock: Clock) -> None:
    keeper = inspector()
    other, mine = answered(view, url="http://files.example/"), answered(view)
    keeper.response(other)
    keeper.response(mine)
    clock.tick()
    assert shown(view) == [mine]


@pytest.mark.parametrize("url", ["http://files.example/", "https://api.anthropic.com/v1/messages"])
async def test_a_live_flow_is_never_killed(view: View, clock: Clock, url: str) -> None:
    """One that the person holds in the inspector may stay there for an hour."""
    keeper = inspector(keep_flows=1, keep_bytes=1)
    flow = answered(view, 100, url)
    flow.live = True
    keeper.response(flow)
    for _ in range(3):
        clock.tick()
    assert (shown(view), flow.error) == ([flow], None)
    flow.live = False
    clock.tick()
    assert (shown(view), flow.error, clock.later) == ([], None, [])


async def test_a_flow_that_the_person_removed_is_no_trouble(view: View, clock: Clock) -> None:
    keeper = inspector(keep_flows=1)
    first, second = answered(view), answered(view)
    keeper.response(first)
    view.remove([first])
    keeper.response(second)
    clock.tick()
    assert shown(view) == [second]


async def test_without_a_list_of_flows_there_is_nothing_to_do(clock: Clock) -> None:
    with taddons.context():
        inspector(keep_flows=1).response(flow_to(status=200))
    assert clock.later == []


async def test_it_waits_on_the_real_loop(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addons.inspector.SETTLE_SECONDS", 0.01)
    other = answered(view, url="http://files.example/")
    inspector().response(other)
    assert shown(view) == [other]
    await asyncio.sleep(0.1)
    assert shown(view) == []
