"""Reroute: leads a flow to the gateway, and shows it afterwards as what its client asked for."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from mitmproxy import http
from mitmproxy.connection import Server
from mitmproxy.proxy import server_hooks

from addons.gateway import HOST, PROOF_HEADER, Answering, BodyFor, Door, Gateway, Otherwise
from addons.headers import has
from addons.outgoing import LocatedTarget, ModelRequest
from memory.exchange import Exchange, SentTo

logger = logging.getLogger(__name__)


class _Asked(NamedTuple):
    scheme: str
    host: str
    port: int
    path: str


class Reroute:
    """Starts and stops the gateway, and is the only way to it. `answering_of` says whose answers are not just passed on.

    Its place is before all stages that read a request or an answer. Its hooks are plain functions that schedule the
    work, as those of the sidecar; whoever can, awaits `started` and `stopped`.
    """

    def __init__(
        self,
        gateway: Gateway,
        sent: Callable[[Exchange, SentTo], None] = lambda _exchange, _sent: None,
        answering_of: Callable[[Exchange], Answering | None] = lambda _exchange: None,
    ) -> None:
        self._gateway = gateway
        self._sent = sent
        self._answering_of = answering_of
        self._asked: dict[str, _Asked] = {}
        self._clients: Counter[str] = Counter()
        """Client connection -> how many of its requests are on their way to the gateway."""
        self.started: asyncio.Task[None] | None = None
        self.stopped: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether anything can be led to the gateway."""
        return self._gateway.port is not None

    def redirect(
        self,
        flow: http.HTTPFlow,
        exchange: Exchange,
        targets: Sequence[LocatedTarget],
        otherwise: Otherwise,
        body_for: BodyFor | None = None,
    ) -> None:
        """Send a request, in its `request` hook, to the first of these targets that answers; who received it is told."""
        request = flow.request
        asked = ModelRequest(
            request.method,
            request.path,
            tuple(request.headers.items(multi=True)),
            request.raw_content or b"",
            exchange.protocol,
            exchange.model,
        )
        door = self._gateway.open(
            asked,
            targets,
            on_sent=partial(self._sent, exchange),
            otherwise=otherwise,
            body_for=body_for,
            answering=self._answering_of(exchange),
        )
        exchange.is_led = True
        self.lead(flow, door)

    def lead(self, flow: http.HTTPFlow, door: Door) -> None:
        """Send this request there, in its `request` hook. Host header and body stay as they are, for all who look on."""
        request = flow.request
        self._restore(flow)
        self._asked[flow.id] = _Asked(request.scheme, request.host, request.port, request.path)
        self._clients[flow.client_conn.id] += 1
        # The properties would write the Host header.
        request.data.host, request.data.port = door.host, door.port
        request.scheme, request.path = "http", door.path
        request.headers[PROOF_HEADER] = door.proof
        # Where mitmproxy has an upstream proxy, that is no way to loopback.
        flow.server_conn = Server(address=None)

    def is_led(self, data: server_hooks.ServerConnectionHookData) -> bool:
        """Whether a connection is to the gateway, for a request that was led there."""
        address = data.server.address
        return (
            address is not None
            and self._gateway.port is not None
            and address[:2] == (HOST, self._gateway.port)
            and self._clients[data.client.id] > 0
        )

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        if has(flow.request.headers, PROOF_HEADER):
            del flow.request.headers[PROOF_HEADER]

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        self._restore(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._restore(flow)

    def running(self) -> None:
        self.started = asyncio.get_running_loop().create_task(self._start(), name="gateway starts")

    def done(self) -> None:
        if self.started is not None:
            self.stopped = asyncio.get_running_loop().create_task(self._stop(self.started), name="gateway stops")

    def _restore(self, flow: http.HTTPFlow) -> None:
        asked = self._asked.pop(flow.id, None)
        if asked is None:
            return
        self._clients[flow.client_conn.id] -= 1
        if not self._clients[flow.client_conn.id]:
            del self._clients[flow.client_conn.id]
        request = flow.request
        request.headers.pop(PROOF_HEADER, None)
        request.data.host, request.data.port = asked.host, asked.port
        request.scheme, request.path = asked.scheme, asked.path

    async def _start(self) -> None:
        try:
            await self._gateway.start()
        except OSError as error:
            logger.error("The gateway cannot listen on loopback (%s)", error.strerror)  # noqa: TRY400 - says it all; ERROR ends mitmproxy's start

    async def _stop(self, started: asyncio.Task[None]) -> None:
        started.cancel()
        await asyncio.wait([started])
        await self._gateway.stop()
