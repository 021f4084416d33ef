"""All sources together: loads them, builds map and index from them, and swaps in what is new in one assignment."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Literal

from memory.exchange import timestamp
from memory.index import NoteIndex
from memory.note_map import NoteMap
from memory.notes import Link, MemoryDocument, MemorySource, Note, SourceWarning
from memory.sources import BuiltInSource

logger = logging.getLogger(__name__)

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


class ScanStoppedError(Exception):
    """Raised inside a scan when the library is closed meanwhile."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    state: SourceState
    notes: tuple[Note, ...] = ()


class NoteLibrary:
    """Holds the current `snapshot` and renews it. Every method is called on the event loop's thread.

    Note text lives from the reading of a source to the end of the same scan, and no longer.
    """

    def __init__(self, sources: Sequence[MemorySource], *, options: LibraryOptions | None = None) -> None:
        self.options = options or LibraryOptions()
        self.on_change: list[Callable[[Snapshot], None]] = []
        """Called on the loop's thread with the new snapshot when notes, links, errors or warnings changed."""
        self._sources = tuple(sources)
        # Real paths, so that a file is one file to the index however many sources reach it.
        self._roots = {
            source.name: os.path.realpath(source.location)
            for source in self._sources
            if isinstance(source, BuiltInSource)
        }
        self.snapshot = Snapshot(
            map=NoteMap(),
            index=self._index(()),
            sources=tuple(_state(source) for source in self._sources),
            loaded_at=None,
        )
        self._stamps: tuple[object, ...] | None = None
        self._digest: bytes | None = None
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

    def refresh_if_old(self) -> None:
        """Start a scan in the background if the last one is older than `refresh_interval`. Returns at once."""
        age = None if self._scanned is None else time.monotonic() - self._scanned
        if not self._closed and (age is None or age > self.options.refresh_interval):
            self._start()

    async def aclose(self) -> None:
        """End a running scan; its thread stops at the next note."""
        self._closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

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
        stamps = tuple([await _stamp(source) for source in self._sources])
        if self._stamps is not None and None not in stamps and stamps == self._stamps:
            return self._publish(self.snapshot.map, self.snapshot.index, self.snapshot.sources)
        loaded = [await self._load(source) for source in self._sources]
        digest, note_map, index = await asyncio.to_thread(self._build, loaded)
        self._stamps, self._digest = stamps, digest
        return self._publish(note_map, index, tuple(one.state for one in loaded))

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

    async def _load(self, source: MemorySource) -> _Loaded:
        state = _state(source)
        if not state.enabled:
            return _Loaded(state)
        built_in = source if isinstance(source, BuiltInSource) else None
        if built_in:
            built_in.on_progress = lambda done, total: self._progress(source.name, done, total)
        try:
            documents = await source.load()
            notes, warnings = await asyncio.to_thread(_notes, source.name, documents)
        except ScanStoppedError:
            raise
        except Exception as error:  # noqa: BLE001  # a source may be anyone's code; its failure is its own (notes.md)
            reason = str(error) or type(error).__name__
            if (source.name, reason) not in {(state.name, state.error) for state in self.snapshot.sources}:
                logger.warning("source %s: %s", source.name, reason)
            return _Loaded(replace(state, error=reason))
        if built_in:
            state = replace(state, skipped=built_in.report.skipped)
            warnings = (*built_in.report.warnings, *warnings)
        return _Loaded(replace(state, notes=len(notes), warnings=warnings), notes)

    def _progress(self, source: str, done: int, total: int) -> None:
        if self._closed:
            raise ScanStoppedError
        for listener in tuple(self._listeners):
            listener(source, done, total)

    def _build(self, loaded: Sequence[_Loaded]) -> tuple[bytes, NoteMap, NoteIndex]:
        """(digest of all documents, map, index): the old ones when the digest is the old one."""
        digest = _digest(loaded)
        if digest == self._digest:
            return digest, self.snapshot.map, self.snapshot.index
        notes = [note for one in loaded for note in one.notes]
        index = self._index(self._until_closed(notes))
        return digest, NoteMap(notes, index.facts), index

    def _index(self, notes: Iterable[Note]) -> NoteIndex:
        return NoteIndex.build(
            notes,
            roots=self._roots,
            minimum_line_length=self.options.minimum_line_length,
            mentions=self.options.mentions,
            fold_paths=sys.platform in {"win32", "darwin"},
        )

    def _until_closed(self, notes: Iterable[Note]) -> Iterator[Note]:
        for note in notes:
            if self._closed:
                raise ScanStoppedError
            yield note


def _state(source: MemorySource) -> SourceState:
    enabled = source.enabled if isinstance(source, BuiltInSource) else True
    return SourceState(source.name, source.kind, source.location, enabled)


async def _stamp(source: MemorySource) -> object:
    """Equal to the last one: nothing changed. None: read it to know."""
    if not isinstance(source, BuiltInSource):
        return None
    if not source.enabled:
        return ()
    try:
        return await source.stamp()
    except OSError:
        # `load` meets the same error and says so.
        return None


def _same(old: Sequence[SourceState], new: Sequence[SourceState]) -> bool:
    return [replace(state, scanned_at=None) for state in old] == [replace(state, scanned_at=None) for state in new]


def _notes(source: str, documents: Iterable[MemoryDocument]) -> tuple[tuple[Note, ...], tuple[SourceWarning, ...]]:
    """The notes of one source and what was wrong with its documents. Raises TypeError for what is no document."""
    notes: dict[str, Note] = {}
    warnings: list[SourceWarning] = []
    for document in documents:
        if not isinstance(document, MemoryDocument) or not isinstance(document.text, str):
            raise TypeError("load() gave something that is no MemoryDocument with a text")
        if document.path in notes:
            warnings.append(SourceWarning(document.path, "two notes have this path; the first counts"))
        else:
            notes[document.path] = _note(source, document)
    return tuple(notes.values()), tuple(warnings)


def _note(source: str, document: MemoryDocument) -> Note:
    return Note(
        id=f"{source}/{document.path}",
        source=source,
        path=document.path,
        title=document.title or _file_title(document.path),
        text=document.text,
        aliases=document.aliases,
        tags=document.tags,
        links=tuple(Link(link) if isinstance(link, str) else link for link in document.links),
        size=len(document.text.encode("utf-8", "replace")) if document.size is None else document.size,
    )


def _file_title(path: str) -> str:
    """The file's name without its extension."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


def _digest(loaded: Sequence[_Loaded]) -> bytes:
    """One value for everything that map and index are made of."""
    digest = blake2b(digest_size=16)
    for one in loaded:
        for note in one.notes:
            head = (note.id, note.title, note.aliases, note.tags, note.links, note.size)
            text = note.text.encode("utf-8", "surrogatepass")
            digest.update(f"{head!r} {len(text)} ".encode("utf-8", "backslashreplace"))
            digest.update(text)
    return digest.digest()
