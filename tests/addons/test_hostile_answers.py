"""Answers that are broken, lie or are huge, through a real proxy with real TLS: the client gets what came of them, to
the byte; the entry says what is true; the next request is served.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from addons.demo.authority import AuthorityPaths
from tests.addons.conftest import configuration
from tests.addons.hostile import (
    ALL,
    DOCUMENT,
    SECONDS,
    START,
    UNKNOWN,
    URL,
    WHOLE,
    ask,
    asked_for,
    begun,
    client_of,
    ended,
    entry_of,
    event,
    question,
    said,
    tells,
)
from tests.harness import Loop, RawRequest, RawUpstream, SuiteProcess

OPENAI = "https://api.openai.com/v1/chat/completions"
SSE = b"Content-Type: text/event-stream\r\n"
JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CLOSING = b"Connection: close\r\n"


def head(*headers: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d Whatever\r\n" % status + b"".join(headers) + b"\r\n"


def length(data: bytes, more: int = 0) -> bytes:
    return b"Content-Length: %d\r\n" % (len(data) + more)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Case:
    """What an upstream writes, a piece at a time, and what becomes of it.

    A number among the pieces is a silence in seconds. `after`: what it does once the client has all the bytes that can
    be had: nothing (the connection serves on), `close`, `reset`, or `wait` for the other side to leave.
    """

    pieces: tuple[bytes | float, ...]
    data: bytes = WHOLE
    status: int = 200
    outcome: str = "answered"
    usage: dict[str, Any] = field(default_factory=lambda: ALL)
    whole: bool = True
    after: str = ""


PLAIN = Case((head(JSON, length(DOCUMENT)) + DOCUMENT,))
CASES = {
    "lies-gzip": Case((head(SSE, length(WHOLE), b"Content-Encoding: gzip\r\n"), WHOLE), usage=UNKNOWN),
    "lies-br": Case((head(SSE, length(WHOLE), b"Content-Encoding: br\r\n"), WHOLE), usage=UNKNOWN),
    "lies-zstd": Case((head(SSE, length(WHOLE), b"Content-Encoding: zstd\r\n"), WHOLE), usage=UNKNOWN),
    "unknown-encoding": Case((head(SSE, length(WHOLE), b"Content-Encoding: tide\r\n"), WHOLE), usage=UNKNOWN),
    "cut-gzip": Case(
        (head(SSE, CHUNKED, b"Content-Encoding: gzip\r\n"), chunk(gzip.compress(WHOLE)[:-9]), LAST),
        gzip.compress(WHOLE)[:-9],
    ),
    "utf-8-cut-in-two": Case(
        (
            head(SSE, CHUNKED),
            chunk(WHOLE.partition(b"\x8c")[0]),
            0.05,
            chunk(b"\x8c" + WHOLE.partition(b"\x8c")[2]),
            LAST,
        )
    ),
    "utf-8-cut-off": Case(
        (head(SSE, CLOSING), (begun() + said("🌊"))[:-10]),
        (begun() + said("🌊"))[:-10],
        200,
        "failed",
        START,
        after="close",
    ),
    "no-utf-8": Case(
        (head(SSE, length(WHOLE)), WHOLE.replace("🌊".encode(), b"\xff\xfe\xc3\x28")),
        WHOLE.replace("🌊".encode(), b"\xff\xfe\xc3\x28"),
    ),
    "lone-cr": Case((head(SSE, CHUNKED), chunk(WHOLE.replace(b"\n", b"\r")), LAST), WHOLE.replace(b"\n", b"\r")),
    "no-type": Case((head(length(WHOLE)), WHOLE)),
    "wrong-type": Case((head(JSON, length(WHOLE)), WHOLE)),
    "pings": Case(
        (
            head(SSE, CHUNKED),
            chunk(begun()),
            *(part for _ in range(4) for part in (0.4, chunk(b": ping\n\n"))),
            chunk(said("Noon.") + ended()),
            LAST,
        ),
        begun() + 4 * b": ping\n\n" + said("Noon.") + ended(),
    ),
    "error-event": Case(
        (head(SSE, CHUNKED), chunk(begun()), chunk(event("error", error={"type": "overloaded_error"})), LAST),
        begun() + event("error", error={"type": "overloaded_error"}),
        outcome="failed",
        usage=START,
    ),
    "reset": Case((head(SSE, CHUNKED), chunk(begun())), begun(), 200, "failed", START, whole=False, after="reset"),
    "closed": Case((head(SSE, CHUNKED), chunk(begun())), begun(), 200, "failed", START, whole=False, after="close"),
    "reset-at-once": Case((), b"", 502, "failed", UNKNOWN, after="reset"),
    "broken-chunks": Case(
        (head(SSE, CHUNKED), chunk(begun()), b"zz\r\n" + said("lost")), begun(), 200, "failed", START, whole=False
    ),
    "length-too-long": Case(
        (head(SSE, length(WHOLE, +10)), WHOLE), WHOLE, 200, "failed", ALL, whole=False, after="close"
    ),
    "length-too-short": Case((head(SSE, length(WHOLE, -10)), WHOLE), WHOLE[:-10], 200, "failed"),
    "no-http": Case((b"SSH-2.0-tides\r\n\r\n",), b"", 502, "failed", UNKNOWN),
    "until-closed": Case((head(SSE), WHOLE), after="close"),
    "no-content": Case((head(status=204),), b"", 204, usage=UNKNOWN),
    "not-modified": Case((head(b'ETag: "tide"\r\n', length(WHOLE), status=304),), b"", 304, usage=UNKNOWN),
    "refused": Case((head(JSON, length(DOCUMENT), status=529), DOCUMENT), DOCUMENT, 529, "failed"),
    "left": Case((head(SSE, CHUNKED), chunk(begun())), after="wait"),
    "trailers": Case((head(SSE, CHUNKED, b"Trailer: X-Tide\r\n"), chunk(WHOLE), b"0\r\nX-Tide: high\r\n\r\n")),
    "early-hints": Case((head(status=103), 0.05, head(SSE, length(WHOLE)), WHOLE)),
    "continue": Case((head(status=100) + head(SSE, length(WHOLE)), WHOLE)),
}


@dataclass
class Early:
    """A server that answers as soon as it has the head. Then it reads the body, or not."""

    answer: bytes = b""
    reads: bool = True
    asked: int = 0
    port: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the client has the answer, after which the connection is cut off."""

    async def start(self, tls: ssl.SSLContext) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.asked += 1
            writer.write(self.answer)
            await writer.drain()
            while self.reads and await reader.read(65536):
                pass
            await asyncio.wait_for(self.arrived.wait(), SECONDS)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()


class Stage:
    """A suite and the upstream that plays the cases to it."""

    suite: SuiteProcess
    upstream: RawUpstream
    early: Early

    def __init__(self, background: Loop) -> None:
        self.background = background
        self.had: dict[str, asyncio.Event] = {}
        """Set once the client has what it can get of a case."""
        self.left: set[str] = set()
        """The requests whose connection was closed while they were answered."""

    async def respond(self, request: RawRequest, writer: asyncio.StreamWriter) -> None:
        name = asked_for(request.body)
        case = CASES.get(name.partition("/")[2], PLAIN)
        for piece in case.pieces:
            if isinstance(piece, bytes):
                writer.write(piece if request.head.startswith(b"POST") else piece.partition(DOCUMENT)[0])
                await writer.drain()
            else:
                await asyncio.sleep(piece)
        if case.after == "wait":
            try:
                await asyncio.wait_for(writer.wait_closed(), SECONDS)
            finally:
                self.left.add(name)
        elif case.after:
            if case.data:
                await asyncio.wait_for(self.had[name].wait(), SECONDS)
            if case.after == "reset":
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

    def seen(self, name: str, count: int) -> Callable[[bytes], object]:
        """To be called with the bytes that the client has so far."""
        had = self.had[name] = asyncio.Event()

        def look(data: bytes) -> None:
            if len(data) >= count:
                self.background.loop.call_soon_threadsafe(had.set)

        return look

    def times(self, name: str) -> int:
        return [asked_for(request.body) for request in self.upstream.requests].count(name)


@pytest.fixture(scope="module")
def stage(
    background: Loop, tmp_path_factory: pytest.TempPathFactory, vault: Path, authority: AuthorityPaths
) -> Iterator[Stage]:
    made = Stage(background)
    made.upstream, made.early = RawUpstream(made.respond, authority.server_context()), Early()
    background.run(made.upstream.start())
    background.run(made.early.start(authority.server_context()))
    ports = {"anthropic": made.upstream.port, "openai": made.early.port}
    config = configuration(vault, {name: f"https://127.0.0.1:{port}" for name, port in ports.items()})
    with SuiteProcess(tmp_path_factory.mktemp("hostile"), config, trust=authority.authority) as running:
        made.suite = running
        yield made
    background.run(made.upstream.stop())
    background.run(made.early.stop())


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize("name", [name for name in CASES if name != "left"])
async def test_an_answer_arrives_as_it_came(stage: Stage, name: str, http2: bool) -> None:
    case, model = CASES[name], f"{'h2' if http2 else 'h1'}/{name}"
    async with client_of(stage.suite, http2=http2) as client:
        got = await ask(client, question(model), seen=stage.seen(model, len(case.data)))
        after = await ask(client, question(f"{model}/after"))
    data = b"" if got.status == 502 else got.data  # mitmproxy's own words
    assert (got.status, data, got.whole) == (case.status, case.data, case.whole)
    assert (after.status, after.data, after.whole) == (200, DOCUMENT, True)
    assert (stage.times(model), stage.times(f"{model}/after")) == (1, 1)
    entry = await entry_of(stage.suite, model)
    status = None if case.status == 502 else case.status
    assert tells(entry) == (status, case.outcome, case.usage, len(case.data))
    assert tells(await entry_of(stage.suite, f"{model}/after")) == (200, "answered", ALL, len(DOCUMENT))


async def test_an_answer_whose_client_leaves(stage: Stage) -> None:
    """The server is told by the end of its connection."""
    async with client_of(stage.suite, http2=False) as client:
        async with client.stream("POST", URL, content=question("h1/left")) as got:
            pieces = got.aiter_raw()
            data = await anext(pieces)
            while len(data) < len(begun()):
                data += await anext(pieces)
            await pieces.aclose()
        after = await ask(client, question("h1/left/after"))
    assert (data, after.data) == (begun(), DOCUMENT)
    assert tells(await entry_of(stage.suite, "h1/left")) == (200, "aborted", START, len(begun()))
    await asyncio.to_thread(stage.suite.wait_for, lambda: "h1/left" in stage.left, "end of the connection")
    assert stage.times("h1/left") == 1


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
async def test_a_question_for_the_head_alone(stage: Stage, http2: bool) -> None:
    async with client_of(stage.suite, http2=http2) as client:
        got = await ask(client, None, method="HEAD")
        after = await ask(client, question(f"head-{http2}/after"))
    assert (got.status, got.data, got.whole) == (200, b"", True)
    assert got.headers is not None
    assert got.headers["content-length"] == str(len(DOCUMENT))
    assert after.data == DOCUMENT


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize(
    ("name", "reads", "size"),
    [("reads-on", True, 20), ("reads-on-long", True, 2_000_000), ("reads-no-more", False, 20)],
)
async def test_an_answer_before_the_body_is_read(stage: Stage, name: str, reads: bool, size: int, http2: bool) -> None:
    data = b'{"error": "' + b"x" * size + b'"}'
    stage.early.answer, stage.early.reads, stage.early.asked = (
        head(JSON, length(data), CLOSING, status=413) + data,
        reads,
        0,
    )
    stage.early.arrived.clear()
    async with client_of(stage.suite, http2=http2) as client:
        got = await ask(client, question(f"{name}-{http2}", padding="x" * 8_000_000), url=OPENAI)
    stage.background.loop.call_soon_threadsafe(stage.early.arrived.set)
    assert (got.status, got.data, got.whole) == (413, data, True)
    assert tells(await entry_of(stage.suite, f"{name}-{http2}")) == (413, "failed", UNKNOWN, len(data))
    assert stage.early.asked == 1
