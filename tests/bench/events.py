"""Events and their readers (goals: dashboard.md, "To reach"): requests through the proxy beside open pages, and many events
to many readers. An event is lost where the numbers that a reader sees have a hole, or end before the last one.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp

from memory.activity import Activity
from memory.exposure import Exposure
from memory.note_library import NoteLibrary
from tests.bench.endurance import resident_bytes
from tests.bench.measure import Figure
from tests.bench.proxy import Bench, Connection, both_proxies
from web.access import Access, Tokens
from web.app import Services
from web.events import EventHub
from web.server import Sidecar

TOKEN = "token-of-the-benchmark"
PUBLISHED, READERS = 400, 50
"""Events a second, and who reads them."""
PUBLISHING = 10
"""Seconds."""
MOST_WRITES = 20
"""A second, to one reader."""

REQUESTS, PAGES = 50, 5
"""Requests a second through the proxy, and open pages beside them."""
SENDING, LARGE_SENDING = 15, 60
"""Seconds."""
CONNECTIONS = 8
BODY = 10_000
SETTLING = 20.0
"""Seconds that the last events may take."""


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    yield asyncio.run(fanned_out())
    with asyncio.Runner() as runner, both_proxies(runner, seed) as bench:
        yield runner.run(beside_requests(bench, LARGE_SENDING if large else SENDING))


@dataclass
class Reader:
    """One open page: the numbers of the events that it saw, and how many pieces they came in."""

    response: aiohttp.ClientResponse
    first: int = 0
    last: int = 0
    holes: int = 0
    writes: int = 0

    @classmethod
    async def open(cls, client: aiohttp.ClientSession, address: str) -> Reader:
        response = await client.get(address)
        assert response.status == 200
        reader = cls(response)
        while not reader.first:
            reader._see(await response.content.readline())
        return reader

    async def read(self) -> None:
        async for piece, is_end in self.response.content.iter_chunks():
            self.writes += is_end
            for line in piece.splitlines():
                self._see(line)

    def _see(self, line: bytes) -> None:
        if not line.startswith(b"id: "):
            return
        number = int(line.rpartition(b"-")[2])
        if self.first:
            self.holes += number - self.last - 1
            self.last = number
        else:
            self.first = number + 1  # the id that it begins with is that of an event before
            self.last = number


@asynccontextmanager
async def reading(address: str, token: str, count: int) -> AsyncIterator[list[Reader]]:
    async with (
        aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {token}"},
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
        ) as client,
        AsyncExitStack() as stack,
    ):
        readers = [await Reader.open(client, address) for _ in range(count)]
        tasks = [asyncio.create_task(reader.read()) for reader in readers]
        try:
            yield readers
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for reader in readers:
                stack.callback(reader.response.close)


async def fanned_out() -> Figure:
    hub = EventHub()
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    access = Access(Tokens(TOKEN, "another-token-that-nobody-uses"), port)
    sidecar = Sidecar(Services(NoteLibrary([]), Exposure(), Activity(), hub, access, dict))
    await sidecar.start(sock=sock)
    entry = {"id": "0", "client": "claude-code", "notes": ["x" * 60] * 8}
    try:
        async with reading(f"http://127.0.0.1:{port}/api/events", TOKEN, READERS) as readers:
            cpu, start = time.process_time(), time.monotonic()
            for number in range(PUBLISHED * PUBLISHING):
                hub.publish("activity", entry)
                await asyncio.sleep(max(0.0, start + (number + 1) / PUBLISHED - time.monotonic()))
            seconds = time.monotonic() - start
            await settled(readers, hub.published)
            spent = time.process_time() - cpu
    finally:
        await sidecar.stop()
    writes = max(reader.writes for reader in readers) / seconds
    return Figure(
        f"events lost, {PUBLISHED} a second to {READERS} readers",
        lost(readers, hub.published),
        "%",
        0.0,
        note=(
            f"{hub.published / seconds:.0f} a second; at most {writes:.0f} writes a second to a reader "
            f"(goal {MOST_WRITES}); CPU of server and readers {spent / seconds * 100:.0f} %"
        ),
    )


async def beside_requests(bench: Bench, seconds: int) -> Figure:
    """Requests at their pace, whatever the answers take, as long as a connection is free."""
    suite, side = bench.suite, bench.sides[1]
    bodies = [bench.writer.conversation(bench.notes, BODY).body() for _ in range(25)]
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await Connection.open(side))

    async def ask(number: int) -> None:
        connection = await free.get()
        await connection.ask(b"/v1/messages", number % 100, bodies[number % len(bodies)])
        free.put_nowait(connection)

    before = suite.api("api/status").body["events"]["published"]
    memory = resident_bytes(side.pid)
    async with reading(f"{suite.dashboard}api/events", suite.tokens["admin"], PAGES) as readers:
        start = time.monotonic()
        asked = []
        for number in range(REQUESTS * seconds):
            asked.append(asyncio.create_task(ask(number)))
            await asyncio.sleep(max(0.0, start + (number + 1) / REQUESTS - time.monotonic()))
        await asyncio.gather(*asked)
        taken = time.monotonic() - start
        published = (await asyncio.to_thread(suite.api, "api/status")).body["events"]["published"]
        await settled(readers, published)
    while not free.empty():
        await free.get_nowait().close()
    grown = resident_bytes(side.pid)
    return Figure(
        f"events lost, {REQUESTS} requests a second for {seconds} s with {PAGES} readers",
        lost(readers, published),
        "%",
        0.0,
        note=(
            f"{len(asked) / taken:.0f} requests and {(published - before) / taken:.0f} events a second; "
            f"memory {memory / 1e6:.0f} to {grown / 1e6:.0f} MB"
        ),
    )


async def settled(readers: list[Reader], published: int) -> None:
    """Wait until all have seen the last event, but not for ever."""
    end = time.monotonic() + SETTLING
    while any(reader.last < published for reader in readers) and time.monotonic() < end:  # noqa: ASYNC110 - they tell nobody
        await asyncio.sleep(0.05)


def lost(readers: list[Reader], published: int) -> float:
    """Per cent of the events that were for these readers."""
    missing = sum(reader.holes + max(0, published - reader.last) for reader in readers)
    return 100 * missing / max(1, sum(published - reader.first + 1 for reader in readers))
