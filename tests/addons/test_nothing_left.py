"""Whichever way a request or a connection ends, no addon remembers it: a suite may run for weeks. In one process, so that
what the addons hold can be looked at.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import connection, http, options
from mitmproxy.addons.view import View
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from addons.clients import ClientConfig, MatchConfig
from addons.config import Address, Config, DashboardConfig, ProxyConfig
from addons.launcher import Running, _master, claim_ports
from addons.providers import ProviderConfig
from addons.suite import Suite
from tests.addons.test_websocket import answer, turn

FREE = Address("127.0.0.1", 0)
MOST = 2000
SECONDS = 60
SLOW = 0.3
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
BEGUN = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: {}\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
BODY = b'{"model": "claude-test"}'


class Watcher:
    """The ids of all that came by, and what a person does to flows in the inspector."""

    def __init__(self, suite: Suite) -> None:
        self._flows = suite.stages.flows
        self.ids: set[str] = set()
        self.steps: list[str] = []
        """How far requests came, one after the other."""
        self.errors = self.responses = 0

    def client_connected(self, client: connection.Client) -> None:
        self.ids.add(client.id)

    def server_connect(self, data: ServerConnectionHookData) -> None:
        self.ids.add(data.server.id)

    def server_connected(self, _: ServerConnectionHookData) -> None:
        self.steps.append("connected")

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        self._note(flow)
        self.steps.append("headers")
        self._kill(flow, "kill=headers")

    async def request(self, flow: http.HTTPFlow) -> None:
        self._note(flow)
        self.steps.append("request")
        if "slow=request" in flow.request.path:
            await asyncio.sleep(SLOW)
        self._kill(flow, "kill=request")
        if "answer=here" in flow.request.path:
            flow.response = http.Response.make(200, b"{}")

    async def responseheaders(self, flow: http.HTTPFlow) -> None:
        self.steps.append("answer")
        if "slow=answer" in flow.request.path:
            await asyncio.sleep(SLOW)
        self._kill(flow, "kill=answer")

    def response(self, flow: http.HTTPFlow) -> None:
        self.responses += 1
        self._kill(flow, "kill=end")

    def error(self, flow: http.HTTPFlow) -> None:
        self.errors += 1

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        self._note(flow)

    def _note(self, flow: http.HTTPFlow) -> None:
        self.ids.update((flow.id, *(exchange.id for exchange in self._flows.under_way(flow))))

    @staticmethod
    def _kill(flow: http.HTTPFlow, word: str) -> None:
        if word in flow.request.path:
            flow.kill()


class Stage:
    """The suite, and the `host:port` of a model, of one that speaks WebSocket, and of nobody."""

    def __init__(self, suite: Suite, proxy: Address, watcher: Watcher, hosts: tuple[str, ...]) -> None:
        self.suite, self.proxy, self.watcher = suite, proxy, watcher
        self.model, self.sockets, self.nobody = hosts

    async def send(self, query: str, **more: Any) -> bytes:
        """What comes back for a request, until the other side closes or a whole answer has come."""
        async with asyncio.timeout(SECONDS):
            reader, writer = await self.begin(query, **more)
            got = b""
            with suppress(OSError):
                while not got.endswith((b"{}", b"0\r\n\r\n")) and (data := await reader.read(65536)):
                    got += data
            writer.close()
        return got

    async def begin(
        self, query: str, *, body: bytes = BODY, head: bytes = b"", length: int | None = None, host: str | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.proxy)
        size = b"Content-Length: %d\r\n" % (len(body) if length is None else length) if length != -1 else b""
        host = host or self.model
        writer.write(
            b"POST http://%s/v1/messages?%s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic bWU6eA==\r\n"
            % (host.encode(), query.encode(), host.encode())
            + b"Content-Type: application/json\r\n%s%s\r\n%s" % (size, head, body)
        )
        await writer.drain()
        return reader, writer

    async def leave(self, query: str, *, after: bytes = b"", once: str = "", **more: Any) -> None:
        """Send a request and go away: once this much of the answer has come, or the request has come to this step."""
        steps, before = self.watcher.steps, self.watcher.steps.count(once)
        async with asyncio.timeout(SECONDS):
            reader, writer = await self.begin(query, **more)
            if after:
                await reader.readuntil(after)
            else:
                await settled(lambda: steps.count(once) > before)
            writer.transport.abort()

    def opened(self) -> connect:
        return connect(f"ws://{self.sockets}/v1/responses", proxy=f"http://me:x@{self.proxy}", open_timeout=SECONDS)

    def left(self) -> list[str]:
        """Where an addon still holds the id of anything that came by."""
        owners = [self.suite.stages.flows, *self.suite.addons]
        return [
            f"{type(owner).__name__}.{name}"
            for owner in owners
            for name, held in vars(owner).items()
            if isinstance(held, dict | set | list) and self.watcher.ids & {one for one in held if isinstance(one, str)}
        ]


async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, OSError):
        head = await reader.readuntil(b"\r\n\r\n")
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await reader.read(10**6)
        path = head.split(b" ", 2)[1]
        if b"do=reset" in path:
            writer.write(BEGUN)
            await writer.drain()
            writer.transport.abort()
        elif b"do=nothing" in path:
            await reader.read()
        elif b"do=hang" in path:
            writer.write(BEGUN)
            await reader.read()
        elif b"do=rubbish" in path:
            writer.write(b"HTTP/1.1 two hundred\r\n\r\n")
        elif b"do=smuggle" in path:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx")
        elif b"do=refuse" in path:
            writer.write(b"HTTP/1.1 529 Overloaded\r\nContent-Length: 2\r\n\r\n{}")
        else:
            writer.write(WHOLE)
        await writer.drain()
    writer.close()


async def answer_turns(socket: ServerConnection) -> None:
    with suppress(ConnectionClosed):
        async for message in socket:
            if isinstance(message, bytes):
                continue
            asked = json.loads(message)
            if asked.get("model") == "leaves":
                await socket.send(json.dumps(answer(1, "At noon.")[0]))
                socket.transport.abort()
            elif asked.get("model") != "silent" and asked.get("type") == "response.create":
                for event in answer(1, "At noon."):
                    await socket.send(json.dumps(event))


@pytest.fixture
def _log_handlers() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:]
    yield
    root.handlers[:] = before


@pytest.fixture
async def stage(tmp_path: Path, _log_handlers: None) -> AsyncIterator[Stage]:
    model = await asyncio.start_server(respond, "127.0.0.1", 0)
    sockets = await serve(answer_turns, "127.0.0.1", 0)
    ports = [one.sockets[0].getsockname()[1] for one in (model, sockets)]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    hosts = tuple(f"127.0.0.1:{port}" for port in (*ports, nobody))
    wanted = Config(
        proxy=ProxyConfig(listen=FREE, inspector=None, max_body=MOST),
        dashboard=DashboardConfig(listen=FREE),
        providers=(ProviderConfig("lab", hosts=hosts),),
        clients=(ClientConfig("me", MatchConfig(proxy_user="me"), memory_enabled=True),),
        state=tmp_path,
    )
    config, dashboard = claim_ports(wanted)
    up = asyncio.Event()
    end: list[Callable[[], None]] = []

    def running(_: Running, shutdown: Callable[[], None]) -> None:
        end.append(shutdown)
        up.set()

    made: Any = _master(config, dashboard, tmp_path, running)
    master = made(options.Options())
    watcher = Watcher(master.mitmemory)
    master.addons.add(watcher, View())
    task = asyncio.create_task(master.run())
    try:
        async with asyncio.timeout(SECONDS):
            await up.wait()
        yield Stage(master.mitmemory, config.proxy.listen, watcher, hosts)
    finally:
        await master.addons.get("proxyserver").servers.update([])  # mitmproxy leaves them to the end of the process
        end[0]()
        await task
        dashboard.close()
        model.close()
        sockets.close()


async def settled(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it has no event to wait for
            await asyncio.sleep(0.01)


WAYS: dict[str, Callable[[Stage], Awaitable[object]]] = {
    "answered": lambda one: one.send(""),
    "answered by another addon": lambda one: one.send("answer=here"),
    "refused by the model": lambda one: one.send("do=refuse"),
    "asked whether to go on": lambda one: one.send("", head=b"Expect: 100-continue\r\n"),
    "nobody answers": lambda one: one.send("", host=one.nobody),
    "reset by the server": lambda one: one.send("do=reset"),
    "no HTTP": lambda one: one.send("do=rubbish"),
    "an answer of two lengths": lambda one: one.send("do=smuggle"),
    "a request of two lengths": lambda one: one.send("", head=b"Transfer-Encoding: chunked\r\n"),
    "chunks that are none": lambda one: one.send("", head=CHUNKED, length=-1, body=b"no number\r\n"),
    "said to be too large": lambda one: one.send("", length=MOST + 1, body=b""),
    "found to be too large": lambda one: one.send("", head=CHUNKED, length=-1, body=b"BB8\r\n%b\r\n" % (b"x" * 3000)),
    "killed before the body": lambda one: one.send("kill=headers"),
    "killed before it is sent": lambda one: one.send("kill=request"),
    "killed before the answer": lambda one: one.send("kill=answer"),
    "killed at the end": lambda one: one.send("kill=end"),
    "client gone before the body": lambda one: one.leave("", length=1000, body=b"", once="headers"),
    "client gone in the body": lambda one: one.leave("", length=1000, once="headers"),
    "client gone while it is looked at": lambda one: one.leave("slow=request", once="request"),
    "client gone before the answer": lambda one: one.leave("do=nothing", once="connected"),
    "client gone as the answer begins": lambda one: one.leave("do=hang&slow=answer", once="answer"),
    "client gone in the answer": lambda one: one.leave("do=hang", after=b"data: {}"),
}


async def test_each_way_out_of_a_request(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    kept: list[str] = []
    ended: list[str] = []
    for way, go in WAYS.items():
        await go(stage)
        await settled(lambda: stage.watcher.responses + stage.watcher.errors == len(ended) + 1)
        ended.append(way)
        with suppress(TimeoutError):
            await settled(lambda: not stage.left())
        kept += [f"{way}: {place}" for place in stage.left()]
    assert kept == []
    assert len(stage.watcher.ids) > 3 * len(WAYS)
    assert not [one.message for one in caplog.records if "Addon error" in one.message or "crashed" in one.message]


async def test_each_way_out_of_a_websocket(stage: Stage) -> None:
    async with stage.opened() as socket:
        await socket.send('{"type": "session.update"}')
        await socket.send(b"\x00\xff")
        await socket.send(turn("Hello."))
        while '"response.completed"' not in str(await asyncio.wait_for(socket.recv(), SECONDS)):
            pass
        assert "Senders._users" in stage.left()  # it is found while it is there
        await socket.send(turn("Hello.", model="silent"))
        await socket.send(turn("Hello.", model="silent"))
        await settled(lambda: "Flows._lanes" in stage.left())
    await settled(lambda: not stage.left())
    async with stage.opened() as socket:
        await socket.send(turn("Hello.", model="silent"))
        await settled(lambda: {"Tap._sockets", "Flows._asked"} <= set(stage.left()))
        socket.transport.abort()
    await settled(lambda: not stage.left())
    async with stage.opened() as socket:
        await socket.send(turn("Hello.", model="leaves"))
        with suppress(ConnectionClosed):
            while await asyncio.wait_for(socket.recv(), SECONDS):
                pass
    await settled(lambda: not stage.left())
