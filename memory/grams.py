"""Winnowed grams: a few of all runs of 32 letters in a text, chosen so that two texts that share enough choose alike.

A gram is 32 letters in a row, as bytes of `memory.letters` (a character beyond ASCII is two to four of them). Of each
`window` grams in a row the one with the smallest hash is chosen, so any shared run of 32 + window - 1 bytes has a gram
that both texts choose ("winnowing": Schleimer, Wilkerson, Aiken 2003). A text that is searched is winnowed with a
smaller window: what the larger one would choose is among it, and of short runs more is found.

NUL separates texts: no gram reaches over it, and what is chosen on one side does not depend on the other side.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from memory import native

GRAM = 32
"""Bytes of letters in a gram."""
EDGE = bytes(GRAM)
"""What letters begin and end with where grams are chosen."""
NOTE_WINDOW = 12
SEARCH_WINDOW = 4
AROUND = 8
"""Letters on each side of a gram of which one bit each is known."""

_WORDS = GRAM // 4
_NEVER = np.uint32(0xFFFFFFFF)
PLACES = 16
_PLACE = np.uint32(PLACES - 1)
"""The low bits of a rank are the gram's place (modulo `PLACES`), which says where the minimum of a window is."""
_NOWHERE = np.empty(0, np.intp)
IS_WIDE = np.array([0xE3 <= byte <= 0xED or byte in (0xEF, 0xF0) for byte in range(256)])
"""First bytes of characters from U+3000 on: Chinese, Japanese and Korean, which have no spaces between words."""
_WIDE = IS_WIDE.tobytes()

type Positions = NDArray[np.intp]
type Keys = NDArray[np.uint64]
type Hashes = NDArray[np.uint32]


class Filter(Protocol):
    """Which first halves of keys there may be: bits in words, told by the upper bits of a half (`memory/gram_filter.py`)."""

    @property
    def words(self) -> NDArray[np.uint32]: ...
    @property
    def shift(self) -> int: ...
    def may_have(self, keys: Hashes) -> NDArray[np.bool_]: ...


class Grams(NamedTuple):
    """Where grams are in a text, ascending, and their 64-bit keys."""

    positions: Positions
    keys: Keys


class Shingler:
    """Makes grams with one seed. Keys say nothing to a shingler with another seed.

    All letters begin and end with an `EDGE`.
    """

    def __init__(self, seed: int) -> None:
        numbers = np.random.default_rng(seed)
        self._mixers = numbers.integers(0, 1 << 63, _WORDS, np.uint64) * np.uint64(2) + np.uint64(1)
        odd = numbers.integers(0, 1 << 31, 5, np.uint32) * np.uint32(2) + np.uint32(1)
        self._scramble, self._factors = odd[0], odd[1:]
        self._weights = odd[1:2]
        for factor in odd[2:]:
            self._weights = np.concatenate((self._weights * factor, self._weights))
        self._tables = self._factors.tobytes(), int(self._scramble), self._mixers.tobytes()
        self._bits = (numbers.permutation(256).astype(np.uint8) & np.uint8(1)).tobytes()[1:]

    def choose(self, letters: bytes, starts: Positions = _NOWHERE, lengths: Positions = _NOWHERE) -> Positions:
        """Where the grams are that are kept of notes, ascending.

        Among them are all that a search finds of some short runs of letters, whatever is before and after these. Runs
        of `GRAM + SEARCH_WINDOW - 1` bytes have one, from `GRAM + 2 * SEARCH_WINDOW - 1` on at least two.
        """
        ranks = _ranks(letters, self._hashes(letters))
        chosen = _chosen(ranks, NOTE_WINDOW)
        if not len(starts):
            return chosen
        most = int(lengths.max()) - GRAM + 1
        runs = ranks.take(starts[:, None] + np.arange(most), mode="clip")
        runs = (runs & ~_PLACE) | np.arange(most, dtype=np.uint32)
        minima = np.lib.stride_tricks.sliding_window_view(runs, SEARCH_WINDOW, axis=1).min(axis=2)
        run, window = np.nonzero(np.arange(minima.shape[1]) <= (lengths - GRAM + 1 - SEARCH_WINDOW)[:, None])
        in_short = starts[run] + (minima[run, window] & _PLACE).astype(np.intp)
        return different(np.sort(np.concatenate((chosen, in_short))))

    def search(self, letters: bytes, may_be: Filter) -> Grams:
        """The grams of searched texts that are looked up: those that pass `may_be` by the first half of their key.

        Where there are wide characters, a gram is looked up at each of them.
        """
        if not native.BUILT:
            return self.search_with_numpy(letters, may_be)
        wide = None if letters.isascii() else _WIDE
        found = native.grams(letters, *self._tables, may_be.words, may_be.shift, wide)
        positions, keys = np.frombuffer(found, np.uint64).reshape(2, -1)
        return Grams(positions.astype(np.intp, copy=False), keys)

    def search_with_numpy(self, letters: bytes, may_be: Filter) -> Grams:
        """As `search`, where nothing was built."""
        hashes = self._hashes(letters)
        ranks = _ranks(letters, hashes)
        positions = _chosen(ranks, SEARCH_WINDOW)
        if not letters.isascii():
            wide = np.flatnonzero(IS_WIDE[np.frombuffer(letters, np.uint8)[: len(ranks)]])
            wide = wide.take(np.flatnonzero(ranks.take(wide) != _NEVER))
            positions = different(np.sort(np.concatenate((positions, wide))))
        passing = np.flatnonzero(may_be.may_have(hashes.take(positions) * self._scramble))
        positions = positions.take(passing)
        return Grams(positions, self.keys(letters, positions))

    def keys(self, letters: bytes, positions: Positions) -> Keys:
        """The keys of the grams at some positions: the hash that chooses, spread evenly (what was chosen are small
        numbers), and 32 bits of one that mixes better.
        """
        words = np.ndarray((len(letters) - GRAM + 1, _WORDS), "<u4", letters, strides=(1, 4))[positions]
        spread: Hashes = (words @ self._weights) * self._scramble
        mixed: Keys = words @ self._mixers
        return (spread.astype(np.uint64) << np.uint64(32)) | (mixed >> np.uint64(32))

    def around(self, letters: bytes, positions: Positions, *, beyond: int) -> NDArray[np.uint8]:
        """One bit for each letter beside each gram, the nearest lowest: shape (grams, 2), before and after it.

        `beyond` is the bit of a NUL: of notes 0, of searched texts 1, so that the ends of both are not alike. Texts are
        `AROUND` NUL apart.
        """
        # Of eight letters in a row, with the bit of the first lowest, and with that of the last.
        after = before = np.frombuffer(letters.translate(self.bits(beyond)), np.uint8)
        for size in (1, 2, 4):
            shift = np.uint8(size)
            after, before = after[:-size] | (after[size:] << shift), before[size:] | (before[:-size] << shift)
        return np.stack((before[positions - AROUND], after[positions + GRAM]), axis=1)

    def bits(self, beyond: int) -> bytes:
        """The bit of each byte, for `around`."""
        return bytes((beyond,)) + self._bits

    def _hashes(self, letters: bytes) -> Hashes:
        """The hash of the gram at each place: the sum of its words, each times its weight.

        It is made in steps, each of which makes hashes of twice as many letters.
        """
        hashes: Hashes = np.ndarray((len(letters) - 3,), "<u4", letters, strides=(1,)) * self._factors[0]
        for size, factor in zip((4, 8, 16), self._factors[1:], strict=True):
            twice: Hashes = hashes[:-size] * factor
            twice += hashes[size:]
            hashes = twice
        return hashes


def different[Scalar: np.generic](ascending: NDArray[Scalar]) -> NDArray[Scalar]:
    """Each value once. `np.unique` makes a hash table, which takes longer than to sort."""
    first = np.ones(len(ascending), np.bool_)
    first[1:] = ascending[1:] != ascending[:-1]
    return ascending[first]


def _ranks(letters: bytes, hashes: Hashes) -> Hashes:
    """What orders grams: the hash, and in its low bits the place. `_NEVER` for those that have a NUL in them."""
    ranks = np.arange(len(hashes), dtype=np.uint32)
    ranks &= _PLACE
    ranks |= hashes & ~_PLACE
    nul = np.flatnonzero(np.frombuffer(letters, np.uint8) == 0)
    first = nul[np.append(True, nul[1:] - nul[:-1] > 1)]
    # Beyond either end lies an edge, whose grams are these too.
    ranks.put(nul, _NEVER, mode="clip")
    ranks.put(first[:, None] - np.arange(1, GRAM), _NEVER, mode="clip")
    return ranks


def _chosen(ranks: Hashes, window: int) -> Positions:
    """The lowest of each `window` grams in a row, each once.

    The same hash at another place is the same gram again, as in a text that repeats itself: it is chosen once.
    """
    minima, covered = ranks, 1
    while covered * 2 <= window:
        minima = np.minimum(minima[:-covered], minima[covered:])
        covered *= 2
    if covered < window:
        minima = np.minimum(minima[: covered - window], minima[window - covered :])
    changed = minima != _NEVER
    changed[1:] &= (minima[1:] ^ minima[:-1]) > _PLACE
    windows = np.flatnonzero(changed)
    return windows + ((minima.take(windows) - windows.astype(np.uint32)) & _PLACE)
