"""Requests on hold: each waits for a person, for its time to run out, or for its client to leave (dispatch.md, `hold`).

It holds no text of a request: what is known of one is its activity entry.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from memory.exchange import Exchange, Protocol, timestamp

type Answer = Literal["released", "blocked", "redirected", "expired", "left"]
type HeldState = Literal["waiting"] | Answer

MOST_HELD = 200
"""At a time. The bodies of all of them are kept."""
MOST_ENDED = 1000
"""Ends that are remembered, so that who comes second is told what the first one did."""


@dataclass(frozen=True, slots=True)
class Released:
    """How a wait ended; `target` is the name of a configured target, for `redirected`."""

    answer: Answer
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """One request that waits. `entry` is its activity entry as of `since`."""

    id: str
    since: datetime
    until: datetime
    protocol: Protocol
    entry: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "since": timestamp(self.since), "until": timestamp(self.until), "entry": self.entry}


class HeldRequests:
    """Those that wait, by activity id. Used from the event loop's thread only.

    Whoever decides first has decided, be it a person, the clock or the client. `on_change` is called with the id and the
    new state when a wait begins and when it ends.
    """

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._waiting: dict[str, tuple[Held, asyncio.Future[Released]]] = {}
        self._ended: OrderedDict[str, Answer] = OrderedDict()
        self.on_change: list[Callable[[str, HeldState], None]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, exchange: Exchange, seconds: float) -> asyncio.Future[Released]:
        """Put a request on hold; what comes back is done once it is decided on.

        Where too many wait already its time has run out at once.
        """
        answer: asyncio.Future[Released] = asyncio.get_running_loop().create_future()
        if len(self._waiting) >= self._most:
            answer.set_result(Released("expired"))
            return answer
        since = datetime.now(UTC)
        until = since + timedelta(seconds=seconds)
        held = Held(exchange.id, since, until, exchange.protocol, exchange.to_json())
        self._waiting[exchange.id] = held, answer
        self._tell(exchange.id, "waiting")
        return answer

    def decide(self, identifier: str, released: Released) -> bool:
        """End a wait. False: it does not wait, or no longer; nothing is changed then."""
        _, answer = self._waiting.pop(identifier, (None, None))
        if answer is None:
            return False
        if not answer.done():  # the one who waited may have been cancelled
            answer.set_result(released)
        self._ended[identifier] = released.answer
        if len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)
        self._tell(identifier, released.answer)
        return True

    def find(self, identifier: str) -> Held | None:
        """None: it does not wait."""
        held, _ = self._waiting.get(identifier, (None, None))
        return held

    def ended(self, identifier: str) -> Answer | None:
        """How its wait ended; None: it still waits, or that is not known."""
        return self._ended.get(identifier)

    def waiting(self) -> list[Held]:
        """Those that have waited longest come first."""
        return [held for held, _ in self._waiting.values()]

    def _tell(self, identifier: str, state: HeldState) -> None:
        for told in list(self.on_change):
            told(identifier, state)
