"""What spares nearly all grams of a searched text a look into the notes' grams."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memory.grams import Hashes

_BITS_PER_GRAM = 8
"""At least; twice as many where that makes the size a power of two."""
_FEWEST_BITS = 14
_MOST_BITS = 28


class GramFilter:
    """Which first halves of keys there are: a Bloom filter with two bits for each, both in one word of 32.

    Lets through one other in 15 to 50. Immutable; made by `of` and `with_more`.
    """

    def __init__(self, words: NDArray[np.uint32]) -> None:
        self.words = words
        self.shift = 33 - len(words).bit_length()

    @classmethod
    def of(cls, keys: Hashes) -> GramFilter:
        bits = (max(1, len(keys)) * _BITS_PER_GRAM - 1).bit_length()
        bits = min(_MOST_BITS, max(_FEWEST_BITS, bits))
        return cls(np.zeros(1 << (bits - 5), np.uint32)).with_more(keys)

    @property
    def nbytes(self) -> int:
        return self.words.nbytes

    def with_more(self, keys: Hashes) -> GramFilter:
        words = self.words.copy()
        np.bitwise_or.at(words, keys >> np.uint32(self.shift), self._bits(keys))
        return GramFilter(words)

    def may_have(self, keys: Hashes) -> NDArray[np.bool_]:
        there = self.words.take(keys >> np.uint32(self.shift))  # the slowest step: a look into main memory
        wanted = self._bits(keys)
        there &= wanted
        has: NDArray[np.bool_] = there == wanted
        return has

    def _bits(self, keys: Hashes) -> NDArray[np.uint32]:
        """Two bits of a word for each key, by ten bits of it that do not tell which word (where there are as many)."""
        one, five = np.uint32(1), np.uint32(31)
        bits = one << (keys & five)
        bits |= one << ((keys >> np.uint32(self.shift - 5)) & five)
        return bits
