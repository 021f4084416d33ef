"""Identify: is this a request to a model, from whom, to whom, in which conversation? Makes the `Exchange`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from mitmproxy import connection, http

from addons.conversation_keys import LONGEST_KEY, ConversationKeys
from addons.destinations import Destinations
from addons.encodings import EncodingError, decode
from addons.flows import Flows, Heard
from addons.headers import plain
from addons.providers import Provider, ProviderTable, is_address
from addons.wire import RequestFacts, asks_for_answer, bare_path, lane_of, wire_for
from memory.body import Body, unreadable
from memory.exchange import Exchange
from memory.scan import Scanner

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
        conversations: ConversationKeys,
        *,
        client_of: Callable[[http.HTTPFlow], str],
        largest_body: int,
        scanner: Scanner | None = None,
        remembers: Callable[[str], bool] = lambda _client: False,
    ) -> None:
        self._providers = providers
        self._destinations = destinations
        self._flows = flows
        self._conversations = conversations
        self._client_of = client_of
        self._largest_body = largest_body
        self._scanner = scanner or Scanner()
        self._remembers = remembers
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
        if request.method in _WITH_BODY:
            self._begin(flow, provider)

    def client_disconnected(self, client: connection.Client) -> None:
        self._flows.client_gone(client)

    def _begin(self, flow: http.HTTPFlow, provider: Provider) -> Exchange:
        request = flow.request
        wire = wire_for(request.path)
        exchange = Exchange(
            id=self._next_id(),
            started_at=datetime.now(UTC),
            provider=provider.name,
            protocol=provider.protocol or "unknown" if wire.id == "unknown" else wire.id,
            model="",
            client=self._client_of(flow),
            conversation=None,
            to="cloud",  # the stricter of the two, until model and address are known
            upstream=f"{request.host}:{request.port}",
        )
        self._flows.begin(flow, exchange)
        return exchange

    def _go_by_name(self, flow: http.HTTPFlow) -> None:
        """A client that resolves names itself (SOCKS, mitmproxy's transparent modes) asks for an address.

        mitmproxy decrypts by the name in the TLS hello too, so what is decrypted must be known by that name as well:
        it would pass unseen. No byte of the request changes; the address is looked up anew.
        """
        request, name = flow.request, flow.client_conn.sni
        if not name or name == request.host or not is_address(request.host):
            return
        if self._providers.find(name, request.port) is not None:
            request.data.host = name  # the property would write the Host header

    async def request(self, flow: http.HTTPFlow) -> None:
        request = flow.request
        provider = self._providers.find(request.host, request.port)
        if provider is None:
            return
        exchange = self._flows.of(flow)
        if exchange is None and request.raw_content:  # a method that usually has no body
            exchange = self._begin(flow, provider)
        try:
            if exchange is not None:
                raw = request.raw_content or b""
                exchange.request_bytes = len(raw)
                await self._describe(flow, exchange, raw, plain(request.headers))
        finally:  # whatever happened, the request goes where it is meant to go
            model = exchange.model if exchange is not None else ""
            place = await self._destinations.decide(provider, model, request.host, request.port)
            if exchange is not None:
                exchange.to = place

    async def websocket_message(self, flow: http.HTTPFlow) -> None:
        """Each message of a client is looked at like a body; one that asks for an answer is a turn."""
        provider = self._providers.find(flow.request.host, flow.request.port)
        if provider is None or flow.websocket is None or not flow.websocket.messages[-1].from_client:
            return
        exchange = self._begin(flow, provider)
        message = flow.websocket.messages[-1].content
        exchange.request_bytes = len(message)
        # Its headers are those of the handshake, and say nothing of how a message is encoded.
        headers = plain(flow.request.headers)
        headers.pop("content-encoding", None)
        headers["content-type"] = "application/json"
        body = await self._describe(flow, exchange, message, headers)
        if asks_for_answer(exchange.protocol, body.outline):
            self._flows.expect_answer(flow, lane_of(body.outline))
        else:
            exchange.side_request = True
        exchange.to = await self._destinations.decide(provider, exchange.model, flow.request.host, flow.request.port)

    async def _describe(
        self,
        flow: http.HTTPFlow,
        exchange: Exchange,
        raw: bytes,
        headers: Mapping[str, str],
    ) -> Body:
        """Read what the client sent, and write down what it says of itself."""
        encoding = headers.get("content-encoding", "")

        def understood() -> tuple[Body, RequestFacts, str | None]:
            body = self._decoded(raw, encoding, headers.get("content-type", ""))
            self._flows.hand_on(flow, body)
            return body, *self._understood(flow.request.path, headers, exchange, body)

        if self._flows.is_quick(flow, len(raw)) and not encoding:
            body, facts, conversation = understood()
        else:  # all at once: each change of the thread takes as long as reading 100 kB that were there before
            body, facts, conversation = await asyncio.to_thread(understood)
        exchange.model = facts.model[:LONGEST_KEY]
        exchange.side_request = facts.side_request
        exchange.conversation = conversation
        if self._remembers(exchange.client):
            self._flows.hear(exchange, Heard(body, facts))
        return body

    def _decoded(self, raw: bytes, encoding: str, content_type: str) -> Body:
        try:
            return self._scanner.read(decode(raw, encoding, self._largest_body), content_type)
        except EncodingError as error:
            return unreadable(str(error))

    def _understood(
        self, path: str, headers: Mapping[str, str], exchange: Exchange, body: Body
    ) -> tuple[RequestFacts, str | None]:
        """What the request says of itself, and its conversation. Takes long where the first message is long."""
        facts = wire_for(path).read(bare_path(path), headers, body.outline)
        return facts, self._conversations.key(exchange, facts)

    def _next_id(self) -> str:
        """Ids sort by time, also within one microsecond: the activity pages by them."""
        self._last_id = max(self._last_id + 1, time.time_ns() // 1000)
        return f"{self._last_id:014x}"
