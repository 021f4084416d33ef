"""What lets the exact rule look at one line in fifty: the last bytes of a line.

Whatever a reading tool puts before a line, the line ends as the note's does: two lines that the exact rule holds to be
one have the same last bytes once their white space is collapsed, and so has the row in which it stands. So their sieve
hashes are equal; the opposite need not be true, and the exact rule has the last word on each line that passes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memory.lines import canonical_rows, wide_spaces
from memory.pieces import Rows

_BITS_PER_LINE = 16
_PROBES = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
_MOST_WORDS = 3
"""A tail is at most so many times eight bytes."""
_EXCERPT = 256
"""Bytes at the end of a row in which its tail is, unless much of that is white space."""
_LONGEST_CHARACTER = 4

_LOW, _HIGH, _SPACES = (np.uint64(0x0101010101010101 * byte) for byte in (0x01, 0x80, 0x20))
_BYTE, _TO_LAST_BYTE, _FIRST_BYTE = np.uint64(8), np.uint64(56), np.uint64(0xFF)

type _Words = NDArray[np.uint64]


class Tails:
    """Hashes of what lines end with. They have at least `shortest` characters, and that is 8 or more."""

    def __init__(self, shortest: int, seed: int) -> None:
        self._words = min(_MOST_WORDS, shortest // 8)
        self._seed = np.uint64(seed)

    def of_lines(self, lines: bytes, ends: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The hash of each of some lines in canonical form, by where it ends in `lines`."""
        return self._hashes(self._last(lines, ends))

    def of_rows(self, data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The hash for each row of a text in UTF-8 that has at least `shortest` bytes: that of the line which it is.

        The hash is 0 for one that may be any line; for one that is too short to be a line it says nothing.
        """
        if not len(ends):
            return np.empty(0, np.uint32)
        words = self._last(data, ends)
        hashes = self._hashes(words)
        uneven = _has_uneven_white_space(words)
        uneven[np.minimum(np.searchsorted(ends, wide_spaces(data)), len(ends) - 1)] = True
        some = uneven.nonzero()[0]
        if len(some):
            hashes[some] = self._of_uneven(data, starts[some], ends[some])
        return hashes

    def _of_uneven(self, data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint32]:
        """As `of_rows`: rows that have to be collapsed first."""
        begins = np.maximum(starts, ends - _EXCERPT)
        rows = b"\n".join([data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)])
        lines = canonical_rows(rows)
        there = Rows.of(np.frombuffer(lines, np.uint8))
        lengths = there.ends - there.starts
        hashes = np.zeros(len(lengths), np.uint32)
        # An excerpt may begin amid a character.
        whole = (lengths >= 8 * self._words + np.where(begins > starts, _LONGEST_CHARACTER, 0)).nonzero()[0]
        if len(whole):
            hashes[whole] = self.of_lines(lines, there.ends[whole])
        hashes[(lengths < 8 * self._words) & (begins == starts)] = 1
        return hashes

    def _last(self, data: bytes, ends: NDArray[np.int64]) -> list[_Words]:
        """The last eight bytes of each row as one number, those before them, and so on."""
        # Eight bytes as one number, at every place of the text: a view, nothing is copied but what is taken.
        eight = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
        return [eight[ends - 8 * number] for number in range(1, self._words + 1)]

    def _hashes(self, words: list[_Words]) -> NDArray[np.uint32]:
        mixed = words[0] ^ self._seed
        for word, probe in zip((*words[1:], np.uint64(0)), _PROBES, strict=False):
            mixed *= np.uint64(probe)
            mixed ^= mixed >> np.uint64(32)
            mixed += word
        return np.maximum((mixed >> np.uint64(16)).astype(np.uint32), np.uint32(2))


def _has_uneven_white_space(words: list[_Words]) -> NDArray[np.bool_]:
    """Which rows have in their last bytes, `words` from the last one on, white space that collapsing may change.

    Two spaces in a row, one at the end, or any control character; now and then a row that has none of this.
    """
    found = np.zeros(len(words[0]), np.uint64)
    after = _HIGH  # as if a space came behind the last byte
    for word in words:
        other = word ^ _SPACES
        spaces = (other - _LOW) & ~other & _HIGH  # the high bit of each byte that is a space
        found |= spaces & ((spaces >> _BYTE) | (after << _TO_LAST_BYTE))
        found |= (word - _SPACES) & ~word & _HIGH
        after = spaces & _FIRST_BYTE
    return found != 0


class Sieve:
    """A set of sieve hashes as a bitmap (a Bloom filter): lets through all of them, and about one in 200 others."""

    def __init__(self, hashes: NDArray[np.uint32]) -> None:
        self._size = np.uint64(max(64, len(hashes) * _BITS_PER_LINE))
        bits = np.zeros(int(self._size), np.bool_)
        for place in self._places(hashes):
            bits[place] = True
        self._bits = np.packbits(bits, bitorder="little")

    def passing(self, hashes: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Which of `hashes` (by position, ascending) may be in the set."""
        left = np.arange(len(hashes))
        for number in range(len(_PROBES)):
            place = self._place(hashes[left], number)
            bit = (self._bits[place >> np.uint64(3)] >> (place & np.uint64(7)).astype(np.uint8)) & 1
            left = left[bit.astype(np.bool_)]
        return left

    @property
    def nbytes(self) -> int:
        return self._bits.nbytes

    def _places(self, hashes: NDArray[np.uint32]) -> list[NDArray[np.uint64]]:
        return [self._place(hashes, number) for number in range(len(_PROBES))]

    def _place(self, hashes: NDArray[np.uint32], number: int) -> NDArray[np.uint64]:
        spread = (hashes.astype(np.uint64) + np.uint64(1)) * np.uint64(_PROBES[number])
        return ((spread >> np.uint64(32)) * self._size) >> np.uint64(32)
