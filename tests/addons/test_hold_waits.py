"""How one wait begins and ends, flow by flow; the whole way is in test_hold.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from mitmproxy import flow as flows
from mitmproxy import http, options
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import HttpStream
from mitmproxy.proxy.layers.http._events import ErrorCode, RequestProtocolError
from mitmproxy.test import taddons, tflow

from addons.annotate import NOTES
from addons.hold import RESUMED, Hold
from memory.exchange import Decision, Exchange
from memory.held import HeldRequests, Released
from tests.addons.parts import content, exchange_of, flow_to, seen

LEFT = RequestProtocolError(1, "stream reset by client (CANCEL)", ErrorCode.CANCEL)


@dataclass
class Stage:
    """Hold in mitmproxy, and what it told of."""

    held: HeldRequests
    told: list[str] = field(default_factory=list)
    updated: list[flows.Flow] = field(default_factory=list)
    fault: bool = False

    def __post_init__(self) -> None:
        self.hold = Hold(self.held, self.tell)

    def tell(self, exchange: Exchange) -> None:
        if self.fault:
            raise RuntimeError("the disk is full")
        self.told.append(exchange.id)

    def update(self, updated: list[flows.Flow]) -> None:
        """The hook by which mitmweb learns that a flow has changed."""
        self.updated += updated

    def begin(self, identifier: str = "01", seconds: float = 60) -> tuple[http.HTTPFlow, asyncio.Task[Released]]:
        flow, exchange = flow_to(), exchange_of(identifier, scan=seen(content()), decision=Decision("hold", "ask me"))
        flow.live = True
        return flow, asyncio.create_task(self.hold(flow, exchange, seconds))


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async for made in staged(HeldRequests()):
        yield made


async def staged(held: HeldRequests) -> AsyncIterator[Stage]:
    made = Stage(held)
    with taddons.context(made.hold, made):
        made.hold.running()
        yield made
        made.hold.done()


def leave(flow: http.HTTPFlow) -> None:
    """mitmproxy is told by the connection that the client wants no answer any more."""
    stream = HttpStream(Context(tflow.tclient_conn(), options.Options()), 1)
    stream.flow = flow
    stream.handle_event(LEFT)


async def begun(stage: Stage, count: int = 1) -> None:
    """Until so many flows are shown as paused, and each is waited for."""
    async with asyncio.timeout(60):
        while [getattr(flow, RESUMED) is None for flow in stage.updated] != [False] * count:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0)


async def end(answer: asyncio.Task[Released]) -> Released:
    async with asyncio.timeout(60):
        return await answer


async def test_mitmweb_is_told_once_the_notes_stand_on_the_flow(stage: Stage) -> None:
    flow, answer = stage.begin()
    await begun(stage)
    assert (flow.intercepted, stage.updated, stage.told) == (True, [flow], ["01"])
    assert (flow.comment, flow.marked) == ("1 note -> claude-test (cloud)", ":hourglass:")
    assert flow.metadata[NOTES] == ["vault/Tides.md"]
    stage.held.decide("01", Released("redirected", "near"))
    assert await end(answer) == Released("redirected", "near")
    assert not flow.intercepted


async def test_time_runs_out(stage: Stage) -> None:
    flow, answer = stage.begin(seconds=0.01)
    assert await end(answer) == Released("expired")
    assert (flow.intercepted, stage.held.ended("01")) == (False, "expired")


async def test_a_kill_becomes_a_block_that_can_be_answered(stage: Stage) -> None:
    flow, answer = stage.begin()
    await begun(stage)
    flow.kill()
    assert await end(answer) == Released("blocked")
    assert (flow.error, flow.live) == (None, True)


async def test_a_kill_that_comes_too_late_stays_one(stage: Stage) -> None:
    flow, answer = stage.begin()
    await begun(stage)
    stage.held.decide("01", Released("released"))
    flow.kill()
    assert await end(answer) == Released("released")
    assert flow.error is not None  # mitmproxy sends nothing for it


async def test_a_client_that_leaves_ends_its_own_wait_only(stage: Stage) -> None:
    (first, one), (_, two) = stage.begin("01"), stage.begin("02")
    await begun(stage, 2)
    leave(flow_to())
    leave(first)
    assert await end(one) == Released("left")
    assert not two.done()
    stage.held.decide("02", Released("blocked"))
    assert await end(two) == Released("blocked")


async def test_whoever_left_before_is_not_waited_for(stage: Stage) -> None:
    flow, exchange = flow_to(), exchange_of()
    leave(flow)
    assert await stage.hold(flow, exchange, 60) == Released("left")
    assert (flow.intercepted, stage.told, stage.held.ended("01")) == (False, [], None)


async def test_without_room_the_time_is_up_at_once() -> None:
    async for stage in staged(HeldRequests(most=0)):
        flow, answer = stage.begin()
        assert await end(answer) == Released("expired")
        assert (flow.intercepted, stage.told, stage.updated) == (False, [], [])


async def test_a_fault_of_ours_leaves_nothing_on_hold(stage: Stage) -> None:
    stage.fault = True
    flow, answer = stage.begin()
    with pytest.raises(RuntimeError):
        await answer
    assert (flow.intercepted, len(stage.held)) == (False, 0)


async def test_a_wait_that_is_cancelled_is_over(stage: Stage) -> None:
    flow, answer = stage.begin()
    await begun(stage)
    answer.cancel()
    await asyncio.wait([answer])
    assert (answer.cancelled(), flow.intercepted, stage.held.ended("01")) == (True, False, "left")


async def test_the_end_of_the_suite_kills_what_waits(stage: Stage) -> None:
    flow, answer = stage.begin()
    await begun(stage)
    stage.hold.done()
    assert await end(answer) == Released("left")
    assert flow.error is not None
    assert flow.error.msg == flows.Error.KILLED_MESSAGE


async def test_mitmproxy_is_as_it_was_once_it_has_run() -> None:
    before = HttpStream.handle_event, flows.Flow.kill
    hold = Hold(HeldRequests(), lambda _: None)
    hold.running()
    assert HttpStream.handle_event is not before[0]
    assert flows.Flow.kill is not before[1]
    hold.done()
    assert (HttpStream.handle_event, flows.Flow.kill) == before
