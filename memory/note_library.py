"""All sources together: loads them, builds map and index from them, and swaps in what is new in one assignment."""

from __future__ import annotations

import asyncio
import logging
import operator
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from memory.exchange import timestamp
from memory.index import NoteIndex
from memory.loading import Loaded, ScanStoppedError, load_source
from memory.note_map import NoteMap
from memory.notes import MemorySource, Note, SourceWarning
from memory.sources import BuiltInSource, IncrementalSource

logger = logging.getLogger(__name__)

type Reach = Callable[[Note], bool]
"""Which notes a rule may withhold from a request."""

type Progress = Callable[[str, int, int], None]
"""Told (source name, notes read, notes in all) during a scan, on the thread that reads."""


@dataclass(frozen=True, slots=True)
class LibraryOptions:
    """The keys of `memory:` in mitm.yaml that are about all sources. `refresh_interval` is in seconds."""

    minimum_line_length: int = 24
    mentions: Literal["careful", "seed"] = "careful"
    quotes: bool = True
    refresh_interval: float = 60.0


@dataclass(frozen=True, slots=True)
class SourceState:
    """What the last scan of one source came to. `error` set: nothing was loaded from it, and why."""

    name: str
    kind: str
    location: str
    enabled: bool = True
    notes: int = 0
    skipped: int = 0
    scanned_at: datetime | None = None
    warnings: tuple[SourceWarning, ...] = ()
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "location": self.location,
            "enabled": self.enabled,
            "notes": self.notes,
            "skipped": self.skipped,
            "scannedAt": timestamp(self.scanned_at) if self.scanned_at else None,
            "warnings": [{"path": warning.path, "reason": warning.reason} for warning in self.warnings],
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything known about the notes at one moment. `loaded_at` None: nothing has been scanned yet."""

    map: NoteMap
    index: NoteIndex
    sources: tuple[SourceState, ...]
    loaded_at: datetime | None

    def to_json(self) -> dict[str, Any]:
        """`GET api/memory` without the exposure (design.md). It holds no text of a note."""
        return {
            "loadedAt": timestamp(self.loaded_at) if self.loaded_at else None,
            "sources": [source.to_json() for source in self.sources],
            "nodes": self.map.nodes(),
            "links": self.map.links(),
        }


class NoteLibrary:
    """Holds the current `snapshot` and renews it. Every method is called on the event loop's thread.

    Note text lives from the reading of a source to the end of the same scan, and no longer. `cache` is a folder for what
    spares the next start some work: names and hashes, no text.
    """

    def __init__(
        self, sources: Sequence[MemorySource], *, options: LibraryOptions | None = None, cache: Path | None = None
    ) -> None:
        self.options = options or LibraryOptions()
        self.on_change: list[Callable[[Snapshot], None]] = []
        """Called on the loop's thread with the new snapshot when notes, links, errors or warnings changed."""
        self._sources = tuple(sources)
        self._cache = cache
        self._configured = 0
        self._last: dict[str, Loaded] = {}
        """Source name -> its last load, without text."""
        self._reach: Reach | None = None
        self._reached: Reach | None = None
        """That of the snapshot."""
        self.snapshot = Snapshot(
            map=NoteMap(),
            index=NoteIndex.build(()),
            sources=tuple(_state(source) for source in self._sources),
            loaded_at=None,
        )
        self._scanned: float | None = None
        self._running: asyncio.Task[Snapshot] | None = None
        self._listeners: list[Progress] = []
        self._closed = False

    async def scan(self, progress: Progress | None = None) -> Snapshot:
        """Scan every source now and return what came of it. Who asks while a scan runs gets the result of that scan.

        A source that fails is an error in its state, never an exception here.
        """
        if progress is not None:
            self._listeners.append(progress)
        try:
            return await asyncio.shield(self._start())
        finally:
            if progress is not None:
                self._listeners.remove(progress)

    @property
    def is_ready(self) -> bool:
        """Whether the snapshot is what requests are to be judged by: the notes are read, and all lines of those are known
        that rules may withhold.
        """
        return self.snapshot.loaded_at is not None and self._reached is self._reach

    def refresh_if_old(self) -> None:
        """Start a scan in the background if the last one is older than `refresh_interval`. Returns at once."""
        age = None if self._scanned is None else time.monotonic() - self._scanned
        if not self._closed and (age is None or age > self.options.refresh_interval):
            self._start()

    @property
    def sources(self) -> tuple[MemorySource, ...]:
        return self._sources

    def configure(self, sources: Sequence[MemorySource], options: LibraryOptions | None = None) -> None:
        """Replace the sources, and the options if there are new ones. The snapshot stays until the next scan is done.

        A scan that is running starts over; none is started here: call `refresh_if_old` or `scan`.
        """
        self._sources = tuple(sources)
        if options is not None:
            if replace(options, refresh_interval=self.options.refresh_interval) != self.options:
                self._last = {}  # the index is built anew, and for that the texts are needed
            self.options = options
        self._configured += 1
        self._scanned = None

    def reach(self, reach: Reach | None) -> None:
        """Say anew which notes may be withheld (None: none): hashes of all their lines are kept from the next scan on, for
        which those of them are read again whose lines are not known. As with `configure`, none is started here.
        """
        if reach is self._reach:
            return
        self._reach = reach
        self._configured += 1
        self._scanned = None

    async def aclose(self) -> None:
        """End a running scan, whose thread stops at the next note, and leave what the next start can use."""
        self._closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        await asyncio.to_thread(self._save)

    def _start(self) -> asyncio.Task[Snapshot]:
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._scan(), name="scan of the notes")
            self._running.add_done_callback(self._ended)
        return self._running

    def _ended(self, task: asyncio.Task[Snapshot]) -> None:
        self._running = None
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, ScanStoppedError):
            logger.error("the scan of the notes failed", exc_info=error)

    async def _scan(self) -> Snapshot:
        configured, sources, reach = self._configured, self._sources, self._reach
        is_first = not self._last
        unknown = await asyncio.to_thread(self._with_unknown_lines, reach)
        loaded = [await self._load(source, is_unknown=source.name in unknown) for source in sources]
        note_map, index, kept = await asyncio.to_thread(self._build, loaded, reach)
        if configured != self._configured:
            return await self._scan()
        self._last = {one.source.name: one for one in kept}
        self._reached = reach
        snapshot = self._publish(note_map, index, tuple(_state(one.source, one) for one in kept))
        if is_first:
            await asyncio.to_thread(self._save)
        return snapshot

    def _publish(self, note_map: NoteMap, index: NoteIndex, states: tuple[SourceState, ...]) -> Snapshot:
        now = datetime.now(UTC)
        old = self.snapshot
        sources = tuple(replace(state, scanned_at=now if state.enabled else None) for state in states)
        self.snapshot = Snapshot(note_map, index, sources, now)
        self._scanned = time.monotonic()
        changed = old.loaded_at is None or note_map is not old.map or not _same(old.sources, sources)
        for listener in tuple(self.on_change) if changed else ():
            listener(self.snapshot)
        return self.snapshot

    def _with_unknown_lines(self, reach: Reach | None) -> set[str]:
        """The sources with notes that may be withheld, and of which not all lines are known."""
        if reach is None or reach is self._reached:
            return set()
        known = self.snapshot.index.every_line
        return {
            name
            for name, one in self._last.items()
            if any(note.id not in known and reach(note) for note in self._until_closed(one.notes))
        }

    async def _load(self, source: MemorySource, *, is_unknown: bool) -> Loaded:
        """`is_unknown`: all of it is read, whatever has changed."""
        if isinstance(source, BuiltInSource):
            if not source.enabled:
                return Loaded(source)
            source.on_progress = lambda done, total: self._progress(source.name, done, total)
        last = self._last.get(source.name)
        if last is None or last.source is not source:
            last = None
            if self._cache is not None and isinstance(source, IncrementalSource):
                await asyncio.to_thread(source.restore, self._cache)
        loaded = await load_source(source, None if is_unknown else last)
        if loaded.error and (source.name, loaded.error) not in {(one.name, one.error) for one in self.snapshot.sources}:
            logger.warning("source %s: %s", source.name, loaded.error)
        return loaded

    def _progress(self, source: str, done: int, total: int) -> None:
        if self._closed:
            raise ScanStoppedError
        for listener in tuple(self._listeners):
            listener(source, done, total)

    def _build(self, loaded: Sequence[Loaded], reach: Reach | None) -> tuple[NoteMap, NoteIndex, list[Loaded]]:
        """(map, index, the loads without text): map and index are the old ones where they say the same."""
        old = self.snapshot
        notes = [note for one in loaded for note in one.notes]
        before = [note for one in self._last.values() for note in one.notes]
        is_same_reach = reach is self._reached
        if self._last and is_same_reach and len(notes) == len(before) and all(map(operator.is_, notes, before)):
            return old.map, old.index, list(loaded)
        index = NoteIndex.build(
            self._until_closed(notes),
            roots=_roots(one.source for one in loaded),
            minimum_line_length=self.options.minimum_line_length,
            mentions=self.options.mentions,
            fold_paths=sys.platform in {"win32", "darwin"},
            quotes=self.options.quotes,
            reachable=reach,
            previous=old.index,
        )
        kept = [one.without_text() for one in loaded]
        notes = [note for one in kept for note in one.notes]
        if index is old.index and notes == before:
            return old.map, index, kept
        return NoteMap(notes, index.facts, previous=old.map), index, kept

    def _save(self) -> None:
        for source in self._sources:
            if self._cache is not None and isinstance(source, IncrementalSource):
                source.save(self._cache)

    def _until_closed(self, notes: Iterable[Note]) -> Iterator[Note]:
        for note in notes:
            if self._closed:
                raise ScanStoppedError
            yield note


def _roots(sources: Iterable[MemorySource]) -> dict[str, str]:
    """Real paths, so that a file is one file to the index however many sources reach it."""
    return {source.name: os.path.realpath(source.location) for source in sources if isinstance(source, BuiltInSource)}


def _state(source: MemorySource, loaded: Loaded | None = None) -> SourceState:
    enabled = source.enabled if isinstance(source, BuiltInSource) else True
    state = SourceState(source.name, source.kind, source.location, enabled)
    if loaded is None:
        return state
    return replace(state, notes=len(loaded.notes), skipped=loaded.skipped, warnings=loaded.warnings, error=loaded.error)


def _same(old: Sequence[SourceState], new: Sequence[SourceState]) -> bool:
    return [replace(state, scanned_at=None) for state in old] == [replace(state, scanned_at=None) for state in new]
