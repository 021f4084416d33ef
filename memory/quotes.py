"""Notes found again by a sentence quoted in a longer line, a re-wrapped paragraph, an edited line.

    index = QuoteIndex.build(texts, files=…, seed=…)             # texts: one for each note, in the order of places
    index = QuoteIndex.build(texts, files=…, previous=index, kept=…)    # kept[place]: the note's place in `previous`
    for quote in index.find([text, text, …]):                    # the strings of a request, many at a time
        quote.text, quote.note                                   # number of the text, place of the note

What counts as a quote is in `docs/detection.md`. How grams are chosen is in `memory/grams.py`, what their letters are in
`memory/letters.py`, what is kept of a note in `memory/quote_rows.py`. An index is immutable and holds no text: for each
gram a key of 48 bits, its line, and one bit for each of the eight letters before and after, which tell how far a text goes
on alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory.grams import AROUND, EDGE, GRAM, Grams, Hashes, Shingler, different
from memory.letters import encoded, letters
from memory.quote_prints import printed
from memory.quote_rows import GramRows, LineHashes, first_lines, halves

FEWEST_GRAMS = 2
"""Different grams of one note in one text that make it a quote."""
SHORTEST_SPAN = 40
"""Letters in a row that make it a quote where there is one gram only."""

_PIECE = 1 << 18
"""Characters that are looked at in one go: bounds the memory that it takes, and how long other threads wait."""
_OVERLAP = 4_096
"""Characters that two pieces of a text share, so that nothing is lost between them."""
_SHORTEST = 11
"""Characters that a gram has at least, where each is three bytes."""
_BITS_PER_GRAM = 8
"""Of the bitmap, at least; twice as many where that makes its size a power of two."""
_APART = "\0" * AROUND
_ALIKE = np.array([max((~byte & (byte + 1)).bit_length() - 2, 0) for byte in range(255)] + [AROUND], np.intp)
"""For the bits of the letters beside a gram that are alike (1): how many letters are, counted from the lowest bit.

One less than there are bits, as on the average that is one too many; not where all are alike.
"""


class Quote(NamedTuple):
    """A note that one text quotes: how many of its grams, and about how many letters in a row, rather less."""

    text: int
    note: int
    grams: int
    letters: int


class QuoteIndex:
    """Immutable; made by `build`."""

    def __init__(self, rows: GramRows, lines: LineHashes, files: NDArray[np.intp], seed: int) -> None:
        telling = rows.telling(lines, files)
        self.rows = rows.at(telling)
        self.silent = rows.at(~telling)
        """Grams that too many notes have: kept, because one of these notes may go."""
        self.lines = lines
        self.seed = seed
        self._shingler = Shingler(seed)
        self._bitmap = _Bitmap(self.rows.keys)

    @classmethod
    def build(
        cls,
        texts: Sequence[str],
        *,
        files: Sequence[int] | None = None,
        seed: int = 0,
        previous: QuoteIndex | None = None,
        kept: Sequence[int] | None = None,
    ) -> QuoteIndex:
        """An index of notes, by their place in `texts`. The texts are not kept.

        `files[place]` is a number for the file that a note was read from: notes of one file count as one (None: each
        has its own). `seed` is 32 bits that only this process knows. With `previous`, whose seed then counts,
        `kept[place]` is the note's place there, if it is what it was (its text is then not read), else -1.
        """
        numbers = np.arange(len(texts)) if files is None else np.array(files, np.intp)
        before = np.full(len(texts), -1) if previous is None or kept is None else np.array(kept, np.intp)
        seed = seed if previous is None else previous.seed
        made, lines = printed((texts[place] for place in np.flatnonzero(before < 0).tolist()), seed)
        if previous is None:
            return cls(made.in_order(), lines, numbers, seed)
        lines_made, lines = lines, previous.lines.merged(before, lines)
        places = np.full(len(previous.lines.starts) - 1, -1)
        places[before[before >= 0]] = np.flatnonzero(before >= 0)
        others = [
            previous.silent.moved(previous.lines, places, lines),
            made.moved(lines_made, np.flatnonzero(before < 0), lines),
        ]
        rows = previous.rows.moved(previous.lines, places, lines).with_more(GramRows.joined(others).in_order())
        return cls(rows, lines, numbers, seed)

    @property
    def nbytes(self) -> int:
        """Memory of all that is kept."""
        return sum(part.nbytes for part in (self.rows, self.silent, self.lines, self._bitmap))

    @property
    def grams(self) -> int:
        """How many grams of notes can be found."""
        return len(self.rows.keys)

    def find(self, texts: Sequence[str]) -> list[Quote]:
        """The notes that each text quotes, in the order of texts. Many texts at once cost far less than one by one."""
        found: dict[tuple[int, int], Quote] = {}
        if self.grams:
            for numbers, batch in _batches(texts):
                for quote in self._quotes(numbers, batch):
                    known = found.get(quote[:2], quote)  # from another piece of the text
                    found[quote[:2]] = Quote(
                        *quote[:2], max(quote.grams, known.grams), max(quote.letters, known.letters)
                    )
        return list(found.values())

    def _quotes(self, numbers: Sequence[int], batch: bytes) -> Iterator[Quote]:
        grams = self._shingler.search(batch, self._bitmap.may_have)
        which, rows = self._matches(grams)
        if not len(which):
            return
        positions, notes = grams.positions[which], self.lines.notes(first_lines(self.rows.lines[rows]))
        nuls = np.flatnonzero(np.frombuffer(batch, np.uint8)[GRAM:] == 0) + GRAM
        texts = np.searchsorted(nuls, positions) // len(_APART)
        order = np.lexsort((positions, notes, texts))
        rows, positions, notes, texts = rows[order], positions[order], notes[order], texts[order]
        first = np.flatnonzero(np.append(True, (texts[1:] != texts[:-1]) | (notes[1:] != notes[:-1])))
        sizes = np.diff(np.append(first, len(rows)))
        groups = np.repeat(np.arange(len(first)), sizes)
        # A note has a gram once, so as many different rows are as many different grams.
        rows_once = different(np.sort(groups * len(self.rows.keys) + rows))
        counts = np.bincount(rows_once // len(self.rows.keys))
        spans = _longest_runs(positions, groups)
        single = first[sizes == 1]
        spans[sizes == 1] += self._alike_around(batch, positions[single], rows[single])
        quoted = (counts >= FEWEST_GRAMS) | (spans >= SHORTEST_SPAN)
        columns = (texts[first], notes[first], counts, spans)
        for text, note, count, span in zip(*(column[quoted].tolist() for column in columns), strict=True):
            yield Quote(numbers[text], note, count, span)

    def _alike_around(self, batch: bytes, positions: NDArray[np.intp], rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """How many letters before and after each gram are the note's too, as far as one bit for each can tell."""
        around = self._shingler.around(batch, positions, beyond=1)
        alike: NDArray[np.intp] = _ALIKE[~(around ^ self.rows.around[rows])].sum(axis=1)
        return alike

    def _matches(self, grams: Grams) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Pairs (number of a gram, row) that have the same key."""
        which = np.argsort(grams.keys)
        keys, checks = halves(grams.keys[which])
        row = np.searchsorted(self.rows.keys, keys)
        found = [(which[:0], row[:0])]
        while len(which):
            same = row < len(self.rows.keys)
            same[same] = self.rows.keys[row[same]] == keys[same]
            which, row, keys, checks = which[same], row[same], keys[same], checks[same]
            equal = self.rows.checks[row] == checks
            found.append((which[equal], row[equal]))
            row = row + 1
        return np.concatenate([one for one, _ in found]), np.concatenate([one for _, one in found])


class _Bitmap:
    """Which first halves of keys there are; a few others pass as well."""

    def __init__(self, keys: Hashes) -> None:
        bits = min(28, max(8, (max(1, len(keys)) * _BITS_PER_GRAM - 1).bit_length()))
        self._shift = np.uint32(32 - bits)
        every = np.zeros(1 << bits, np.bool_)
        every[keys >> self._shift] = True
        self._bits = np.packbits(every, bitorder="little")

    @property
    def nbytes(self) -> int:
        return self._bits.nbytes

    def may_have(self, hashes: Hashes) -> NDArray[np.bool_]:
        places = hashes >> self._shift
        bits: NDArray[np.uint8] = self._bits.take(places >> np.uint32(3))  # the slowest step: a look into main memory
        bits >>= places.astype(np.uint8) & np.uint8(7)
        bits &= np.uint8(1)
        return bits.view(np.bool_)


def _batches(texts: Sequence[str]) -> Iterator[tuple[list[int], bytes]]:
    """Numbers of texts, and their letters: an edge, the texts with NULs between them, an edge. Long ones in pieces."""
    numbers: list[int] = []
    waiting: list[str] = []
    size = 0
    for number, text in enumerate(texts):
        if len(text) < _SHORTEST:
            continue
        for piece in _pieces(text.replace("\0", "") if "\0" in text else text):
            numbers.append(number)
            waiting.append(piece)
            size += len(piece)
            if size >= _PIECE:
                yield numbers, _letters_of(waiting)
                numbers, waiting, size = [], [], 0
    if numbers:
        yield numbers, _letters_of(waiting)


def _pieces(text: str) -> Iterator[str]:
    if len(text) <= _PIECE + _OVERLAP:
        yield text
    else:
        for start in range(0, len(text) - _OVERLAP, _PIECE):
            yield text[start : start + _PIECE + _OVERLAP]


def _letters_of(texts: Sequence[str]) -> bytes:
    return b"".join((EDGE, letters(encoded(_APART.join(texts))), EDGE))


def _longest_runs(positions: NDArray[np.intp], groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """For each group the letters of the longest run of grams that overlap. Groups, and positions in them, ascend."""
    first = np.flatnonzero(np.append(True, (np.diff(groups) > 0) | (np.diff(positions) > GRAM)))
    last = np.append(first[1:], len(positions)) - 1
    runs = positions[last] + GRAM - positions[first]
    return np.maximum.reduceat(runs, np.flatnonzero(np.append(True, np.diff(groups[first]) > 0)))
