"""A gateway on loopback, targets that behave as a test wants, and a client that sees every byte."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from addons.config_values import Upstream
from addons.gateway import PROOF_HEADER, Door, Gateway
from addons.outgoing import ModelRequest, locate
from addons.targets import TargetConfig
from addons.trust import Trust
from memory.exchange import Protocol, SentTo
from tests.harness import RawRequest, RawUpstream, Respond, free_port

BODY = b'{"model": "claude-test",  "messages":[{"role":"user","content":"Water the tomatoes \\u00e9."}]}'
ALL: tuple[Protocol, ...] = ("anthropic", "openai-chat", "openai-responses", "gemini", "ollama", "bedrock")


def request_of(body: bytes = BODY, **changes: Any) -> ModelRequest:
    made: dict[str, Any] = {
        "method": "POST",
        "path": "/v1/messages?beta=true",
        "headers": (("Content-Type", "application/json"), ("anthropic-version", "2023-06-01")),
        "body": body,
        "protocol": "anthropic",
        "model": "claude-test",
    }
    return ModelRequest(**(made | changes))


def target_at(port: int, name: str = "ollama", **changes: Any) -> TargetConfig:
    made: dict[str, Any] = {"name": name, "url": Upstream("http", "127.0.0.1", port), "protocols": ALL}
    return TargetConfig(**(made | changes))


def answer(body: bytes = b"{}", status: bytes = b"200 OK", *headers: bytes) -> Respond:
    """A target that answers each request with these bytes."""

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
        writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        await writer.drain()

    return respond


@asynccontextmanager
async def upstream(respond: Respond, **more: Any) -> AsyncIterator[RawUpstream]:
    server = RawUpstream(respond, **more)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@dataclass
class Received:
    """An answer as the gateway's client sees it. `body` is without chunk sizes; `whole`: it came to its proper end."""

    status_line: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    whole: bool = True

    @property
    def status(self) -> int:
        return int(self.status_line.split()[1])


class Connection:
    """One connection to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, path: str, proof: str | None, body: bytes = BODY, *, encoding: str | None = None) -> None:
        head = f"POST {path} HTTP/1.1\r\nHost: api.anthropic.com\r\nContent-Length: {len(body)}\r\n"
        head += "x-api-key: sk-of-the-provider\r\n"
        if encoding is not None:
            head += f"Content-Encoding: {encoding}\r\n"
        if proof is not None:
            head += f"{PROOF_HEADER}: {proof}\r\n"
        self.writer.write(head.encode() + b"\r\n" + body)
        await self.writer.drain()

    async def head(self) -> Received:
        status_line, *lines = (await self.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
        return Received(status_line, [tuple(line.split(b": ", 1)) for line in lines], b"")  # type: ignore[misc]

    async def chunk(self) -> bytes:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def chunk_after_head(self) -> bytes:
        await self.head()
        return await self.chunk()

    async def answer(self) -> Received:
        received = await self.head()
        headers = {name.lower(): value for name, value in received.headers}
        try:
            if b"content-length" in headers:
                received.body = await self.reader.readexactly(int(headers[b"content-length"]))
            elif headers.get(b"transfer-encoding") == b"chunked":
                while part := await self.chunk():
                    received.body += part
        except asyncio.IncompleteReadError as error:
            received.body += error.partial
            received.whole = False
        return received


@dataclass
class Bench:
    """A running gateway, and what it says of bodies that were sent."""

    gateway: Gateway
    own_ports: set[int]
    proxy_ports: set[int]
    sent: list[SentTo] = field(default_factory=list)

    async def open(self, *targets: TargetConfig, request: ModelRequest | None = None, **more: Any) -> Door:
        request = request or request_of()
        located = [await locate(target, request.model) for target in targets]
        return self.gateway.open(request, located, on_sent=more.pop("on_sent", self.sent.append), **more)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        assert self.gateway.port
        reader, writer = await asyncio.open_connection("127.0.0.1", self.gateway.port)
        try:
            yield Connection(reader, writer)
        finally:
            writer.close()

    async def ask(self, door: Door, body: bytes = BODY) -> Received:
        async with self.connect() as connection:
            await connection.send(door.path, door.proof, body)
            return await connection.answer()

    @property
    def reached(self) -> list[str]:
        return [one.upstream for one in self.sent]


@asynccontextmanager
async def bench(
    *, environ: Mapping[str, str] | None = None, trusted: str | None = None, **more: Any
) -> AsyncIterator[Bench]:
    own_ports, proxy_ports = {free_port()}, {free_port()}
    gateway = Gateway(
        own_ports=own_ports,
        proxy_ports=lambda: proxy_ports,
        trust=Trust(lambda: trusted),
        largest_body=1 << 22,
        environ=environ or {},
        **more,
    )
    await gateway.start()
    try:
        yield Bench(gateway, own_ports, proxy_ports)
    finally:
        await gateway.stop()


def header_of(request: RawRequest, name: bytes) -> bytes | None:
    found = re.search(rb"\r\n" + name + rb": *(.*)\r\n", request.head, re.IGNORECASE)
    return found[1] if found else None


async def until_left(writer: asyncio.StreamWriter) -> None:
    """Wait until the other side has closed its connection."""
    await writer._reader.read()  # type: ignore[attr-defined]
