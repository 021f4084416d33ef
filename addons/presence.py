"""Which suites run: each keeps a locked file in the state directory while it does, and says in it where it is.

The lock tells, not the file: the system lets go of it however a process ends, and no other program can hold it by
having taken over a port or a process id. Programs that `mitmemory with` started hold such a lock of their own, so that
a suite that was started for them knows when the last one has ended.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

FOLDER = "running"
STALE_SECONDS = 60.0
"""A file that nobody has locked may be one that is being made; after this it is left over."""
LOCK_SECONDS = 1.0
LOCK_PAUSE = 0.05

if sys.platform == "win32":
    import msvcrt

    _FAR_AWAY = 1 << 30  # a lock there keeps nobody from reading what is written

    def _lock(file: BinaryIO) -> bool:
        file.seek(_FAR_AWAY)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _lock(file: BinaryIO) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Presence:
    """A suite that runs. Addresses are `host:port`; `config` is the file it was started with; `certificates` the folder
    of its authority. `for_programs`: it ends when no program that `mitmemory with` started uses it any more.
    """

    pid: int
    config: str
    proxy: str
    dashboard: str
    certificates: str
    for_programs: bool = False


class Announcement:
    """Says that this process is a suite, from `announce` until `withdraw`."""

    def __init__(self, state: Path, presence: Presence) -> None:
        self._state = state
        self._presence = presence
        self._file: BinaryIO | None = None

    def announce(self) -> None:
        """Raises OSError where the state directory cannot be used for it."""
        path = _folder(self._state) / f"{self._presence.pid}.json"
        for other in (*path.parent.glob("*.json"), *path.parent.glob("*.use")):
            with suppress(OSError):
                if other.stat().st_mtime < time.time() - STALE_SECONDS and not _is_locked(other):
                    other.unlink()
        self._file = _hold(path)
        self._file.truncate(0)
        self._file.write(json.dumps(asdict(self._presence)).encode())
        self._file.flush()

    def withdraw(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            with suppress(OSError):  # the directory may be gone already
                (self._state / FOLDER / f"{self._presence.pid}.json").unlink()


def running_suites(state: Path) -> list[Presence]:
    """Every suite that runs with this state directory, in no order."""
    found: list[Presence] = []
    for path in (state / FOLDER).glob("*.json"):
        with suppress(OSError, ValueError, TypeError):  # half written: not running yet
            if _is_locked(path):
                found.append(Presence(**json.loads(path.read_bytes())))
    return found


@contextmanager
def in_use(state: Path, pid: int) -> Iterator[None]:
    """While it lasts, the suite of this process id is used by this process."""
    path = _folder(state) / f"{pid}.{os.getpid()}.use"
    try:
        with _hold(path):
            yield
    finally:
        with suppress(OSError):
            path.unlink()


def is_used(state: Path, pid: int) -> bool:
    """Whether any process uses the suite of this process id."""
    return any(_is_locked(path) for path in (state / FOLDER).glob(f"{pid}.*.use"))


def hold_start(state: Path, seconds: float) -> BinaryIO:
    """The right to start a suite for programs, or to end one, until the file is closed: two at once would be in each
    other's way. Raises BlockingIOError when another process has it for all these seconds.
    """
    return _hold(_folder(state) / "start.lock", seconds)


def config_name(file: Path | None) -> str:
    """A configuration's file as a `Presence` names it."""
    return str(file.absolute()) if file else ""


def _folder(state: Path) -> Path:
    folder = state / FOLDER
    state.mkdir(mode=0o700, parents=True, exist_ok=True)  # the mode is that of the last folder alone
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _hold(path: Path, seconds: float = LOCK_SECONDS) -> BinaryIO:
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    give_up = time.monotonic() + seconds
    while not _lock(file):  # whoever looks whether it is locked holds it for a moment
        if time.monotonic() >= give_up:
            file.close()
            raise BlockingIOError(errno.EAGAIN, "it is locked by another process", str(path))
        time.sleep(LOCK_PAUSE)
    return file


def _is_locked(path: Path) -> bool:
    try:
        with path.open("r+b") as file:
            return not _lock(file)
    except FileNotFoundError:
        return False
