"""The journal of a client: one line of JSON for each thing that was recorded, beside the transcripts. It holds no text.

A line is written before the part of the transcript that it tells of. So after a crash its last line says what may be
missing: what was not written whole is taken away again, with its line, and the client's next try records it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from memory.conversations import files
from memory.conversations.known import Entry, Known, Written

FILE_NAME = ".conversations.jsonl"
_ENCODER = json.JSONEncoder(separators=(",", ":"))
MOST_LINES = 20_000
"""That are kept where the file is written anew; it may grow to twice as many."""


class Journal:
    """The file in a client's folder. Whoever uses it sees to it that one thread does at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._unfinished = folder / files.UNFINISHED
        self._sessions = folder / "sessions"

    def load(self) -> Known:
        """What is known, after the end of a crash was mended. Raises OSError."""
        lines = self._read()
        last = _entry(lines[-1]) if lines else None
        if last and last.written and not _mend(self._sessions / f"{last.session}.md", last.written):
            lines.pop()
            self._rewrite(lines)
        if len(lines) > 2 * MOST_LINES:
            self._rewrite(lines := lines[-MOST_LINES:])
        return _known(lines)

    def append(self, *lines: Entry | str) -> Callable[[], None]:
        """Write them, all or none; a text is the id of a session that is over. What is returned takes them back.

        Raises OSError, and so does that.
        """
        content = "".join(f"{_line(line)}\n" for line in lines).encode()
        size = files.append(self._path, content, make="if missing")
        return lambda: files.cut(self._path, size)

    def rewrite(self, stays: Callable[[Entry], bool] = lambda _: True) -> Known:
        """Forget the entries that do not stay, and where in their files the others were written: these change now.

        Raises OSError.
        """
        read = [(line, _entry(line)) for line in self._read()]
        left = {entry.session for _, entry in read if entry is not None and stays(entry)}
        lines = [
            line if entry is None else _line(_unplaced(entry))
            for line, entry in read
            if (_closed(line) in left if entry is None else stays(entry))
        ]
        self._rewrite(lines)
        return _known(lines)

    def _read(self) -> list[str]:
        """The whole lines; what is left of one that was not written whole is taken away."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return []
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            files.cut(self._path, whole)
        return content[:whole].decode("utf-8", "replace").split("\n")[:-1]

    def _rewrite(self, lines: Sequence[str]) -> None:
        files.replace(self._path, "".join(f"{line}\n" for line in lines).encode(), self._unfinished)


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def written(offset: int, content: bytes) -> Written:
    """What is noted of a part before it is written."""
    first_line = content[: content.index(b"\n", 1) + 1].decode()
    return Written(offset, len(content), digest(content), first_line)


def _known(lines: Iterable[str]) -> Known:
    known = Known()
    for line in lines:
        if (entry := _entry(line)) is not None:
            known.apply(entry)
        elif known.session is not None and _closed(line) == known.session.id:
            known.close()
    return known


def _line(line: Entry | str) -> str:
    return _ENCODER.encode({"closed": line} if isinstance(line, str) else line.to_json())


def _entry(line: str) -> Entry | None:
    """None for another line, and for one that somebody has damaged: it is passed over."""
    try:
        return Entry.from_json(json.loads(line))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _closed(line: str) -> str | None:
    try:
        closed = json.loads(line)["closed"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return closed if isinstance(closed, str) else None


def _unplaced(entry: Entry) -> Entry:
    return Entry.from_json({**entry.to_json(), "written": None})


def _mend(path: Path, last: Written) -> bool:
    """Whether the part is in its file. The beginning of one that is not there whole is taken away; a file that a person
    has edited since stays as it is.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(last.offset)
            found = file.read(last.size)
    except FileNotFoundError:
        return False
    if digest(found) == last.digest:
        return True
    if size < last.offset:
        return False
    if size >= last.offset + last.size:
        return True  # edited
    first_line = last.first_line.encode()
    if not found.startswith(first_line[: len(found)]):
        return True  # edited, and shorter than it was
    files.cut(path, last.offset)
    return False
