"""What is said of a state directory that cannot be used."""

from __future__ import annotations

import errno
from pathlib import Path

FULL = {errno.ENOSPC, errno.EDQUOT}


def unusable(error: OSError, state: Path | None) -> str:
    """Which file it is, why, and what to do. A write that fails names no file: then it is the directory."""
    mend = "make room there" if error.errno in FULL else "mend that"
    return f"{error.filename or state} cannot be used ({error.strerror}): {mend}, or set state to another directory"
