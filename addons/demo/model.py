"""An upstream on loopback that answers as the providers' servers do, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from aiohttp import web
from mitmproxy.net import encoding

from addons.demo.answers import Answer, answer
from addons.demo.reply import Moment, Script, friendly

CLOSING_GRACE = 1.0
"""Seconds that a stream in flight has to end when the model is closed."""


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it arrived: `target` is path and query, `body` the raw bytes, still in their encoding."""

    method: str
    target: str
    http_version: str
    """`1.1` or `2`."""
    headers: tuple[tuple[str, str], ...]
    body: bytes
    secure: bool

    def header(self, name: str) -> str | None:
        """The first header of that name, in whatever case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class ScriptedModel:
    """Serves `script` over TLS with HTTP/1.1 (`port`) where a context is given, and in plain HTTP (`plain_port`).

    The system chooses the ports, unless listening sockets are given (`socket.create_server`): then the addresses can be
    known before the event loop runs. `script` may be replaced at any time. Used as an async context
    manager; what it remembers stays readable after it is closed.
    """

    def __init__(
        self,
        script: Script = friendly,
        *,
        tls: ssl.SSLContext | None = None,
        sock: socket.socket | None = None,
        plain_sock: socket.socket | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.script = script
        self.received: list[Received] = []
        self.connections = 0
        """TCP connections accepted, on both ports."""
        self.port = 0
        self.plain_port = 0
        self._tls = tls
        self._sock = sock
        self._plain_sock = plain_sock
        self._clock = clock
        # The raw bytes are kept, so the library must not decode them.
        self._protocols = web.Server(self._handle, auto_decompress=False, access_log=None)
        self._servers: list[asyncio.Server] = []

    @property
    def url(self) -> str:
        """The TLS address. Its certificate is for the providers' names, localhost and 127.0.0.1."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def plain_url(self) -> str:
        return f"http://127.0.0.1:{self.plain_port}"

    async def __aenter__(self) -> Self:
        self.plain_port = await self._listen(self._plain_sock, None)
        if self._tls is not None:
            self.port = await self._listen(self._sock, self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        await self._protocols.shutdown(CLOSING_GRACE)
        for server in self._servers:
            await server.wait_closed()

    def reply_to(self, request: Received) -> Answer:
        """Remember a request and answer it: what every server around this model calls, whatever it speaks."""
        self.received.append(request)
        headers = {name.lower(): value for name, value in request.headers}
        try:
            body = encoding.decode(request.body, headers.get("content-encoding", "identity"))
        except ValueError:
            body = b""
        # The library's signature allows text in and out; bytes give bytes.
        assert isinstance(body, bytes)
        moment = Moment(len(self.received), int(self._clock()))
        return answer(request.method, request.target, headers, body, script=self.script, moment=moment)

    async def _listen(self, sock: socket.socket | None, tls: ssl.SSLContext | None) -> int:
        listening = sock or socket.create_server(("127.0.0.1", 0))
        server = await asyncio.get_running_loop().create_server(self._accept, sock=listening, ssl=tls)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def _accept(self) -> asyncio.Protocol:
        self.connections += 1
        return self._protocols()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        version = f"{request.version.major}.{request.version.minor}"
        headers = tuple((name, value) for name, value in request.headers.items())
        body = await request.content.read()
        answered = self.reply_to(
            Received(request.method, request.raw_path, version, headers, body, secure=request.secure)
        )
        if not answered.streamed:
            whole = b"".join(answered.chunks)
            return web.Response(status=answered.status, headers={"Content-Type": answered.content_type}, body=whole)
        response = web.StreamResponse(
            status=answered.status, headers={"Content-Type": answered.content_type, "Cache-Control": "no-cache"}
        )
        with suppress(ConnectionResetError):  # the client has left, as when the demo is ended meanwhile
            await response.prepare(request)
            for position, chunk in enumerate(answered.chunks):
                if position and answered.delay:
                    await asyncio.sleep(answered.delay)
                await response.write(chunk)
            await response.write_eof()
        return response
