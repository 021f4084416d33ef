"""One line of text as the exact rule sees it: collapsed, without what a reading tool put before it, fingerprinted.

The rule is the seed's, as `docs/detection.md` tells it: two lines are the same line when they are equal after their
whitespace is collapsed. A line of a request is looked up as it stands first, then without one prefix, never without
two: `12<TAB>- item` may be the note's `- item`, but not its `item`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple

import mmh3
import numpy as np
from numpy.typing import NDArray

_LOW_64_BITS = (1 << 64) - 1


class Prefix(NamedTuple):
    """One form of prefix: whose it is, a line that shows it, and the pattern that it is."""

    made_by: str
    example: str
    pattern: str


_NUMBER = r"[0-9]{1,7}"

PREFIXES = (
    Prefix("Claude Code's Read, older", "    12→text", rf"{_NUMBER}→"),
    Prefix("Claude Code's Read, `cat -n`, `nl`, Zed", "12\ttext", rf"{_NUMBER}\t"),
    Prefix("Cursor, Crush", "    12|text", rf"{_NUMBER}\|"),
    Prefix("Roo Code", "12 | text", rf"{_NUMBER} \|"),
    Prefix("opencode, older", "00012| text", rf"{_NUMBER}\| "),
    Prefix("opencode; `grep -n` in one file", "12: text", rf"{_NUMBER}:"),
    Prefix("lines around a match of `grep -n`", "12-text", rf"{_NUMBER}-"),
    Prefix("oh-my-opencode", "12#PW|text", rf"{_NUMBER}#[0-9A-Za-z]{{1,8}}\|"),
    Prefix("Codex", "L12: text", rf"L{_NUMBER}:"),
    Prefix("quotes", "> text", r">[ \t]"),
    Prefix("lists", "* text", r"\*[ \t]"),
    Prefix("lists, removed lines of a patch", "- text", r"-"),
    Prefix("added lines of a patch", "+text", r"\+"),
)
"""Prefixes known by how they begin. White space before and after one is not part of it: collapsing takes that."""

PATH_PREFIXES = (
    Prefix("grep over files", "folder/note.md:12:text", rf".{{1,400}}?\.\w{{1,16}}:{_NUMBER}:"),
    Prefix("lines around a match of grep over files", "folder/note.md-12-text", rf".{{1,400}}?\.\w{{1,16}}-{_NUMBER}-"),
)
"""A file's name may begin with anything, a number too: so these forms are tried beside the others, after them."""

_BEGINS = "|".join(prefix.pattern for prefix in PREFIXES)
_PREFIX = re.compile(rf"\s*(?:{_BEGINS})")
_PATH_PREFIXES = tuple(re.compile(f"^{prefix.pattern}", re.MULTILINE) for prefix in PATH_PREFIXES)


# What `str.split` parts words at, in UTF-8, by first bytes: most texts have none of these, which is told in no time.
_WIDE_SPACES = {
    b"\xc2": rb"\xc2[\x85\xa0]",
    b"\xe1": rb"\xe1\x9a\x80",
    b"\xe2": rb"\xe2(?:\x80[\x80-\x8a\xa8\xa9\xaf]|\x81\x9f)",
    b"\xe3": rb"\xe3\x80\x80",
}
_WIDE_SPACE_PATTERNS = tuple([(first, re.compile(pattern)) for first, pattern in _WIDE_SPACES.items()])
_TO_SPACES = bytes.maketrans(b"\t\x0b\x0c\r\x1c\x1d\x1e\x1f", b" " * 8)
_PREFIX_OF_ROW = re.compile(
    rb"\n(?:[\t\x0b\x0c\r\x1c-\x1f ]|" + b"|".join(_WIDE_SPACES.values()) + rb")*+(?:" + _BEGINS.encode() + rb")"
)


def canonical_line(line: str) -> str:
    """The line with each run of white space made one space, and none at its ends."""
    return " ".join(line.split())


def canonical_rows(rows: bytes) -> bytes:
    """`canonical_line` of each row of a text in UTF-8, all at once."""
    for first, space in _WIDE_SPACE_PATTERNS:
        if first in rows:
            rows = space.sub(b" ", rows)
    text = np.frombuffer(rows.translate(_TO_SPACES), np.uint8)
    stay = text != ord(" ")
    stay[1:] |= stay[:-1] & (text[:-1] != ord("\n"))  # the first space behind a word
    collapsed: bytes = text[stay].tobytes()
    return collapsed.replace(b" \n", b"\n").rstrip(b" ")


def rows_without_prefix(rows: bytes) -> bytes:
    """Each row of a text in UTF-8 without its first prefix, if it has one of those that are no path."""
    return _PREFIX_OF_ROW.sub(b"\n", b"\n" + rows)[1:]


def rows_without_path(rows: bytes) -> Iterator[bytes]:
    """As `rows_without_prefix`, for each form of prefix that is a path."""
    text = rows.decode("utf-8", "surrogatepass")
    for pattern in _PATH_PREFIXES:
        yield pattern.sub("", text).encode("utf-8", "surrogatepass")


def line_forms(rows: bytes) -> Iterator[bytes]:
    """What the rows of a text may be, in canonical form: as they stand, and without one prefix, the likeliest first.

    A row that has no such prefix is what it is.
    """
    yield canonical_rows(rows)
    yield canonical_rows(rows_without_prefix(rows))
    yield from map(canonical_rows, rows_without_path(rows))


def prefix_ends(row: str) -> Iterator[int]:
    """Where a row may begin behind its prefix, if it has one: each form that is no path first. Then behind two of them."""
    match = _PREFIX.match(row)
    if match:
        yield match.end()
    yield from (path.end() for pattern in _PATH_PREFIXES if (path := pattern.match(row)))
    if match and (second := _PREFIX.match(row, match.end())):
        yield second.end()


def fingerprint(canonical: str, seed: int) -> int:
    """64 bits of MurmurHash3 of a canonical line. `seed` is 32 bits, random for each process: a fingerprint says
    nothing to another process.
    """
    # Encoded here, since mmh3 5.3.1 ends the process on half of a surrogate pair in a `str`; JavaScript clients send one
    # when they cut an emoji in two.
    return mmh3.hash128(canonical.encode("utf-8", "surrogatepass"), seed) & _LOW_64_BITS


def fingerprints(rows: bytes, seed: int) -> NDArray[np.uint64]:
    """The fingerprint of each of the canonical lines that newlines part in `rows`."""
    digests = b"".join(map(mmh3.mmh3_x64_128_digest, rows.split(b"\n"), repeat(seed)))
    return np.frombuffer(digests, "<u8")[::2].astype(np.uint64)
