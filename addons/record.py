"""Record: what was sent to whom, in the activity, the sharing counts and the events of the dashboard."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any, Protocol

from mitmproxy import http

from addons.flows import Flows
from memory.activity import Activity
from memory.exchange import Exchange, SentTo
from memory.exposure import Exposure

MOST_CONVERSATIONS = 10_000

type Conversation = tuple[str, str]


class Publisher(Protocol):
    """Where events go: the dashboard's event hub."""

    def publish(self, kind: str, data: dict[str, Any]) -> None: ...


class Carried:
    """Which notes each conversation has carried so far; the oldest conversations are forgotten first."""

    def __init__(self, most: int = MOST_CONVERSATIONS) -> None:
        self._most = most
        self._notes: OrderedDict[Conversation, set[str]] = OrderedDict()

    def before(self, exchange: Exchange) -> frozenset[str]:
        key = _key(exchange)
        return frozenset(self._notes.get(key, ())) if key else frozenset()

    def add(self, exchange: Exchange) -> None:
        if (key := _key(exchange)) is None:
            return
        self._notes.setdefault(key, set()).update(sighting.note for sighting in exchange.scan.sightings)
        self._notes.move_to_end(key)
        if len(self._notes) > self._most:
            self._notes.popitem(last=False)


def _key(exchange: Exchange) -> Conversation | None:
    return (exchange.client, exchange.conversation) if exchange.conversation is not None else None


class Record:
    """Writes down each exchange when it is routed, when its body has really been sent, and when it is over.

    A body counts as sent once the connection to the model stands and the body is released; a refused connection, or a
    server whose certificate does not hold, never counts (dispatch.md, "What is recorded").
    """

    def __init__(
        self, flows: Flows, activity: Activity, exposure: Exposure, events: Publisher, carried: Carried, *, count: bool
    ) -> None:
        self._flows = flows
        self._activity = activity
        self._exposure = exposure
        self._events = events
        self._carried = carried
        self._count = count
        self.clients: set[str] = set()
        """Every client that sent a request to a model."""

    def request(self, flow: http.HTTPFlow) -> None:
        if (exchange := self._flows.of(flow)) is not None:
            self.clients.add(exchange.client)
            self._publish(exchange)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        if (exchange := self._flows.of(flow)) is not None:
            self._note_sent(flow, exchange)

    def response(self, flow: http.HTTPFlow) -> None:
        exchange = self._flows.of(flow)
        if exchange is None or exchange.outcome or flow.response is None:
            return
        exchange.status = flow.response.status_code
        exchange.outcome = "answered" if exchange.status < 400 else "failed"
        self._finish(exchange)

    def error(self, flow: http.HTTPFlow) -> None:
        exchange = self._flows.of(flow)
        if exchange is None or exchange.outcome:
            return
        self._note_sent(flow, exchange)
        exchange.status = flow.response.status_code if flow.response else None
        exchange.outcome = "aborted" if _client_left(flow) else "failed"
        self._finish(exchange)

    def _note_sent(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        server = flow.server_conn
        stands = server.timestamp_tcp_setup and (server.timestamp_tls_setup or not server.tls)
        if exchange.sent_to or not stands:
            return
        self._carried.add(exchange)
        if self._count:
            sent = SentTo(exchange.model, exchange.to, exchange.upstream)
            exchange.sent_to.append(sent)
            self._exposure.record(exchange.scan.sightings, sent, datetime.now(UTC))

    def _finish(self, exchange: Exchange) -> None:
        exchange.finished_at = datetime.now(UTC)
        self._publish(exchange)

    def _publish(self, exchange: Exchange) -> None:
        self._events.publish("activity", self._activity.put(exchange))


def _client_left(flow: http.HTTPFlow) -> bool:
    """Whether it was the client that ended the flow: its connection is gone, or it reset the HTTP/2 stream."""
    message = flow.error.msg if flow.error else ""
    return not flow.client_conn.connected or "by client" in message or "Client disconnected" in message
