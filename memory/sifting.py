"""Which rows of a text are worth a look: found in one pass over it, for the lines of notes and for their names at once.

In C where that was built (`memory/_native_rows.c`), else with numpy: both find the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory import native
from memory.pieces import PIECE, Rows
from memory.sieve import FEWEST_LETTERS, NOT_LETTERS, Sieve, letters_of, sieve_hashes

SIEVED, POOR, PREFIXED, PATH, NAMED = (1 << bit for bit in range(5))
"""What speaks for a row, as bits: its letters pass the sieve; it has few letters; there may be letters in a prefix of it,
that of a line number or that of a path; it has the sign of a name.
"""

_IS_LETTER = bytes(byte not in NOT_LETTERS and byte != ord("\n") for byte in range(256))
"""By its value, whether a byte is of a letter."""
_PREFIX = re.compile(rb"L[0-9]{1,7}:|#[0-9A-Za-z]{1,8}\|")
_PATH = re.compile(rb"\.[\w\x80-\xff]{1,64}[:-][0-9]{1,7}[:-]")
"""What a row has in it that may begin with a path's prefix."""
_DIGIT = np.uint8(ord("0"))
_SIGN = 2
"""Bytes that may follow the first one of the sign of a name."""


class Beginnings(NamedTuple):
    """Which bytes, by their value, may be the first and the second one of an extension: 256 of 0 and 1 each."""

    first: bytes
    second: bytes


@dataclass(frozen=True, slots=True)
class Sifted:
    """Rows that are worth a look, ascending."""

    rows: NDArray[np.int64]
    """(n, 3), contiguous: where each begins and ends, in bytes, and what speaks for it."""

    @property
    def starts(self) -> NDArray[np.int64]:
        return self.rows[:, 0]

    @property
    def ends(self) -> NDArray[np.int64]:
        return self.rows[:, 1]

    @property
    def kinds(self) -> NDArray[np.int64]:
        return self.rows[:, 2]

    def having(self, kinds: int) -> NDArray[np.intp]:
        """The numbers (among these) of the rows that have one of some kinds."""
        return (self.kinds & kinds).nonzero()[0]

    def at(self, chosen: NDArray[np.intp]) -> Iterator[tuple[int, int]]:
        """Where some of the rows begin and end."""
        return zip(self.starts[chosen].tolist(), self.ends[chosen].tolist(), strict=True)


def sift(data: bytes, sieve: Sieve, extensions: Beginnings, *, minimum: int, poor: bool) -> Sifted:
    """The rows of a text in UTF-8 that are worth a look.

    A row with less than `minimum` bytes is no line; those with few letters are lines only if `poor`.
    """
    if not native.BUILT:
        return sift_with_numpy(data, sieve, extensions, minimum=minimum, poor=poor)
    found = native.rows(
        data, _IS_LETTER, *extensions, sieve.bits, sieve.size, sieve.seed, minimum, FEWEST_LETTERS, poor
    )
    return Sifted(np.frombuffer(found, "<i8").reshape(-1, 3))


def sift_with_numpy(data: bytes, sieve: Sieve, extensions: Beginnings, *, minimum: int, poor: bool) -> Sifted:
    """As `sift`, where nothing was built."""
    text = np.frombuffer(data, np.uint8)
    rows = Rows.of(text)
    letters = letters_of(data)
    in_letters = Rows.of(np.frombuffer(letters, np.uint8))
    counts = in_letters.ends - in_letters.starts
    long = rows.ends - rows.starts >= minimum
    kinds = np.zeros(len(long), np.int64)
    rich = (long & (counts >= FEWEST_LETTERS)).nonzero()[0]
    hashes = sieve_hashes(letters, in_letters.starts[rich], in_letters.ends[rich], sieve.seed)
    kinds[rich[sieve.passing(hashes)]] |= SIEVED
    if poor:
        kinds[long & (counts < FEWEST_LETTERS)] |= POOR
    if b"L" in data or b"#" in data:
        kinds[_rows_with(_PREFIX, data, rows)] |= PREFIXED
    kinds[rows_behind_path(data, rows)] |= PATH
    for start in range(0, len(data), PIECE):
        there = text[start : start + PIECE + _SIGN]
        kinds[np.searchsorted(rows.ends, start + _signs(there, extensions))] |= NAMED
    chosen = kinds.nonzero()[0]
    return Sifted(np.stack((rows.starts[chosen], rows.ends[chosen], kinds[chosen]), axis=1))


def rows_behind_path(data: bytes, rows: Rows) -> list[int]:
    """The rows that may begin with a path's prefix, ascending: few have a digit behind a colon or a dash."""
    there = np.frombuffer(data, np.uint8)
    signs = (there[:-1] == ord(":")) | (there[:-1] == ord("-"))
    signs &= there[1:] - _DIGIT < 10
    places = signs.nonzero()[0]
    if not len(places):
        return []
    some = np.unique(np.searchsorted(rows.ends, places))
    return [row for row, span in zip(some.tolist(), rows.at(some), strict=True) if _PATH.search(data, *span)]


def _signs(text: NDArray[np.uint8], extensions: Beginnings) -> NDArray[np.intp]:
    """Where there is `[[`, or a dot and the beginning of an extension."""
    dots = (text == ord(".")).nonzero()[0]
    for step, may_be in enumerate(extensions, 1):
        dots = dots[np.frombuffer(may_be, np.bool_)[text[np.minimum(dots + step, len(text) - 1)]]]
    brackets = (text[:-1] == ord("[")).nonzero()[0]
    signs: NDArray[np.intp] = np.concatenate((dots, brackets[text[brackets + 1] == ord("[")]))
    return signs


def _rows_with(pattern: re.Pattern[bytes], data: bytes, rows: Rows) -> list[int]:
    """The rows in which a pattern is found, ascending."""
    found: list[int] = []
    match = pattern.search(data)
    while match:
        row = int(np.searchsorted(rows.ends, match.start()))
        found.append(row)
        match = pattern.search(data, int(rows.ends[row]))
    return found
