"""Which rows of a body's texts are withheld for some notes (dispatch.md, "redact").

A string in which a note is sighted by content loses every row that is a line of the note, short or common as it may be,
and every row over which a quote of it reaches. "The same string" is what the body has between two quotation marks, with
all the JSON in it; and strings that stand in one array are one, as lines and chunks are sent that way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory.blobs import SHORTEST_BLOB, without_blobs
from memory.cache import SHORTEST_STRING, Results
from memory.index import NoteIndex
from memory.lines import canonical_line, fingerprint, prefix_ends, rows_without_path, rows_without_prefix
from memory.pieces import Joined, Rows
from memory.redact_lines import FEWEST, fold_key, fold_keys, folded_rows
from memory.redact_texts import Text
from memory.sifting import rows_behind_path

MOST_ROWS_OF_A_LINE = 4
"""Rows over which a line may have been wrapped that is too short to be found as a quote."""


class Withheld(NamedTuple):
    """A part of a text, in characters, and the number of the note for which it is withheld."""

    text: Text
    start: int
    end: int
    note: int


class _Match(NamedTuple):
    """A row that is a line of some notes: where in the row the line begins, and the numbers of these notes."""

    start: int
    notes: set[int]
    exact: bool
    """It is the line by the exact rule, not by its letters alone."""
    telling: set[int]
    """Those of the notes that it tells: it is sighted by this row."""


def find_withheld(
    index: NoteIndex,
    ids: Sequence[str],
    texts: Sequence[Text],
    group_of: Callable[[Text], int],
    scanned: Results | None = None,
) -> Iterator[Withheld]:
    """What is withheld for the notes with these ids, all known to the index, and of what texts.

    `group_of` says which texts are of one string; it is asked only where a note is sighted. Of a row that is withheld for
    several notes, the first of them counts. Quotes are not looked for again in what `scanned` knows to have none.
    """
    search = _Search(index, ids, texts, scanned)
    search.find()
    if search.sighted:
        yield from search.withheld(group_of)


@dataclass(slots=True)
class _Found:
    """What is in one text. Rows are numbers, notes are numbers in the order of their ids."""

    matches: dict[int, _Match] = field(default_factory=dict)
    distinctive: dict[int, tuple[int, set[int]]] = field(default_factory=dict)
    """Row -> the fingerprint of the distinctive line that it is, and the line's notes."""
    quoted: set[int] = field(default_factory=set)
    """Notes that the text quotes."""

    @property
    def sighted(self) -> set[int]:
        return self.quoted.union(
            *(match.telling for match in self.matches.values()), *(notes for _, notes in self.distinctive.values())
        )


class _Search:
    def __init__(
        self, index: NoteIndex, ids: Sequence[str], texts: Sequence[Text], scanned: Results | None = None
    ) -> None:
        self._index = index
        self._scanned = scanned
        self._texts = texts
        self._numbers = {index.place_of(note): number for number, note in enumerate(ids)}
        """Place of a note in the index -> its number."""
        self._wanted = index.every_line.wanted(ids)
        self._tells = self._wanted.long & index.are_distinctive(self._wanted.exact)
        self._found: defaultdict[int, _Found] = defaultdict(_Found)
        """By the number of the text."""
        self._encoded = [_shown(text.text) for text in texts]
        self.sighted = False

    def find(self) -> None:
        """Look for lines and quotes in all texts at once."""
        joined = Joined.of(self._encoded)
        self._find_distinctive(joined)
        self._find_lines(joined)
        if self._index.quotes is not None:
            searched = [
                encoded if self._may_quote(text, encoded) else b""
                for text, encoded in zip(self._texts, self._encoded, strict=True)
            ]
            for quote in self._index.quotes.find(searched):
                if quote.note in self._numbers:
                    self._found[quote.text].quoted.add(self._numbers[quote.note])
        self.sighted = any(found.sighted for found in self._found.values())

    def _may_quote(self, text: Text, encoded: bytes) -> bool:
        if text.holds_json:
            return False
        if self._scanned is None or len(encoded) < SHORTEST_STRING:
            return True
        known = self._scanned.strings.get(self._scanned.key(encoded, names=True))
        return known is None or any(one.note in self._numbers for one in known.content)

    def withheld(self, group_of: Callable[[Text], int]) -> Iterator[Withheld]:
        """What is withheld, by text and row."""
        in_group: defaultdict[int, set[int]] = defaultdict(set)
        groups = [group_of(text) for text in self._texts]
        for number, found in self._found.items():
            in_group[groups[number]] |= found.sighted
        for number, (text, group) in enumerate(zip(self._texts, groups, strict=True)):
            if sighted := in_group.get(group):
                yield from self._withheld_of(text, self._found[number], self._encoded[number], sighted)

    def _find_distinctive(self, joined: Joined) -> None:
        """Distinctive lines, as a scan finds them."""
        at: list[int] = []
        lines: list[tuple[int, set[int]]] = []
        for place, key, notes in self._index.lines_in(joined):
            wanted = {self._numbers[note] for note in notes if note in self._numbers}
            if wanted:
                at.append(place)
                lines.append((key, wanted))
        for (number, row), line in zip(_rows_at(joined, at), lines, strict=True):
            self._found[number].distinctive[row] = line

    def _find_lines(self, joined: Joined) -> None:
        """Lines of the notes, whatever they are."""
        at = [start for piece in joined.pieces() for start in self._rows_that_may_match(*piece)]
        rows: dict[int, list[str]] = {}
        for number, row in _rows_at(joined, at):
            if number not in rows:
                rows = {number: self._texts[number].text.split("\n")}
            match = self._match(rows[number][row])
            # JSON has rows like `"name": {`, which have the letters of a line but are not one.
            if match and (match.exact or not self._texts[number].holds_json):
                self._found[number].matches[row] = match

    def _rows_that_may_match(self, offset: int, data: bytes) -> list[int]:
        """Where the rows of a piece begin that have the letters of a line, as they stand or behind a prefix."""
        rows = Rows.of(np.frombuffer(data, np.uint8))
        some = self._wanted.may_have(data)
        if not len(some):
            return []
        data = b"\n".join([data[start:end] for start, end in rows.at(some)])
        once = rows_without_prefix(data)
        found = [self._among(folded_rows(form)) for form in (data, once, rows_without_prefix(once))]
        if behind := rows_behind_path(data, Rows.of(np.frombuffer(data, np.uint8))):
            each = data.split(b"\n")
            in_path = b"\n".join([each[row] for row in behind])
            found += [np.array(behind)[self._among(folded_rows(form))] for form in rows_without_path(in_path)]
        return (rows.starts[some[np.unique(np.concatenate(found))]] + offset).tolist()  # type: ignore[no-any-return]

    def _among(self, folded: bytes) -> NDArray[np.intp]:
        return self._wanted.among(fold_keys(folded, self._index.seed))

    def _match(self, row: str) -> _Match | None:
        """A row as the line that it is: by the exact rule if it can be, as it stands rather than behind a prefix."""
        wanted, seed = self._wanted, self._index.seed
        by_letters: _Match | None = None
        for start in (0, *prefix_ends(row)):
            rest = row[start:]
            same = list(wanted.rows(fold_key(rest, seed)))
            if not same:
                continue
            key = fingerprint(canonical_line(rest), seed)
            exact = [one for one in same if int(wanted.exact[one]) == key]
            match = _Match(
                start,
                {int(wanted.notes[one]) for one in same},
                bool(exact),
                {int(wanted.notes[one]) for one in same if self._tells[one]},
            )
            if exact:
                return match
            by_letters = by_letters or match
        return by_letters

    def _withheld_of(self, text: Text, found: _Found, encoded: bytes, sighted: set[int]) -> Iterator[Withheld]:
        starts: dict[int, int] = {}
        """Row -> where in it begins what is withheld."""
        notes: defaultdict[int, set[int]] = defaultdict(set)
        rows = text.text.split("\n")
        for row, match in found.matches.items():
            if of := match.notes & sighted:
                starts[row] = match.start
                notes[row] |= of
        for row, (key, of) in found.distinctive.items():
            starts.setdefault(row, self._start_of(rows[row], key))
            notes[row] |= of
        if not text.holds_json and len(notes) < len(rows):
            lines = {note: {row for row, of in notes.items() if note in of} for note in sighted}
            quoted = self._quoted_rows(encoded, {note: lines[note] for note in found.sighted})
            for row, note in (*quoted, *self._wrapped_rows(rows, set(notes), sighted)):
                if any(map(str.isalnum, rows[row])):
                    starts[row] = 0
                    notes[row].add(note)
        ends = np.cumsum([len(row) + 1 for row in rows]) - 1
        for row in sorted(notes):
            begin = int(ends[row]) - len(rows[row])
            what = rows[row][starts[row] :]
            start = begin + len(rows[row]) - len(what.lstrip())
            yield Withheld(text, start, begin + len(rows[row].rstrip()), min(notes[row]))

    def _start_of(self, row: str, key: int) -> int:
        """Where a row begins to be the line that has a fingerprint."""
        for start in (0, *prefix_ends(row)):
            if fingerprint(canonical_line(row[start:]), self._index.seed) == key:
                return start
        return 0

    def _quoted_rows(self, encoded: bytes, lines: Mapping[int, set[int]]) -> Iterator[tuple[int, int]]:
        """(row, note) of rows over which a quote reaches.

        `lines` is note -> the rows that are lines of it. What is in these alone, and in rows that are next to nothing, is
        no quote. And a quote reaches no further than into one of them: what is behind it is no part of a line.
        """
        if self._index.quotes is None or not lines:
            return
        slight = _slight_rows(encoded)
        places = [place for place, number in self._numbers.items() if number in lines]
        for place, first, last, before, after in dict.fromkeys(self._index.quotes.rows(encoded, places)):
            note = self._numbers[place]
            whole = lines[note]
            if all(row in whole or row in slight for row in range(first, last + 1)):
                continue
            yield from ((row, note) for row in range(first, last + 1))
            for way in (range(first, before - 1, -1), range(last, after + 1)):
                for row in way:
                    yield row, note
                    if row in whole:
                        break

    def _wrapped_rows(self, rows: Sequence[str], whole: set[int], sighted: set[int]) -> Iterator[tuple[int, int]]:
        """As `_quoted_rows`, of rows that are a line of a note together with the next ones. `whole` are lines already."""
        wanted = self._wanted
        if len(rows) - len(whole) < 2:
            return
        data = "\n".join(rows).encode("utf-8", "surrogatepass")
        for form in dict.fromkeys((data, rows_without_prefix(data))):
            folded = [
                (row, letters)
                for row, letters in enumerate(folded_rows(form).split(b"\n"))
                if letters and row not in whole
            ]
            ends: list[tuple[int, int]] = []
            joins: list[bytes] = []
            for at, (last, letters) in enumerate(folded):
                if not wanted.may_end(letters):
                    continue
                together = letters
                for row, more in reversed(folded[max(0, at + 1 - MOST_ROWS_OF_A_LINE) : at]):
                    together = more + together
                    if len(together) > wanted.longest:
                        break
                    ends.append((row, last))
                    joins.append(together)
            if not joins:
                continue
            keys = fold_keys(b"\n".join(joins), self._index.seed)
            for number in wanted.among(keys).tolist():
                of = {int(wanted.notes[one]) for one in wanted.rows(int(keys[number]))} & sighted
                first, last = ends[number]
                for row in range(first, last + 1) if of else ():
                    yield row, min(of)


def _shown(text: str) -> bytes:
    """What a scan looks at, without what is encoded: nothing can be withheld from that."""
    shown = without_blobs(text) if len(text) >= SHORTEST_BLOB else text
    return shown.encode("utf-8", "surrogatepass")


def _slight_rows(text: bytes) -> set[int]:
    """The rows of a text that have too few letters and digits, behind their prefix, to be a line of a note."""
    folded = folded_rows(rows_without_prefix(text)).decode("utf-8").split("\n")
    return {number for number, row in enumerate(folded) if len(row) < FEWEST}


def _rows_at(joined: Joined, places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(number of the text, number of its row) for places in joined texts, ascending."""
    numbers = joined.texts_at(places)
    start = 0
    while start < len(places):
        end = start
        while end < len(places) and numbers[end] == numbers[start]:
            end += 1
        for row in joined.rows_of(numbers[start], places[start:end]):
            yield numbers[start], row
        start = end
