"""Reading a client's conversations: which sessions there are, how large they are, and what stands in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from memory.conversations.archive import earlier_summaries
from memory.conversations.sessions import is_id
from memory.conversations.store import ClientMemory
from memory.conversations.transcript import Conversation, Transcript, Turn, parse

type State = Literal["current", "closed", "archived"]


class NotThereError(LookupError):
    """There is no such session, conversation or turn. The message says which."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as lists show it. `size` is that of its transcript and summaries, in bytes."""

    id: str
    started: datetime
    written: datetime
    """When its transcript was last written to."""
    state: State
    """`current`: turns go to it. `closed`: indexed as it is. `archived`: its summary is indexed instead."""
    summarised: bool
    size: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes on the disk: transcripts and summaries that are indexed, the archive, and all the rest, mostly the index."""

    sessions: int
    archive: int
    other: int


def sessions(memory: ClientMemory) -> list[SessionInfo]:
    """All of them, the newest first. Raises OSError."""
    with memory.lock:
        current = memory.known.session.id if memory.known.session else None
        found = [
            info
            for folder in (memory.sessions, memory.archive)
            for path in _transcripts(folder)
            if (info := _info(memory, path, current)) is not None
        ]
    return sorted(found, key=lambda info: info.id, reverse=True)


def path_of(memory: ClientMemory, session: str) -> Path:
    """The session's transcript, wherever it is. Raises NotThereError."""
    if is_id(session):
        for folder in (memory.sessions, memory.archive):
            if (path := folder / f"{session}.md").is_file():
                return path
    raise NotThereError(f"there is no session {session[:40]}")


def text(memory: ClientMemory, session: str) -> str:
    """The transcript as it is on the disk. Raises NotThereError and OSError."""
    return _content(memory, session).decode("utf-8", "replace")


def summary(memory: ClientMemory, session: str) -> str | None:
    """What the session was summarised as, if it was. Raises OSError."""
    path = memory.sessions / f"{session}-summary.md"
    return path.read_text("utf-8", "replace") if is_id(session) and path.is_file() else None


def read(memory: ClientMemory, session: str) -> Transcript:
    """Everything that was said in a session. Raises NotThereError and OSError."""
    return parse(_content(memory, session))


def conversation(memory: ClientMemory, session: str, number: int) -> Conversation:
    """Raises NotThereError and OSError."""
    for one in read(memory, session).conversations:
        if one.number == number:
            return one
    raise NotThereError(f"there is no conversation {number} in session {session}")


def turn(memory: ClientMemory, session: str, number: int, turn_number: int) -> Turn:
    """Raises NotThereError and OSError."""
    for one in conversation(memory, session, number).turns:
        if one.number == turn_number:
            return one
    raise NotThereError(f"there is no turn {turn_number} in conversation {number} of session {session}")


def sizes(memory: ClientMemory) -> Sizes:
    """What the client's folder takes. Raises OSError."""
    totals = {memory.sessions: 0, memory.archive: 0}
    other = 0
    for path in memory.folder.rglob("*"):
        size = _size(path)
        if path.parent in totals:
            totals[path.parent] += size
        else:
            other += size
    return Sizes(totals[memory.sessions], totals[memory.archive], other)


def _content(memory: ClientMemory, session: str) -> bytes:
    with memory.lock:  # it may just be moved, or replaced
        return path_of(memory, session).read_bytes()


def _transcripts(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.suffix == ".md" and is_id(path.stem))


def _info(memory: ClientMemory, path: Path, current: str | None) -> SessionInfo | None:
    session, status = path.stem, path.stat()
    try:
        started = datetime.strptime(session[:18], "%Y-%m-%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:  # a person's file: no such day
        return None
    summary_path = memory.sessions / f"{session}-summary.md"
    state: State = "closed" if session != current else "current"
    if path.parent == memory.archive:
        state = "archived"
    beside = (summary_path, *earlier_summaries(memory.folder, session))
    return SessionInfo(
        session,
        started,
        datetime.fromtimestamp(status.st_mtime, UTC),
        state,
        summary_path.exists(),
        status.st_size + sum(_size(one) for one in beside),
    )


def _size(path: Path) -> int:
    """0 for folders, and for what is gone by now: the index comes and goes."""
    try:
        return path.lstat().st_size if not path.is_dir() else 0
    except FileNotFoundError:
        return 0
