"""WebSockets that break the rules or are huge, through a real proxy with real TLS: what comes is passed on to the byte,
the turn's entry says how it ended, and the next socket is served.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from addons.demo.authority import AuthorityPaths
from tests.addons.conftest import GARDEN, configuration
from tests.addons.hostile import SECONDS, UNKNOWN, Memory, entry_of
from tests.addons.test_websocket import answer, turn
from tests.harness import Loop, SuiteProcess

MB = 1_000_000
MOST_MEGABYTES = 300
URL = "wss://api.openai.com/v1/responses"
EVENTS = [json.dumps(event) for event in answer(1, "High tide is at noon.")]
KNOWN = {"input": 100, "output": 7, "cacheRead": 10, "cacheWrite": None}
NO_UTF_8 = b"\x81\x05tide\xff"  # one frame of text
CLOSE = b"\x88\x02\x03\xe8"  # a frame that says goodbye

type Step = Callable[[ServerConnection], Awaitable[object]]


def length_of(messages: list[str]) -> int:
    return sum(len(message.encode()) for message in messages)


def write(socket: ClientConnection | ServerConnection, data: bytes) -> None:
    """Past the library, which would send nothing that breaks the rules."""
    socket.transport.write(data)


def masked(frame: bytes) -> bytes:
    """A short frame as a client sends it, with a mask of zeros."""
    return frame[:1] + bytes([frame[1] | 0x80, 0, 0, 0, 0]) + frame[2:]


class Stage:
    suite: SuiteProcess
    port: int

    def __init__(self) -> None:
        self.steps: dict[str, Step] = {}
        """Model -> what the server does when a turn asks for it; by itself it answers."""
        self.received: list[str | bytes] = []
        self.closed: list[int | None] = []

    async def serve(self, socket: ServerConnection) -> None:
        try:
            async for message in socket:
                self.received.append(message)
                asked = json.loads(message)
                if asked.get("type") != "response.create":
                    continue
                if asked["model"] in self.steps:
                    await self.steps[asked["model"]](socket)
                else:
                    await send(socket, EVENTS)
        except ConnectionClosed:
            pass
        self.closed.append(socket.close_code)

    async def start(self, tls: ssl.SSLContext) -> None:
        self._server = await serve(self.serve, "127.0.0.1", 0, ssl=tls, max_size=None, ping_interval=None)
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    def opened(self, **more: Any) -> connect:
        tls = ssl.create_default_context(cafile=str(self.suite.ca))
        more = {"open_timeout": SECONDS, "ping_interval": None, **more}  # a large message holds a pong up
        return connect(URL, proxy=self.suite.proxy, ssl=tls, max_size=None, **more)

    async def goes_on(self, model: str) -> None:
        async with self.opened() as socket:
            assert await self.ask(socket, turn("Hello.", model=model)) == EVENTS
        await self.tells(model, "answered", KNOWN, length_of(EVENTS))

    async def ask(self, socket: ClientConnection, message: Any) -> list[str]:
        """The messages up to the one that says that the answer is over."""
        await socket.send(message)
        events: list[str] = []
        async with asyncio.timeout(SECONDS):
            while not events or '"response.completed"' not in events[-1][:100]:
                events.append(str(await socket.recv()))
        return events

    async def tells(self, model: str, outcome: str, used: Any, size: int) -> dict[str, Any]:
        entry = await entry_of(self.suite, model)
        assert (entry["status"], entry["outcome"], entry["usage"]) == (101, outcome, used)
        assert entry["bytes"]["response"] == size
        return entry


async def send(socket: ServerConnection, messages: list[str]) -> None:
    for message in messages:
        await socket.send(message)


@pytest.fixture(scope="module")
def stage(
    background: Loop, tmp_path_factory: pytest.TempPathFactory, vault: Path, authority: AuthorityPaths
) -> Iterator[Stage]:
    made = Stage()
    background.run(made.start(authority.server_context()))
    config = configuration(vault, {"openai": f"https://127.0.0.1:{made.port}"})
    with SuiteProcess(tmp_path_factory.mktemp("sockets"), config, trust=authority.authority) as running:
        made.suite = running
        yield made
    background.run(made.stop())


@pytest.mark.parametrize("compression", ["deflate", None])
async def test_messages_of_20_mb(stage: Stage, compression: str | None) -> None:
    model = f"large-{compression}"
    delta = json.dumps({"type": "response.output_text.delta", "delta": "🌊" * 5 * MB}, ensure_ascii=False)
    stage.steps[model] = lambda socket: send(socket, [EVENTS[0], delta, *EVENTS[1:]])
    question = turn(GARDEN, "x" * 20 * MB, model=model)
    memory = Memory(stage.suite.process.pid)
    async with stage.opened(compression=compression) as socket:
        got = await stage.ask(socket, question)
    assert got == [EVENTS[0], delta, *EVENTS[1:]]
    assert stage.received[-1] == question
    entry = await stage.tells(model, "answered", KNOWN, length_of(got))
    assert entry["bytes"]["request"] == len(question)
    assert [note["id"] for note in entry["notes"]] == ["vault/Garden.md"]
    grown = memory.grown()
    assert grown is None or grown < MOST_MEGABYTES


async def test_a_message_that_explodes_ends_the_socket_within_bounds(stage: Stage) -> None:
    """100 kB on the wire become 100 MB: nobody gets them, and the next socket is served."""
    memory = Memory(stage.suite.process.pid)
    async with stage.opened() as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await stage.ask(socket, turn(" " * 100 * MB, model="exploding"))
    assert closed.value.rcvd
    assert closed.value.rcvd.code == 1009  # "message too big" (RFC 6455)
    assert not [one for one in stage.received if len(one) > 90 * MB]
    grown = memory.grown()
    assert grown is None or grown < MOST_MEGABYTES, grown
    await stage.goes_on("after-exploding")


async def test_fragments_are_put_together(stage: Stage) -> None:
    """Cut in the midst of a character, too, and with a ping between them."""

    async def in_pieces(socket: ServerConnection) -> None:
        whole = json.dumps({"type": "response.output_text.delta", "delta": "tide 🌊"}, ensure_ascii=False).encode()
        cut = whole.index(b"\x8c")
        write(socket, bytes([0x01, cut]) + whole[:cut])
        write(socket, b"\x89\x00")
        write(socket, bytes([0x00, 1]) + whole[cut : cut + 1])
        write(socket, bytes([0x80, len(whole) - cut - 1]) + whole[cut + 1 :])
        for event in EVENTS:
            await socket.send(event[start : start + 7] for start in range(0, len(event), 7))

    stage.steps["fragments"] = in_pieces
    question = turn(GARDEN, model="fragments")
    async with stage.opened(compression=None) as socket:
        got = await stage.ask(socket, (question[start : start + 9] for start in range(0, len(question), 9)))
    assert got == ['{"type": "response.output_text.delta", "delta": "tide 🌊"}', *EVENTS]
    assert stage.received[-1] == question
    entry = await stage.tells("fragments", "answered", KNOWN, length_of(got))
    assert [note["id"] for note in entry["notes"]] == ["vault/Garden.md"]


async def test_text_of_the_server_that_is_no_utf_8_ends_the_socket(stage: Stage) -> None:
    """RFC 6455, 8.1. mitmproxy says so to both sides."""

    async def lie(socket: ServerConnection) -> None:
        await send(socket, EVENTS[:1])
        write(socket, NO_UTF_8)

    stage.steps["no-utf-8"] = lie
    async with stage.opened(compression=None) as socket:
        await socket.send(turn("Hello.", model="no-utf-8"))
        assert await socket.recv() == EVENTS[0]
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(socket.recv(), SECONDS)
        assert socket.close_code == 1007
    await stage.tells("no-utf-8", "failed", UNKNOWN, len(EVENTS[0]))
    await stage.goes_on("after-no-utf-8")


async def test_text_of_the_client_that_is_no_utf_8_ends_the_socket(stage: Stage) -> None:
    stage.steps["client-no-utf-8"] = lambda socket: send(socket, EVENTS[:1])
    async with stage.opened(compression=None) as socket:
        await socket.send(turn("Hello.", model="client-no-utf-8"))
        assert await socket.recv() == EVENTS[0]
        before = stage.closed.count(1007)
        write(socket, masked(NO_UTF_8))
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(socket.recv(), SECONDS)
        assert socket.close_code == 1007
    await stage.tells("client-no-utf-8", "aborted", UNKNOWN, len(EVENTS[0]))
    await asyncio.to_thread(stage.suite.wait_for, lambda: stage.closed.count(1007) > before, "1007 at the server")
    await stage.goes_on("after-client-no-utf-8")


@pytest.mark.parametrize(
    ("name", "frames"),
    [
        ("cut-in-a-message", b"\x01\x04tide"),
        ("cut-in-a-frame", b"\x81\x10tide"),
        ("goodbye-in-a-message", b"\x01\x04tide" + CLOSE),
        ("words-after-goodbye", CLOSE + b"\x81\x04tide"),
        ("goodbye-twice", CLOSE + CLOSE),
        ("ping-after-goodbye", CLOSE + b"\x89\x00"),
        ("no-such-frame", b"\x87\x00"),
        ("masked", b"\x81\x81\x00\x00\x00\x00x"),
        ("end-without-beginning", b"\x80\x04tide"),
    ],
)
async def test_a_server_that_ends_wrongly(stage: Stage, name: str, frames: bytes) -> None:
    async def end(socket: ServerConnection) -> None:
        await send(socket, EVENTS[:2])
        write(socket, frames)
        if name.startswith("cut"):
            socket.transport.abort()

    stage.steps[name] = end
    async with stage.opened(compression=None) as socket:
        await socket.send(turn("Hello.", model=name))
        assert [await socket.recv(), await socket.recv()] == EVENTS[:2]
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(socket.recv(), SECONDS)
    await stage.tells(name, "failed", UNKNOWN, length_of(EVENTS[:2]))
    await stage.goes_on(f"after-{name}")


async def test_a_thousand_messages_each_way(stage: Stage) -> None:
    deltas = [json.dumps({"type": "response.output_text.delta", "delta": f"{number} "}) for number in range(1000)]
    answered = [EVENTS[0], *deltas, *EVENTS[1:]]
    stage.steps["thousand"] = lambda socket: send(socket, answered)
    updates = [json.dumps({"type": "session.update", "number": number}) for number in range(1000)]
    before = len(stage.received)
    async with stage.opened() as socket:
        for update in updates:
            await socket.send(update)
        question = turn(GARDEN, model="thousand")
        assert await stage.ask(socket, question) == answered
    assert stage.received[before:] == [*updates, question]
    await stage.tells("thousand", "answered", KNOWN, length_of(answered))
