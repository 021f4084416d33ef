"""A library of notes that a test made, and a source of its own for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from memory.note_library import NoteLibrary, Snapshot
from memory.notes import MemoryDocument

LONG = "A line that is long enough to count as distinctive"


class Remembered:
    """A user's own source: the four names and nothing else."""

    kind = "remembered"
    location = "in memory"

    def __init__(self, name: str, *documents: MemoryDocument) -> None:
        self.name = name
        self.documents: Iterable[MemoryDocument] = documents
        self.loads = 0
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def load(self) -> Iterable[MemoryDocument]:
        self.loads += 1
        await self.gate.wait()
        if self.error:
            raise self.error
        return self.documents


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def heard(library: NoteLibrary) -> list[Snapshot]:
    snapshots: list[Snapshot] = []
    library.on_change.append(snapshots.append)
    return snapshots
