"""Lets an ASGI application answer a request of aiohttp. Just what that of the MCP server needs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from aiohttp import web

from web.errors import Refusal

type Message = MutableMapping[str, Any]
type Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

_OURS = frozenset({b"connection", b"date", b"server", b"transfer-encoding"})
"""Headers that belong to the connection, and are aiohttp's."""


async def answer(request: web.Request, application: Application, state: dict[str, Any]) -> web.StreamResponse:
    """What the application answers; it finds `state` as Starlette's `request.state`. Raises aiohttp's 413."""
    body: bytes | None = await request.read()
    over = asyncio.Event()
    response: web.StreamResponse | None = None

    async def receive() -> Message:
        nonlocal body
        if body is None:
            await over.wait()
            return {"type": "http.disconnect"}
        whole, body = body, None
        return {"type": "http.request", "body": whole, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal response
        if message["type"] == "http.response.start":
            response = web.StreamResponse(status=message["status"])
            for name, value in message.get("headers", ()):
                if name.lower() not in _OURS:
                    response.headers.add(name.decode("latin-1"), value.decode("latin-1"))
            await response.prepare(request)
        elif response is not None and message.get("body"):
            await response.write(message["body"])

    try:
        await application(_scope(request, state), receive, send)
    finally:
        over.set()
    if response is None:
        raise Refusal(503, "stopping", "mitmemory is about to end")
    await response.write_eof()
    return response


def _scope(request: web.Request, state: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.rel_url.raw_path.encode("ascii"),
        "query_string": request.rel_url.raw_query_string.encode("ascii"),
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "client": None,
        "server": None,
        "state": state,
    }
