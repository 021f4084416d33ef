"""What the loop must know of a protocol: how a request offers a tool, and how the answers to several requests become one.

Pure: text and bytes in, text and bytes out; no flow, no socket, no search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from memory.conversations.recall_tool import RecallTool

MOST_ANSWER = 64 * 1024 * 1024
"""Bytes of one answer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A call of the recall tool. `arguments` is JSON as the model wrote it."""

    id: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Passage:
    """What really passed where the client has seen one answer: JSON texts, ready to be put into a later request.

    `instead` stands in place of the visible answer (messages; items for Responses; contents for Gemini). `results` go to the
    beginning of what follows it, where the client's own tools were called beside the recall tool, and the protocol wants all
    results together. `goes_on_from` is the id that `previous_response_id` must name instead (Responses only).
    """

    instead: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    goes_on_from: str | None = None

    @property
    def size(self) -> int:
        """Characters."""
        return sum(map(len, (*self.instead, *self.results)))


class Past(Protocol):
    """What was hidden from one client so far."""

    def passage(self, key: str) -> Passage | None:
        """What is kept under a key of the dialect's own making (`Weave.passages`); None: nothing, or not any more."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as its client sent it. `path` is as in the request line, with its query; `text` is its JSON."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Offered:
    """A request that offers the tool, its history as it really was.

    `without_tool` is what is sent once more where a provider may refuse the tool, and does (`answering.REFUSED`); None: it will not.
    """

    text: str
    is_streamed: bool
    is_expanded: bool = False
    """Hidden parts were put back into the history: what is sent holds more than what the client said."""
    without_tool: str | None = None
    before: str = ""
    """What the dialect knows the place of the answer by, of its own making: `Weave.passages` makes its keys of it."""


@dataclass(frozen=True, slots=True)
class Hop:
    """What one answer came to. `asks` empty: it is the last one.

    `calls_others`: tools of the client are called as well, so the conversation cannot go on without it.
    """

    asks: tuple[Ask, ...] = ()
    calls_others: bool = False


class BrokenAnswerError(Exception):
    """An answer ended before it was over, or with an error, or is not of the protocol's shape, and the client cannot simply be given it as
    it is: something of it, or an answer before it, is hidden. The message says how, without its text.
    """


class Weave(Protocol):
    """One answer made of several. Made for one request, used hop by hop, in this order:

        feed* or whole, then over -> Hop; with asks and without others, and while rounds are left: go_on -> the next body, and again;
        else finish, once, which gives the last bytes.

    What it gives to the client is complete at any time: events are never cut. The stream of an answer without a call of the tool
    passes to the byte. In later hops the events that begin an answer are dropped, indices go on, ids stay those of the first hop.
    The hop's last events (stop reason, usage, `[DONE]`) are held back until `finish`.
    """

    @property
    def ping(self) -> bytes:
        """Something that keeps a stream alive and that every client passes over; empty where there is no such thing."""

    def feed(self, data: bytes) -> bytes:
        """The next bytes of a stream, decoded, cut anywhere: what the client gets for them, at once."""

    def whole(self, data: bytes) -> None:
        """An answer that is one document."""

    def over(self) -> Hop:
        """The hop's answer has ended. Raises BrokenAnswerError; what was fed so far stays valid.

        A broken answer of which nothing is hidden is no error: `finish` gives what is left of it, and the client has it to the byte.
        """

    def go_on(self, results: Mapping[str, str]) -> str:
        """The body of the next request: the one before, the hidden turn verbatim (signed thinking, signatures), and the
        result of each ask (id -> text). Raises BrokenAnswerError where that body is none that can be gone on with.
        """

    def finish(self, results: Mapping[str, str]) -> bytes:
        """What is still owed to the client: the events that were held back, or the whole document; usage is summed, the stop reason right.

        `results` are those of asks beside calls of the client's own tools; an ask that is not answered is left out of what is seen, and
        the answer ends as one that has said all.
        """

    def passages(self) -> Mapping[str, Passage]:
        """After `finish`: what has to be kept for later requests, by keys that `Dialect.offer` finds again. Empty: nothing was hidden."""

    def error(self, message: str, kind: str = "api_error") -> bytes:
        """What is still owed to the client, the protocol's event for an answer that broke off after it had begun, and whatever ends
        a stream then. Without that event where the provider's own error is passed on.
        """


class Dialect(Protocol):
    """One protocol. It has no state."""

    def offer(self, request: Request, tool: RecallTool, past: Past) -> Offered | None:
        """The request with the tool, last in its tools, always the same bytes, every other byte as it was; and with the hidden parts
        of its history put back. None: it is left alone (tool choice forced or forbidden, a tool of that name, nothing to answer, …).

        Never raises for a body of any shape: what is not understood is left alone.
        """

    def weave(self, offered: Offered, body: str, tool: RecallTool) -> Weave:
        """For the answers to a request. `body` is what is really sent: `offered.text`, or without some notes, or for another model."""
