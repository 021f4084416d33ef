"""`GET api/memory` over loopback (goals: dashboard.md, "To reach").

Server and client share this process, and a figure is the CPU time of both. A page hears of a change when what it will
ask for has been encoded, so the first request after one comes after its event; what the encoding takes is a figure too.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from statistics import median

import aiohttp
from aiohttp import web

from memory.activity import Activity
from memory.exposure import Exposure
from memory.note_library import NoteLibrary
from memory.notes import MemoryDocument
from tests.bench.measure import Figure, settled_memory
from tests.bench.synthetic import Writer
from web.access import Access, Tokens
from web.app import Services
from web.events import EventHub
from web.server import Sidecar

TOKEN = "token-of-the-benchmark"
GOALS = {5_000: 60.0, 20_000: 250.0}
"""Notes -> milliseconds."""
CHANGES = 5
REQUESTS = 25


@dataclass
class Shelf:
    """A source in memory."""

    documents: list[MemoryDocument]
    name: str = "shelf"
    kind: str = "markdown"
    location: str = "the benchmark"

    async def load(self) -> list[MemoryDocument]:
        return self.documents


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    for count in GOALS if large else [5_000]:
        shelf = Shelf([note.document() for note in Writer(seed).vault(count)])
        yield from asyncio.run(_measured(shelf))


async def _measured(shelf: Shelf) -> list[Figure]:
    count = len(shelf.documents)
    library = NoteLibrary([shelf])
    await library.scan()
    cold: list[float] = []
    plain: list[float] = []
    warm: list[float] = []
    unchanged: list[float] = []
    encoded: list[float] = []
    async with (
        _dashboard(library) as address,
        _plain_server(library) as plain_address,
        _client() as client,
        client.get(address.replace("/memory", "/events")) as events,
    ):
        with settled_memory():
            await _told(events)
            for change in range(CHANGES):
                first = shelf.documents[0]
                shelf.documents[0] = replace(first, title=f"Renamed {change}")
                await library.scan()
                start = time.process_time()
                await _told(events)
                encoded.append(time.process_time() - start)
                seconds, _, size = await _get(client, address)
                cold.append(seconds)
                seconds, _, _ = await _get(client, plain_address)
                plain.append(seconds)
            for _ in range(REQUESTS):
                seconds, tag, size = await _get(client, address)
                warm.append(seconds)
                seconds, _, _ = await _get(client, address, {"If-None-Match": tag}, status=304)
                unchanged.append(seconds)
    await library.aclose()
    anew = median(plain)
    return [
        Figure(
            f"GET api/memory, {count:,} notes, {what}",
            median(seconds) * 1e3,
            "ms",
            GOALS[count],
            baseline=f"plain aiohttp handler, {anew * 1e3:.0f} ms",
            ratio=anew / median(seconds),
            note=note,
        )
        for what, seconds, note in (
            (
                "first after a change",
                cold,
                f"{size / 1e3:.0f} kB gzipped; encoded before in {median(encoded) * 1e3:.0f} ms",
            ),
            ("again", warm, ""),
            ("not modified (304)", unchanged, ""),
        )
    ]


async def _told(events: aiohttp.ClientResponse) -> None:
    """Wait for the next event; a ping is none."""
    while (await events.content.readuntil(b"\n\n")).startswith(b":"):
        pass


async def _get(
    client: aiohttp.ClientSession, address: str, headers: Mapping[str, str] | None = None, *, status: int = 200
) -> tuple[float, str, int]:
    """(CPU seconds, the ETag, bytes of the body)."""
    start = time.process_time()
    async with client.get(address, headers=headers) as answer:
        body = await answer.read()
    seconds = time.process_time() - start
    assert answer.status == status
    return seconds, answer.headers.get("ETag", ""), len(body)


@asynccontextmanager
async def _client() -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": "gzip"}
    async with aiohttp.ClientSession(headers=headers, auto_decompress=False) as client:
        yield client


@asynccontextmanager
async def _dashboard(library: NoteLibrary) -> AsyncIterator[str]:
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    access = Access(Tokens(TOKEN, "another-token-that-nobody-uses"), port)
    sidecar = Sidecar(Services(library, Exposure(), Activity(), EventHub(), access, dict))
    await sidecar.start(sock=sock)
    try:
        yield f"http://127.0.0.1:{port}/api/memory"
    finally:
        await sidecar.stop()


@asynccontextmanager
async def _plain_server(library: NoteLibrary) -> AsyncIterator[str]:
    """The same answer as one would write it first: nothing kept, aiohttp's own compression."""

    async def answer(_: web.Request) -> web.Response:
        response = web.json_response(library.snapshot.to_json() | {"exposure": {}})
        response.enable_compression()
        return response

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    sock = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, sock).start()
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/"
    finally:
        await runner.cleanup()
