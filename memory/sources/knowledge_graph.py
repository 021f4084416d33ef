"""The memory graph of the MCP server `@modelcontextprotocol/server-memory`: a file with one JSON object per line.

Each entity is a note, each observation a line of it, each relation a link (notes.md, "Knowledge graph").
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from stat import S_ISREG

from memory.notes import LoadReport, MemoryDocument, SourceWarning
from memory.sources.graph import Graph, read_graph
from memory.sources.limits import Limits

FILE_NAMES = ("memory.jsonl", "memory.json")
"""What is looked for in a folder, in this order."""

MOST_BYTES = 256 << 20

PAUSES = (0.05, 0.1)
"""Seconds to wait for a writer that is in the middle of the file, before the last good state is taken instead."""


class KnowledgeGraphSource:
    """The entities of one graph. `path` is the file, or the folder that it is in.

    A file whose end is missing is being written: what was read when it was whole is kept, and the file is read again at
    the next scan. What is kept holds no text.
    """

    kind = "knowledge_graph"

    def __init__(self, name: str, path: Path | str, *, limits: Limits | None = None, enabled: bool = True) -> None:
        self.name = name
        self.location = str(path)
        self.enabled = enabled
        self.report = LoadReport()
        self.on_progress: Callable[[int, int], None] | None = None
        self._path = Path(path)
        self._limits = limits or Limits()
        self._whole: LoadReport | None = None
        """What was said of the last load, if the file was whole then."""
        self._read_at: object = None
        """The stamp of the file as it was last read, if it was whole then."""

    async def load(self) -> list[MemoryDocument]:
        """Every entity, in the order of the file.

        Raises OSError, with a message for the user, when there is no such file or it cannot be read. Whatever is wrong
        inside the file is a warning in `report`.
        """
        return await self.load_since({})

    async def load_since(self, known: Mapping[str, MemoryDocument]) -> list[MemoryDocument]:
        """The same; an entity that is what it is in `known` (by path, from the last load) is that very object."""
        return await asyncio.to_thread(self._load, known)

    async def stamp(self) -> object:
        """Equal to the last one while the file is the same; None while it is to be read again. Raises as `load`."""
        stamp = await asyncio.to_thread(lambda: _stamp(self._file()))
        return stamp if self._read_at is not None else None

    def restore(self, folder: Path) -> None:
        """Nothing is kept between runs: the file is read in no time."""

    def save(self, folder: Path) -> None:
        """As `restore`."""

    def _load(self, known: Mapping[str, MemoryDocument]) -> list[MemoryDocument]:
        file = self._file()
        stamp = _stamp(file)
        if known and stamp == self._read_at:
            return list(known.values())
        graph = self._read(file, keeps_something=bool(known))
        if graph.is_cut and known and self._whole is not None:
            self._read_at = None
            reason = "its end is missing: the last whole state is kept, and it is read again at the next scan"
            self.report = LoadReport(self._whole.skipped, [*self._whole.warnings, SourceWarning(file.name, reason)])
            return list(known.values())
        documents, skipped = self._limits.keep(graph.documents)
        if self.on_progress is not None:
            self.on_progress(len(documents), len(documents))
        self.report = LoadReport(skipped, list(graph.warnings))
        self._whole, self._read_at = (None, None) if graph.is_cut else (self.report, stamp)
        return [
            old if (old := known.get(document.path)) is not None and old.digest == document.digest else document
            for document in documents
        ]

    def _read(self, file: Path, *, keeps_something: bool) -> Graph:
        """The graph as soon as the file is whole, or what there is of it after some pauses.

        Older servers write in place: for a moment the file is empty, and then it grows.
        """
        for pause in PAUSES:
            content = _content(file)
            graph = read_graph(content, file.name)
            if not graph.is_cut and (content or not keeps_something):
                return graph
            time.sleep(pause)
        return read_graph(_content(file), file.name)

    def _file(self) -> Path:
        """The file to read: a regular one, so that a pipe cannot keep a scan waiting."""
        if self._path.is_dir():
            for name in FILE_NAMES:
                if (self._path / name).is_file():
                    return self._path / name
            raise FileNotFoundError(f"{self._path} holds neither {' nor '.join(FILE_NAMES)}")
        try:
            status = self._path.stat()
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{self._path} does not exist; the server makes it when it first writes (its MEMORY_FILE_PATH)"
            ) from None
        if not S_ISREG(status.st_mode):
            raise OSError(f"{self._path} is no file")
        return self._path


def _stamp(file: Path) -> object:
    status = file.stat()
    return str(file), status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except PermissionError:
        raise PermissionError(f"{file} cannot be read: permission denied") from None
    if len(content) > MOST_BYTES:
        raise OSError(f"{file} is larger than {MOST_BYTES >> 20} MiB")
    return content
