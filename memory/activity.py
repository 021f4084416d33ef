"""The log of exchanges: the last thousand, in memory, newest first. It holds no text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memory.exchange import Exchange

MOST_ENTRIES = 1000
"""Entries kept while nothing is written to disk (dispatch.md, `state: null`)."""
LARGEST_PAGE = 1000


class Activity:
    """Exchanges by id. Used from the event loop's thread only."""

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        self._most = most
        self._entries: dict[str, dict[str, Any]] = {}

    def put(self, exchange: Exchange) -> dict[str, Any]:
        """Add an exchange, or bring its entry up to date; returns the entry as the API gives it."""
        entry = exchange.to_json()
        self._entries[exchange.id] = entry
        if len(self._entries) > self._most:
            del self._entries[min(self._entries)]
        return entry

    def entries(
        self,
        before: str | None = None,
        limit: int = 100,
        *,
        note: str | None = None,
        client: str | None = None,
        model: str | None = None,
        notes_only: bool = False,
    ) -> tuple[list[dict[str, Any]], str | None]:
        """One page, newest first, and the `before` of the next page (None: there is none).

        Ids sort by time, so `before` may name an entry that is gone by now. `limit` is cut to 1…1,000.
        """
        limit = min(max(limit, 1), LARGEST_PAGE)
        page: list[dict[str, Any]] = []
        for entry in self._newest_first(before):
            if note is not None and all(one["id"] != note for one in entry["notes"]):
                continue
            if (client is not None and entry["client"] != client) or (model is not None and entry["model"] != model):
                continue
            if notes_only and not entry["notes"]:
                continue
            if len(page) == limit:
                return page, page[-1]["id"]
            page.append(entry)
        return page, None

    def _newest_first(self, before: str | None) -> Iterator[dict[str, Any]]:
        # Not in the order they were put: a body that takes long to arrive is put after shorter ones that came later.
        for identifier in sorted(self._entries, reverse=True):
            if before is None or identifier < before:
                yield self._entries[identifier]
