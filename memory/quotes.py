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

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memory import native
from memory.gram_filter import GramFilter
from memory.gram_store import GramStore
from memory.grams import AROUND, EDGE, GRAM, NOTE_WINDOW, Positions, Shingler, different
from memory.letters import letters, letters_with_python
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
_BEYOND = 1
"""What `Shingler.around` says of what is beyond a searched text: other than of what is beyond a note."""
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


class _Matches(NamedTuple):
    """Grams of texts that notes have: where in the letters each is, ascending, its row, the note's place, what is around."""

    positions: Positions
    rows: Positions
    notes: Positions
    around: NDArray[np.uint8]


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
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        ends = np.cumsum(lengths)
        return self.find_in(b"".join(texts), ends - lengths, ends)

    def find_in(self, data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> list[Quote]:
        """As `find`, of texts that are in one buffer, by where each begins and ends."""
        found: dict[tuple[int, int], Quote] = {}
        if not self.grams:
            return []
        if b"\0" in data:
            return self.find([text.replace(b"\0", b"") for text in _cut(data, begins, ends)])
        for numbers, batch in _batches(data, begins, ends):
            for place, note, grams, span in self._quotes(batch):
                text = numbers[place]
                quote = Quote(text, note, grams, span)
                known = found.get((text, note), quote)  # from another piece of the text
                found[text, note] = Quote(text, note, max(grams, known.grams), max(span, known.letters))
        return [found[pair] for pair in sorted(found)]

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

    def _quotes(self, batch: bytes) -> Iterable[Sequence[int]]:
        """(number of the text in the batch, note, grams, letters)."""
        grams = self._shingler.search(batch, self.filter)
        which, rows = self.store.matches(grams.keys)
        if not len(which):
            return ()
        found = self.store.at(rows)
        matches = _Matches(grams.positions.take(which), rows, self.store.places(found), found.around)
        return self._quotes_by(batch, matches) if native.BUILT else self._quotes_by_with_numpy(batch, matches)

    def _quotes_by(self, batch: bytes, matches: _Matches) -> Iterable[Sequence[int]]:
        positions, rows, notes = (column.astype(np.int64, copy=False) for column in matches[:3])
        bits = self._shingler.bits(_BEYOND)
        found = native.quotes(batch, positions, rows, notes, matches.around, bits, FEWEST_GRAMS, SHORTEST_SPAN)
        quotes: list[list[int]] = np.frombuffer(found, np.int64).reshape(-1, 4).tolist()
        return quotes

    def _quotes_by_with_numpy(self, batch: bytes, matches: _Matches) -> Iterable[Sequence[int]]:
        """As `_quotes_by`, where nothing was built."""
        positions, rows, notes, around = matches
        nuls = np.flatnonzero(np.frombuffer(batch, np.uint8)[GRAM:] == 0) + GRAM
        texts = np.searchsorted(nuls, positions) // len(_APART)
        pairs = texts * self.store.notes + notes
        order = np.argsort(pairs * len(batch) + positions)
        pairs, positions, rows, around = pairs[order], positions[order], rows[order], around[order]
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
        return zip(*(column.tolist() for column in columns), strict=True)

    def _alike_around(self, batch: bytes, positions: Positions, of_notes: NDArray[np.uint8]) -> NDArray[np.intp]:
        """How many letters before and after each gram are the note's too, as far as one bit for each can tell."""
        size = AROUND + GRAM + AROUND
        excerpts = [batch[start : start + size] for start in (positions - AROUND).tolist()]
        around = self._shingler.around(b"".join(excerpts), AROUND + size * np.arange(len(excerpts)), beyond=_BEYOND)
        alike: NDArray[np.intp] = _ALIKE[~(around ^ of_notes)].sum(axis=1)
        return alike


def _cut(data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> list[bytes]:
    return [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


def _batches(data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Iterator[tuple[Sequence[int], bytes]]:
    """Numbers of texts, and their letters: an edge, the texts with NULs between them, an edge. Long ones in pieces."""
    numbers: Sequence[int] = range(len(begins))
    lengths = ends - begins
    if len(lengths) and lengths.max() > _PIECE:
        texts = enumerate(_cut(data, begins, ends))
        pieces = [(number, at, len(piece)) for number, text in texts for at, piece in _pieces_at(text)]
        numbers = [number for number, _, _ in pieces]
        begins = begins[numbers] + np.array([at for _, at, _ in pieces], np.int64)
        lengths = np.array([length for _, _, length in pieces], np.int64)
        ends = begins + lengths
    sizes = np.cumsum(lengths)
    start = size = 0
    while start < len(numbers):
        stop = min(int(sizes.searchsorted(size + _PIECE)) + 1, len(numbers))
        yield _letters_of(data, begins[start:stop], ends[start:stop], numbers[start:stop])
        start, size = stop, int(sizes[stop - 1])


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


def _letters_of(
    data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64], numbers: Sequence[int]
) -> tuple[Sequence[int], bytes]:
    """The letters of texts, and the numbers of these in the order in which they are there."""
    if not native.BUILT:
        joined = _APART.join(_cut(data, begins, ends))
        return numbers, _APART.join((_REST_OF_EDGE, letters(joined), _REST_OF_EDGE))
    found, undone = native.letters_of(data, begins, ends)
    if undone:  # there is nothing of them: they come behind the others
        left = np.frombuffer(undone, np.int64)
        more = [letters_with_python(text) for text in _cut(data, begins[left], ends[left])]
        found = b"".join((found[: -len(_REST_OF_EDGE)], _APART.join((*more, _REST_OF_EDGE))))
        numbers = [*numbers, *(numbers[place] for place in left.tolist())]
    return numbers, found


def _longest_runs(positions: NDArray[np.intp], groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """For each group the letters of the longest run of grams that overlap. Groups, and positions in them, ascend."""
    first = np.flatnonzero(np.append(True, (np.diff(groups) > 0) | (np.diff(positions) > GRAM)))
    last = np.append(first[1:], len(positions)) - 1
    runs = positions[last] + GRAM - positions[first]
    return np.maximum.reduceat(runs, np.flatnonzero(np.append(True, np.diff(groups[first]) > 0)))
