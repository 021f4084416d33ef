"""Folder listings: agents send the tree of the working folder with each request, every file name in it.

Three or more consecutive lines that are nothing but names or paths are a listing (`docs/detection.md`). A name in one
says that the file exists, not that anybody spoke of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum

FEWEST_NAMES = 3
_LONGEST_NAME = 300
_MOST_BYTES = 4
"""Of a character in UTF-8."""

_DRAWN = re.compile(r"[\s|]*(?:[│├└╰─][│├└╰─\s]*|[|`+\\]-{2,}\s?|[📁📂📄📝]\s*|\[(?:FILE|DIR)\]\s)")
"""What `tree`, Windows' `tree /a`, agents and the MCP file server draw before a name."""
_BULLET = re.compile(r"\s*[-*]\s")
_FREE_OF_SPACES = re.compile(r"(?:[A-Za-z]:)?[^\s\"'<>|?*,;:=(){}\[\]]+")
_EXTENSION = re.compile(r"\.[A-Za-z]\w{0,9}$")
_ABSOLUTE = re.compile(r"~?/|\.{1,2}/|[A-Za-z]:[\\/]|\\\\")


class Likeness(IntEnum):
    """How much a line looks like a name: `MAYBE` (a bare word) goes on with a listing, but makes none."""

    NO = 0
    MAYBE = 1
    YES = 2


def listing_rows(lines: Sequence[bytes], rows: Iterable[int], is_note: Callable[[str], bool]) -> set[int]:
    """Which of `rows` (ascending) stand in a folder listing; `lines` are those of the text, in UTF-8.

    `is_note` knows the names and paths of the notes.
    """
    found: set[int] = set()
    end, listed = 0, False
    for row in rows:
        if row >= end:  # else it stands in the same run of lines as the row before it
            begin, end, names = row, row, 0
            while end < len(lines) and (likeness := _likeness(lines[end], is_note)):
                names += likeness is Likeness.YES
                end += 1
            while end > row and begin and (likeness := _likeness(lines[begin - 1], is_note)):
                names += likeness is Likeness.YES
                begin -= 1
            listed = names >= FEWEST_NAMES
            end = max(end, row + 1)
        if listed:
            found.add(row)
    return found


def may_be_listed(line: bytes, is_note: Callable[[str], bool]) -> bool:
    """Whether a line (UTF-8) is so much like a name that it can stand in a listing."""
    return bool(_likeness(line, is_note))


def _likeness(encoded: bytes, is_note: Callable[[str], bool]) -> Likeness:
    if len(encoded) > _MOST_BYTES * _LONGEST_NAME:  # one row may be megabytes
        return Likeness.NO
    line = encoded.decode("utf-8", "surrogatepass")
    if len(line) > _LONGEST_NAME:
        return Likeness.NO
    if drawn := _DRAWN.match(line):
        name = line[drawn.end() :].strip()
        return Likeness.YES if name and not re.search(r"\s#|:\s|[.!?]$", name) else Likeness.NO
    bullet = _BULLET.match(line)
    name = (line[bullet.end() :] if bullet else line).strip()
    if _FREE_OF_SPACES.fullmatch(name):
        if "/" in name or "\\" in name or _EXTENSION.search(name):
            return Likeness.YES
        return Likeness.MAYBE if name[-1].isalnum() else Likeness.NO
    if not _EXTENSION.search(name):
        return Likeness.NO
    return Likeness.YES if is_note(name) or _ABSOLUTE.match(name) else Likeness.MAYBE
