"""The grams and the lines of notes, made from their texts. Each note is by itself: what another says does not matter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, repeat

import mmh3
import numpy as np
from numpy.typing import NDArray

from memory.grams import AROUND, EDGE, GRAM, IS_WIDE, NOTE_WINDOW, PLACES, SEARCH_WINDOW, Positions, Shingler, different
from memory.letters import encoded, letters
from memory.quote_rows import GramRows, LineHashes

FEWEST_WIDE = 12
"""Wide characters of a line that is found by itself, however short."""

_TWO_GRAMS_FOR_CERTAIN = 55
"""Letters of which winnowing keeps two grams, whatever they are."""
_BATCH = 1 << 19
"""Bytes of notes that are looked at in one go."""
_FRONTMATTER = re.compile(
    r"\ufeff?---[ \t]*\r?\n(?:---|(?=[^\n]*:|[ \t#]).*?^---)[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
_WIDE_SENTENCE_ENDS = ("。".encode(), "\uff01".encode(), "\uff1f".encode())
_SHORT_SENTENCES = (GRAM + SEARCH_WINDOW - 1, GRAM + NOTE_WINDOW - 1)
"""Letters, from and to, of a sentence which winnowing might pass over, and of which a search would find grams."""


def printed(texts: Iterable[str], seed: int) -> tuple[GramRows, LineHashes]:
    """The grams of notes, in no order, and their lines. `seed` is 32 bits."""
    shingler = Shingler(seed)
    grams: list[GramRows] = []
    hashes: list[NDArray[np.uint32]] = []
    counts: list[NDArray[np.intp]] = []
    line = 0
    for notes in _batches(texts):
        batch = _Batch(notes, seed)
        grams.append(batch.grams(shingler, line))
        hashes.append(batch.hashes)
        counts.append(batch.lines)
        line += len(batch.hashes)
    return GramRows.joined(grams), LineHashes.joined(hashes, counts)


def _batches(texts: Iterable[str]) -> Iterator[list[bytes]]:
    """The notes in UTF-8, without their frontmatter."""
    batch: list[bytes] = []
    size = 0
    for text in texts:
        match = _FRONTMATTER.match(text)
        note = encoded(text[match.end() :] if match else text)
        batch.append(note.replace(b"\0", b"") if b"\0" in note else note)
        size += len(note)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Batch:
    """Some notes, with as many NUL between them as no gram, nor what is around it, reaches over.

    A line is the letters of a row of the note, if there are any.
    """

    def __init__(self, notes: Sequence[bytes], seed: int) -> None:
        # What begins in one note ends in it, as no pattern of `letters` reaches over a NUL.
        text = b"\0\n\0".join(notes)
        for end in (b".", b"?", b"!"):
            text = text.replace(end + b" ", end + b"\0")
        for end in () if text.isascii() else _WIDE_SENTENCE_ENDS:
            text = text.replace(end, end + b"\0")
        rows = letters(text, rows=True)
        marks = np.flatnonzero(np.frombuffer(rows, np.uint8) <= ord("\n"))
        self._ends = marks - np.arange(len(marks))
        """After how many letters a row or a sentence ends."""
        rows = rows.translate(None, b"\0")
        in_rows = rows.split(b"\n")
        self.hashes = np.fromiter(map(mmh3.hash, filter(None, in_rows), repeat(seed), repeat(False)), np.uint32)
        lengths = np.fromiter(map(len, in_rows), np.intp, len(in_rows))
        last = np.cumsum([note.count(b"\n") + 1 for note in notes])
        """After how many rows each note ends."""
        self.lines = np.diff(np.append(0, np.append(0, np.cumsum(lengths > 0))[last]))
        """How many lines each note has."""
        ends = np.append(0, np.cumsum(lengths))
        self._letters = rows.translate(None, b"\n")
        self._note_ends = ends[last]
        self._starts = ends[:-1][lengths > 0]
        """After how many letters each line begins."""
        self._lengths = lengths[lengths > 0]

    def grams(self, shingler: Shingler, line: int) -> GramRows:
        """`line` is the number of the batch's first line."""
        parts = [self._letters[start:end] for start, end in pairwise([0, *self._note_ends.tolist()])]
        # Ties are settled by the place modulo `PLACES`: a note has the same ones in any batch.
        parts = [part + bytes(AROUND + -(len(part) + AROUND) % PLACES) for part in parts]
        self._shifts = np.cumsum([len(EDGE), *map(len, parts)]) - np.append(0, self._note_ends)
        batch = b"".join((EDGE, *parts, EDGE))
        short_starts, short_lengths = self._short_sentences()
        chosen = shingler.choose(batch, self._in_batch(short_starts), short_lengths)
        positions = different(np.sort(np.concatenate((chosen, self._in_batch(self._wide())))))
        starts = self._in_batch(self._starts)
        first: Positions = np.searchsorted(starts, positions, "right") - 1
        last = np.searchsorted(starts, positions + GRAM, "left") - 1
        around = shingler.around(batch, positions, beyond=0)
        return GramRows.of(shingler.keys(batch, positions), line + first, last - first, around)

    def _in_batch(self, letters_before: Positions) -> Positions:
        """Where the letters are that come after so many."""
        places: Positions = letters_before + self._shifts[np.searchsorted(self._note_ends, letters_before, "right")]
        return places

    def _short_sentences(self) -> tuple[Positions, Positions]:
        """After how many letters they begin, and how many they have."""
        bounds = np.concatenate(([0], self._ends, [len(self._letters)]))
        lengths = np.diff(bounds)
        shortest, longest = _SHORT_SENTENCES
        short = np.flatnonzero((lengths >= shortest) & (lengths < longest))
        return bounds[short], lengths[short]

    def _wide(self) -> Positions:
        """The two grams that are kept of a short line of wide characters, which winnowing might pass over."""
        if self._letters.isascii():
            return self._ends[:0]
        wide = np.flatnonzero(IS_WIDE[np.frombuffer(self._letters, np.uint8)])
        before = np.searchsorted(wide, self._starts)
        counts = np.searchsorted(wide, self._starts + self._lengths) - before
        first = before[(counts >= FEWEST_WIDE) & (self._lengths < _TWO_GRAMS_FOR_CERTAIN)]
        return wide[np.concatenate((first, first + 1))]
