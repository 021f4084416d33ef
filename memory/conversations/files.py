"""Files that are only their owner's, whatever the umask, and are whole at every moment."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Literal

UNFINISHED = ".unfinished"
"""The folder, beside those that are indexed, in which new contents of files wait until they are whole."""

_BINARY = getattr(os, "O_BINARY", 0)


def make_folder(folder: Path) -> None:
    """Make it with those above it, 0700; those that are there stay as they are. Raises OSError."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():  # it may have been made meanwhile, or be a file
            raise
    else:
        folder.chmod(0o700)


def append(path: Path, content: bytes, *, make: Literal["no", "new", "if missing"] = "no") -> int:
    """Write it to the end of the file, all of it or nothing. Returns how many bytes were there before.

    `make` says whether the file is made: `new`, and then it must not be there. Raises OSError; then the file is as it was.
    """
    flags = {"no": 0, "new": os.O_CREAT | os.O_EXCL, "if missing": os.O_CREAT}[make]
    file = os.open(path, os.O_WRONLY | os.O_APPEND | _BINARY | flags, 0o600)
    try:
        before = os.fstat(file).st_size
        try:
            if make != "no" and not before:
                path.chmod(0o600)
            _write(file, content)
        except BaseException:
            if make != "no" and not before:
                path.unlink()
            else:
                os.ftruncate(file, before)
            raise
    finally:
        os.close(file)
    return before


def cut(path: Path, size: int) -> None:
    """Take away what is beyond so many bytes; a file of which nothing is left goes. Raises OSError."""
    if size:
        os.truncate(path, size)
    else:
        path.unlink(missing_ok=True)


def replace(path: Path, content: bytes, unfinished: Path) -> None:
    """Give the file this content at once. It is written in the folder `unfinished` first, on the same disk, which nobody
    watches: whoever watches the file's own folder sees one file take the place of another. Raises OSError.
    """
    make_folder(unfinished)
    temporary = unfinished / f"{path.name}.{secrets.token_hex(4)}"
    try:
        append(temporary, content, make="new")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write(file: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]
