"""A folder of Markdown notes: an Obsidian vault, a Foam workspace, any folder of `.md` files."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from stat import S_ISDIR, S_ISREG

import pathspec

from memory.markdown import Parsed, parse
from memory.notes import LoadReport, MemoryDocument, SourceWarning

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class _File:
    """A note file as the walk found it. `path` is relative, with `/`; `stamp`: modified and changed, in ns."""

    path: str
    real: str
    size: int
    stamp: tuple[int, int]


class MarkdownSource:
    """Notes in a folder, recursively. Rules: notes.md, "Sources".

    Folders whose name starts with a dot are left out, and what `exclude` matches (gitwildmatch on the relative path).
    `extensions` adds file types to `.md`. Beyond `max_notes`, and for files of more than `max_note_bytes`, notes are
    counted as skipped. Every real folder and file is read once, so loops of symlinks end; a note's own place wins over
    a symlink to it. What is read is kept without its text, and parsed again only when the text changed.
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
        """Called with (notes read, notes in all), on the thread that reads; what it raises ends the load."""
        self._exclude = pathspec.GitIgnoreSpec.from_lines(exclude)
        self._extensions = (".md", *(one.lower() if one.startswith(".") else f".{one.lower()}" for one in extensions))
        self._max_notes = max_notes
        self._max_note_bytes = max_note_bytes
        self._parsed: dict[str, tuple[bytes, Parsed]] = {}

    async def load(self) -> list[MemoryDocument]:
        """Read every note, in the order of their paths.

        Raises OSError (FileNotFoundError, NotADirectoryError, PermissionError) with a message for the user when the
        folder cannot be read. Whatever is wrong with one note is a warning in `report`.
        """
        return await asyncio.to_thread(self._load)

    async def stamp(self) -> object:
        """A value that is equal to the last one as long as no note was added, changed or removed. Raises as `load`."""
        return await asyncio.to_thread(self._stamp)

    def _stamp(self) -> bytes:
        files, skipped = self._files(LoadReport())
        every = [(file.path, file.real, file.size, file.stamp) for file in files]
        return blake2b(f"{skipped} {every!r}".encode("utf-8", "backslashreplace"), digest_size=16).digest()

    def _load(self) -> list[MemoryDocument]:
        report = LoadReport()
        files, report.skipped = self._files(report)
        documents: list[MemoryDocument] = []
        parsed: dict[str, tuple[bytes, Parsed]] = {}
        for done, file in enumerate(files):
            if self.on_progress is not None:
                self.on_progress(done, len(files))
            try:
                documents.append(self._document(file, parsed, report))
            except OSError as error:
                report.warnings.append(SourceWarning(file.path, f"cannot be read: {error.strerror or error}"))
            except Exception as error:  # noqa: BLE001  # one broken file is one warning, never a failed scan (notes.md)
                report.warnings.append(SourceWarning(file.path, f"cannot be parsed ({type(error).__name__})"))
        if self.on_progress is not None:
            self.on_progress(len(files), len(files))
        self._parsed, self.report = parsed, report
        return documents

    def _document(self, file: _File, parsed: dict[str, tuple[bytes, Parsed]], report: LoadReport) -> MemoryDocument:
        with open(file.real, "rb") as stream:  # noqa: PTH123  # half the time of Path.read_bytes over 50,000 notes
            content = stream.read()
        text, complaint = _decode(content)
        digest = blake2b(content, digest_size=16).digest()
        known = self._parsed.get(file.path)
        note = known[1] if known and known[0] == digest else replace(parse(text), frontmatter=None)
        parsed[file.path] = (digest, note)
        reasons = [reason for reason in (complaint, note.warning) if reason]
        if reasons:
            report.warnings.append(SourceWarning(file.path, "; ".join(reasons)))
        return MemoryDocument(file.path, text, note.title, note.aliases, note.tags, note.links, len(content))

    def _files(self, report: LoadReport) -> tuple[list[_File], int]:
        """The notes to read, by path, and how many were left out for their size or their number."""
        if not self.folder.exists():
            raise FileNotFoundError(f"{self.folder} does not exist")
        if not self.folder.is_dir():
            raise NotADirectoryError(f"{self.folder} is not a folder")
        try:
            os.scandir(self.folder).close()
        except PermissionError as error:
            raise PermissionError(f"{self.folder} cannot be read: permission denied") from error
        found = sorted(self._walk(report), key=lambda file: file.path)
        small = [file for file in found if file.size <= self._max_note_bytes]
        kept = small[: self._max_notes]
        return kept, len(found) - len(kept)

    def _walk(self, report: LoadReport) -> Iterator[_File]:
        """Every note file below the folder; real folders and files first, and what symlinks lead to after them.

        Real paths tell what was seen already: not every file system has inode numbers to trust.
        """
        seen: set[str] = set()
        waiting = deque([("", os.path.realpath(self.folder))])
        behind_links: deque[tuple[str, str]] = deque()
        while waiting or behind_links:
            path, real = waiting.popleft() if waiting else behind_links.popleft()
            if real in seen:
                continue
            seen.add(real)
            try:
                status = os.stat(real)  # noqa: PTH116  # walks are made of strings: a Path for each costs more
                if S_ISREG(status.st_mode) and self._is_note(path):
                    yield _File(_readable(path), real, status.st_size, (status.st_mtime_ns, status.st_ctime_ns))
                # Anything else is no note: a pipe that is named like one would block the scan for ever.
                if not S_ISDIR(status.st_mode):
                    continue
                with os.scandir(real) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                report.warnings.append(SourceWarning(_readable(path), f"cannot be read: {error.strerror or error}"))
                continue
            for entry in listed:
                below = f"{path}/{entry.name}" if path else entry.name
                if not self._is_wanted(below, entry):
                    continue
                if entry.is_symlink() or entry.is_junction():
                    behind_links.append((below, os.path.realpath(entry.path)))
                else:
                    waiting.append((below, entry.path))

    def _is_wanted(self, path: str, entry: os.DirEntry[str]) -> bool:
        try:
            is_folder = entry.is_dir()
        except OSError:
            # A loop of symlinks: it is reported when it is read, if it is named like a note.
            is_folder = False
        if is_folder:
            return not entry.name.startswith(".") and not self._exclude.match_file(path + "/")
        return self._is_note(path) and not self._exclude.match_file(path)

    def _is_note(self, path: str) -> bool:
        return path.lower().endswith(self._extensions)


def _readable(path: str) -> str:
    """A path as text: bytes in it that are no UTF-8 are replaced, since JSON and terminals cannot carry them."""
    return os.fsencode(path).decode("utf-8", "replace")


def _decode(content: bytes) -> tuple[str, str | None]:
    """(text, what was wrong with it). UTF-8 with or without BOM; UTF-16 with one, as Windows' Notepad writes it."""
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "UTF-16" if is_utf16 else "UTF-8-sig"
    try:
        return content.decode(encoding), None
    except UnicodeDecodeError:
        # Lines with a replaced character are not recognised in a request; the others are.
        problem = f"not valid {'UTF-16' if is_utf16 else 'UTF-8'}; what cannot be read is replaced"
        return content.decode(encoding, "replace"), problem
