"""Identify: is this a request to a model, from whom, to whom, in which conversation? Makes the `Exchange`."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from datetime import UTC, datetime

from mitmproxy import http

from addons.clients import client_of
from addons.destinations import Destinations
from addons.encodings import EncodingError, decode
from addons.flows import Flows
from addons.providers import ProviderTable, is_address
from addons.wire import RequestFacts, bare_path, wire_for
from memory.body import Body, unreadable
from memory.exchange import Exchange
from memory.scan import Scanner

INLINE_BYTES = 64 * 1024
"""Bodies above this are read and scanned in a thread, so that the streams of other flows do not stall."""

LONGEST_KEY = 200
"""Characters kept of a conversation key and of a model's name, which are the client's to choose."""

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Identify:
    """Recognises requests to models by host and path.

    Everything else that still comes by, plain HTTP to a host that is none of our business, passes unread.
    """

    def __init__(
        self,
        providers: ProviderTable,
        destinations: Destinations,
        flows: Flows,
        *,
        largest_body: int,
        scanner: Scanner | None = None,
    ) -> None:
        self._providers = providers
        self._destinations = destinations
        self._flows = flows
        self._largest_body = largest_body
        self._scanner = scanner or Scanner()
        self._secret = secrets.token_bytes(16)
        self._last_id = 0

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        if flow.response:
            return
        request = flow.request
        self._go_by_name(flow)
        provider = self._providers.find(request.host, request.port)
        if provider is None:
            request.stream = True
            return
        wire = wire_for(request.path)
        opens_socket = is_websocket_upgrade(request) and wire.id != "unknown"
        if request.method not in _WITH_BODY and not opens_socket:
            return
        self._flows.begin(
            flow,
            Exchange(
                id=self._next_id(),
                started_at=datetime.now(UTC),
                provider=provider.name,
                protocol=provider.protocol or "unknown" if wire.id == "unknown" else wire.id,
                model="",
                client=client_of(request.headers.get("user-agent", "")),
                conversation=None,
                to="cloud",  # the stricter of the two, until model and address are known
                upstream=f"{request.host}:{request.port}",
            ),
        )

    def _go_by_name(self, flow: http.HTTPFlow) -> None:
        """A client that resolves names itself (SOCKS, mitmproxy's transparent modes) asks for an address.

        mitmproxy decrypts by the name in the TLS hello too, so what is decrypted must be known by that name as well:
        it would pass unseen. No byte of the request changes; the address is looked up anew.
        """
        request, name = flow.request, flow.client_conn.sni
        if name and is_address(request.host) and self._providers.find(name, request.port) is not None:
            request.data.host = name  # the property would write the Host header

    async def request(self, flow: http.HTTPFlow) -> None:
        request = flow.request
        provider = self._providers.find(request.host, request.port)
        if provider is None:
            return
        exchange = self._flows.of(flow)
        try:
            if exchange is not None:
                await self._describe(flow, exchange)
        finally:  # whatever happened, the request goes where it is meant to go
            model = exchange.model if exchange is not None else ""
            place = await self._destinations.decide(provider, model, request.host, request.port)
            if exchange is not None:
                exchange.to = place

    async def _describe(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        request = flow.request
        exchange.request_bytes = len(request.raw_content or b"")
        body = await self._read(request)
        self._flows.hand_on(flow, body)
        if body.size <= INLINE_BYTES:
            facts, conversation = self._understood(request, exchange, body)
        else:
            facts, conversation = await asyncio.to_thread(self._understood, request, exchange, body)
        exchange.model = facts.model[:LONGEST_KEY]
        exchange.side_request = facts.side_request
        exchange.conversation = conversation

    async def _read(self, request: http.Request) -> Body:
        raw = request.raw_content or b""
        encoding = request.headers.get("content-encoding", "")
        content_type = request.headers.get("content-type", "")
        if len(raw) <= INLINE_BYTES and not encoding:
            return self._decoded(raw, encoding, content_type)
        return await asyncio.to_thread(self._decoded, raw, encoding, content_type)

    def _decoded(self, raw: bytes, encoding: str, content_type: str) -> Body:
        try:
            return self._scanner.read(decode(raw, encoding, self._largest_body), content_type)
        except EncodingError as error:
            return unreadable(str(error))

    def _understood(self, request: http.Request, exchange: Exchange, body: Body) -> tuple[RequestFacts, str | None]:
        """What the request says of itself, and its conversation. Takes long where the first message is long."""
        facts = wire_for(request.path).read(bare_path(request.path), request.headers, body.outline)
        return facts, self._conversation(exchange, facts)

    def _conversation(self, exchange: Exchange, facts: RequestFacts) -> str | None:
        """The client's own key, else a keyed hash of the first message: it tells conversations apart and says nothing."""
        if facts.conversation is not None:
            return facts.conversation[:LONGEST_KEY]
        if facts.opening is None:
            return None
        opening = f"{exchange.client}\n{exchange.protocol}\n{facts.opening}".encode("utf-8", "surrogatepass")
        return f"opening-{hmac.digest(self._secret, opening, 'sha256').hex()[:16]}"

    def _next_id(self) -> str:
        """Ids sort by time, also within one microsecond: the activity pages by them."""
        self._last_id = max(self._last_id + 1, time.time_ns() // 1000)
        return f"{self._last_id:014x}"


def is_websocket_upgrade(request: http.Request) -> bool:
    return bool(request.headers.get("upgrade", "").lower() == "websocket")
