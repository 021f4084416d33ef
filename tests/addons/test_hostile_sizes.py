"""Answers that are huge, on the wire or once they are decoded: they pass to the byte, the proxy's memory stays bounded,
and the streams of others go on.
"""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import brotli
import httpx
import pytest
import zstandard

from addons.demo.authority import AuthorityPaths
from tests.addons.conftest import configuration
from tests.addons.hostile import (
    ALL,
    DOCUMENT,
    START,
    UNKNOWN,
    URL,
    Memory,
    asked_for,
    begun,
    client_of,
    ended,
    entry_of,
    question,
    said,
    tells,
)
from tests.harness import Loop, RawRequest, RawUpstream, SuiteProcess
from tests.own_time import OwnTime

MB = 1_000_000
MOST_MEGABYTES = 200
MOST_SECONDS = 2.0
"""The longest silence of another stream, on a machine with nothing else to do."""


@dataclass(frozen=True, slots=True)
class Huge:
    """`parts` follow each other on the wire, in this encoding."""

    parts: tuple[bytes, ...]
    usage: dict[str, Any]
    encoding: str = "identity"

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


def brotli_bomb(megabytes: int) -> bytes:
    packer = brotli.Compressor(quality=1)
    zeros = bytes(MB)
    return b"".join(packer.process(zeros) for _ in range(megabytes)) + bytes(packer.finish())


def bombs() -> Iterator[tuple[str, Huge]]:
    """A gigabyte each; gzip and zstd may follow themselves."""
    spaces = b" " * 50 * MB
    yield "gzip-bomb", Huge((gzip.compress(spaces, 6),) * 20, UNKNOWN, "gzip")
    yield "gzip-in-gzip-bomb", Huge((gzip.compress(gzip.compress(spaces, 6) * 20),), UNKNOWN, "gzip, gzip")
    yield "br-bomb", Huge((brotli_bomb(1000),), UNKNOWN, "br")
    yield "zstd-bomb", Huge((zstandard.compress(spaces),) * 20, UNKNOWN, "zstd")
    event = begun() + said("x" * 50 * MB)[:-9]
    yield "gzip-event-bomb", Huge((gzip.compress(event, 6), *(gzip.compress(b"x" * 50 * MB, 6),) * 20), START, "gzip")


MAKERS = {
    "event-of-20-mb": lambda: Huge((begun(), said("x" * 20 * MB), ended()), ALL),
    "event-of-40-mb": lambda: Huge((begun(), said("x" * 40 * MB), ended()), START),
    "many-lines": lambda: Huge((begun(), *(b"data: 0\n" * 100_000,) * 25, b"\n", ended()), ALL),
    "json-of-20-mb": lambda: Huge((DOCUMENT[:-1], b', "x": "', b"x" * 20 * MB, b'"}'), ALL),
    "json-of-60-mb": lambda: Huge((DOCUMENT[:-1], b', "x": "', b"x" * 60 * MB, b'"}'), UNKNOWN),
    "no-end-of-line": lambda: Huge((begun(), *(b"x" * MB,) * 60), START),
} | {name: lambda huge=huge: huge for name, huge in bombs()}


class Stage:
    suite: SuiteProcess
    upstream: RawUpstream

    def __init__(self) -> None:
        self.played: dict[str, Huge] = {}
        self.ticking = True

    async def respond(self, request: RawRequest, writer: asyncio.StreamWriter) -> None:
        name = asked_for(request.body)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        if name.startswith("ticks"):
            writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
            while self.ticking:
                writer.write(b"8\r\n: tick\n\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.02)
            writer.write(b"0\r\n\r\n")
            return
        huge = self.played[name]
        writer.write(b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (huge.encoding.encode(), huge.size))
        for part in huge.parts:
            writer.write(part)
            await writer.drain()


@pytest.fixture(scope="module")
def stage(
    background: Loop, tmp_path_factory: pytest.TempPathFactory, vault: Path, authority: AuthorityPaths
) -> Iterator[Stage]:
    made = Stage()
    made.upstream = RawUpstream(made.respond, authority.server_context())
    background.run(made.upstream.start())
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{made.upstream.port}"})
    with SuiteProcess(tmp_path_factory.mktemp("sizes"), config, trust=authority.authority) as running:
        made.suite = running
        yield made
    background.run(made.upstream.stop())


async def longest_silence(suite: SuiteProcess, client: httpx.AsyncClient, name: str) -> float:
    clock, longest, last = OwnTime(suite.process.pid, os.getpid()), 0.0, 0.0
    async with client.stream("POST", URL, content=question(name)) as ticks:
        async for _ in ticks.aiter_raw():
            now = clock.seconds()
            longest, last = max(longest, now - (last or now)), now
    return longest


@pytest.mark.parametrize("name", MAKERS)
async def test_a_huge_answer_passes(stage: Stage, name: str) -> None:
    stage.played[name] = huge = MAKERS[name]()
    stage.ticking = True
    digest, count = sha256(), 0
    memory = Memory(stage.suite.process.pid)
    async with client_of(stage.suite, http2=False) as client, client_of(stage.suite, http2=False) as other:
        silence = asyncio.create_task(longest_silence(stage.suite, other, f"ticks-{name}"))
        await asyncio.sleep(0.1)
        async with client.stream("POST", URL, content=question(name)) as got:
            async for piece in got.aiter_raw():
                digest.update(piece)
                count += len(piece)
        entry = await entry_of(stage.suite, name)
        stage.ticking = False
        longest = await silence
    sent = sha256()
    for part in huge.parts:
        sent.update(part)
    assert (got.status_code, count, digest.digest()) == (200, huge.size, sent.digest())
    assert tells(entry) == (200, "answered", huge.usage, huge.size)
    assert [asked_for(request.body) for request in stage.upstream.requests].count(name) == 1
    grown = memory.grown()
    assert grown is None or grown < MOST_MEGABYTES
    assert longest < MOST_SECONDS
