"""The lines of notes that only they have, and how the rows of a text are looked up among them.

The exact rule of `memory/lines.py` decides; the sieve of `memory/sieve.py` spares it nearly every row. What is found
is what the rule, applied to each row, would find: `tests/memory/reference.py` is that, written out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory.lines import canonical_rows, fingerprints, rows_without_path, rows_without_prefix
from memory.pieces import Rows
from memory.prints import LineRows
from memory.sieve import IN_WHITE_SPACE, Sieve
from memory.sifting import PATH, POOR, PREFIXED, SIEVED, Beginnings, Sifted, sift

_LONG_ROW = 1 << 16
_LONGEST_PREFIX = 2_000
"""Bytes that the longest prefix of `lines.PREFIXES` may have, the white space before it not counted."""

_PATH = re.compile(rb"\.[\w\x80-\xff]{1,64}[:-][0-9]{1,7}[:-]")
"""What a row has in it that may begin with a path's prefix."""


class FoundLines(NamedTuple):
    """Rows of a text that are distinctive lines, ascending: where each begins, in bytes; its fingerprint; the places of
    the notes that have it.
    """

    at: Sequence[int] = ()
    keys: Sequence[int] = ()
    notes: Sequence[tuple[int, ...]] = ()


class LineIndex:
    """Immutable. `rows` are those of distinctive lines, in order; `longest` is the bytes of the longest such line."""

    def __init__(self, rows: LineRows, *, longest: int, seed: int, minimum_line_length: int) -> None:
        self.rows = rows
        self._longest = longest
        self._seed = seed
        self._minimum = minimum_line_length
        rich = rows.hashes != 0
        self._sieve = Sieve(rows.hashes[rich], seed)
        self._has_poor_lines = not rich.all()

    @property
    def nbytes(self) -> int:
        return self._sieve.nbytes + self.rows.nbytes

    def sift(self, data: bytes, extensions: Beginnings) -> Sifted:
        """The rows of a text in UTF-8 that may be lines, and those that may name a note by one of some extensions."""
        return sift(data, self._sieve, extensions, minimum=self._minimum, poor=self._has_poor_lines)

    def find(self, data: bytes, sifted: Sifted, offset: int = 0) -> FoundLines:
        """The distinctive lines among the rows of a text in UTF-8, which begins at `offset` of a longer one."""
        if not len(self.rows.keys) or (b"\n" not in data and not self._may_be_one(data)):
            return FoundLines()
        candidates = sifted.having(SIEVED | POOR | PREFIXED)
        # Behind a path a row does not have the letters of the note's line.
        some = sifted.having(PATH)
        behind_path = [
            row for row, span in zip(some.tolist(), sifted.at(some), strict=True) if _PATH.search(data, *span)
        ]
        if behind_path:
            candidates = np.unique(np.append(candidates, behind_path))
        starts, ends = sifted.starts[candidates], sifted.ends[candidates]
        for number in (ends - starts > _LONG_ROW).nonzero()[0].tolist():
            if not self._may_be_one(data[starts[number] : ends[number]]):
                ends[number] = starts[number]
        if not len(starts):
            return FoundLines()
        lines = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        in_path = np.searchsorted(candidates, behind_path).tolist() if behind_path else []
        keys = self._exact(lines, in_path)
        first, last = (np.searchsorted(self.rows.keys, keys, side) for side in ("left", "right"))
        found = (first < last).nonzero()[0]
        first, last = first[found], last[found]
        notes = [(owner,) for owner in self.rows.owners[first].tolist()]
        for number in (last - first > 1).nonzero()[0].tolist():
            notes[number] = tuple(self.rows.owners[first[number] : last[number]].tolist())
        return FoundLines((starts[found] + offset).tolist(), keys[found].tolist(), notes)

    def have(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which fingerprints are those of distinctive lines."""
        if not len(self.rows.keys):
            return np.zeros(len(keys), np.bool_)
        have: NDArray[np.bool_] = self.rows.keys.take(np.searchsorted(self.rows.keys, keys), mode="clip") == keys
        return have

    def _exact(self, lines: Sequence[bytes], in_path: Sequence[int]) -> NDArray[np.uint64]:
        """The fingerprint by which the rule finds each line, if it does: as it stands first, then without one prefix.

        `in_path` are the numbers of those that may begin with a path's prefix.
        """
        keys = self._keys(b"\n".join(lines))
        left = (~self.have(keys)).nonzero()[0]
        if len(left):
            keys[left] = self._keys(rows_without_prefix(b"\n".join([lines[number] for number in left.tolist()])))
        if in_path:
            for behind in rows_without_path(b"\n".join([lines[number] for number in in_path])):
                keys[in_path] = self._else(keys[in_path], self._keys(behind))
        return keys

    def _keys(self, rows: bytes) -> NDArray[np.uint64]:
        return fingerprints(canonical_rows(rows), self._seed)

    def _else(self, keys: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Of each pair the first one if notes have it, else the other."""
        return np.where(self.have(keys), keys, others)

    def _may_be_one(self, line: bytes) -> bool:
        """Whether a line is not far too long; its white space does not count."""
        if len(line) <= _LONG_ROW:
            return True
        return len(line.translate(None, IN_WHITE_SPACE)) <= self._longest + _LONGEST_PREFIX


def rows_behind_path(data: bytes, rows: Rows) -> list[int]:
    """The rows that may begin with a path's prefix, ascending: few have a digit behind a colon or a dash."""
    there = np.frombuffer(data, np.uint8)
    signs = (there[:-1] == ord(":")) | (there[:-1] == ord("-"))
    signs &= there[1:] - np.uint8(ord("0")) < 10
    places = signs.nonzero()[0]
    if not len(places):
        return []
    some = np.unique(np.searchsorted(rows.ends, places))
    return [row for row, span in zip(some.tolist(), rows.at(some), strict=True) if _PATH.search(data, *span)]
