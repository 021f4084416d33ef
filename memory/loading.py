"""Loading one source: its notes, what was wrong with them, and what of it need not be read again the next time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import is_

from memory.notes import Link, LoadReport, MemoryDocument, MemorySource, Note, SourceWarning
from memory.sources import BuiltInSource, IncrementalSource
from memory.sources.own import load_own


class ScanStoppedError(Exception):
    """Raised inside a scan when the library is closed meanwhile."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one load of one source came to. `error` set: nothing was loaded, and why."""

    source: MemorySource
    notes: tuple[Note, ...] = ()
    documents: tuple[MemoryDocument, ...] = ()
    """Those that the notes were made of, one for each."""
    warnings: tuple[SourceWarning, ...] = ()
    skipped: int = 0
    error: str | None = None
    stamp: object = None

    def without_text(self) -> Loaded:
        """The same, to be kept: no note and no document in it has its text."""
        return replace(
            self,
            notes=tuple([note if note.unread else replace(note, text="", unread=True) for note in self.notes]),
            documents=tuple([one if one.unread else replace(one, text="", unread=True) for one in self.documents]),
        )


async def load_source(source: MemorySource, last: Loaded | None) -> Loaded:
    """Load a source; what has not changed since `last` (a load of this very source) is taken from there, unread.

    A failure is the source's own, and an `error` in what is returned; only ScanStoppedError is raised.
    """
    try:
        if isinstance(source, IncrementalSource):
            documents = await source.load_since({one.path: one for one in last.documents} if last else {})
            return await asyncio.to_thread(_loaded, source, documents, last)
        if not isinstance(source, BuiltInSource):
            return await asyncio.to_thread(_loaded, source, await load_own(source), None)
        stamp = await _stamp(source)
        if last is not None and last.error is None and stamp is not None and stamp == last.stamp:
            return last
        loaded = await asyncio.to_thread(_loaded, source, await source.load(), None)
        return replace(loaded, stamp=stamp)
    except ScanStoppedError:
        raise
    except Exception as error:  # noqa: BLE001  # a source may be anyone's code; its failure is its own (notes.md)
        return Loaded(source, error=str(error) or type(error).__name__)


async def _stamp(source: BuiltInSource) -> object:
    """Equal to the last one: nothing changed. None: read it to know."""
    try:
        return await source.stamp()
    except OSError:
        # `load` meets the same error and says so.
        return None


def _loaded(source: MemorySource, documents: Iterable[MemoryDocument], last: Loaded | None) -> Loaded:
    """Notes of documents, and a warning for each document that cannot be one."""
    documents = tuple(documents)
    report = source.report if isinstance(source, BuiltInSource) else LoadReport()
    if last is not None and len(documents) == len(last.documents) and all(map(is_, documents, last.documents)):
        return Loaded(source, last.notes, last.documents, tuple(report.warnings), report.skipped)
    known = {document.path: note for document, note in zip(last.documents, last.notes, strict=True)} if last else {}
    old = {document.path: document for document in last.documents} if last else {}
    notes: dict[str, Note] = {}
    kept: list[MemoryDocument] = []
    warnings: list[SourceWarning] = []
    for document in documents:
        path = document.path
        if path in notes:
            warnings.append(SourceWarning(path, "two notes have this path; the first counts"))
            continue
        notes[path] = known[path] if old.get(path) is document else _note(source.name, document)
        kept.append(document)
    return Loaded(source, tuple(notes.values()), tuple(kept), (*report.warnings, *warnings), report.skipped)


def _note(source: str, document: MemoryDocument) -> Note:
    return Note(
        id=f"{source}/{document.path}",
        source=source,
        path=document.path,
        title=document.title or _file_title(document.path),
        text=document.text,
        aliases=document.aliases,
        tags=document.tags,
        links=tuple([Link(link) if isinstance(link, str) else link for link in document.links]),
        size=len(document.text.encode("utf-8", "replace")) if document.size is None else document.size,
        names=document.names,
        share=document.share,
    )


def _file_title(path: str) -> str:
    """The file's name without its extension."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name
