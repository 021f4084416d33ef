"""Record: what was sent to whom, in the activity, the sharing counts and the events of the dashboard."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from mitmproxy import http

from addons.flows import Flows
from memory.activity import Activity
from memory.exchange import By, Exchange, Scan, SentTo, Sighting
from memory.exposure import Exposure

MOST_CONVERSATIONS = 10_000
MOST_CLIENTS = 100
"""Clients remembered by name: their User-Agents name them, and so anybody can make up more."""
OTHERS = "others"
"""Stands for the clients that were longest silent, once there are more than that."""

type Conversation = tuple[str, str]


class Publisher(Protocol):
    """Where events go: the dashboard's event hub."""

    def publish(self, kind: str, data: dict[str, Any]) -> None: ...


class Carried:
    """Which notes each conversation has carried so far; the longest silent conversations are forgotten first."""

    def __init__(self, most: int = MOST_CONVERSATIONS) -> None:
        self._most = most
        self._notes: OrderedDict[Conversation, dict[str, By]] = OrderedDict()

    def marked(self, exchange: Exchange, sightings: Iterable[Sighting]) -> tuple[Sighting, ...]:
        """The sightings, those `resent` that say no more of a note than the conversation did before: text that comes after
        the bare name is told for the first time.
        """
        key = _key(exchange)
        before = self._notes.get(key, {}) if key else {}
        return tuple([_resent(one) if before.get(one.note) in (one.by, "content") else one for one in sightings])

    def add(self, exchange: Exchange) -> None:
        if (key := _key(exchange)) is None:
            return
        notes = self._notes.setdefault(key, {})
        for one in exchange.shared:
            if notes.get(one.note) != "content":
                notes[one.note] = one.by
        self._notes.move_to_end(key)
        if len(self._notes) > self._most:
            self._notes.popitem(last=False)


@dataclass(frozen=True, slots=True)
class SeenClient:
    """How often a client asked a model since the suite began, and when it did last."""

    requests: int
    last: datetime


class Seen:
    """The clients that sent a request to a model, the latest `most` of them."""

    def __init__(self, most: int = MOST_CLIENTS) -> None:
        self._most = most
        self._clients: OrderedDict[str, SeenClient] = OrderedDict()
        self._others = False

    def add(self, name: str, *, requests: int = 1) -> None:
        before = self.find(name)
        self._clients[name] = SeenClient((before.requests if before else 0) + requests, datetime.now(UTC))
        self._clients.move_to_end(name)
        if len(self._clients) > self._most:
            self._clients.popitem(last=False)
            self._others = True

    def find(self, name: str) -> SeenClient | None:
        return self._clients.get(name)

    def names(self) -> list[str]:
        """In alphabetical order; `OTHERS` comes last where some were forgotten."""
        named = sorted(self._clients.keys() - {OTHERS})
        return [*named, OTHERS] if self._others or OTHERS in self._clients else named


def _resent(one: Sighting) -> Sighting:
    # Not by `replace`, which takes four times as long: the next turn of a long conversation has hundreds.
    return Sighting(one.note, one.title, one.by, one.grade, one.matched, one.distinctive, one.evidence, resent=True)


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
        self._told: dict[str, set[tuple[str, ...]]] = {}
        """What has been said of messages that could not be read, for each open WebSocket."""
        self.clients = Seen()
        self.hits: Counter[str] = Counter()
        """Rule -> in how many requests it had a part, of those that are over. It is the suite that forgets any."""

    def request(self, flow: http.HTTPFlow) -> None:
        if (exchange := self._flows.of(flow)) is not None:
            self.clients.add(exchange.client)
            self._publish(exchange)

    def held(self, exchange: Exchange) -> None:
        """A request that waits for a person is told of before it goes any further."""
        self.clients.add(exchange.client, requests=0)  # it is counted when it does
        self._publish(exchange)

    def released(self, flow: http.HTTPFlow) -> None:
        """The connection stands, and the body goes out on it now (`released.py`)."""
        if (exchange := self._flows.of(flow)) is not None:
            self._note_sent(flow, exchange)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        self.released(flow)  # for what went another way than `released.py` sees

    def response(self, flow: http.HTTPFlow) -> None:
        exchange = self._flows.of(flow)
        if exchange is None or exchange.outcome or flow.response is None:
            return
        exchange.status = flow.response.status_code
        if exchange.decision.action == "block":
            exchange.outcome = "blocked"
            self._finish(exchange)
            return
        answer = self._flows.answer_of(flow)
        broken = exchange.status >= 400 or (answer is not None and (answer.error is not None or answer.cut))
        exchange.outcome = "failed" if broken else "answered"
        self._finish(exchange)

    def error(self, flow: http.HTTPFlow) -> None:
        exchange = self._flows.of(flow)
        if exchange is None or exchange.outcome:
            return
        self._note_sent(flow, exchange)
        # Whoever left while it was on hold has not seen the refusal.
        answered = flow.response if exchange.decision.action != "hold" else None
        exchange.status = answered.status_code if answered else None
        answer = self._flows.answer_of(flow)
        if answer is not None and answer.complete and not answer.error and _client_left(flow):
            exchange.outcome = "answered"  # a client may hang up as soon as it has read the last event
        else:
            exchange.outcome = "aborted" if _client_left(flow) else "failed"
        self._finish(exchange)

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        exchange = self._flows.of(flow)
        if exchange is None or flow.websocket is None:
            return
        if flow.websocket.messages[-1].from_client:
            self.clients.add(exchange.client)
            exchange.status = 101
            if exchange.decision.action == "block":
                exchange.outcome = "blocked"
                self._finish(exchange)
            elif self._flows.awaits_answer(flow):
                self._note_sent(flow, exchange)
                self._publish(exchange)
            elif self._tells_something(flow, exchange):
                self._note_sent(flow, exchange)
                exchange.outcome = "answered"
                self._finish(exchange)
        elif (answer := self._flows.answer_of(flow)) is not None:
            exchange.outcome = "failed" if answer.error else "answered"
            self._finish(exchange)

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        self._told.pop(flow.id, None)
        for exchange in self._flows.under_way(flow):
            exchange.outcome = "aborted" if flow.websocket and flow.websocket.closed_by_client else "failed"
            self._finish(exchange)

    def _tells_something(self, flow: http.HTTPFlow, exchange: Exchange) -> bool:
        """Of the messages that ask for no answer (sound, settings, pings of a client's own) those with notes in them are
        written down, and the first that cannot be read of each kind.
        """
        if exchange.scan.sightings:
            return True
        reasons, told = exchange.scan.reasons, self._told.setdefault(flow.id, set())
        if exchange.scan.state == "complete" or reasons in told:
            return False
        told.add(reasons)
        return True

    def _note_sent(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        server = flow.server_conn
        stands = server.timestamp_tcp_setup and (server.timestamp_tls_setup or not server.tls)
        is_sent = exchange.decision.action not in ("block", "redirect", "hold")
        if stands and is_sent and not exchange.sent_to and not exchange.is_led:
            self.sent(exchange, SentTo(exchange.model, exchange.to, exchange.upstream))

    def sent(self, exchange: Exchange, sent: SentTo) -> None:
        """A model receives the body. What was led elsewhere is for the place where it went."""
        self._carried.add(exchange)
        exchange.asked_to = exchange.asked_to or exchange.to
        exchange.to = sent.to
        if self._count:
            exchange.sent_to.append(sent)
            self._exposure.record(exchange.shared, sent, datetime.now(UTC))
            # Written down now: an answer may take minutes, and a crash must not forget who got the body.
            self._activity.put(exchange)

    def recalled(self, exchange: Exchange, sightings: Sequence[Sighting], sent: SentTo) -> None:
        """A model receives memories that it has searched for. A note in them counts as one in the request, which has counted
        those that it carries itself.
        """
        carried = {one.note for one in exchange.shared if one.by == "content"}
        new = self._carried.marked(exchange, [one for one in sightings if one.note not in carried])
        exchange.scan = _joined(exchange.scan, new)
        exchange.left = exchange.left and _joined(exchange.left, new)
        self._carried.add(exchange)
        if self._count:
            self._exposure.record(new, sent, datetime.now(UTC))
            self._activity.put(exchange)

    def _finish(self, exchange: Exchange) -> None:
        exchange.finished_at = datetime.now(UTC)
        self.hits.update({part.rule for part in exchange.decision.parts})
        self._publish(exchange)

    def _publish(self, exchange: Exchange) -> None:
        self._events.publish("activity", self._activity.put(exchange))


def _joined(scan: Scan, sightings: Iterable[Sighting]) -> Scan:
    """With what was found beside a body; that says more of a note than the mere name of it."""
    found = {one.note: one for one in (*scan.sightings, *sightings)}
    return replace(scan, sightings=tuple(found.values()))


def _client_left(flow: http.HTTPFlow) -> bool:
    """Whether it was the client that ended the flow: its connection is gone, or it reset the HTTP/2 stream."""
    message = flow.error.msg if flow.error else ""
    return not flow.client_conn.connected or "by client" in message or "Client disconnected" in message
