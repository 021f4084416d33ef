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

_PREFIX = re.compile(rf"\s*(?:{'|'.join(prefix.pattern for prefix in PREFIXES)})")
_PATH_PREFIXES = tuple(re.compile(prefix.pattern) for prefix in PATH_PREFIXES)
_PATH_PREFIX_ANYWHERE = re.compile(rf"\.\w{{1,16}}[:-]{_NUMBER}[:-]")
CAN_BEGIN_A_PREFIX = frozenset("0123456789L>*-+")
"""Characters that the prefixes which are no path begin with."""


def canonical_line(line: str) -> str:
    """The line with each run of white space made one space, and none at its ends."""
    return " ".join(line.split())


def has_path_prefix(text: str) -> bool:
    """Whether any line of a text may begin with a `path:12:`: asked once, so that not every line has to be."""
    return _PATH_PREFIX_ANYWHERE.search(text) is not None


def without_prefix(line: str, *, first: str, path_prefix: bool = True) -> Iterator[str]:
    """What a line may have been before a tool put one prefix before it, in canonical form, the likeliest first.

    `first` is the line's first character that is no white space; `path_prefix` is `has_path_prefix` of its text.
    """
    if first in CAN_BEGIN_A_PREFIX and (match := _PREFIX.match(line)):
        yield canonical_line(line[match.end() :])
    for pattern in _PATH_PREFIXES if path_prefix else ():
        if match := pattern.match(line):
            yield canonical_line(line[match.end() :])


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
