"""The log of exchanges, kept in a file (dispatch.md, "What is recorded"): survives restarts, bounded, holds no text.

The latest exchanges are in memory as well, as in `Activity`. What is in memory goes before what is in the file: it is
what the file will say in a moment, and all there is while the file cannot be used.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, Unpack

from memory.activity import EXPORT_CHUNK, LARGEST_PAGE, Activity, Filters
from memory.activity_file import NewerSchemaError, open_to_read
from memory.activity_rows import Found, read_all, read_page, read_requests
from memory.activity_writer import LedgerWriter, explain
from memory.exchange import Exchange

type Entries = list[dict[str, Any]]


class ActivityStore(Activity):
    """`Activity` with a file behind it. Used from the event loop's thread; `start` opens the file, `aclose` closes it.

    `keep` is in seconds. A row is written when a model got the body, and another when the exchange is over; an exchange
    that was neither is in memory only. One that a crash cut off keeps an outcome of None: nobody knows how it ended.
    """

    def __init__(self, file: Path, *, keep: float, max_entries: int, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.file = file
        self._writer = LedgerWriter(file, keep=keep, most=max_entries, clock=clock)
        self._unreadable: str | None = None

    @property
    def warnings(self) -> list[str]:
        return [*self._writer.warnings, *([self._unreadable] if self._unreadable else [])]

    def start(self) -> None:
        self._writer.start()

    def put(self, exchange: Exchange) -> dict[str, Any]:
        entry = super().put(exchange)
        if entry["sentTo"] or entry["outcome"]:
            self._writer.put(entry)
        return entry

    def entries(
        self, before: str | None = None, limit: int = 100, **filters: Unpack[Filters]
    ) -> tuple[Entries, str | None]:
        """As in `Activity`; reads the file, and so may take its time."""
        limit = min(max(limit, 1), LARGEST_PAGE)
        return self._page(self._read(before, limit + 1, filters), before, limit, filters)

    async def page(
        self, before: str | None = None, limit: int = 100, **filters: Unpack[Filters]
    ) -> tuple[Entries, str | None]:
        limit = min(max(limit, 1), LARGEST_PAGE)
        # The file goes first: what comes in meanwhile is in memory.
        kept = await asyncio.to_thread(self._read, before, limit + 1, filters)
        return self._page(kept, before, limit, filters)

    async def export(self, since: datetime | None = None) -> AsyncGenerator[Entries]:
        """What the file holds, as of now; what is in memory where there is no file that can be read.

        Raises sqlite3.Error when the file becomes unreadable in the midst of it.
        """
        await self.flush()
        try:
            connection = await asyncio.to_thread(open_to_read, self.file)
        except (sqlite3.Error, NewerSchemaError):
            async for entries in super().export(since):
                yield entries
            return
        chunks, busy = read_all(connection, since, EXPORT_CHUNK), threading.Lock()

        def following() -> Entries | None:
            with busy:
                return next(chunks, None)

        def close() -> None:
            with busy:  # whoever asked may have left while a thread still reads
                connection.close()

        try:
            while (chunk := await asyncio.to_thread(following)) is not None:
                yield chunk
        finally:
            await asyncio.to_thread(close)

    def requests(self, since: datetime | None = None) -> Iterator[dict[str, Any]]:
        """As in `Activity`: what the file holds, what is in memory where there is no file that can be read.

        Raises sqlite3.Error when the file becomes unreadable in the midst of it.
        """
        try:
            connection = open_to_read(self.file)
        except (sqlite3.Error, NewerSchemaError):
            yield from super().requests(since)
            return
        with closing(connection):
            yield from read_requests(connection, since)

    async def flush(self) -> None:
        await asyncio.to_thread(self._writer.flush)

    async def aclose(self) -> None:
        await asyncio.to_thread(self._writer.stop)

    def _read(self, before: str | None, limit: int, filters: Filters) -> Found:
        if not self.file.exists():
            return {}
        try:
            connection = open_to_read(self.file)
            try:
                entries = read_page(connection, before, limit, **filters)
            finally:
                connection.close()
        except (sqlite3.Error, NewerSchemaError) as error:
            self._unreadable = explain(error, self.file)
            return {}
        self._unreadable = None
        return entries

    def _page(self, kept: Found, before: str | None, limit: int, filters: Filters) -> tuple[Entries, str | None]:
        """The newest `limit` of `kept` and of those in memory; `kept` are one more than fit, if there are so many."""
        recent, more = super().entries(before, limit, **filters)
        found = {identifier: self._entries.get(identifier, entry) for identifier, entry in kept.items()}
        found |= {entry["id"]: entry for entry in recent}
        ids = sorted(found, reverse=True)[:limit]
        return [entry for one in ids if (entry := found[one])], ids[-1] if more or len(found) > limit else None
