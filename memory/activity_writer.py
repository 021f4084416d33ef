"""Writes the activity log to its file, in a thread of its own.

The log is an observer: a disk that is full or a file that is damaged stops nothing. It is said in `warnings`, and what
could not be written waits, as far as there is room, until it can.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory.activity_file import NewerSchemaError, is_damaged, open_to_write, set_aside
from memory.activity_rows import append, prune

logger = logging.getLogger(__name__)

DELAY = 0.2
"""Seconds from the first of a batch until it is written: with the writing itself well under the second of dispatch.md."""
RETRY = 5.0
"""Seconds between tries while the file cannot be written."""
HOUSEKEEPING = 60.0
"""Seconds between looks for what has become too old, while nothing comes in."""
MOST_WAITING = 10_000
LARGEST_BATCH = 1000
STOP_TIMEOUT = 10.0


class LedgerWriter:
    """`put` from any thread; everything else happens in the writer's own, from `start` to `stop`.

    `keep` is in seconds, `most` counts entries; `clock` gives seconds since 1970.
    """

    def __init__(
        self,
        file: Path,
        *,
        keep: float,
        most: int,
        clock: Callable[[], float] = time.time,
        delay: float = DELAY,
        retry: float = RETRY,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._file = file
        self._keep = keep
        self._most = most
        self._clock = clock
        self._delay = delay
        self._retry = retry
        self._most_waiting = most_waiting
        self._waiting: deque[dict[str, Any]] = deque()
        self._batch: list[dict[str, Any]] = []
        self._flushes: deque[threading.Event] = deque()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._trouble: str | None = None
        self._dropped = 0
        self._notices: list[str] = []

    @property
    def warnings(self) -> list[str]:
        """What stands in the way now, and what was lost since the start."""
        dropped = [f"activity: {self._dropped:,} rows could not be written and are lost"] if self._dropped else []
        return [*self._notices, *([self._trouble] if self._trouble else []), *dropped]

    def start(self) -> None:
        """Open the file, or make it. Once is enough."""
        if self._thread is None:
            # Not waited for at the end of the process: `stop` is how it ends in order.
            self._thread = threading.Thread(target=self._run, name="activity writer", daemon=True)
            self._thread.start()

    def put(self, entry: dict[str, Any]) -> None:
        """Have an entry written. Never blocks; the caller does not change the entry from now on."""
        if len(self._waiting) + len(self._batch) >= self._most_waiting:
            self._dropped += 1  # those that came first stay, so that the file has no holes in between
            return
        self._waiting.append(entry)
        if not self._wake.is_set():
            self._wake.set()

    def flush(self, timeout: float = STOP_TIMEOUT) -> bool:
        """Wait until what was put has been written, or has failed to be; False: it took longer."""
        if self._thread is None or not self._thread.is_alive():
            return True
        done = threading.Event()
        self._flushes.append(done)
        self._hurry.set()
        self._wake.set()
        return done.wait(timeout)

    def stop(self) -> None:
        """Write what is left, as far as that is possible, and close the file."""
        if self._thread is None:
            return
        self._stopping = True
        self._hurry.set()
        self._wake.set()
        self._thread.join(STOP_TIMEOUT)

    def _run(self) -> None:
        self._attempt(self._open)
        while not self._stopping:
            if self._trouble is None:
                self._wake.wait(HOUSEKEEPING)
            if self._trouble or self._waiting:
                self._hurry.wait(self._retry if self._trouble else self._delay)
            self._wake.clear()
            self._hurry.clear()
            flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
            self._attempt(self._work)
            for done in flushes:
                done.set()
        self._attempt(self._work)
        self._close()

    def _attempt(self, work: Callable[[], None], *, anew: bool = True) -> None:
        try:
            work()
        except (sqlite3.Error, OSError, NewerSchemaError) as error:
            self._close()
            if anew and is_damaged(error) and self._begin_anew():
                self._attempt(work, anew=False)
            else:
                self._say(explain(error, self._file))
        except Exception:  # a thread that dies would leave everything unwritten, and say nothing
            self._close()
            logger.exception("the activity cannot be written")
            self._say("activity: something went wrong when it was written; the terminal has the details")
        else:
            self._say(None)

    def _open(self) -> None:
        if self._connection is None:
            self._connection = open_to_write(self._file)

    def _work(self) -> None:
        self._open()
        assert self._connection is not None
        while self._batch or self._waiting:
            # Kept until it is written: what fails is tried again, and nothing comes before it.
            self._batch = self._batch or [
                self._waiting.popleft() for _ in range(min(len(self._waiting), LARGEST_BATCH))
            ]
            append(self._connection, self._batch, self._now())
            self._batch = []
        too_old = self._now() - int(self._keep * 1000)
        while prune(self._connection, before=too_old, most=self._most) and not self._waiting:
            pass

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _begin_anew(self) -> bool:
        try:
            aside = set_aside(self._file, datetime.now(UTC))
        except OSError:
            return False
        notice = f"activity: {self._file} was damaged: it is now {aside.name}, and a new log was begun"
        logger.warning("%s", notice)
        self._notices.append(notice)
        return True

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):  # it is given up anyway
                self._connection.close()
            self._connection = None

    def _say(self, trouble: str | None) -> None:
        if trouble and trouble != self._trouble:
            logger.warning("%s", trouble)
        self._trouble = trouble


def explain(error: Exception, file: Path) -> str:
    """What keeps the log from its file, and what to do. The latest requests are shown all the same, from memory."""
    meanwhile = "until then the latest requests are kept in memory only"
    if isinstance(error, NewerSchemaError):
        return f"activity: {error}; {meanwhile}"
    if isinstance(error, OSError):
        return f"activity: {error.filename or file} cannot be used ({error.strerror}): mend that; {meanwhile}"
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return f"activity: there is no room left for {file}: free some; {meanwhile}"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"activity: another program has locked {file}: end it; {meanwhile}"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"activity: {file} cannot be written ({error}): make it yours to write; {meanwhile}"
    return f"activity: {file} cannot be used ({error}): move it away for a new one; {meanwhile}"
