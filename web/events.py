"""Server-sent events: what happens is told to every open page (dashboard.md, "Events").

Each event has the id `boot-seq`: `boot` names this run, `seq` counts from 1. The format is the one of the HTML
standard (https://html.spec.whatwg.org/multipage/server-sent-events.html).
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from web.errors import Refusal

RING_EVENTS = 1000
RING_BYTES = 8 * 2**20
QUEUE_EVENTS = 1000
QUEUE_BYTES = 2 * 2**20
PING_INTERVAL = 15.0
WRITE_INTERVAL = 0.05
"""Seconds between two writes to one reader: at most 20 a second, whatever is published meanwhile goes in one."""
WRITE_TIMEOUT = 30.0
"""Seconds a reader may leave a write stuck before it is dropped."""
RETRY_MILLISECONDS = 2000
MOST_READERS = 64
RETURN_SECONDS = 60.0
"""How long after the last reader left events are kept for one that comes back; while nobody listens they cost nothing."""


@dataclass(slots=True, eq=False)
class _Reader:
    """One connection, and what it has yet to be sent."""

    request: web.Request
    waiting: deque[bytes] = field(default_factory=deque)
    waiting_bytes: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    writing: bool = False
    dropped: bool = False

    def take(self) -> bytes:
        chunk = b"".join(self.waiting)
        self.waiting.clear()
        self.waiting_bytes = 0
        self.wake.clear()
        return chunk

    def abort(self) -> None:
        """Cut the connection without waiting for what is in its buffer."""
        if self.request.transport is not None:
            self.request.transport.abort()


class EventHub:
    """Sends each published event to all readers, in order. Used from the event loop's thread only.

    The last events are kept (at most `ring_events` and `ring_bytes`) for a reader that comes back with the id of the
    last one it saw, but no longer than `return_seconds` after the last reader left. A reader that lets more than
    `queue_events` or `queue_bytes` pile up is dropped, and comes back when it is well.
    """

    def __init__(
        self,
        *,
        ring_events: int = RING_EVENTS,
        ring_bytes: int = RING_BYTES,
        queue_events: int = QUEUE_EVENTS,
        queue_bytes: int = QUEUE_BYTES,
        ping_interval: float = PING_INTERVAL,
        most_readers: int = MOST_READERS,
        return_seconds: float = RETURN_SECONDS,
    ) -> None:
        self.boot = secrets.token_hex(4)
        self.published = 0
        self.dropped = 0
        self._ring: deque[tuple[int, bytes]] = deque()
        self._ring_size = 0
        self._ring_events = ring_events
        self._ring_bytes = ring_bytes
        self._queue_events = queue_events
        self._queue_bytes = queue_bytes
        self._ping_interval = ping_interval
        self._most_readers = most_readers
        self._return_seconds = return_seconds
        self._readers: set[_Reader] = set()
        self._left = time.monotonic()
        """When the last reader left."""
        self._closed = False

    @property
    def readers(self) -> int:
        return len(self._readers)

    def publish(self, kind: str, data: dict[str, Any]) -> None:
        """Tell every reader; never waits. `kind` is the event's name, one line; `data` is JSON."""
        if self._closed:
            return
        self.published += 1
        if not self._readers and time.monotonic() - self._left > self._return_seconds:
            self._ring.clear()
            self._ring_size = 0
            return
        chunk = self._event(kind, data)
        self._ring.append((self.published, chunk))
        self._ring_size += len(chunk)
        while len(self._ring) > self._ring_events or self._ring_size > self._ring_bytes:
            self._ring_size -= len(self._ring.popleft()[1])
        for reader in list(self._readers):
            if len(reader.waiting) >= self._queue_events or reader.waiting_bytes + len(chunk) > self._queue_bytes:
                self._drop(reader)
                continue
            reader.waiting.append(chunk)
            reader.waiting_bytes += len(chunk)
            reader.wake.set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """`GET api/events`. What a reader missed is replayed after `Last-Event-ID` (or `?lastEventId=`, for a page
        that takes over from another tab); where that cannot be done it gets `resync` and should load everything anew.
        """
        if self._closed:
            raise Refusal(503, "stopping", "mitmemory is stopping")
        if len(self._readers) >= self._most_readers:
            raise Refusal(503, "too_many_readers", "too many pages are listening already: close some")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        last = request.headers.get("Last-Event-ID") or request.query.get("lastEventId", "")
        reader = _Reader(request)
        # No await before this reader is listed: an event is either in its first chunk or in its queue, never in both.
        first = b"retry: %d\n" % RETRY_MILLISECONDS + self._resume(last)
        self._list(reader)
        try:
            await self._write(response, reader, first)
            while True:
                try:
                    async with asyncio.timeout(self._ping_interval):
                        await reader.wake.wait()
                except TimeoutError:
                    await self._write(response, reader, b": ping\n\n")
                    continue
                if chunk := reader.take():
                    await self._write(response, reader, chunk)
                if self._closed or reader.dropped:
                    break
                await asyncio.sleep(WRITE_INTERVAL)
        except ConnectionError:
            pass  # the page is gone, which is how every stream ends
        except TimeoutError:
            self._drop(reader)
        finally:
            self._unlist(reader)
        return response

    def close(self) -> None:
        """End all streams; later events go nowhere. Readers stuck in a write are cut off."""
        self._closed = True
        for reader in self._readers:
            reader.wake.set()
            if reader.writing:
                reader.abort()

    def _list(self, reader: _Reader) -> None:
        self._readers.add(reader)
        if self._closed:  # while the answer was being started
            reader.wake.set()

    def _unlist(self, reader: _Reader) -> None:
        self._readers.discard(reader)
        self._left = time.monotonic()

    def _resume(self, last: str) -> bytes:
        """What a reader is sent first: the events after the id `last`, or `resync`, or just where it stands."""
        boot, _, number = last.partition("-")
        here = f"id: {self.boot}-{self.published}\n"
        if not last:
            # An id without data sets the reader's last id, so that nothing is lost if it is cut off before an event.
            return f"{here}\n".encode()
        oldest = self._ring[0][0] if self._ring else self.published + 1
        known = boot == self.boot and number.isascii() and number.isdecimal() and len(number) < 20
        if not known or not oldest - 1 <= int(number) <= self.published:
            return f"{here}event: resync\ndata: {{}}\n\n".encode()
        return b"\n" + b"".join(chunk for count, chunk in self._ring if count > int(number))

    def _event(self, kind: str, data: dict[str, Any]) -> bytes:
        try:
            text = orjson.dumps(data)
        except TypeError:  # half of a surrogate pair
            text = json.dumps(data, separators=(",", ":")).encode()
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self.boot.encode(), self.published, kind.encode(), text)

    async def _write(self, response: web.StreamResponse, reader: _Reader, chunk: bytes) -> None:
        reader.writing = True
        async with asyncio.timeout(WRITE_TIMEOUT):
            await response.write(chunk)
        reader.writing = False

    def _drop(self, reader: _Reader) -> None:
        if reader.dropped:
            return
        reader.dropped = True
        self.dropped += 1
        self._unlist(reader)
        reader.waiting.clear()
        reader.wake.set()
        reader.abort()
