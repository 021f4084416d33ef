"""Sessions that could not be summarised, kept over restarts in a file of each client's folder. It holds no text.

What is kept is a convenience: where the file cannot be read or written, a session is tried again sooner than it need be.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory.conversations import files
from memory.conversations.store import ClientMemory, DamagedError, Store, folders_in

FILE_NAME = ".compaction.json"
FIRST_PAUSE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class Failure:
    """A session that could not be summarised: why, how often it was tried, and when it is tried again."""

    message: str
    tries: int
    next_at: datetime

    def waits(self, now: datetime) -> bool:
        """Whether its time is yet to come. A clock that was set back makes nobody wait longer."""
        return now < self.next_at <= now + LONGEST_PAUSE


class Failures:
    """Of all clients of an open store. Only `save` touches the disk, and the making of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._of: dict[tuple[str, str], Failure] = {}
        with contextlib.suppress(OSError, DamagedError):  # nothing was recorded yet
            for client, folder in folders_in(store.directory).items():
                self._of.update(((client, session), one) for session, one in _read(folder / FILE_NAME).items())

    def of(self, client: str) -> dict[str, Failure]:
        """By session."""
        return {session: failure for (whose, session), failure in self._of.items() if whose == client}

    def all(self) -> Mapping[tuple[str, str], Failure]:
        """By client and session."""
        return self._of

    def failed(self, client: str, session: str, message: str, now: datetime) -> None:
        """It is tried again after a pause, which grows each time."""
        before = self._of.get((client, session))
        tries = before.tries + 1 if before else 1
        pause = min(FIRST_PAUSE * 2 ** min(tries - 1, 20), LONGEST_PAUSE)
        self._of[client, session] = Failure(message, tries, now + pause)

    def forget(self, client: str, session: str) -> bool:
        """Whether there was one."""
        return self._of.pop((client, session), None) is not None

    def keep(self, client: str, sessions: Collection[str]) -> bool:
        """Forget those of other sessions, which are gone; whether there were any."""
        gone = self.of(client).keys() - sessions
        for session in gone:
            self.forget(client, session)
        return bool(gone)

    def save(self, client: str) -> None:
        """Write those of a client down, if it has a folder still: one that was deleted does not come back."""
        content = {
            session: {"message": one.message, "tries": one.tries, "nextAt": one.next_at.timestamp()}
            for session, one in self.of(client).items()
        }
        with contextlib.suppress(OSError):
            memory = self._store.existing(client)
            if memory is not None:
                _write(memory, content)


def _write(memory: ClientMemory, content: Mapping[str, object]) -> None:
    path = memory.folder / FILE_NAME
    with memory.lock:
        if memory.left or not memory.sessions.is_dir():
            return
        if content:
            files.replace(path, f"{json.dumps(content, indent=2)}\n".encode(), memory.unfinished)
        else:
            path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Failure]:
    try:
        return {
            str(session): Failure(str(one["message"]), int(one["tries"]), datetime.fromtimestamp(one["nextAt"], UTC))
            for session, one in json.loads(path.read_bytes()).items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return {}  # whatever else may lie there
