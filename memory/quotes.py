"""Notes found again by a sentence quoted in a longer line, a re-wrapped paragraph, an edited line.

    index = QuoteIndex.build(texts, files=…, seed=…)             # texts: one for each note, in the order of places
    index = QuoteIndex.build(texts, files=…, previous=index, kept=…)    # kept[place]: the note's place in `previous`
    for quote in index.find([text, text, …]):                    # the strings of a request in UTF-8, many at a time
        quote.text, quote.note                                   # number of the text, place of the note

What counts as a quote is in `docs/detection.md`. How grams are chosen is in `memory/grams.py`, what their letters are in
`memory/letters.py`, what is kept of a note in `memory/quote_rows.py` and `memory/gram_store.py`. An index is immutable
and holds no text: for each gram a key of 48 bits, its line, and one bit for each of the eight letters before and after,
which tell how far a text goes on alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memory import native
from memory.gram_filter import GramFilter
from memory.gram_store import GramStore
from memory.grams import AROUND, EDGE, GRAM, NOTE_WINDOW, Positions, Shingler, different
from memory.letters import letters
from memory.quote_prints import printed

FEWEST_GRAMS = 2
"""Different grams of one note in one text that make it a quote."""
SHORTEST_SPAN = 40
"""Letters in a row that make it a quote where there is one gram only."""

_PIECE = 1 << 19
"""Bytes of text that are looked at in one go: bounds the memory that it takes, and how long other threads wait."""
_OVERLAP = 4_096
"""Bytes that two pieces of a text share, so that nothing is lost between them."""
_APART = bytes(AROUND)
_REST_OF_EDGE = EDGE[AROUND:]
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


class QuotedRows(NamedTuple):
    """Rows of a text in which a gram of a note is, from `first` to `last`.

    Up to `NOTE_WINDOW - 1` letters beside it may be the note's too, as not every gram is kept: these are in the rows from
    `first_beside` to `last_beside`.
    """

    note: int
    first: int
    last: int
    first_beside: int
    last_beside: int


class QuoteIndex:
    """Immutable; made by `build`."""

    def __init__(self, store: GramStore, seed: int, previous: QuoteIndex | None = None) -> None:
        self.store = store
        self.seed = seed
        self._shingler = Shingler(seed)
        if previous is not None and store.base is previous.store.base:
            self.filter: GramFilter = previous.filter.with_more(store.recent.telling.keys)
        else:
            self.filter = GramFilter.of(store.base.telling.keys)

    @classmethod
    def build(
        cls,
        texts: Sequence[str],
        *,
        files: ArrayLike | None = None,
        seed: int = 0,
        previous: QuoteIndex | None = None,
        kept: ArrayLike | None = None,
    ) -> QuoteIndex:
        """An index of notes, by their place in `texts`. The texts are not kept.

        `files[place]` is a number for the file that a note was read from: notes of one file count as one (None: each
        has its own). `seed` is 32 bits that only this process knows. With `previous`, whose seed then counts,
        `kept[place]` is the note's place there, if it is what it was (its text is then not read), else -1.
        """
        numbers = np.arange(len(texts)) if files is None else np.asarray(files, np.intp)
        if previous is None or kept is None:
            return cls(GramStore.of(*printed(texts, seed), numbers), seed)
        before = np.asarray(kept, np.intp)
        made = printed([texts[place] for place in np.flatnonzero(before < 0).tolist()], previous.seed)
        return cls(previous.store.updated(before, *made, numbers), previous.seed, previous)

    @property
    def nbytes(self) -> int:
        """Memory of all that is kept."""
        return self.store.nbytes + self.filter.nbytes

    @property
    def grams(self) -> int:
        """How many grams of notes can be found."""
        return len(self.store)

    def find(self, texts: Sequence[bytes]) -> list[Quote]:
        """The notes that each text quotes, in the order of texts, which are UTF-8 as `letters.encoded` makes it.

        Many texts at once cost far less than one by one.
        """
        found: dict[tuple[int, int], Quote] = {}
        if self.grams:
            for numbers, batch in _batches(texts):
                for quote in self._quotes(numbers, batch):
                    known = found.get(quote[:2], quote)  # from another piece of the text
                    found[quote[:2]] = Quote(
                        *quote[:2], max(quote.grams, known.grams), max(quote.letters, known.letters)
                    )
        return list(found.values())

    def rows(self, text: bytes, notes: Collection[int]) -> Iterator[QuotedRows]:
        """The rows of one text that have letters of some notes, for each gram of theirs."""
        wanted = np.array(sorted(notes), np.intp)
        start = row = 0
        for begin, piece in _pieces_at(text):
            row += text.count(b"\n", start, begin)
            start = begin
            rows = letters(piece.replace(b"\0", b""), rows=True)
            marks = np.flatnonzero(np.frombuffer(rows, np.uint8) == ord("\n"))
            row_ends = marks - np.arange(len(marks))
            plain = rows.translate(None, b"\n")
            grams = self._shingler.search(b"".join((EDGE, plain, EDGE)), self.filter)
            which, found = self.store.matches(grams.keys)
            if not len(which):
                continue
            owners = self.store.places(self.store.at(found))
            chosen = np.flatnonzero(np.isin(owners, wanted))
            positions = grams.positions.take(which[chosen]) - len(EDGE)
            last = positions + GRAM - 1
            before, after = positions - (NOTE_WINDOW - 1), last + (NOTE_WINDOW - 1)
            columns = [row + np.searchsorted(row_ends, at, "right") for at in (positions, last, before, after)]
            # Before the first letter and behind the last one there may be digits.
            columns[2][before <= 0] = row
            columns[3][after >= len(plain) - 1] = row + len(row_ends)
            yield from map(QuotedRows, owners[chosen].tolist(), *(column.tolist() for column in columns))

    def _quotes(self, numbers: Sequence[int], batch: bytes) -> Iterator[Quote]:
        grams = self._shingler.search(batch, self.filter)
        which, rows = self.store.matches(grams.keys)
        if not len(which):
            return
        found = self.store.at(rows)
        positions, notes = grams.positions.take(which), self.store.places(found)
        nuls = np.flatnonzero(np.frombuffer(batch, np.uint8)[GRAM:] == 0) + GRAM
        texts = np.searchsorted(nuls, positions) // len(_APART)
        pairs = texts * self.store.notes + notes
        order = np.argsort(pairs * len(batch) + positions)
        pairs, positions, rows, around = pairs[order], positions[order], rows[order], found.around[order]
        first = np.flatnonzero(np.append(True, pairs[1:] != pairs[:-1]))
        sizes = np.diff(np.append(first, len(rows)))
        groups = np.repeat(np.arange(len(first)), sizes)
        # A note has a gram once, so as many different rows are as many different grams.
        rows_once = different(np.sort(groups * len(self.store) + rows))
        counts = np.bincount(rows_once // len(self.store))
        spans = _longest_runs(positions, groups)
        single = first[sizes == 1]
        if len(single):
            spans[sizes == 1] += self._alike_around(batch, positions[single], around[single])
        quoted = np.flatnonzero((counts >= FEWEST_GRAMS) | (spans >= SHORTEST_SPAN))
        columns = (*np.divmod(pairs[first[quoted]], self.store.notes), counts[quoted], spans[quoted])
        for text, note, count, span in zip(*(column.tolist() for column in columns), strict=True):
            yield Quote(numbers[text], note, count, span)

    def _alike_around(self, batch: bytes, positions: Positions, of_notes: NDArray[np.uint8]) -> NDArray[np.intp]:
        """How many letters before and after each gram are the note's too, as far as one bit for each can tell."""
        size = AROUND + GRAM + AROUND
        excerpts = [batch[start : start + size] for start in (positions - AROUND).tolist()]
        around = self._shingler.around(b"".join(excerpts), AROUND + size * np.arange(len(excerpts)), beyond=1)
        alike: NDArray[np.intp] = _ALIKE[~(around ^ of_notes)].sum(axis=1)
        return alike


def _batches(texts: Sequence[bytes]) -> Iterator[tuple[list[int], bytes]]:
    """Numbers of texts, and their letters: an edge, the texts with NULs between them, an edge. Long ones in pieces."""
    numbers: list[int] = []
    waiting: list[bytes] = []
    size = 0
    for number, text in enumerate(texts):
        if len(text) < GRAM:
            continue
        for piece in _pieces(text.replace(b"\0", b"")) if len(text) > _PIECE else (text,):
            numbers.append(number)
            waiting.append(piece)
            size += len(piece)
            if size >= _PIECE:
                yield numbers, _letters_of(waiting)
                numbers, waiting, size = [], [], 0
    if numbers:
        yield numbers, _letters_of(waiting)


def _pieces(text: bytes) -> Iterator[bytes]:
    return (piece for _, piece in _pieces_at(text))


def _pieces_at(text: bytes) -> Iterator[tuple[int, bytes]]:
    """The pieces of a text, each with where it begins."""
    start = 0
    while len(text) - start > _PIECE + _OVERLAP:
        yield start, text[start : _character(text, start + _PIECE + _OVERLAP)]
        start = _character(text, start + _PIECE)
    yield start, text[start:]


def _character(text: bytes, place: int) -> int:
    """Where the character begins that a byte of UTF-8 is of."""
    while text[place] & 0xC0 == 0x80:
        place -= 1
    return place


def _letters_of(texts: Sequence[bytes]) -> bytes:
    if native.BUILT:  # which takes texts as they come, so that few of them are in need of Python
        plain = [letters(text if b"\0" not in text else text.replace(b"\0", b"")) for text in texts]
    else:
        joined = _APART.join(texts)
        if np.count_nonzero(np.frombuffer(joined, np.uint8) == 0) > len(_APART) * (len(texts) - 1):
            joined = _APART.join([text.replace(b"\0", b"") for text in texts])
        plain = [letters(joined)]
    return _APART.join((_REST_OF_EDGE, *plain, _REST_OF_EDGE))


def _longest_runs(positions: NDArray[np.intp], groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """For each group the letters of the longest run of grams that overlap. Groups, and positions in them, ascend."""
    first = np.flatnonzero(np.append(True, (np.diff(groups) > 0) | (np.diff(positions) > GRAM)))
    last = np.append(first[1:], len(positions)) - 1
    runs = positions[last] + GRAM - positions[first]
    return np.maximum.reduceat(runs, np.flatnonzero(np.append(True, np.diff(groups[first]) > 0)))
