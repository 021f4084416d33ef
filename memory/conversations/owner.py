"""One process owns a client's index: Milvus Lite lets one in at a time, and two would undo each other's work.

The lock tells, not the file: the system lets go of it however a process ends.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

NAME = "lock"

if sys.platform == "win32":
    import msvcrt

    def _take(file: BinaryIO) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _take(file: BinaryIO) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class LockedElsewhereError(RuntimeError):
    """Another process has this client's index open."""

    def __init__(self) -> None:
        super().__init__(
            "another process has this client's memory open: ask the suite that runs (its pages, its API), or stop it first"
        )


def lock(folder: Path) -> BinaryIO:
    """Own the index in `folder` until the file is closed. Raises LockedElsewhereError, OSError."""
    file = os.fdopen(os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    if _take(file):
        return file
    file.close()
    raise LockedElsewhereError


def is_locked(file: Path) -> bool:
    """Whether somebody holds a lock on this file. A file that is not there is not locked."""
    try:
        with file.open("r+b") as stream:
            return not _take(stream)
    except OSError:
        return False
