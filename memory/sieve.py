"""What lets the exact rule look at one line in fifty: a line's letters, by a few of them and their number.

Whatever is no letter goes in one pass over a text, newlines excepted: white space, and with it every prefix made of
digits and signs. Two lines that the exact rule holds to be one have the same letters, so their sieve hashes are equal;
the opposite need not be true, and the exact rule has the last word on each line that passes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST_LETTERS = 8
"""Bytes of letters that a line must have to be sieved. The few lines with less (tables of numbers) are all looked at."""

_BITS_PER_LINE = 16
_PROBES = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)

_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
IN_WHITE_SPACE = bytes(sorted(set("".join(filter(str.isspace, map(chr, range(0x3001)))).encode("utf-8")) - set(b"\n")))
"""Every byte of every white space that `str.split` knows, but the newline."""
# Characters beyond ASCII lose some bytes to this, in notes and requests alike.
NOT_LETTERS = bytes(
    byte
    for byte in range(256)
    if byte in IN_WHITE_SPACE or byte in "→".encode() or (byte < 0x80 and byte not in _LETTERS and byte != ord("\n"))
)


def letters_of(text: bytes) -> bytes:
    """The bytes of a text's letters, with its newlines: as many rows as the text has."""
    return text.translate(None, NOT_LETTERS)


def sieve_hashes(letters: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], seed: int) -> NDArray[np.uint32]:
    """One hash for each row of `letters`, made from its first, middle and last eight bytes and its length.

    Each row has at least `FEWEST_LETTERS` bytes. No hash is 0.
    """
    if not len(starts):
        return np.empty(0, np.uint32)
    # Eight bytes as one number, at every place of the text: a view, nothing is copied but what is taken.
    eight = np.ndarray((len(letters) - 7,), "<u8", letters, strides=(1,))
    lengths = ends - starts
    one, two, three = (np.uint64(probe) for probe in _PROBES)
    mixed = (eight[starts] ^ np.uint64(seed)) * one
    mixed ^= mixed >> np.uint64(29)
    mixed += eight[starts + ((lengths - 8) >> 1)]
    mixed *= two
    mixed ^= mixed >> np.uint64(32)
    mixed += eight[ends - 8] + lengths.astype(np.uint64)
    mixed *= three
    return np.maximum((mixed >> np.uint64(32)).astype(np.uint32), np.uint32(1))


class Sieve:
    """A set of sieve hashes as a bitmap (a Bloom filter): lets through all of them, and about one in 200 others."""

    def __init__(self, hashes: NDArray[np.uint32], seed: int) -> None:
        self.seed = seed
        """That of the hashes."""
        self.size = max(64, len(hashes) * _BITS_PER_LINE)
        bits = np.zeros(self.size, np.bool_)
        for number in range(len(_PROBES)):
            bits[self._place(hashes, number)] = True
        self.bits = np.packbits(bits, bitorder="little")

    def passing(self, hashes: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Which of `hashes` (by position, ascending) may be in the set."""
        left = np.arange(len(hashes))
        for number in range(len(_PROBES)):
            place = self._place(hashes[left], number)
            bit = (self.bits[place >> np.uint64(3)] >> (place & np.uint64(7)).astype(np.uint8)) & 1
            left = left[bit.astype(np.bool_)]
        return left

    @property
    def nbytes(self) -> int:
        return self.bits.nbytes

    def _place(self, hashes: NDArray[np.uint32], number: int) -> NDArray[np.uint64]:
        spread = (hashes.astype(np.uint64) + np.uint64(1)) * np.uint64(_PROBES[number])
        return ((spread >> np.uint64(32)) * np.uint64(self.size)) >> np.uint64(32)
