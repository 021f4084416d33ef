"""What the suite adds to a request, against a bare mitmdump with the same options (goals: interception.md, "Overhead").

Both are real processes in front of the same upstream with real TLS, and get the same requests in turns. Times are
those on the client's clock, medians; the CPU time is that of the proxy's process.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import NamedTuple

from addons.demo.authority import make_authority
from tests.bench.measure import Figure, milliseconds, process_seconds
from tests.bench.synthetic import Conversation, SyntheticNote, Writer, encoded, write_vault
from tests.harness import RawRequest, RawUpstream, Respond, SuiteProcess

NOTES = 5_000
HOST = "api.anthropic.com"
TURN = 20_000
ANSWER = encoded({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-bench", "content": []})
EVENT = b'event: ping\ndata: {"type": "ping"}\n\n'
STREAM = b"/v1/messages?stream"
READ_SECONDS = 180.0
"""How long reading the notes may take on a busy machine. No figure."""
END_SECONDS = 10.0


class Load(NamedTuple):
    """Conversations of `size` bytes that grow by a turn with each request, one on each connection."""

    size: int
    connections: int
    bursts: int
    """How often either proxy gets its turn."""
    requests: int
    """On each connection in one burst."""
    grows: bool = True


LOADS = (
    Load(10_000, 1, 100, 1, grows=False),
    Load(10_000, 8, 12, 2, grows=False),
    Load(200_000, 1, 30, 1),
    Load(200_000, 8, 6, 1),
    Load(2_000_000, 1, 8, 1),
    Load(2_000_000, 8, 2, 1),
)
STREAMS = Load(10_000, 1, 100, 1, grows=False)
MOST_ADDED = 10.0
"""Per cent of the bare proxy's time."""
MOST_LATER = 1.0
"""Milliseconds until the first byte of a stream."""


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    with asyncio.Runner() as runner, both_proxies(runner, seed) as bench:
        for load in LOADS:
            runner.run(measure(bench.sides, load, bench.writer, bench.notes))
            yield added(load, *bench.sides)
        runner.run(measure(bench.sides, STREAMS, bench.writer, bench.notes, path=STREAM))
        yield later(*bench.sides)


@contextmanager
def both_proxies(runner: asyncio.Runner, seed: int, respond: Respond | None = None) -> Iterator[Bench]:
    """A suite that has read its notes, and a bare proxy, before the same upstream. Every request must have been scanned
    when it ends.
    """
    with tempfile.TemporaryDirectory(prefix="mitmemory-bench-") as folder:
        work = Path(folder)
        writer = Writer(seed)
        notes = writer.vault(NOTES)
        write_vault(work / "vault", notes)
        authority = make_authority(work / "authority")

        async def forget_and_respond(request: RawRequest, stream: asyncio.StreamWriter) -> None:
            upstream.requests.clear()  # it keeps them all, for tests
            await (respond or answer)(request, stream)

        upstream = RawUpstream(forget_and_respond, authority.server_context())
        runner.run(upstream.start())
        config = {
            "memory": {"sources": [{"name": "vault", "type": "markdown", "path": str(work / "vault")}]},
            "providers": [{"name": "anthropic", "connect_to": f"https://127.0.0.1:{upstream.port}"}],
            "proxy": {"listen": "127.0.0.1:0"},  # the bare one reads this too, and needs a port of its own
        }
        try:
            with SuiteProcess(work, config, trust=authority.authority) as suite:
                wait_until_read(suite)
                with bare_proxy(suite, upstream.port) as (bare, port):
                    context = ssl.create_default_context(cafile=suite.ca)
                    sides = (
                        Side(port, bare.pid, context),
                        Side(int(suite.proxy.rpartition(":")[2]), suite.process.pid, context),
                    )
                    yield Bench(sides, writer, notes, suite)
                states = suite.api("api/status").body["requests"]
                assert states.pop("complete") > 0
                assert not any(states.values()), states
        finally:
            runner.run(upstream.stop())


def wait_until_read(suite: SuiteProcess) -> None:
    deadline = time.monotonic() + READ_SECONDS
    while suite.api("api/status").body["notes"] < NOTES:
        assert time.monotonic() < deadline, suite.log
        time.sleep(0.2)


class Bench(NamedTuple):
    """The two proxies, bare and with the suite, and what makes the requests."""

    sides: tuple[Side, Side]
    writer: Writer
    notes: list[SyntheticNote]
    suite: SuiteProcess


async def answer(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    """A small JSON answer, or a stream whose first event comes at once and whose end a moment later."""
    if request.head.split(b" ", 2)[1] == STREAM:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%s\r\n" % (len(EVENT), EVENT))
        await asyncio.sleep(0.01)
        writer.write(b"0\r\n\r\n")
    else:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER))
    await writer.drain()


@contextmanager
def bare_proxy(suite: SuiteProcess, upstream: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The process and its port."""
    command = [sys.executable, "-m", "tests.bench.bare", str(suite.config), str(suite.ca.parent), str(upstream)]
    root = Path(__file__).parent.parent.parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


@dataclass
class Side:
    """One of the two proxies, and what was measured on it under the present load."""

    port: int
    pid: int
    context: ssl.SSLContext
    wall: list[float] = field(default_factory=list)
    first_byte: list[float] = field(default_factory=list)
    cpu: float = 0.0

    @property
    def cpu_of_a_request(self) -> float:
        """Milliseconds."""
        return self.cpu / len(self.wall) * 1e3


@dataclass
class Connection:
    """A tunnel through a proxy that is kept open, as clients keep theirs."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, side: Side) -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", side.port, limit=2**20)
        writer.write(b"CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n" % (HOST.encode(), HOST.encode()))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head, head
        await writer.start_tls(side.context, server_hostname=HOST)
        return cls(reader, writer)

    async def ask(self, path: bytes, session: int, body: bytes) -> tuple[float, float]:
        """Send a request: seconds until (the first byte of the answer's body, its end)."""
        start = time.perf_counter()
        self.begin(path, session, body)
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        got = await self.reader.readexactly(1)
        first = time.perf_counter() - start
        if length := re.search(rb"content-length: (\d+)", head, re.IGNORECASE):
            await self.reader.readexactly(int(length[1]) - 1)
        else:
            got += await self.reader.readuntil(b"0\r\n\r\n")
            assert EVENT in got, got
        return first, time.perf_counter() - start

    def begin(self, path: bytes, session: int, body: bytes) -> None:
        """Send a request, and leave its answer to be read."""
        head = (
            b"POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: claude-cli/2.1.0 (external, cli)\r\nX-Api-Key: none\r\n"
            b"X-Claude-Code-Session-Id: session-%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        ) % (path, HOST.encode(), session, len(body))
        self.writer.write(head + body)

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


async def measure(
    sides: tuple[Side, Side], load: Load, writer: Writer, notes: list[SyntheticNote], path: bytes = b"/v1/messages"
) -> None:
    """Give both proxies the same requests, in turns; who begins changes."""
    talks = [grown(writer, notes, load) for _ in range(load.connections)]
    opened = {side.port: [await Connection.open(side) for _ in talks] for side in sides}
    for side in sides:
        side.wall, side.first_byte, side.cpu = [], [], 0.0
        for connection, bodies in zip(opened[side.port], talks, strict=True):
            await connection.ask(path, side.port, bodies.at(0))
    for burst in range(load.bursts):
        for side in sides if burst % 2 else sides[::-1]:
            before = process_seconds(side.pid)
            lanes = zip(opened[side.port], talks, strict=True)
            taken = await asyncio.gather(*(lane(one, talk, load, burst, path) for one, talk in lanes))
            side.cpu += process_seconds(side.pid) - before
            for first, whole in (times for lane_taken in taken for times in lane_taken):
                side.first_byte.append(first)
                side.wall.append(whole)
    for connections in opened.values():
        for connection in connections:
            await connection.close()


@dataclass
class Bodies:
    """The requests of one connection: turns of one conversation that grows, or conversations of the same size."""

    talks: list[Conversation]
    start: int

    def at(self, request: int) -> bytes:
        if len(self.talks) > 1:
            return self.talks[request].body()
        return self.talks[0].body(self.start + 2 * request)


def grown(writer: Writer, notes: list[SyntheticNote], load: Load) -> Bodies:
    count = 1 + load.bursts * load.requests
    if not load.grows:
        return Bodies([writer.conversation(notes, load.size) for _ in range(count)], 0)
    talk = writer.conversation(notes, load.size)
    start = len(talk.messages)
    for _ in range(count):
        writer.add_turn(talk, notes, TURN)
    return Bodies([talk], start)


async def lane(
    connection: Connection, bodies: Bodies, load: Load, burst: int, path: bytes
) -> list[tuple[float, float]]:
    """The requests of one connection in one burst."""
    numbers = range(1 + burst * load.requests, 1 + (burst + 1) * load.requests)
    ready = [bodies.at(number) for number in numbers]
    return [await connection.ask(path, id(bodies) % 1_000_000, body) for body in ready]


def added(load: Load, bare: Side, suite: Side) -> Figure:
    size = f"{load.size // 1000} kB" if load.size < 1_000_000 else f"{load.size // 1_000_000} MB"
    one = "1 connection" if load.connections == 1 else f"{load.connections} connections"
    without, with_suite = milliseconds(bare.wall), milliseconds(suite.wall)
    return Figure(
        f"added to a request, {f'next turn of {size}' if load.grows else size}, {one}",
        (with_suite / without - 1) * 100,
        "%",
        MOST_ADDED,
        baseline=f"bare {without:.1f} ms, suite {with_suite:.1f} ms",
        ratio=without / with_suite,
        note=cpu_times(bare, suite),
    )


def cpu_times(bare: Side, suite: Side) -> str:
    without, with_suite = bare.cpu_of_a_request, suite.cpu_of_a_request
    return "" if isnan(without) else f"CPU {without:.1f}, {with_suite:.1f} ms"


def later(bare: Side, suite: Side) -> Figure:
    without, with_suite = milliseconds(bare.first_byte), milliseconds(suite.first_byte)
    return Figure(
        "first byte of a stream later by, 10 kB request",
        with_suite - without,
        "ms",
        MOST_LATER,
        baseline=f"bare {without:.1f} ms, suite {with_suite:.1f} ms",
        ratio=without / with_suite,
        note=cpu_times(bare, suite),
    )
