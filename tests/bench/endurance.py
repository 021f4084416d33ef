"""What the suite does to others and in the long run: streams beside a long scan, and memory over many exchanges
(goals: interception.md, "Overhead to reach" and "Keeping it alive for weeks").
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from math import nan
from pathlib import Path

from tests.bench.measure import Figure
from tests.bench.proxy import Bench, Connection, Side, answer, both_proxies
from tests.harness import RawRequest

TICKS = b"/v1/messages?ticks"
TICK_SECONDS = 0.005
QUIET_TICKS = 60
COLD = 5_000_000
ROUNDS = 4
MOST_DELAYED = 50.0
"""Milliseconds that a stream may be later than through the bare proxy."""

EXCHANGE = 200_000
TURN = 20_000
FEW, MANY = 200, 800
LARGE_FEW, LARGE_MANY = 1_000, 10_000
EXCHANGES_OF_A_CONVERSATION = 50
MOST_GROWTH = 5.0
"""Per cent of the resident memory: no process comes out at the very same page."""


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    with asyncio.Runner() as runner, both_proxies(runner, seed, answer_or_tick) as bench:
        yield runner.run(stream_delays(bench))
        few, many = (LARGE_FEW, LARGE_MANY) if large else (FEW, MANY)
        yield runner.run(memory(bench, few, many))


async def answer_or_tick(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    """As in the other loads, or an endless stream whose chunks are the moments at which each was sent."""
    if request.head.split(b" ", 2)[1] != TICKS:
        await answer(request, writer)
        return
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        event = b"data: %d\n\n" % time.perf_counter_ns()
        writer.write(b"%x\r\n%s\r\n" % (len(event), event))
        await writer.drain()
        await asyncio.sleep(TICK_SECONDS)


async def stream_delays(bench: Bench) -> Figure:
    """How late chunks of a stream come at the worst while a body that was never seen passes beside it."""
    delays: tuple[list[float], list[float]] = ([], [])
    taken: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS):
        body = bench.writer.conversation(bench.notes, COLD).body()
        for number in (0, 1) if turn % 2 else (1, 0):
            delay, seconds = await delay_beside(bench.sides[number], body, turn)
            delays[number].append(delay * 1e3)
            taken[number].append(seconds * 1e3)
    without, with_suite = max(delays[0]), max(delays[1])
    return Figure(
        "a stream delayed by, while 5 MB never seen are sent beside it",
        with_suite - without,
        "ms",
        MOST_DELAYED,
        baseline=f"bare {without:.0f} ms at the worst, suite {with_suite:.0f} ms",
        ratio=without / with_suite,
        note=f"the 5 MB took {min(taken[0]):.0f}, {min(taken[1]):.0f} ms",
    )


async def delay_beside(side: Side, body: bytes, session: int) -> tuple[float, float]:
    """Seconds: the largest delay of a chunk, and what the body took."""
    stream, other = await Connection.open(side), await Connection.open(side)
    ticks: list[float] = []
    reading = asyncio.create_task(read_ticks(stream, ticks))
    while len(ticks) < QUIET_TICKS:
        assert not reading.done(), reading
        await asyncio.sleep(TICK_SECONDS)
    before = len(ticks)
    _, seconds = await other.ask(b"/v1/messages", session, body)
    await asyncio.sleep(10 * TICK_SECONDS)
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading
    stream.writer.transport.abort()  # an endless answer has no end to wait for
    await other.close()
    return max(ticks[before:]), seconds


async def read_ticks(stream: Connection, ticks: list[float]) -> None:
    stream.begin(TICKS, 0, b'{"model": "claude-bench", "messages": []}')
    await stream.reader.readuntil(b"\r\n\r\n")
    while True:
        line = await stream.reader.readline()
        if line.startswith(b"data: "):
            ticks.append((time.perf_counter_ns() - int(line[6:])) / 1e9)


async def memory(bench: Bench, few: int, many: int) -> Figure:
    """Resident memory after `few` and after `many` exchanges, each with a turn that was never seen."""
    sizes: list[list[float]] = []
    for side in bench.sides:
        sizes.append([])
        talk = bench.writer.conversation(bench.notes, EXCHANGE)
        window = len(talk.messages)
        for number in range(many):
            if not number % EXCHANGES_OF_A_CONVERSATION:
                connection = await Connection.open(side)
            bench.writer.add_turn(talk, bench.notes, TURN)
            del talk.messages[: len(talk.messages) - window], talk.carried[: len(talk.carried) - window]
            while talk.size() > EXCHANGE and len(talk.messages) > 2:
                del talk.messages[0], talk.carried[0]
            await connection.ask(b"/v1/messages", number // EXCHANGES_OF_A_CONVERSATION, talk.body())
            if (number + 1) % EXCHANGES_OF_A_CONVERSATION == 0:
                await connection.close()
            if number + 1 in (few, many):
                sizes[-1].append(resident_bytes(side.pid))
    (bare_few, bare_many), (suite_few, suite_many) = sizes
    return Figure(
        f"memory, exchange {few:,} to {many:,} of 200 kB",
        (suite_many / suite_few - 1) * 100,
        "%",
        MOST_GROWTH,
        baseline=f"bare {bare_few / 1e6:.0f} to {bare_many / 1e6:.0f} MB",
        note=f"suite {suite_few / 1e6:.0f} to {suite_many / 1e6:.0f} MB",
    )


def resident_bytes(pid: int) -> float:
    """Not a number where there is no /proc."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]
    except OSError:
        return nan
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
