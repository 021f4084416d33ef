"""The exchanges that are under way: the one place where a flow's state lives while it passes through the suite."""

from __future__ import annotations

from dataclasses import dataclass

from mitmproxy import connection, http

from addons.loop.dialect import Dialect, Offered
from addons.wire.answer import Answer
from addons.wire.facts import RequestFacts
from memory.body import Body
from memory.conversations.recall_tool import RecallTool
from memory.conversations.said import Message, Prepared
from memory.exchange import Exchange
from memory.index import NoteIndex
from memory.note_library import Snapshot

INLINE_BYTES = 64 * 1024
"""Bodies of at most so much that is new are read and scanned on the event loop, which takes some milliseconds."""
MOST_INLINE = 512 * 1024
"""Larger bodies never are, since what looks familiar may be all new: the streams of other flows would stall."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A request of a client that has a memory, as it was read."""

    body: Body
    facts: RequestFacts


@dataclass(slots=True)
class Asked:
    """What such a request said, in the words of `memory.conversations.said`."""

    key: str | None
    messages: tuple[Message, ...]
    prepared: Prepared | None = None
    continues: bool = False
    previous: str | None = None
    recorded: Message | None = None
    """The answer to it that was written down last."""


@dataclass(frozen=True, slots=True)
class Offering:
    """A request that offers the recall tool to the model."""

    dialect: Dialect
    offered: Offered
    tool: RecallTool


class Flows:
    """The exchange of each flow that is a request to a model, until it has been answered or has failed.

    A WebSocket is one flow with many exchanges. What a client says begins the latest; what the server says belongs to the
    oldest of its lane, since a server answers the turns of a lane one after the other
    (https://developers.openai.com/api/docs/guides/websocket-mode).
    """

    def __init__(self) -> None:
        self._exchanges: dict[str, list[Exchange]] = {}
        self._bodies: dict[str, Body] = {}
        self._notes: dict[str, Snapshot] = {}
        self._answers: dict[str, Answer] = {}
        self._lanes: dict[str, str | None] = {}
        """The lane of each exchange that is a turn on a WebSocket."""
        self._heard: dict[str, Heard] = {}
        self._asked: dict[str, Asked] = {}
        """Exchange -> what it said; only of clients that have a memory."""
        self._offerings: dict[str, Offering] = {}
        self._sizes: dict[str, int] = {}
        """Connection of a client, while it is open -> bytes of the last body that was scanned for it."""
        self._index: NoteIndex | None = None
        """That of those scans."""

    def begin(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        self._exchanges.setdefault(flow.id, []).append(exchange)

    def of(self, flow: http.HTTPFlow) -> Exchange | None:
        """None: not a request to a model, or finished."""
        under_way = self._exchanges.get(flow.id)
        return under_way[-1] if under_way else None

    def under_way(self, flow: http.HTTPFlow) -> tuple[Exchange, ...]:
        """All that have not ended, in no order."""
        return tuple(self._exchanges.get(flow.id, ()))

    def hand_on(self, flow: http.HTTPFlow, body: Body) -> None:
        """Keep a body that was read until the stage that scans it takes it, so that it is decoded once."""
        self._bodies[flow.id] = body

    def take_body(self, flow: http.HTTPFlow) -> Body | None:
        return self._bodies.pop(flow.id, None)

    def is_quick(self, flow: http.HTTPFlow, size: int) -> bool:
        """Whether a body is read and scanned at once: one that is small, or hardly longer than the last on its connection.

        Agents send the whole conversation again each turn, and what was there before takes next to no time: less than the
        two changes of the thread, each of which waits for the interpreter.
        """
        before = self._sizes.get(flow.client_conn.id, 0)
        return size <= INLINE_BYTES or size <= min(before + INLINE_BYTES, MOST_INLINE)

    def was_scanned(self, flow: http.HTTPFlow, size: int) -> None:
        """Keep how large the body was, for the next on its connection."""
        if flow.client_conn.connected:
            self._sizes[flow.client_conn.id] = size

    def client_gone(self, client: connection.Client) -> None:
        self._sizes.pop(client.id, None)

    def hear(self, exchange: Exchange, heard: Heard) -> None:
        """Keep a request for the stage that remembers it; its body is decoded once, too."""
        self._heard[exchange.id] = heard

    def take_heard(self, exchange: Exchange) -> Heard | None:
        return self._heard.pop(exchange.id, None)

    def ask(self, exchange: Exchange, asked: Asked) -> None:
        """Keep what a request said until its answer is over."""
        self._asked[exchange.id] = asked

    def asked_of(self, exchange: Exchange) -> Asked | None:
        """None: it is not remembered."""
        return self._asked.get(exchange.id)

    def offer(self, exchange: Exchange, offering: Offering) -> None:
        """Keep how a request offers the recall tool until its answer is over."""
        self._offerings[exchange.id] = offering

    def offering_of(self, exchange: Exchange) -> Offering | None:
        """None: it does not offer it."""
        return self._offerings.get(exchange.id)

    def scanned_for(self, flow: http.HTTPFlow, notes: Snapshot) -> None:
        """Keep what notes a request is scanned for: rules are asked about those, and they are withheld."""
        self._notes[flow.id] = notes
        if notes.index is not self._index:
            self._index = notes.index
            self._sizes.clear()  # all of every body is scanned anew

    def notes_of(self, flow: http.HTTPFlow) -> Snapshot | None:
        """None: it was not scanned."""
        return self._notes.get(flow.id)

    def expect_answer(self, flow: http.HTTPFlow, lane: str | None) -> None:
        """The latest message on a WebSocket is a turn; one that the model does not answer is over once it is sent."""
        if (exchange := self.of(flow)) is not None:
            self._lanes[exchange.id] = lane

    def awaits_answer(self, flow: http.HTTPFlow) -> bool:
        exchange = self.of(flow)
        return exchange is not None and exchange.id in self._lanes

    def turn_to(self, flow: http.HTTPFlow, lane: str | None) -> Exchange | None:
        """The turn that a message of the server belongs to; `of` gives it from now on."""
        under_way = self._exchanges.get(flow.id, [])
        turns = [one for one in under_way if self._lanes.get(one.id) == lane]
        if not turns and lane is None:  # an error may name no lane
            turns = under_way
        if not turns:
            return None
        oldest = min(turns, key=lambda one: one.id)  # ids sort by time
        under_way.remove(oldest)
        under_way.append(oldest)
        return oldest

    def answered(self, flow: http.HTTPFlow, answer: Answer) -> None:
        """Keep what the model answered for the stages that write it down and show it."""
        self._answers[flow.id] = answer

    def answer_of(self, flow: http.HTTPFlow) -> Answer | None:
        """None: the answer is not over, or it could not be read."""
        return self._answers.get(flow.id)

    def end(self, flow: http.HTTPFlow) -> Exchange | None:
        """The exchange, for the last time; None if it has ended before, so that finishing twice does nothing."""
        self._bodies.pop(flow.id, None)
        self._notes.pop(flow.id, None)
        self._answers.pop(flow.id, None)
        under_way = self._exchanges.get(flow.id)
        if not under_way:
            return None
        exchange = under_way.pop()
        for kept in (self._lanes, self._heard, self._asked, self._offerings):
            kept.pop(exchange.id, None)
        if not under_way:
            del self._exchanges[flow.id]
        return exchange
