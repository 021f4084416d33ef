"""The log of exchanges: the last thousand, in memory, newest first. It holds no text."""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Iterator
from datetime import datetime
from operator import itemgetter
from typing import Any, TypedDict, Unpack

from memory.exchange import Exchange
from memory.since import last_id_before

MOST_ENTRIES = 1000
"""Entries kept while nothing is written to disk (dispatch.md, `state: null`)."""
LARGEST_PAGE = 1000
EXPORT_CHUNK = 200
"""Entries at a time."""


class Filters(TypedDict, total=False):
    """Which entries: those that carried this note, of this client, for this model; that carried notes at all."""

    note: str | None
    client: str | None
    model: str | None
    notes_only: bool


class Activity:
    """Exchanges by id. Used from the event loop's thread only.

    `memory/activity_store.py` is the same with a file behind it.
    """

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        self._most = most
        self._entries: dict[str, dict[str, Any]] = {}
        self._ids: list[str] = []
        """A heap: which entry is the oldest is asked at every one that comes in."""

    @property
    def warnings(self) -> list[str]:
        """What a person should know of how the log is kept."""
        return []

    def put(self, exchange: Exchange) -> dict[str, Any]:
        """Add an exchange, or bring its entry up to date; returns the entry as the API gives it. Never blocks."""
        entry = exchange.to_json()
        if exchange.id not in self._entries:
            heapq.heappush(self._ids, exchange.id)
        self._entries[exchange.id] = entry
        if len(self._entries) > self._most:
            del self._entries[heapq.heappop(self._ids)]
        return entry

    def entries(
        self, before: str | None = None, limit: int = 100, **filters: Unpack[Filters]
    ) -> tuple[list[dict[str, Any]], str | None]:
        """One page, newest first, and the `before` of the next page (None: there is none).

        Ids sort by time, so `before` may name an entry that is gone by now. `limit` is cut to 1…1,000.
        """
        limit = min(max(limit, 1), LARGEST_PAGE)
        page: list[dict[str, Any]] = []
        for entry in self._newest_first(before):
            if not matches(entry, **filters):
                continue
            if len(page) == limit:
                return page, page[-1]["id"]
            page.append(entry)
        return page, None

    async def page(
        self, before: str | None = None, limit: int = 100, **filters: Unpack[Filters]
    ) -> tuple[list[dict[str, Any]], str | None]:
        """As `entries`, for those on the event loop."""
        return self.entries(before, limit, **filters)

    async def export(self, since: datetime | None = None) -> AsyncGenerator[list[dict[str, Any]]]:
        """Every entry that began at `since` or later, oldest first, some at a time."""
        after = last_id_before(since)
        entries = [entry for entry in self._newest_first(None) if entry["id"] > after]
        entries.reverse()
        for at in range(0, len(entries), EXPORT_CHUNK):
            yield entries[at : at + EXPORT_CHUNK]

    def requests(self, since: datetime | None = None) -> Iterator[dict[str, Any]]:
        """Entries that began at `since` or later and were sent, or ended unsent, oldest first: as they came in.

        For a thread of its own: it reads all of them, and so may take its time.
        """
        after = last_id_before(since)
        for _, entry in sorted(self._entries.items(), key=itemgetter(0)):
            if entry["id"] > after and (entry["sentTo"] or entry["outcome"]):
                yield entry

    def start(self) -> None:
        """Open what it is kept in."""

    async def flush(self) -> None:
        """Wait until what was put is where it is kept."""

    async def aclose(self) -> None:
        """Write down what is left."""

    def _newest_first(self, before: str | None) -> Iterator[dict[str, Any]]:
        # Not in the order they were put: a body that takes long to arrive is put after shorter ones that came later.
        for identifier in sorted(self._entries, reverse=True):
            if before is None or identifier < before:
                yield self._entries[identifier]


def matches(
    entry: dict[str, Any],
    note: str | None = None,
    client: str | None = None,
    model: str | None = None,
    *,
    notes_only: bool = False,
) -> bool:
    if note is not None and all(one["id"] != note for one in entry["notes"]):
        return False
    if (client is not None and entry["client"] != client) or (model is not None and entry["model"] != model):
        return False
    return bool(entry["notes"]) or not notes_only
