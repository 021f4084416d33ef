"""Requests are looked through before they go, and go whatever happens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.flow import Error

from addons.flows import INLINE_BYTES, Flows
from addons.record import Carried
from addons.scan import MOST_FAILURES, MOST_REASONS, OTHER_REASONS, ScanRequests
from memory.body import Body, read_body
from memory.exchange import Exchange, Scan
from memory.index import NoteIndex
from memory.note_library import NoteLibrary
from memory.scan import Scanner
from tests.addons.parts import TIDES, Shelf, exchange_of, flow_to

BODY = {"model": "claude-test", "messages": [{"role": "user", "content": f"Look:\n{TIDES}"}]}


class Desk:
    """The stage, a library of one note, and flows that have been identified."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.shelf = Shelf()
        self.note_library = NoteLibrary([self.shelf])
        self.flows, self.carried = Flows(), Carried()
        self.stage = ScanRequests(self.note_library, self.flows, self.carried, enabled=enabled)

    def identified(self, flow: http.HTTPFlow | None = None, *, body: bool = True, **changes: Any) -> http.HTTPFlow:
        flow = flow or flow_to(body=BODY)
        raw = flow.request.raw_content or b""
        self.flows.begin(flow, exchange_of(request_bytes=len(raw), **changes))
        if body:
            self.flows.hand_on(flow, read_body(raw, "application/json"))
        return flow

    def of(self, flow: http.HTTPFlow) -> Exchange:
        exchange = self.flows.of(flow)
        assert exchange
        return exchange

    async def scan(self, flow: http.HTTPFlow) -> Scan:
        await self.stage.request(flow)
        return self.of(flow).scan


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    yield desk
    await desk.note_library.aclose()


def found(scan: Scan) -> list[tuple[str, str, int, int, bool]]:
    return [(one.note, one.grade, one.matched, one.distinctive, one.resent) for one in scan.sightings]


async def test_the_first_request_waits_for_the_first_scan_and_the_next_does_not(desk: Desk) -> None:
    scan = await desk.scan(desk.identified())
    assert (scan.state, found(scan)) == ("complete", [("vault/Tides.md", "line", 2, 2, False)])
    assert found(await desk.scan(desk.identified())) == found(scan)
    assert desk.shelf.loads == 1
    assert desk.stage.states == {"complete": 2, "partial": 0, "unscanned": 0}
    assert list(desk.stage.failures) == []


async def test_requests_that_come_together_share_the_first_scan(desk: Desk) -> None:
    scans = await asyncio.gather(*(desk.scan(desk.identified()) for _ in range(5)))
    assert [len(scan.sightings) for scan in scans] == [1] * 5
    assert desk.shelf.loads == 1


async def test_a_note_is_resent_once_its_conversation_carried_it(desk: Desk) -> None:
    first = desk.identified()
    await desk.scan(first)
    again = desk.identified()
    assert [resent for *_, resent in found(await desk.scan(again))] == [False]  # the first has not been sent yet
    desk.carried.add(desk.of(first))
    resent = [
        found(await desk.scan(desk.identified(**changes)))[0][-1]
        for changes in ({}, {"conversation": "rose"}, {"client": "codex"}, {"conversation": None})
    ]
    assert resent == [True, False, False, False]


async def test_without_track_sharing_nothing_is_looked_at() -> None:
    desk = Desk(enabled=False)
    flow = desk.identified()
    assert await desk.scan(flow) == Scan("unscanned", ("off",))
    assert (desk.shelf.loads, desk.stage.states["unscanned"], desk.flows.take_body(flow)) == (0, 1, None)


async def test_a_flow_that_is_no_request_to_a_model_is_not_looked_at(desk: Desk) -> None:
    flow = flow_to("http://files.example/", status=200)
    await desk.stage.request(flow)
    desk.stage.error(flow)
    assert (desk.shelf.loads, sum(desk.stage.states.values())) == (0, 0)


async def test_a_fault_while_scanning_lets_the_request_go_and_shows(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(scanner: Scanner, index: NoteIndex, body: Body) -> Scan:
        raise ZeroDivisionError(TIDES)

    monkeypatch.setattr(Scanner, "scan", broken)
    flow = desk.identified()
    assert await desk.scan(flow) == Scan("unscanned", ("a fault in mitmemory (ZeroDivisionError)",))
    assert (flow.response, flow.error) == (None, None)
    assert desk.stage.states["unscanned"] == 1
    assert list(desk.stage.failures) == ["A request was not scanned: ZeroDivisionError"]
    [record] = caplog.records
    assert record.getMessage().startswith("A request could not be scanned: ZeroDivisionError\n  File ")
    assert "raise ZeroDivisionError(TIDES)" in caplog.text  # our code, and not what was in the request
    assert "tide chart" not in caplog.text
    for _ in range(MOST_FAILURES + 5):
        await desk.scan(desk.identified())
    assert len(desk.stage.failures) == MOST_FAILURES


async def test_a_fault_while_the_notes_are_read_does_the_same(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(desk.note_library, "scan", broken)
    assert await desk.scan(desk.identified()) == Scan("unscanned", ("a fault in mitmemory (ZeroDivisionError)",))
    assert list(desk.stage.failures) == ["A request was not scanned: ZeroDivisionError"]


@pytest.mark.parametrize(("size", "threaded"), [(INLINE_BYTES, False), (INLINE_BYTES + 1, True)])
async def test_a_large_body_is_scanned_in_a_thread(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, size: int, threaded: bool
) -> None:
    seen: list[bool] = []

    def scan(scanner: Scanner, index: NoteIndex, body: Body) -> Scan:
        seen.append(threading.current_thread() is not threading.main_thread())
        return Scan("complete")

    monkeypatch.setattr(Scanner, "scan", scan)
    flow = flow_to(body=b"{}".ljust(size))
    assert await desk.scan(desk.identified(flow)) == Scan("complete")
    assert seen == [threaded]
    again = flow_to(body=b"{}".ljust(size + 1))
    again.client_conn = flow.client_conn
    assert await desk.scan(desk.identified(again)) == Scan("complete")
    assert seen == [threaded, False]  # the turn that follows


# ---- bodies that never came


async def test_a_request_whose_body_was_never_read_says_so(desk: Desk) -> None:
    assert await desk.scan(desk.identified(body=False)) == Scan("unscanned", ("the body did not arrive",))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Request body exceeds mitmproxy's body_size_limit.", "the body is larger than proxy.max_body"),
        ("Client disconnected.", "the body did not arrive"),
        (None, "the body did not arrive"),
    ],
)
async def test_a_request_that_ends_too_early_was_not_looked_at(desk: Desk, message: str | None, reason: str) -> None:
    flow = desk.identified(body=False)
    flow.request.timestamp_end = None
    flow.error = Error(message) if message else None
    desk.stage.error(flow)
    assert desk.of(flow).scan == Scan("unscanned", (reason,))
    assert desk.stage.states["unscanned"] == 1


async def test_a_request_that_fails_later_keeps_its_scan(desk: Desk) -> None:
    flow = desk.identified()
    scan = await desk.scan(flow)
    flow.error = Error("Connection refused")
    desk.stage.error(flow)
    assert desk.of(flow).scan is scan
    assert desk.stage.states == {"complete": 1, "partial": 0, "unscanned": 0}


async def test_why_requests_were_not_looked_at_is_counted(desk: Desk) -> None:
    for _ in range(2):
        await desk.scan(desk.identified(body=False))
    desk.stage.enabled = False
    await desk.scan(desk.identified())
    assert desk.stage.reasons == {"the body did not arrive": 2, "off": 1}
    for number in range(MOST_REASONS):
        desk.stage._count(Scan("partial", (f"reason {number}", "off")))
    assert len(desk.stage.reasons) == MOST_REASONS + 1
    assert (desk.stage.reasons["off"], desk.stage.reasons[OTHER_REASONS]) == (MOST_REASONS + 1, 2)
