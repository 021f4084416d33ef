"""A server over TLS, with HTTP/1.1 and HTTP/2, that plays recorded answers back to the byte, cut and encoded as asked."""

from __future__ import annotations

import asyncio
import functools
import gzip
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import brotli
import zstandard
from hypercorn.asyncio import serve
from hypercorn.config import Config

from addons.demo.authority import AuthorityPaths

ENCODERS = {
    "identity": bytes,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


@functools.cache
def encoded(encoding: str, data: bytes) -> bytes:
    """Once for each: brotli takes its time, and every play is asked for its bytes by the server and by the test."""
    return bytes(ENCODERS[encoding](data))


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request to a model and what it was answered. `answer` is without Content-Encoding."""

    url: str
    body: bytes
    answer: bytes
    content_type: str
    status: int = 200


@dataclass(frozen=True, slots=True)
class Played:
    """One answer as it is to be sent: in an encoding, `size` bytes at a time (None: whole)."""

    recorded: Recorded
    encoding: str = "identity"
    size: int | None = None

    @property
    def wire(self) -> bytes:
        return encoded(self.encoding, self.recorded.answer)

    @property
    def chunks(self) -> list[bytes]:
        data = self.wire
        size = self.size or max(1, len(data))
        return [data[start : start + size] for start in range(0, len(data), size)]


@dataclass
class Playback:
    """Answers a request whose header `x-play` names one of `plays` with it."""

    plays: Mapping[str, Played] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)
    """What was received for each of them."""
    headers: dict[str, list[tuple[bytes, bytes]]] = field(default_factory=dict)
    """With which headers."""
    port: int = 0

    async def application(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        while scope["type"] == "lifespan":
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        name = dict(scope["headers"])[b"x-play"].decode()
        self.bodies[name] = body
        self.headers[name] = list(scope["headers"])
        played = self.plays[name]
        headers = [(b"content-type", played.recorded.content_type.encode())]
        if played.encoding != "identity":
            headers.append((b"content-encoding", played.encoding.encode()))
        await send({"type": "http.response.start", "status": played.recorded.status, "headers": headers})
        for chunk in played.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    @asynccontextmanager
    async def serve(self, authority: AuthorityPaths) -> AsyncIterator[None]:
        config = Config()
        config.loglevel = "WARNING"
        config.certfile, config.keyfile = str(authority.certificate), str(authority.key)
        config.alpn_protocols = ["h2", "http/1.1"]
        config.graceful_timeout = 1
        config.keep_alive_timeout = 600  # a server that hangs up while it is asked is no matter of these tests
        config.keep_alive_max_requests = 1_000_000
        config.bind = ["127.0.0.1:0"]
        sockets = config.create_sockets()
        self.port = int(sockets.secure_sockets[0].getsockname()[1])
        sockets.secure_sockets[0].listen()  # whoever connects before the server accepts waits in the queue
        config.create_sockets = lambda: sockets  # type: ignore[method-assign]
        stop = asyncio.Event()
        serving = asyncio.create_task(serve(self.application, config, shutdown_trigger=stop.wait))  # type: ignore[arg-type]
        try:
            yield
        finally:
            stop.set()
            await serving
