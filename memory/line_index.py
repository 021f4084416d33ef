"""The lines of notes that only they have, and how the rows of a text are looked up among them.

The exact rule of `memory/lines.py` decides; the sieve of `memory/sieve.py` spares it nearly every row. What is found
is what the rule, applied to each row, would find: `tests/memory/reference.py` is that, written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory import native
from memory.lines import canonical_rows, fingerprints, rows_without_path, rows_without_prefix
from memory.prints import LineRows
from memory.sieve import IN_WHITE_SPACE, Sieve
from memory.sifting import PATH, POOR, PREFIXED, SIEVED, Beginnings, Sifted, sift

_LONG_ROW = 1 << 16
_LONGEST_PREFIX = 2_000
"""Bytes that the longest prefix of `lines.PREFIXES` may have, the white space before it not counted."""


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
        if not len(self.rows.keys) or not len(sifted.rows):
            return FoundLines()
        found = known_rows(data, sifted, self.rows.keys, seed=self._seed, longest=self._longest)
        # Behind a path a row does not have the letters of the note's line.
        behind_path = sifted.having(PATH)
        if len(behind_path):
            found = self._also_behind_path(found, data, sifted.rows[behind_path])
        if not len(found):
            return FoundLines()
        at, first, last = found[:, 0].tolist(), found[:, 2], found[:, 3]
        notes: list[tuple[int, ...]] = list(zip(self.rows.owners[first].tolist(), strict=True))
        for number in (last - first > 1).nonzero()[0].tolist():
            notes[number] = tuple(self.rows.owners[first[number] : last[number]].tolist())
        return FoundLines([place + offset for place in at] if offset else at, found[:, 1].tolist(), notes)

    def have(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which fingerprints are those of distinctive lines."""
        if not len(self.rows.keys):
            return np.zeros(len(keys), np.bool_)
        return _are_in(self.rows.keys, keys)

    def _also_behind_path(self, found: NDArray[np.uint64], data: bytes, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """What is found as in `known_rows`, and what of some `rows` is found without the prefix of a path only."""
        known = set(found[:, 0].tolist())
        rest = [
            (start, data[start:end])
            for start, end, _ in rows.tolist()
            if start not in known and _may_be_one(data, start, end, self._longest)
        ]
        if not rest:
            return found
        starts, lines = zip(*rest, strict=True)
        behind = map(canonical_rows, rows_without_path(b"\n".join(lines)))
        keys, others = (fingerprints(rows, self._seed) for rows in behind)
        keys = np.where(self.have(keys), keys, others)
        more = _spans(np.array(starts, np.uint64), keys, self.rows.keys)
        both = np.concatenate((found, more))
        return both[np.argsort(both[:, 0])]


def known_rows(data: bytes, sifted: Sifted, keys: NDArray[np.uint64], *, seed: int, longest: int) -> NDArray[np.uint64]:
    """The rows of a text in UTF-8 that have one of the `keys`, as they stand or else without one prefix that is no path.

    `keys` are fingerprints, at least one, ascending and spread evenly, of lines of `longest` bytes at most. Returns one
    row of four for each, ascending: where it begins, its key, the first place of that in `keys`, and that behind the last.
    """
    if not native.BUILT:
        return known_rows_with_numpy(data, sifted, keys, seed=seed, longest=longest)
    return np.frombuffer(native.lines(data, sifted.rows, keys, seed, longest), "<u8").reshape(-1, 4)


def known_rows_with_numpy(
    data: bytes, sifted: Sifted, keys: NDArray[np.uint64], *, seed: int, longest: int
) -> NDArray[np.uint64]:
    """As `known_rows`, where nothing was built."""
    candidates = [
        (start, data[start:end])
        for start, end in sifted.at(sifted.having(SIEVED | POOR | PREFIXED))
        if _may_be_one(data, start, end, longest)
    ]
    if not candidates:
        return np.empty((0, 4), np.uint64)
    starts, lines = zip(*candidates, strict=True)
    rows = b"\n".join(lines)
    asked, others = (fingerprints(canonical_rows(form), seed) for form in (rows, rows_without_prefix(rows)))
    asked = np.where(_are_in(keys, asked), asked, others)
    return _spans(np.array(starts, np.uint64), asked, keys)


def _spans(starts: NDArray[np.uint64], asked: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Of those rows whose key is there: (begin, key, its first place, that behind its last)."""
    first, last = (np.searchsorted(keys, asked, side).astype(np.uint64) for side in ("left", "right"))
    spans = np.stack((starts, asked, first, last), axis=1)
    return spans[first < last]


def _are_in(keys: NDArray[np.uint64], asked: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of some fingerprints are among the `keys`, at least one, ascending."""
    there: NDArray[np.bool_] = keys.take(np.searchsorted(keys, asked), mode="clip") == asked
    return there


def _may_be_one(data: bytes, start: int, end: int, longest: int) -> bool:
    """Whether a row is not far too long to be a line of `longest` bytes; its white space does not count."""
    if end - start <= _LONG_ROW:
        return True
    return len(data[start:end].translate(None, IN_WHITE_SPACE)) <= longest + _LONGEST_PREFIX
