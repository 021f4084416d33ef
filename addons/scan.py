"""Scan: which of the user's notes are in this request?

Observation fails open: whatever goes wrong here, the request goes its way, and the exchange says that it was not seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from contextlib import suppress
from dataclasses import replace

from mitmproxy import http

from addons.faults import traced
from addons.flows import Flows
from addons.record import Carried
from memory.body import Body
from memory.exchange import Exchange, Scan
from memory.index import NoteIndex
from memory.note_library import NoteLibrary
from memory.scan import Scanner

logger = logging.getLogger(__name__)

MOST_FAILURES = 20
MOST_REASONS = 50
OTHER_REASONS = "other reasons"
FIRST_SCAN_SECONDS = 10.0

OFF = Scan("unscanned", ("off",))
STILL_READING = Scan("unscanned", ("the notes are still being read",))
NOT_ARRIVED = Scan("unscanned", ("the body did not arrive",))
TOO_LARGE = Scan("unscanned", ("the body is larger than proxy.max_body",))


class ScanRequests:
    """Looks for notes in the body of each request to a model."""

    def __init__(
        self, library: NoteLibrary, flows: Flows, carried: Carried, *, enabled: bool, scanner: Scanner | None = None
    ) -> None:
        self._library = library
        self._flows = flows
        self._carried = carried
        self._scanner = scanner or Scanner()
        self.enabled = enabled
        """Whether requests are scanned at all: `memory.track_sharing`, which may change while running."""
        self.states: Counter[str] = Counter(complete=0, partial=0, unscanned=0)
        """Scan state -> how many requests."""
        self.reasons: Counter[str] = Counter()
        """Why requests were not looked at, or not wholly -> how many; at most `MOST_REASONS`, then `OTHER_REASONS`."""
        self.failures: deque[str] = deque(maxlen=MOST_FAILURES)
        """The last faults of our own, for the status line."""

    async def request(self, flow: http.HTTPFlow) -> None:
        if (exchange := self._flows.of(flow)) is None:
            return
        exchange.scan = await self._scan(flow, exchange)
        self._count(exchange.scan)

    async def websocket_message(self, flow: http.HTTPFlow) -> None:
        if flow.websocket and flow.websocket.messages[-1].from_client:
            await self.request(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        """A request that ended before its body was whole was never looked at."""
        exchange = self._flows.of(flow)
        if exchange is not None and flow.request.timestamp_end is None:
            exchange.scan = TOO_LARGE if flow.error and "body_size_limit" in flow.error.msg else NOT_ARRIVED
            self._count(exchange.scan)

    def _count(self, scan: Scan) -> None:
        self.states[scan.state] += 1
        for reason in scan.reasons:
            is_known = reason in self.reasons or len(self.reasons) < MOST_REASONS
            self.reasons[reason if is_known else OTHER_REASONS] += 1

    async def _scan(self, flow: http.HTTPFlow, exchange: Exchange) -> Scan:
        body = self._flows.take_body(flow)
        if not self.enabled:
            return OFF
        if body is None:
            return NOT_ARRIVED
        try:
            self._library.refresh_if_old()
            if not await self._notes_are_read():
                return STILL_READING
            snapshot = self._library.snapshot
            self._flows.scanned_for(flow, snapshot)
            found = await self._find(flow, snapshot.index, body)
        except Exception as error:  # noqa: BLE001 - observation fails open, and shows it
            logger.error("A request could not be scanned: %s", traced(error))  # noqa: TRY400 - without its message
            self.failures.append(f"A request was not scanned: {type(error).__name__}")
            return Scan("unscanned", (f"a fault in mitmemory ({type(error).__name__})",))
        return replace(found, sightings=self._carried.marked(exchange, found.sightings))

    async def _notes_are_read(self) -> bool:
        """The first requests after a start wait a while for the notes, and those after a change of the rules until all lines
        are known that may have to be withheld; others never wait.
        """
        if not self._library.is_ready:
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_SCAN_SECONDS):
                    await self._library.scan()
        return self._library.snapshot.loaded_at is not None

    async def _find(self, flow: http.HTTPFlow, index: NoteIndex, body: Body) -> Scan:
        if self._flows.is_quick(flow, body.size):
            found = self._scanner.scan(index, body)
        else:
            found = await asyncio.to_thread(self._scanner.scan, index, body)
        self._flows.was_scanned(flow, body.size)
        return found
