"""A folder of Markdown notes: an Obsidian vault, a Foam workspace, a Logseq graph, a Dendron vault, any `.md` files."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import pathspec

from memory.markdown import parse
from memory.notes import LoadReport, MemoryDocument, SourceWarning
from memory.sources.cache import KEY_BYTES, Entry, cache_file, cache_key, content_digest, read_cache, write_cache
from memory.sources.files import decode
from memory.sources.limits import MEGABYTE
from memory.sources.walk import NoteFile, Walk

SETTLED_AFTER = 2_000_000_000
"""Nanoseconds. A file that changed this short before it was read may change again and keep its times: file systems count
them in steps, FAT's are 2 s."""


class MarkdownSource:
    """Notes in a folder, recursively. Rules: notes.md, "Sources".

    `exclude` are patterns of .gitignore on the relative path; `extensions` adds file types to `.md`. Beyond `max_notes`,
    and for files of more than `max_note_bytes`, notes are counted as skipped. What was read is kept without its text,
    and parsed again only when the content changed.
    """

    kind = "markdown"

    def __init__(
        self,
        name: str,
        path: Path | str,
        *,
        exclude: Sequence[str] = (),
        extensions: Sequence[str] = (),
        max_notes: int = 5000,
        max_note_bytes: int = MEGABYTE,
        enabled: bool = True,
    ) -> None:
        self.name = name
        self.location = str(path)
        self.folder = Path(path)
        self.enabled = enabled
        self.report = LoadReport()
        self.on_progress: Callable[[int, int], None] | None = None
        """Called with (notes done, notes in all) before each that is read, and at the end; on the thread that reads.
        What it raises ends the load."""
        self._exclude = pathspec.GitIgnoreSpec.from_lines(exclude)
        self._extensions = (".md", *(one.lower() if one.startswith(".") else f".{one.lower()}" for one in extensions))
        self._max_notes = max_notes
        self._max_note_bytes = max_note_bytes
        self._entries: dict[str, Entry] = {}
        self._key = secrets.token_bytes(KEY_BYTES)
        self._saved: dict[str, Entry] = {}

    async def load(self) -> list[MemoryDocument]:
        """Read every note, in the order of their paths.

        Raises OSError (FileNotFoundError, NotADirectoryError, PermissionError) with a message for the user when the
        folder cannot be read. Whatever is wrong with one note is a warning in `report`.
        """
        return await self.load_since({})

    async def load_since(self, known: Mapping[str, MemoryDocument]) -> list[MemoryDocument]:
        """As `load`, but a document that is what it is in `known` (by path) is that very object, and is not read."""
        return await asyncio.to_thread(self._load, known)

    async def stamp(self) -> object:
        """A value that is equal to the last one as long as no note was added, changed or removed. Raises as `load`."""
        return await asyncio.to_thread(self._stamp)

    def restore(self, folder: Path) -> None:
        """Take over what an earlier run left in `folder`. To be called before the first load."""
        self._key = cache_key(folder)
        self._entries = self._saved = read_cache(self._cache(folder), self._key)

    def save(self, folder: Path) -> None:
        """Leave in `folder` what the next run need not parse again; nothing is written where nothing has changed."""
        if self._entries != self._saved:
            write_cache(self._cache(folder), self._key, self._entries)
            self._saved = self._entries

    def _cache(self, folder: Path) -> Path:
        return cache_file(folder, self.name, self.location)

    def _stamp(self) -> bytes:
        files, skipped = self._files(LoadReport())
        every = [(file.path, file.real, file.size, file.stamp, file.dialect.name) for file in files]
        return blake2b(f"{skipped} {every!r}".encode("utf-8", "backslashreplace"), digest_size=16).digest()

    def _load(self, known: Mapping[str, MemoryDocument]) -> list[MemoryDocument]:
        report = LoadReport()
        files, report.skipped = self._files(report)
        documents: list[MemoryDocument] = []
        entries: dict[str, Entry] = {}
        for done, file in enumerate(files):
            entry, document = self._entries.get(file.path), known.get(file.path)
            if document is None or entry is None or not _is_the_same(file, entry, document):
                if self.on_progress is not None:
                    self.on_progress(done, len(files))
                try:
                    entry, document = self._read(file, entry, document)
                except OSError as error:
                    report.warnings.append(SourceWarning(file.path, f"cannot be read: {error.strerror or error}"))
                    continue
                except Exception as error:  # noqa: BLE001  # one broken file is one warning, not a failed scan (notes.md)
                    report.warnings.append(SourceWarning(file.path, f"cannot be parsed ({type(error).__name__})"))
                    continue
            entries[file.path] = entry
            documents.append(document)
            if entry.flaw or entry.parsed.warning:
                reasons = [reason for reason in (entry.flaw, entry.parsed.warning) if reason]
                report.warnings.append(SourceWarning(file.path, "; ".join(reasons)))
        if self.on_progress is not None:
            self.on_progress(len(files), len(files))
        self._entries, self.report = entries, report
        return documents

    def _read(
        self, file: NoteFile, entry: Entry | None, document: MemoryDocument | None
    ) -> tuple[Entry, MemoryDocument]:
        started = time.time_ns()
        with open(file.real, "rb", buffering=0) as stream:  # noqa: PTH123  # half the time of Path.read_bytes
            content = stream.readall()
        digest = content_digest(content, self._key)
        is_settled = max(file.stamp) + SETTLED_AFTER < started
        stamp = file.stamp if is_settled else (0, 0)
        text, flaw = decode(content)
        if entry and entry.digest == digest and entry.dialect == file.dialect.name:
            entry = Entry(file.size, stamp, digest, entry.dialect, entry.parsed, flaw)
            if document is not None and document.digest == digest:
                return entry, document
        else:
            parsed = replace(parse(text, file.dialect), frontmatter=None)
            entry = Entry(file.size, stamp, digest, file.dialect.name, parsed, flaw)
        return entry, _document(file, entry, text, len(content))

    def _files(self, report: LoadReport) -> tuple[list[NoteFile], int]:
        """The notes to read, by path, and how many were left out for their size or their number."""
        walk = Walk(self.folder, exclude=self._exclude, extensions=self._extensions)
        report.warnings.extend(walk.warnings)
        small = [file for file in walk.files if file.size <= self._max_note_bytes]
        kept = small[: self._max_notes]
        return kept, len(walk.files) - len(kept)


def _is_the_same(file: NoteFile, entry: Entry, document: MemoryDocument) -> bool:
    """Whether a file need not be read: it is as it was when `entry` was made, and `document` is of that content."""
    return (
        entry.stamp == file.stamp
        and entry.size == file.size
        and entry.dialect == file.dialect.name
        and document.digest == entry.digest
    )


def _document(file: NoteFile, entry: Entry, text: str, size: int) -> MemoryDocument:
    parsed = entry.parsed
    names = parsed.names or (file.dialect.page_names(file.path) if file.dialect.page_names else ())
    return MemoryDocument(
        path=file.path,
        text=text,
        title=parsed.title or next(iter(names), None),
        aliases=parsed.aliases,
        tags=parsed.tags,
        links=parsed.links,
        size=size,
        names=names,
        digest=entry.digest,
        share=parsed.share,
    )
