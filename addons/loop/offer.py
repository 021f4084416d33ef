"""Offer: the stage that adds the recall tool to requests of clients that are `mcp_via_llm`; and the one that has them answered
by the loop.

Fails open: a request that cannot be offered the tool goes its way without.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from http import HTTPStatus

from mitmproxy import http

from addons.encodings import decode
from addons.faults import traced
from addons.flows import INLINE_BYTES, Flows, Offering
from addons.gateway import Failure
from addons.lead import Dial, origin_of
from addons.loop.answering import Loop
from addons.loop.dialect import Dialect, Offered, Request
from addons.loop.past import HiddenPast
from addons.loop.searcher import Searcher
from addons.outgoing import Origin
from addons.providers import ProviderTable
from addons.reroute import Reroute
from addons.withhold import is_signed, send_instead
from memory.body import Body
from memory.conversations.recall_tool import RecallTool
from memory.exchange import Exchange, Protocol
from memory.scan import Scanner

logger = logging.getLogger(__name__)

MOST_FAILURES = 20
NO_SOCKETS = "mitmemory: the memory of this client works over HTTPS only, use that"


class Offer:
    """Its place is after the stage that reads a request, and before the one that scans it: rules judge what is really sent.

    Args:
        takes: whether the loop is for a client, by its slug.
        tool: the tool, under its name of the moment.
        dialect_for: how a protocol offers tools; None: it has none.

    """

    def __init__(
        self,
        flows: Flows,
        providers: ProviderTable,
        searcher: Searcher,
        *,
        takes: Callable[[str], bool],
        client_of: Callable[[http.HTTPFlow], str],
        tool: Callable[[], RecallTool],
        dialect_for: Callable[[Protocol], Dialect | None],
        largest_body: int,
        scanner: Scanner,
    ) -> None:
        self._flows = flows
        self._providers = providers
        self._searcher = searcher
        self._takes = takes
        self._client_of = client_of
        self._tool = tool
        self._dialect_for = dialect_for
        self._largest_body = largest_body
        self._scanner = scanner
        self.past = HiddenPast()
        self._refusing: set[tuple[str, str]] = set()
        """Clients and models whose provider takes no such tool."""
        self._failures: deque[str] = deque(maxlen=MOST_FAILURES)

    @property
    def warnings(self) -> list[str]:
        refused = [
            f"{client}: its provider refuses the tool for recall inside the conversation: set `mode: both` for this client, "
            "and add the memory to it as an MCP server"
            for client in sorted({client for client, _ in self._refusing})
        ]
        return [*refused, *self._failures]

    async def request(self, flow: http.HTTPFlow) -> None:
        if flow.response is not None:
            return
        exchange = self._flows.of(flow)
        if exchange is None:
            self._refuse_socket(flow)
        elif not exchange.side_request and self._takes(exchange.client):
            try:
                await self._offer(flow, exchange)
            except Exception as error:  # noqa: BLE001 - the request goes its way without the tool
                logger.error("The recall tool could not be offered: %s", traced(error))  # noqa: TRY400 - without its message
                self._failures.append(f"The recall tool was not offered: {type(error).__name__}")

    def answering_of(self, exchange: Exchange) -> Loop | None:
        """How a request is answered that is led to the gateway; None: as it comes."""
        offering = self._flows.offering_of(exchange)
        if offering is None:
            return None
        return Loop(
            offering,
            exchange.protocol,
            self._searcher.for_exchange(exchange, partial(self._flows.asked_of, exchange)),
            keep=self.past.of(exchange.client).keep,
            refused=partial(self._refuse, exchange.client, exchange.model),
            largest_answer=self._largest_body,
        )

    def _refuse_socket(self, flow: http.HTTPFlow) -> None:
        """The client falls back to HTTPS, where the loop can be."""
        request = flow.request
        if (
            request.headers.get("upgrade", "").lower() == "websocket"
            and self._providers.find(request.host, request.port) is not None
            and self._takes(self._client_of(flow))
        ):
            flow.response = http.Response.make(HTTPStatus.UPGRADE_REQUIRED, NO_SOCKETS)

    async def _offer(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        dialect, request = self._dialect_for(exchange.protocol), flow.request
        raw = request.raw_content or b""
        if dialect is None or is_signed(request.headers, request.path):
            return
        tool = self._tool()
        if len(raw) <= INLINE_BYTES:
            made = self._made(request, raw, dialect, tool, exchange.client)
        else:
            made = await asyncio.to_thread(self._made, request, raw, dialect, tool, exchange.client)
        if made is None:
            return
        offered, data, body = made
        if offered.without_tool is not None and (exchange.client, exchange.model) in self._refusing:
            return
        send_instead(request, data)
        if body is not None:
            self._flows.hand_on(flow, body)
        self._flows.offer(exchange, Offering(dialect, offered, tool))
        if (memories := self._searcher.memories()) is not None:
            memories.warm(exchange.client)  # opening an index may take longer than a search may

    def _made(
        self, request: http.Request, raw: bytes, dialect: Dialect, tool: RecallTool, client: str
    ) -> tuple[Offered, bytes, Body | None] | None:
        """What is sent instead, and how it reads where that is not as before but for the tool."""
        headers = request.headers
        try:
            text = decode(raw, headers.get("content-encoding", ""), self._largest_body).decode()
        except ValueError:  # its encoding is another than it says, or none that we know
            return None
        offered = dialect.offer(Request(request.path, text), tool, self.past.of(client))
        if offered is None:
            return None
        data = offered.text.encode()
        body = self._scanner.read(data, headers.get("content-type", "")) if offered.is_expanded else None
        return offered, data, body

    def _refuse(self, client: str, model: str) -> None:
        if not any(client == one for one, _ in self._refusing):
            logger.warning("The provider of %s refuses the tool for recall: set `mode: both` for this client", client)
        self._refusing.add((client, model))


class LeadOffered:
    """Leads a request that offers the tool to the gateway, where no rule has done so: to the provider that it is for.

    Its place is after all that may still change the request, or answer it.
    """

    def __init__(self, flows: Flows, providers: ProviderTable, reroute: Reroute, dial: Dial) -> None:
        self._flows = flows
        self._providers = providers
        self._reroute = reroute
        self._dial = dial

    def request(self, flow: http.HTTPFlow) -> None:
        exchange = self._flows.of(flow)
        if exchange is None or flow.response is not None or exchange.is_led or not self._flows.offering_of(exchange):
            return
        origin = origin_of(flow, exchange, self._providers, self._dial)

        async def to_origin(_failures: tuple[Failure, ...]) -> Origin:
            return origin

        self._reroute.redirect(flow, exchange, (), to_origin)
