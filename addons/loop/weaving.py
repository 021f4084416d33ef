"""What every weave does alike: it hears answers, one after the other, and goes on with a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from addons.loop.dialect import MOST_ANSWER, BrokenAnswerError
from addons.loop.events import Event, EventSplitter, TooLongError, event_of, is_whole
from addons.loop.places import appended, edited, members

NOT_RUN = "This search was not run."
"""The result of a call that the answer ended with, where the model is sent its own calls again and each needs one."""

_BLANK_LINE = b"\n\n"

type Take = Callable[[Event], bytes]


class Hearing:
    """The answers of which one is woven, as they come, and whether each can be gone on from.

    What is asked of a weave is given with each call, so that a weave and what it has read are gone as soon as nobody needs
    them: `take` takes an event, and gives what the client gets of it at once; `read` takes an answer that is one document, and
    raises ValueError or RecursionError where it is none of the protocol; `is_woven` says whether the client sees anything
    but the very answer.
    """

    def __init__(self) -> None:
        self._is_document: bool | None = None
        """What the first answer was; None: this is the first one."""
        self.owed = b""
        """For the client, and not given to it yet."""
        self._begin()

    def _begin(self) -> None:
        self._splitter = EventSplitter()
        self._size = 0
        self._is_given_up = False
        """Nothing more of it is read."""
        self.document: bytes | None = None
        """The answer, where it is one document."""
        self.is_over = False
        self.trouble: str | None = None
        """Why it cannot be gone on from."""

    @property
    def is_later(self) -> bool:
        """Whether this is not the first answer."""
        return self._is_document is not None

    def feed(self, data: bytes, take: Take) -> bytes:
        """As `dialect.Weave.feed`."""
        given, self.owed = self.owed, b""
        self._size += len(data)
        if self._size > MOST_ANSWER:
            self._give_up("it is too long")
        if self._is_document:
            self._give_up("it is a stream after one document")
        return given if self._is_given_up else given + self._taken(self._splitter.feed(data), take)

    def whole(self, data: bytes, read: Callable[[str], None]) -> None:
        """As `dialect.Weave.whole`."""
        self.document, self.is_over = data, True
        if self._is_document is False:
            self.trouble = "it is one document after a stream"
            return
        try:
            read(data.decode())
        except (ValueError, RecursionError):
            self.trouble = "it is no answer of its protocol"

    def end(self, take: Take, is_woven: Callable[[], bool]) -> None:
        """The answer has ended. What came without a blank line behind it is an event too, and gets one where the client is not
        given all to the byte; or it is a part of one, which is of no use then.
        """
        rest = self._splitter.rest()
        if not rest or (is_woven() and not is_whole(event_of(rest))):
            return
        self.owed += self._taken([event_of(rest + _BLANK_LINE if is_woven() else rest)], take)

    def is_good(self, is_woven: Callable[[], bool]) -> bool:
        """Whether the answer has come to its own end. False: the client gets what came, as it would without the loop.

        Raises BrokenAnswerError where it cannot have that.
        """
        trouble = self.trouble or (None if self.is_over else "it ended before it was over")
        if trouble is not None and (self._is_given_up or is_woven()):
            raise BrokenAnswerError(trouble)
        return trouble is None

    def begin_next(self) -> None:
        """Hear the next answer."""
        if self._is_document is None:
            self._is_document = self.document is not None
        self._begin()

    def as_it_came(self, held: Iterable[Event]) -> bytes:
        """What is owed of an answer of which nothing is hidden. `held` are the events that have waited for its end."""
        return self.owed + (self.document or b"".join(event.raw for event in held))

    def _taken(self, events: Iterable[Event], take: Take) -> bytes:
        given: list[bytes] = []
        try:
            given.extend(map(take, events))
        except (TooLongError, RecursionError):
            self._give_up("an event of it is too long, or nested too deep")
        return b"".join(given)

    def _give_up(self, trouble: str) -> None:
        self.trouble, self._is_given_up = trouble, True
        self._splitter = EventSplitter()  # with nothing in it


def gone_on(body: str, key: str, entries: Sequence[str]) -> str:
    """A request with more at the end of the list under a key. Raises BrokenAnswerError."""
    try:
        return edited(body, [appended(body, members(body)[key], entries)])
    except (ValueError, KeyError, RecursionError):
        raise BrokenAnswerError("its request cannot be gone on with") from None
