"""Winnowed grams: a few of all runs of 32 letters in a text, chosen so that two texts that share enough choose alike.

A gram is 32 letters in a row, as bytes of `memory.letters` (a character beyond ASCII is two to four of them). Of each
`window` grams in a row the one with the smallest hash is chosen, so any shared run of 32 + window - 1 bytes has a gram
that both texts choose ("winnowing": Schleimer, Wilkerson, Aiken 2003). A text that is searched is winnowed with a
smaller window: what the larger one would choose is among it, and of short runs more is found.

NUL separates texts: no gram reaches over it, and what is chosen on one side does not depend on the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GRAM = 32
"""Bytes of letters in a gram."""
EDGE = bytes(GRAM)
"""What letters begin and end with where grams are chosen."""
NOTE_WINDOW = 12
SEARCH_WINDOW = 4
AROUND = 8
"""Letters on each side of a gram of which one bit each is known."""

_BLOCK = 1 << 15
"""Grams that are worked on at a time: what they need fits a core's cache."""
_NEVER = np.uint32(0xFFFFFFFF)
_PLACE = np.uint32(15)
"""The low bits of a hash give way to the gram's place (modulo 16), which says where the minimum of a window is."""
_HASH = ~_PLACE
_PLACES = (np.arange(_BLOCK + 16) & 15).astype(np.uint32)
_IS_WIDE = np.array([0xE3 <= byte <= 0xED or byte in (0xEF, 0xF0) for byte in range(256)])
"""First bytes of characters from U+3000 on: Chinese, Japanese and Korean, which have no spaces between words."""

type Positions = NDArray[np.intp]
type Keys = NDArray[np.uint64]
type Hashes = NDArray[np.uint32]
type Filter = Callable[[Hashes], NDArray[np.bool_]]


class Grams(NamedTuple):
    """Where grams are in a text, and their 64-bit keys."""

    positions: Positions
    keys: Keys


class _Block(NamedTuple):
    start: int
    letters: bytes
    eights: NDArray[np.uint64]
    """Eight bytes as one number, at each place of the block."""
    hashes: Hashes
    """Of the gram at each place; the low bits are the place."""


class Shingler:
    """Makes grams with one seed. Keys say nothing to a shingler with another seed."""

    def __init__(self, seed: int) -> None:
        numbers = np.random.default_rng(seed)
        odd = numbers.integers(0, 1 << 63, 6, np.uint64) * np.uint64(2) + np.uint64(1)
        self._eight, self._scramble = odd[0], odd[1].astype(np.uint32)
        self._mixers = odd[2:]
        self._join8, self._join16 = numbers.integers(0, 1 << 31, 2, np.uint32) * np.uint32(2) + np.uint32(1)
        self._bit = numbers.permutation(256).astype(np.uint8) & np.uint8(1)

    def choose(self, letters: bytes) -> Grams:
        """The grams that are kept of notes. `letters` begins and ends with an `EDGE`."""
        found = []
        for block in _blocks(letters, NOTE_WINDOW, self._hashes):
            windows, minima = _chosen(block.hashes, NOTE_WINDOW)
            found.append(self._grams(block, _positions(windows, minima), minima))
        return _joined(found)

    def at(self, letters: bytes, positions: Positions) -> Grams:
        """The grams at some positions, each at least `GRAM` before the end."""
        hashes = self._hashes_at(letters, positions)
        return self._grams(_Block(0, letters, _eights(letters), hashes), positions, hashes)

    def in_short(self, letters: bytes, starts: Positions, lengths: Positions) -> Positions:
        """Where the grams are that a search finds of some runs of letters, whatever is before and after them.

        Runs of `GRAM + SEARCH_WINDOW - 1` bytes have one, from `GRAM + 2 * SEARCH_WINDOW - 1` on at least two.
        """
        if not len(starts):
            return starts
        most = int(lengths.max()) - GRAM + 1
        places = starts[:, None] + np.arange(most)
        hashes = self._hashes_at(letters, np.minimum(places, len(letters) - GRAM))
        hashes = (hashes & _HASH) | np.arange(most, dtype=np.uint32)
        minima = np.lib.stride_tricks.sliding_window_view(hashes, SEARCH_WINDOW, axis=1).min(axis=2)
        run, window = np.nonzero(np.arange(minima.shape[1]) <= (lengths - GRAM + 1 - SEARCH_WINDOW)[:, None])
        return different(np.sort(starts[run] + (minima[run, window] & _PLACE).astype(np.intp)))

    def search(self, letters: bytes, may_be: Filter) -> Grams:
        """The grams of searched texts that are looked up: those that pass `may_be` by the first half of their key.

        Where there are wide characters, a gram is looked up at each of them. `letters` begins and ends with
        an `EDGE`.
        """
        wide = not letters.isascii()
        found = []
        for block in _blocks(letters, SEARCH_WINDOW, self._hashes):
            windows, minima = _chosen(block.hashes, SEARCH_WINDOW)
            passing = may_be((minima & _HASH) * self._scramble)
            windows, minima = windows[passing], minima[passing]
            found.append(self._grams(block, _positions(windows, minima), minima))
            if wide:
                places = np.flatnonzero(_IS_WIDE[np.frombuffer(block.letters, np.uint8)[: len(block.hashes)]])
                places = places[block.hashes[places] != _NEVER]
                hashes = block.hashes[places]
                passing = may_be((hashes & _HASH) * self._scramble)
                found.append(self._grams(block, places[passing], hashes[passing]))
        return _joined(found)

    def around(self, letters: bytes, positions: Positions, *, beyond: int) -> NDArray[np.uint8]:
        """One bit for each letter beside each gram, the nearest lowest: shape (grams, 2), before and after it.

        `beyond` is the bit of a NUL: of notes 0, of searched texts 1, so that the ends of both are not alike. Texts are
        `AROUND` NUL apart.
        """
        bit = self._bit.copy()
        bit[0] = beyond
        steps = np.arange(AROUND)
        places = np.stack((-1 - steps, GRAM + steps))
        beside = bit[np.frombuffer(letters, np.uint8)[positions[:, None, None] + places]]
        around: NDArray[np.uint8] = np.packbits(beside, axis=-1, bitorder="little")[..., 0]
        return around

    def _hashes_at(self, letters: bytes, positions: Positions) -> Hashes:
        eights = _eights(letters)
        hashes = np.stack([eights[positions + step] for step in (0, 8, 16, 24)]) * self._eight
        first, second, third, fourth = (hashes >> np.uint64(32)).astype(np.uint32)
        whole: Hashes = (first * self._join8 + second) * self._join16 + (third * self._join8 + fourth)
        return whole

    def _hashes(self, eights: NDArray[np.uint64]) -> Hashes:
        """The hash of the gram at each place but the last 24."""
        hashes = ((eights * self._eight) >> np.uint64(32)).astype(np.uint32)
        sixteen = hashes[:-8] * self._join8
        sixteen += hashes[8:]
        whole: Hashes = sixteen[:-16] * self._join16
        whole += sixteen[16:]
        return whole

    def _grams(self, block: _Block, positions: Positions, hashes: Hashes) -> Grams:
        """A key is 28 bits of the hash, spread evenly (the minima are small numbers), and 36 that are mixed better."""
        mixed = np.zeros(len(positions), np.uint64)
        for step, mixer in zip((0, 8, 16, 24), self._mixers, strict=True):
            mixed += block.eights[positions + step]
            mixed *= mixer
            mixed ^= mixed >> np.uint64(31)
        spread = ((hashes & _HASH) * self._scramble).astype(np.uint64) << np.uint64(32)
        return Grams(positions + block.start, spread | (mixed >> np.uint64(28)))


def different[Scalar: np.generic](ascending: NDArray[Scalar]) -> NDArray[Scalar]:
    """Each value once. `np.unique` makes a hash table, which takes longer than to sort."""
    first = np.ones(len(ascending), np.bool_)
    first[1:] = ascending[1:] != ascending[:-1]
    return ascending[first]


def _blocks(letters: bytes, window: int, hashes_of: Callable[[NDArray[np.uint64]], Hashes]) -> Iterator[_Block]:
    eights = _eights(letters)
    grams = len(letters) - GRAM + 1
    windows = grams - window + 1
    for start in range(0, windows, _BLOCK):
        end = min(start + _BLOCK, windows) + window - 1
        part = letters[start : end + GRAM - 1]
        eight = np.ascontiguousarray(eights[start : end + GRAM - 8])
        hashes = hashes_of(eight)
        hashes &= _HASH
        hashes |= _PLACES[: len(hashes)]
        if b"\0" in part:
            separators = np.flatnonzero(np.frombuffer(part, np.uint8) == 0)
            reaching = (separators[:, None] - np.arange(GRAM)).ravel()
            hashes[reaching[(reaching >= 0) & (reaching < len(hashes))]] = _NEVER
        yield _Block(start, part, eight, hashes)


def _chosen(hashes: Hashes, window: int) -> tuple[Positions, Hashes]:
    """The windows that have another minimum than the window before, and these minima.

    The same hash at another place is the same gram again, as in a text that repeats itself: it is chosen once.
    """
    minima, covered = hashes, 1
    while covered * 2 <= window:
        minima = np.minimum(minima[:-covered], minima[covered:])
        covered *= 2
    if covered < window:
        minima = np.minimum(minima[: covered - window], minima[window - covered :])
    changed = minima != _NEVER
    changed[1:] &= (minima[1:] ^ minima[:-1]) > _PLACE
    windows = np.flatnonzero(changed)
    return windows, minima[windows]


def _positions(windows: Positions, minima: Hashes) -> Positions:
    return windows + ((minima - windows.astype(np.uint32)) & _PLACE).astype(np.intp)


def _eights(letters: bytes) -> NDArray[np.uint64]:
    """Eight bytes as one number at each place: a view."""
    return np.ndarray((len(letters) - 7,), "<u8", letters, strides=(1,))


def _joined(found: list[Grams]) -> Grams:
    """By position, each once: two blocks may choose the same gram."""
    positions = np.concatenate([one.positions for one in found])
    keys = np.concatenate([one.keys for one in found])
    order = np.argsort(positions, kind="stable")
    positions, keys = positions[order], keys[order]
    first = np.ones(len(positions), np.bool_)
    first[1:] = positions[1:] != positions[:-1]
    return Grams(positions[first], keys[first])
