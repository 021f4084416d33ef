"""What the loop inside a conversation adds: until the first event of a stream, and with a search in the midst of an answer.

A client whose model can search its memory, and one whose cannot, get the same streams from the same upstream with real TLS, in
turns and through the same suite. Times are those on the client's clock, medians.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from addons.demo.authority import make_authority
from memory.conversations.recorder import Recorder
from memory.conversations.said import Message, Said
from memory.conversations.store import Store
from tests.addons.loop.anthropic_says import Says, recall, text
from tests.bench.measure import Figure, milliseconds, process_seconds
from tests.bench.proxy import HOST, Connection, Side
from tests.bench.synthetic import SyntheticNote, Writer
from tests.harness import RawRequest, RawUpstream, SuiteProcess

REQUESTS = 100
SEARCHES = 30
TURNS = 200
"""In the memory that is searched."""
NOTES = 50
"""What is talked of; the suite does not know them."""
SIZE = 10_000
MOST_LATER = 5.0
"""Milliseconds until the first event (conversation-memory.md, "To reach")."""
SEARCH = b"Search your memory"
FOUND = b"tool_result"
WITH, WITHOUT = "keeper", "both"
START = datetime(2026, 1, 1, tzinfo=UTC)


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    with asyncio.Runner() as runner, tempfile.TemporaryDirectory(prefix="mitmemory-bench-") as folder:
        yield from _figures(runner, Path(folder), Writer(seed))


def _figures(runner: asyncio.Runner, work: Path, writer: Writer) -> Iterator[Figure]:
    authority = make_authority(work / "authority")
    upstream = RawUpstream(answer, authority.server_context())
    runner.run(upstream.start())
    memory = {"memory_enabled": True}
    config = {
        "providers": [{"name": "anthropic", "connect_to": f"https://127.0.0.1:{upstream.port}"}],
        "clients": [
            {"name": WITH, "match": {"user_agent": f"{WITH}/*"}, "mode": "mcp_via_llm", **memory},
            {"name": WITHOUT, "match": {"user_agent": f"{WITHOUT}/*"}, **memory},
        ],
    }
    remember(work / "state" / "memory", writer)
    try:
        with SuiteProcess(work, config, trust=authority.authority) as suite:
            suite.wait_for(lambda: found(suite), "a memory that can be searched")
            context = ssl.create_default_context(cafile=suite.ca)
            side = Side(int(suite.proxy.rpartition(":")[2]), suite.process.pid, context)
            notes = writer.vault(NOTES)
            yield runner.run(first_event(side, writer, notes))
            yield runner.run(searched(side, writer, notes))
    finally:
        runner.run(upstream.stop())


async def answer(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    """A stream whose first event comes at once and whose end a moment later; or one that asks for a search."""
    asks = SEARCH in request.body and FOUND not in request.body
    says = Says([recall("call-1", "harbour")], "tool_use") if asks else Says([text("It is known.")])
    head, end = says.stream().split(b"\n\n", 1)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for chunk in (head + b"\n\n", end):
        writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        await writer.drain()
        if not asks and FOUND not in request.body:
            await asyncio.sleep(0.01)
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def first_event(side: Side, writer: Writer, notes: list[SyntheticNote]) -> Figure:
    connections = {name: await Connection.open(side) for name in (WITHOUT, WITH)}
    taken: dict[str, list[float]] = {WITHOUT: [], WITH: []}
    used: dict[str, list[float]] = {WITHOUT: [], WITH: []}
    for number in range(-2, REQUESTS):
        body = body_of(writer, notes)
        for name in taken if number % 2 else reversed(taken):
            before = process_seconds(side.pid)
            first, _ = await ask(connections[name], name, body)
            if number >= 0:
                taken[name].append(first)
                used[name].append(process_seconds(side.pid) - before)
    for connection in connections.values():
        await connection.close()
    without, with_loop = milliseconds(taken[WITHOUT]), milliseconds(taken[WITH])
    return Figure(
        "first event of a stream later by, 10 kB request",
        with_loop - without,
        "ms",
        MOST_LATER,
        baseline=f"without the loop {without:.1f} ms, with it {with_loop:.1f} ms",
        ratio=without / with_loop,
        note=f"CPU {milliseconds(used[WITHOUT]):.1f}, {milliseconds(used[WITH]):.1f} ms",
    )


async def searched(side: Side, writer: Writer, notes: list[SyntheticNote]) -> Figure:
    connections = {name: await Connection.open(side) for name in (WITHOUT, WITH)}
    taken: dict[str, list[float]] = {WITHOUT: [], WITH: []}
    for number in range(-2, SEARCHES):
        body = body_of(writer, notes, SEARCH)
        result = body_of(writer, notes, SEARCH + b" " + FOUND)
        for name, bodies in ((WITHOUT, (body, result)), (WITH, (body,))):
            whole = sum([(await ask(connections[name], name, one))[1] for one in bodies])
            if number >= 0:
                taken[name].append(whole)
    for connection in connections.values():
        await connection.close()
    without, with_loop = milliseconds(taken[WITHOUT]), milliseconds(taken[WITH])
    return Figure(
        f"a whole answer with one search of {TURNS} turns, 10 kB request",
        with_loop,
        "ms",
        baseline=f"two answers without the loop {without:.1f} ms",
        ratio=without / with_loop,
    )


async def ask(connection: Connection, client: str, body: bytes) -> tuple[float, float]:
    """Seconds until (the first event, the end)."""
    head = (
        b"POST /v1/messages HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s/1\r\nX-Api-Key: none\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    ) % (HOST.encode(), client.encode(), len(body))
    start = time.perf_counter()
    connection.writer.write(head + body)
    got = await connection.reader.readuntil(b"\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200"), got
    await connection.reader.readuntil(b"event:")
    first = time.perf_counter() - start
    end = await connection.reader.readuntil(b"\r\n0\r\n\r\n")
    assert b"message_stop" in end, end
    return first, time.perf_counter() - start


def body_of(writer: Writer, notes: list[SyntheticNote], more: bytes = b"") -> bytes:
    body = writer.conversation(notes, SIZE).body().replace(b'"stream":false', b'"stream":true', 1)
    return body[:-2] + b',{"role":"user","content":"Go on. %s"}]}' % more


def remember(folder: Path, writer: Writer) -> None:
    store = Store(folder)
    store.open()
    store.configure([WITH, WITHOUT])
    recorder, history = Recorder(store), list[Message]()
    for _ in range(TURNS):
        history.append(Message("user", writer.sentence()))
        said = Said(
            None, tuple(history), Message("assistant", writer.sentence()), "tide-1", START, START, complete=True
        )
        recorder.record(WITH, said)
        history.append(said.answer)
    harbour = Message("user", "Where is the harbour?"), Message("assistant", "Behind the harbour wall.")
    recorder.record(WITH, Said(None, harbour[:1], harbour[1], "tide-1", START, START, complete=True))
    store.close()


def found(suite: SuiteProcess) -> bool:
    answer = suite.api(f"api/clients/{WITH}/recall", method="POST", body={"query": "where is the harbour"})
    return "harbour wall" in str(answer.body)
