"""The scripted model behind hypercorn: TLS with HTTP/2 (and 1.1) on loopback, for tests of HTTP/2 upstreams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config

from addons.demo.authority import AuthorityPaths
from addons.demo.model import Received, ScriptedModel


def asgi(model: ScriptedModel, linger: float) -> Any:
    """The model as an ASGI application. It remembers requests, refuses WebSockets, and does not count connections."""

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        while scope["type"] == "lifespan":
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if message["type"] != "http.request" or not message.get("more_body"):
                break
        # A WebSocket that is refused gets an answer in its own name (ASGI's "websocket.http.response").
        answer = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        answered = model.reply_to(
            Received(
                scope.get("method", "GET"),
                (scope["raw_path"].partition(b"?")[0] + query).decode("latin-1"),
                scope["http_version"],
                headers,
                body,
                secure=scope["scheme"] in ("https", "wss"),
            )
        )
        content_type = (b"content-type", answered.content_type.encode())
        await send({"type": f"{answer}.start", "status": answered.status, "headers": [content_type]})
        for position, chunk in enumerate(answered.chunks):
            if position and answered.delay:
                await asyncio.sleep(answered.delay)
            await send({"type": f"{answer}.body", "body": chunk, "more_body": True})
        await asyncio.sleep(linger)
        await send({"type": f"{answer}.body", "body": b""})

    return application


@asynccontextmanager
async def serve_h2(model: ScriptedModel, authority: AuthorityPaths, *, linger: float = 0) -> AsyncIterator[int]:
    """Serve the model over TLS with HTTP/2 until the block ends; gives the port.

    `linger`: seconds between the last piece of an answer and its end, as a server has that counts before it hangs up.
    """
    config = Config()
    config.loglevel = "WARNING"
    config.certfile, config.keyfile = str(authority.certificate), str(authority.key)
    config.alpn_protocols = ["h2", "http/1.1"]
    config.graceful_timeout = 1
    config.bind = ["127.0.0.1:0"]
    sockets = config.create_sockets()
    port = int(sockets.secure_sockets[0].getsockname()[1])
    # Whoever connects before the server accepts waits in the queue.
    sockets.secure_sockets[0].listen()
    config.create_sockets = lambda: sockets  # type: ignore[method-assign]
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(asgi(model, linger), config, shutdown_trigger=stop.wait))
    try:
        yield port
    finally:
        stop.set()
        await serving
