"""What the loop has hidden from its clients, for as long as they may send the answers back.

In memory only: after a restart an answer that was made of several is sent back to the model as the client saw it.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping

from addons.loop.dialect import Passage

MOST_CHARACTERS = 32 * 1024 * 1024
"""Of all clients together; the passages that were not used for longest are forgotten first."""
_KEY = 100
"""Characters that each passage counts for beside its own."""


class HiddenPast:
    """The passages of all clients. For any thread: large requests are expanded in one of their own."""

    def __init__(self, most_characters: int = MOST_CHARACTERS) -> None:
        self._most = most_characters
        self._passages: OrderedDict[tuple[str, str], Passage] = OrderedDict()
        self._size = 0
        self._forgotten: Counter[str] = Counter()
        """How often all of a client was forgotten."""
        self._lock = threading.Lock()

    def of(self, client: str) -> ClientPast:
        return ClientPast(self, client, self._forgotten[client])

    def keep(self, client: str, passages: Mapping[str, Passage], forgotten: int) -> None:
        """What was hidden in an answer that began when the client had been `forgotten` so often; not if it has been since."""
        with self._lock:
            if forgotten != self._forgotten[client]:
                return
            for key, passage in passages.items():
                self._take(client, key)
                self._passages[client, key] = passage
                self._size += passage.size + _KEY
            while self._size > self._most:
                _, passage = self._passages.popitem(last=False)
                self._size -= passage.size + _KEY

    def find(self, client: str, key: str) -> Passage | None:
        with self._lock:
            passage = self._passages.get((client, key))
            if passage is not None:
                self._passages.move_to_end((client, key))
            return passage

    def forget(self, client: str) -> None:
        """A client whose memory was switched off, or of which something was deleted."""
        with self._lock:
            self._forgotten[client] += 1
            for known, key in [one for one in self._passages if one[0] == client]:
                self._take(known, key)

    def _take(self, client: str, key: str) -> None:
        """Called with the lock held."""
        if (passage := self._passages.pop((client, key), None)) is not None:
            self._size -= passage.size + _KEY


class ClientPast:
    """What was hidden from one client (`dialect.Past`), as long as none of it is to be forgotten."""

    def __init__(self, past: HiddenPast, client: str, forgotten: int) -> None:
        self._past = past
        self._client = client
        self._forgotten = forgotten

    def passage(self, key: str) -> Passage | None:
        return self._past.find(self._client, key)

    def keep(self, passages: Mapping[str, Passage]) -> None:
        self._past.keep(self._client, passages, self._forgotten)
