"""HTTP/2 by hand, over TLS: a server that may say anything at any moment, and a client that sees every stream's end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame

from tests.addons.hostile import OnlyHTTP2
from tests.harness import SuiteProcess

type Headers = dict[str, str]


class Peer:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, client: bool) -> None:
        self._reader, self._writer = reader, writer
        self.http = H2Connection(H2Configuration(client_side=client, header_encoding="utf-8"))
        self._more_room = asyncio.Event()
        self.http.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self._writer.write(self.http.data_to_send())

    async def run(self) -> None:
        """Until the connection ends."""
        with suppress(OSError, ProtocolError):
            while data := await self._reader.read(65536):
                for event in self.http.receive_data(data):
                    self.take(event)
                self._more_room.set()
                self.flush()
        self.abort()
        self.lost()

    def take(self, event: Event) -> None: ...

    def lost(self) -> None: ...

    async def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Send as the other side has room."""
        while data:
            room = min(self.http.local_flow_control_window(stream), self.http.max_outbound_frame_size)
            if room:
                self.http.send_data(stream, data[:room])
                data = data[room:]
                self.flush()
                await self._writer.drain()
            else:
                self._more_room.clear()
                await self._more_room.wait()
        if end:
            self.http.end_stream(stream)
        self.flush()

    def reset(self, stream: int, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        self.http.reset_stream(stream, code)
        self.flush()

    def abort(self) -> None:
        self._writer.transport.abort()


@dataclass(eq=False)
class Call:
    """A request that an `Upstream` has received."""

    peer: ServedPeer
    stream: int
    headers: Headers
    body: bytearray = field(default_factory=bytearray)
    reset: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the other side resets the stream, or is gone."""

    def begin(self, status: int = 200, *, end: bool = False, **headers: str) -> None:
        told = [(":status", str(status)), *((name.replace("_", "-"), value) for name, value in headers.items())]
        self.peer.http.send_headers(self.stream, told, end_stream=end)
        self.peer.flush()

    def trail(self, **headers: str) -> None:
        self.peer.http.send_headers(self.stream, [(f"x-{name}", value) for name, value in headers.items()], True)
        self.peer.flush()

    async def send(self, data: bytes, *, end: bool = False) -> None:
        await self.peer.send(self.stream, data, end=end)

    def go_away(self, last_stream: int | None = None, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """h2 would let nothing follow, as is its right; servers finish what is under way."""
        last = self.stream if last_stream is None else last_stream
        self.peer.write(GoAwayFrame(0, last_stream_id=last, error_code=code).serialize())


type Script = Callable[[Call], Awaitable[None]]


class ServedPeer(Peer):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: Upstream) -> None:
        self._upstream = upstream
        self._calls: dict[int, Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        super().__init__(reader, writer, client=False)
        self.http.update_settings(dict(upstream.settings))
        self.flush()

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def take(self, event: Event) -> None:
        match event:
            case RequestReceived(stream_id=stream, headers=headers):
                self._calls[stream] = Call(self, stream, dict(headers or []))
                if self._upstream.at_once:
                    self._answer(stream)
            case DataReceived(stream_id=stream, data=data, flow_controlled_length=length):
                self._calls[stream].body += data
                if not self._upstream.at_once:
                    self.http.acknowledge_received_data(length or 0, stream)
            case StreamEnded(stream_id=stream) if not self._upstream.at_once:
                self._answer(stream)
            case StreamReset(stream_id=stream) if stream in self._calls:
                self._calls[stream].reset.set()

    def _answer(self, stream: int) -> None:
        call = self._calls[stream]
        self._upstream.calls.append(call)

        async def answer() -> None:
            with suppress(ProtocolError, OSError):  # who is gone gets no answer
                await self._upstream.script(call)

        task = asyncio.create_task(answer())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def lost(self) -> None:
        for call in self._calls.values():
            call.reset.set()
        for task in list(self._tasks):
            task.cancel()


@dataclass
class Upstream:
    """Answers each request as `script` does; `at_once`: before its body has come, which it never makes room for."""

    script: Script
    tls: ssl.SSLContext
    settings: dict[Any, int] = field(default_factory=dict)
    at_once: bool = False
    calls: list[Call] = field(default_factory=list)
    peers: list[ServedPeer] = field(default_factory=list)
    port: int = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for peer in self.peers:
            peer.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = ServedPeer(reader, writer, self)
        self.peers.append(peer)
        await peer.run()


@dataclass(eq=False)
class Reply:
    """What a client has got so far on one stream."""

    stream: int
    status: int = 0
    data: bytearray = field(default_factory=bytearray)
    trailers: Headers = field(default_factory=dict)
    fault: str = ""
    """Why it broke off: the name of the code of a reset, or `lost` with the connection."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    more: asyncio.Event = field(default_factory=asyncio.Event)

    async def has(self, count: int) -> None:
        """Once there are `count` bytes."""
        while len(self.data) < count and not self.over.is_set():
            self.more.clear()
            await self.more.wait()

    @property
    def told(self) -> tuple[int, bytes, str]:
        return self.status, bytes(self.data), self.fault


class Client(Peer):
    """One connection through the proxy. Its replies are by stream."""

    replies: dict[int, Reply]

    @classmethod
    async def connect(cls, suite: SuiteProcess, host: str) -> Self:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(suite.proxy.rpartition(":")[2]))
        writer.write(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        context = OnlyHTTP2(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(suite.ca)
        context.set_alpn_protocols(["h2"])
        await writer.start_tls(context, server_hostname=host)
        client = cls(reader, writer, client=True)
        client.host, client.replies = host, {}
        client.running = asyncio.create_task(client.run())
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.abort()
        await self.running

    async def ask(self, body: bytes, *, agent: str = "tester/1") -> Reply:
        stream = self.http.get_next_available_stream_id()
        reply = self.replies[stream] = Reply(stream)
        told = {":method": "POST", ":scheme": "https", ":authority": self.host, ":path": "/v1/messages"}
        told |= {"content-type": "application/json", "content-length": str(len(body)), "user-agent": agent}
        self.http.send_headers(stream, list(told.items()))
        await self.send(stream, body, end=True)
        return reply

    def take(self, event: Event) -> None:
        reply = self.replies.get(getattr(event, "stream_id", None) or 0)
        match event:
            case ConnectionTerminated():
                self.lost()
            case _ if reply is None:
                return
            case ResponseReceived(headers=headers):
                reply.status = int(dict(headers or [])[":status"])
            case DataReceived(data=data, flow_controlled_length=length, stream_id=stream):
                reply.data += data or b""
                self.http.acknowledge_received_data(length or 0, stream or 0)
            case TrailersReceived(headers=headers):
                reply.trailers = dict(headers or [])
            case StreamEnded():
                reply.over.set()
            case StreamReset(error_code=code):
                reply.fault = ErrorCodes(code or 0).name
                reply.over.set()
        if reply is not None:
            reply.more.set()

    def lost(self) -> None:
        for reply in self.replies.values():
            if not reply.over.is_set():
                reply.fault = "lost"
                reply.over.set()
                reply.more.set()
