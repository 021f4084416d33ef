"""What clients said and were told, as notes: one for each session that recall can find (docs/recall.md).

Nothing is read but the names of files. Were the text of a transcript among the lines that requests are searched for, each
request that sends its own conversation again would be taken for one that shares a memory. So a note of this source is
found in a request only where that names the session, as a recalled memory does; and who hands a memory over says so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memory.conversations.sections import session_of, session_started
from memory.conversations.sessions import is_id
from memory.conversations.store import DamagedError, folders_in
from memory.notes import LoadReport, MemoryDocument
from memory.sources.limits import Limits


@dataclass(frozen=True, slots=True, order=True)
class _Session:
    client: str
    id: str
    size: int
    """Bytes of what is searched: of its transcript, or of its summary where it was summarised."""


def note_of(source: str, client: str, session: str) -> str:
    """The id of the note for a session, in the source of this name; `client` is the slug."""
    return f"{source}/{client}/{session}.md"


class ConversationsSource:
    """The sessions of all clients that have a folder below `path`, the directory of the conversations.

    Its documents have no text. Files that a person put among the transcripts are recalled too, so they are notes as well.
    """

    kind = "conversations"

    def __init__(self, name: str, path: Path | str, *, limits: Limits | None = None, enabled: bool = True) -> None:
        self.name = name
        self.location = str(path)
        self.enabled = enabled
        self.report = LoadReport()
        self.on_progress: Callable[[int, int], None] | None = None
        self._limits = limits or Limits()

    async def load(self) -> list[MemoryDocument]:
        """None where nothing was recorded yet. Raises OSError."""
        return await asyncio.to_thread(self._load)

    async def stamp(self) -> object:
        """Equal to the last one as long as no session was written to, summarised or deleted. Raises as `load`."""
        return await asyncio.to_thread(lambda: tuple(_sessions(Path(self.location))))

    def _load(self) -> list[MemoryDocument]:
        found = sorted(_sessions(Path(self.location)), key=lambda session: session.id, reverse=True)
        documents, skipped = self._limits.keep((_document(session) for session in found), of_any_size=True)
        self.report = LoadReport(skipped)
        if self.on_progress is not None:
            self.on_progress(len(documents), len(documents))
        return documents


def _document(session: _Session) -> MemoryDocument:
    started = session_started(session.id) if is_id(session.id) else None
    when = f"{started:%Y-%m-%d %H:%M} UTC" if started else session.id
    return MemoryDocument(f"{session.client}/{session.id}.md", "", f"{session.client}, {when}", size=session.size)


def _sessions(directory: Path) -> list[_Session]:
    try:
        folders = folders_in(directory)
    except FileNotFoundError:
        return []
    except DamagedError as error:
        raise OSError(str(error)) from error
    return sorted(
        _Session(client, session, size)
        for client, folder in folders.items()
        for session, size in dict(sorted(_searched(folder / "sessions"))).items()
    )


def _searched(folder: Path) -> Iterator[tuple[str, int]]:
    """(session, size) for each file. While a session is put away it has two, its transcript and its summary."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if (
                    entry.name.endswith(".md")
                    and not entry.name.startswith(".")
                    and entry.is_file(follow_symlinks=False)
                ):
                    yield session_of(entry.name), entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:  # deleted meanwhile
        return
