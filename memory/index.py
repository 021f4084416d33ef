"""The immutable index that finds notes again in a text. It holds fingerprints and names, never a note's text.

A rescan builds a new index, out of the old one's rows where a note is what it was, and swaps it in with one
assignment; who holds the old one may finish with it. The rules are those of `docs/detection.md`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory.effort import Effort
from memory.exchange import Sighting
from memory.grams import GRAM
from memory.line_index import LineIndex
from memory.lines import fingerprints, line_forms
from memory.mentions import MentionFinder, NamedNote
from memory.notes import Note
from memory.pieces import Joined
from memory.prints import LineFacts, NoteRecord, Prints, joined
from memory.quotes import QuoteIndex
from memory.redact_lines import EveryLine
from memory.sifting import NAMED
from memory.tally import NOTHING, Found, FoundContent, FoundMention, KnownNote, Tally

type Mentions = Literal["careful", "seed"]

MOST_NOTES_WITH_A_LINE = 3
"""A line that is in more notes than this says nothing about any of them."""
MINIMUM_LINE_LENGTH = 24
SHORTEST_MINIMUM = 8


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How notes are found: the arguments of `NoteIndex.build`."""

    roots: Mapping[str, str]
    minimum_line_length: int
    mentions: Mentions
    fold_paths: bool
    quotes: bool


class _Names(NamedTuple):
    """What an index knows of its notes' names."""

    titles: Mapping[str, str]
    places: Mapping[str, int]
    """Both by the notes' ids."""
    finder: MentionFinder

    @classmethod
    def of(cls, records: Sequence[NoteRecord], options: IndexOptions) -> _Names:
        roots = options.roots
        named = [
            NamedNote(one.path, one.title, one.aliases, roots.get(one.source), _identity(one, roots)) for one in records
        ]
        return cls(
            MappingProxyType({one.note: one.title for one in records}),
            {one.note: place for place, one in enumerate(records)},
            MentionFinder(named, careful=options.mentions == "careful", fold_paths=options.fold_paths),
        )


class NoteIndex:
    """Notes by the lines that only they have, and by their names. Immutable; made by `build`."""

    def __init__(
        self,
        prints: Prints,
        options: IndexOptions,
        quotes: QuoteIndex | None,
        names: _Names | None = None,
        every_line: EveryLine | None = None,
    ) -> None:
        self.options = options
        self.generation: object = object()
        """Different for each index: what was found with one says nothing of another."""
        self._seed = prints.seed
        self.quotes = quotes
        """None: notes are found by whole lines only."""
        self.every_line = every_line or EveryLine(prints.seed)
        """Of the notes that may have to be redacted."""
        records, roots = prints.records, options.roots
        self._careful = options.mentions == "careful"
        self._names = names or _Names.of(records, options)
        self._mentions = self._names.finder
        self.notes = self._names.titles
        """Note id -> title."""

        long = joined(prints.long).in_order()
        distinctive = long.distinctive(_files(records, roots), MOST_NOTES_WITH_A_LINE)
        rows = long.at(distinctive)
        self._common = long.at(~distinctive)
        """Lines of too many notes. They tell nothing, until one of these notes goes."""
        self.prints = replace(prints, long=(rows, self._common))
        self._lines = LineIndex(
            rows, longest=prints.longest, seed=prints.seed, minimum_line_length=options.minimum_line_length
        )
        self._distinctive = np.bincount(rows.owners, minlength=len(records))
        """How many distinctive lines the note at each place has."""

    @classmethod
    def build(
        cls,
        notes: Iterable[Note],
        *,
        roots: Mapping[str, str] | None = None,
        minimum_line_length: int = MINIMUM_LINE_LENGTH,
        mentions: Mentions = "careful",
        fold_paths: bool = False,
        quotes: bool = False,
        reachable: Callable[[Note], bool] | None = None,
        previous: NoteIndex | None = None,
    ) -> NoteIndex:
        """An index of `notes`, in any order; their text is not kept.

        `roots` names the absolute folder of each source that has one: absolute paths below it are then mentions, and
        a file that two sources reach is one note. `fold_paths` is for file systems that do not tell `A.md` from
        `a.md`. `minimum_line_length` is in characters (code points) and at least 8; less raises ValueError.
        With `quotes` a note is found by a sentence of it, too. `reachable` are the notes that `redact` may be asked to
        withhold: of these, hashes of all lines are kept.

        What `previous` knows of a note whose text has not changed is taken over from it. It comes back itself if
        nothing has changed at all. Only notes that it knows may come unread; those that were not reachable then cannot
        be redacted until they are read.
        """
        if minimum_line_length < SHORTEST_MINIMUM:
            raise ValueError(f"minimum_line_length is {minimum_line_length}; it must be at least {SHORTEST_MINIMUM}")
        options = IndexOptions(dict(roots or {}), minimum_line_length, mentions, fold_paths, quotes)
        if previous is not None and previous.options.minimum_line_length != minimum_line_length:
            previous = None
        if previous is not None and quotes and previous.quotes is None:
            previous = None
        old = previous.prints if previous else Prints(secrets.randbits(32), minimum_line_length)
        by_id = sorted(notes, key=lambda note: note.id)
        prints, before = old.updated(by_id)
        same = {by_id[number].id for number in np.flatnonzero(before >= 0).tolist()} if reachable else frozenset()
        every_line = EveryLine.of(
            filter(reachable, by_id) if reachable else (),
            seed=prints.seed,
            previous=previous.every_line if previous else None,
            same=same,
        )
        if (
            previous
            and prints.records == old.records
            and options == previous.options
            and every_line == previous.every_line
        ):
            return previous
        # An edit seldom changes what notes are called, and their names cost more than all their lines.
        same_names = previous and options == previous.options and _same_names(prints.records, old.records)
        names = previous._names if previous and same_names else None  # noqa: SLF001  # of the same class
        if not quotes:
            return cls(prints, options, None, names, every_line)
        found_by_quotes = QuoteIndex.build(
            [note.text for note in by_id],
            files=_files(prints.records, options.roots),
            seed=prints.seed,
            previous=previous.quotes if previous else None,
            kept=before,
        )
        return cls(prints, options, found_by_quotes, names, every_line)

    def facts(self, note: str) -> LineFacts:
        """KeyError: no note has this id."""
        place = self._names.places[note]
        return LineFacts(self.prints.records[place].lines, int(self._distinctive[place]))

    @property
    def line_bytes(self) -> int:
        """Memory of all that is kept of the notes' lines; their names are not counted."""
        return self._lines.nbytes + self._common.nbytes + self.prints.naming.nbytes

    def known(self, place: int) -> KnownNote:
        """The note at a place."""
        record = self.prints.records[place]
        return KnownNote(record.note, record.title, self._distinctive.item(place))

    def place_of(self, note: str) -> int:
        """KeyError: no note has this id."""
        return self._names.places[note]

    @property
    def seed(self) -> int:
        """That of the fingerprints."""
        return self._seed

    def lines_in(self, texts: Joined) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """(place in the joined texts where a distinctive line's row begins, its fingerprint, places of its notes)."""
        for start, piece in texts.pieces():
            sifted = self._lines.sift(piece, self._mentions.beginnings)
            yield from zip(*self._lines.find(piece, sifted, start), strict=True)

    def are_distinctive(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which fingerprints are those of distinctive lines."""
        return self._lines.have(keys)

    def match(self, text: str) -> tuple[Sighting, ...]:
        """The notes in one text. Their evidence points at the whole of it (the empty pointer)."""
        tally = Tally(self)
        tally.add("", self.find(text))
        return tally.sightings()

    def find(self, text: str) -> Found:
        """What is in one text."""
        return self.find_all(Joined.of([text.encode("utf-8", "surrogatepass")])).get(0, NOTHING)

    def find_all(
        self, joined: Joined, nameless: NDArray[np.bool_] | None = None, effort: Effort | None = None
    ) -> dict[int, Found]:
        """Number of a text -> what is in it, if anything is: what a scan adds up over the strings of a body.

        Only lines are looked for in the texts that are `nameless`; `effort` is what may be spent on names. Many texts at
        once cost far less than one at a time.
        """
        effort = effort or Effort()
        places: list[int] = []
        content: dict[int, dict[int, set[int]]] = {}
        """Number of a text -> note -> the fingerprints of its lines."""
        named: dict[int, dict[int, list[int]]] = {}
        """Number of a text -> where in the joined texts a row of it begins -> the notes that are named there."""
        for start, piece in joined.pieces():
            sifted = self._lines.sift(piece, self._mentions.beginnings)
            lines = self._lines.find(piece, sifted, start)
            places += lines.at
            text = -1
            owners: tuple[int, ...] = ()
            into: list[set[int]] = []
            for number, key, notes in zip(joined.texts_at(lines.at), lines.keys, lines.notes, strict=True):
                if number != text or notes != owners:  # most lines are of the note that the line before is of
                    there = content.setdefault(number, {})
                    text, owners, into = number, notes, [there.setdefault(note, set()) for note in notes]
                for keys in into:
                    keys.add(key)
            signed = sifted.having(NAMED)
            if nameless is not None and len(signed):
                signed = signed[~nameless[joined.texts_at(sifted.starts[signed] + start)]]
            rows = b"\n".join([piece[begin:end] for begin, end in sifted.at(signed)])
            by_name = self._mentions.named_in(rows.decode("utf-8", "surrogatepass"), effort)
            at = sifted.starts[signed[[row for row, _ in by_name]]] + start
            for number, place, (_, note) in zip(joined.texts_at(at), at.tolist(), by_name, strict=True):
                named.setdefault(number, {}).setdefault(place, []).append(note)
        if self.quotes is not None:
            lengths = joined.lengths
            long = lengths >= GRAM
            numbers = (long if nameless is None else long & ~nameless).nonzero()[0]
            ends = np.cumsum(lengths + 1) - 1  # there is a newline between two texts
            for quote in self.quotes.find_in(joined.data, (ends - lengths)[numbers], ends[numbers]):
                content.setdefault(int(numbers[quote.text]), {}).setdefault(quote.note, set())
        if self._careful:
            self._leave_out_quoted(joined.data, content, named, frozenset(places))
        return {
            number: Found(
                tuple([FoundContent(note, frozenset(keys)) for note, keys in content.get(number, {}).items()]),
                self._mentioned(joined, number, named[number]) if number in named else (),
            )
            for number in (content | named)
        }

    def _leave_out_quoted(
        self,
        data: bytes,
        content: Mapping[int, Collection[int]],
        named: Mapping[int, dict[int, list[int]]],
        places: Collection[int],
    ) -> None:
        """Take out the names that are part of the notes in the same text: which stand on a line of one.

        `places` are where in `data` the distinctive lines begin. What is no distinctive line may be another one of them.
        """
        asked: list[tuple[int, int]] = []
        for number in named.keys() & content.keys():
            for place in list(named[number]):
                if place in places:
                    del named[number][place]
                else:
                    asked.append((number, place))
        if not asked:
            return
        of_notes: list[set[int]] = [set() for _ in asked]
        for forms in line_forms(b"\n".join([data[place : _row_end(data, place)] for _, place in asked])):
            keys = fingerprints(forms, self._seed)
            for owners in (self.prints.naming.owners_of(keys), self._common.owners_of(keys)):
                for notes, more in zip(of_notes, owners, strict=True):
                    notes.update(more)
        for (number, place), notes in zip(asked, of_notes, strict=True):
            if not notes.isdisjoint(content[number]):
                del named[number][place]

    def _mentioned(self, joined: Joined, number: int, named: Mapping[int, Sequence[int]]) -> tuple[FoundMention, ...]:
        """The notes that a text names, each once for each grade: `named` are those of its rows, by their beginnings."""
        data, finder = joined.data, self._mentions
        asked = [place for place in named if finder.may_be_listed(data[place : _row_end(data, place)])]
        listed: set[int] = set()
        if asked:
            rows = joined.rows_of(number, asked)
            found = finder.listed(joined.text(number), rows)
            listed = {place for place, row in zip(asked, rows, strict=True) if row in found}
        mentions = [
            FoundMention(note, "listing" if place in listed else "reference")
            for place, notes in named.items()
            for note in notes
        ]
        return tuple(dict.fromkeys(mentions))


def _row_end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return end if end >= 0 else len(data)


def _files(records: Sequence[NoteRecord], roots: Mapping[str, str]) -> NDArray[np.int64]:
    """For each note a number for its file: a file that two sources reach is one note."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(_identity(one, roots), len(numbers)) for one in records], np.int64)


def _same_names(records: Sequence[NoteRecord], others: Sequence[NoteRecord]) -> bool:
    return len(records) == len(others) and all(
        one is other or (one.note, one.title, one.aliases) == (other.note, other.title, other.aliases)
        for one, other in zip(records, others, strict=True)
    )


def _identity(one: NoteRecord, roots: Mapping[str, str]) -> str:
    """The file a note was read from, where its source has a folder; else the note itself."""
    root = roots.get(one.source)
    return one.note if root is None else f"{root.replace('\\', '/').rstrip('/')}/{one.path}"
