"""The immutable index that finds notes again in a text. It holds fingerprints and names, never a note's text.

A rescan builds a new index, out of the old one's rows where a note is what it was, and swaps it in with one
assignment; who holds the old one may finish with it. The rules are those of `docs/detection.md`.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memory.exchange import Sighting
from memory.line_index import FoundLine, LineIndex
from memory.lines import canonical_line, fingerprint, without_prefix
from memory.mentions import Effort, Mention, MentionFinder, NamedNote
from memory.notes import Note
from memory.pieces import batches
from memory.prints import LineFacts, NoteRecord, Prints, joined
from memory.quotes import QuoteIndex
from memory.tally import NOTHING, Found, FoundContent, FoundMention, Tally

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


class NoteIndex:
    """Notes by the lines that only they have, and by their names. Immutable; made by `build`."""

    def __init__(
        self, prints: Prints, options: IndexOptions, quotes: QuoteIndex | None, mentions: MentionFinder | None = None
    ) -> None:
        self.options = options
        self.generation: object = object()
        """Different for each index: what was found with one says nothing of another."""
        self._seed = prints.seed
        self.quotes = quotes
        """None: notes are found by whole lines only."""
        records, roots = prints.records, options.roots
        self.notes: Mapping[str, str] = MappingProxyType({one.note: one.title for one in records})
        """Note id -> title."""
        self._careful = options.mentions == "careful"
        self._mentions = mentions or MentionFinder(
            [
                NamedNote(one.path, one.title, one.aliases, roots.get(one.source), _identity(one, roots))
                for one in records
            ],
            careful=self._careful,
            fold_paths=options.fold_paths,
        )

        long = joined(prints.long).in_order()
        distinctive = long.distinctive(_files(records, roots), MOST_NOTES_WITH_A_LINE)
        rows = long.at(distinctive)
        self._common = long.at(~distinctive)
        """Lines of too many notes. They tell nothing, until one of these notes goes."""
        self.prints = replace(prints, long=(rows, self._common))
        self._lines = LineIndex(
            rows, longest=prints.longest, seed=prints.seed, minimum_line_length=options.minimum_line_length
        )
        counts = np.bincount(rows.owners, minlength=len(records)).tolist()
        self._facts = {one.note: LineFacts(one.lines, count) for one, count in zip(records, counts, strict=True)}

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
        previous: NoteIndex | None = None,
    ) -> NoteIndex:
        """An index of `notes`, in any order; their text is not kept.

        `roots` names the absolute folder of each source that has one: absolute paths below it are then mentions, and
        a file that two sources reach is one note. `fold_paths` is for file systems that do not tell `A.md` from
        `a.md`. `minimum_line_length` is in characters (code points) and at least 8; less raises ValueError.
        With `quotes` a note is found by a sentence of it, too.

        What `previous` knows of a note whose text has not changed is taken over from it. It comes back itself if
        nothing has changed at all. Only notes that it knows may come unread.
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
        if previous and prints.records == old.records and options == previous.options:
            return previous
        # An edit seldom changes what notes are called, and their names cost more than all their lines.
        same_names = previous and options == previous.options and _names(prints) == _names(old)
        finder = previous._mentions if previous and same_names else None  # noqa: SLF001  # of the same class
        if not quotes:
            return cls(prints, options, None, finder)
        found_by_quotes = QuoteIndex.build(
            [note.text for note in by_id],
            files=_files(prints.records, options.roots).tolist(),
            seed=prints.seed,
            previous=previous.quotes if previous else None,
            kept=before.tolist(),
        )
        return cls(prints, options, found_by_quotes, finder)

    def facts(self, note: str) -> LineFacts:
        """KeyError: no note has this id."""
        return self._facts[note]

    @property
    def line_bytes(self) -> int:
        """Memory of all that is kept of the notes' lines; their names are not counted."""
        return self._lines.nbytes + self._common.nbytes + self.prints.naming.nbytes

    def note_at(self, place: int) -> str:
        return self.prints.records[place].note

    def match(self, text: str) -> tuple[Sighting, ...]:
        """The notes in one text. Their evidence points at the whole of it (the empty pointer)."""
        tally = Tally(self)
        tally.add("", self.find(text))
        return tally.sightings()

    def find(self, text: str) -> Found:
        """What is in one text."""
        return self.find_all([text]).get(0, NOTHING)

    def find_all(
        self, texts: Sequence[str], nameless: Collection[int] = (), effort: Effort | None = None
    ) -> dict[int, Found]:
        """Number of a text -> what is in it, if anything is: what a scan adds up over the strings of a body.

        Only lines are looked for in the texts with the numbers `nameless`; `effort` is what may be spent on names. Many
        texts at once cost far less than one at a time.
        """
        lines: dict[int, dict[int, FoundLine]] = {}
        may_name: set[int] = set()
        for batch in batches(texts):
            for number, row, line in self._lines.find(batch):
                lines.setdefault(number, {})[row] = line
            may_name |= self._mentions.may_name(batch)
        may_name.difference_update(nameless)
        effort = effort or Effort()
        mentions = {number: self._mentions.find(texts[number], effort) for number in sorted(may_name)}
        quotes: dict[int, list[int]] = {}
        if self.quotes is not None:
            searched = (
                [text if number not in nameless else "" for number, text in enumerate(texts)] if nameless else texts
            )
            for quote in self.quotes.find(searched):
                quotes.setdefault(quote.text, []).append(quote.note)
        found: dict[int, Found] = {}
        for number in {*lines, *quotes, *(number for number, there in mentions.items() if there)}:
            there = mentions.get(number, ())
            found[number] = self._found(texts[number], lines.get(number, {}), quotes.get(number, ()), there)
        return found

    def _found(
        self, text: str, rows: Mapping[int, FoundLine], quotes: Iterable[int], mentions: Sequence[Mention]
    ) -> Found:
        content: dict[int, set[int]] = {note: set() for note in quotes}
        for line in rows.values():
            for note in line.notes:
                content.setdefault(note, set()).add(line.key)
        grades: dict[FoundMention, None] = {}
        lines = text.split("\n") if mentions and content else []
        for row, note, listed in mentions:
            if self._careful and content and (row in rows or self._is_of(content, lines[row])):
                continue
            grades[FoundMention(note, "listing" if listed else "reference")] = None
        there = (FoundContent(note, frozenset(keys)) for note, keys in content.items())
        return Found(tuple(there), tuple(grades))

    def _is_of(self, content: Collection[int], line: str) -> bool:
        """Whether a line that names a note is itself a line, though no distinctive one, of a note that is there."""
        canonical = canonical_line(line)
        forms = (canonical, *without_prefix(line, first=canonical[:1]))
        keys = np.array([fingerprint(form, self._seed) for form in forms], np.uint64)
        owners = (*self.prints.naming.owners_of(keys), *self._common.owners_of(keys))
        return any(note in content for notes in owners for note in notes)


def _files(records: Sequence[NoteRecord], roots: Mapping[str, str]) -> NDArray[np.int64]:
    """For each note a number for its file: a file that two sources reach is one note."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(_identity(one, roots), len(numbers)) for one in records], np.int64)


def _names(prints: Prints) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(one.note, one.title, one.aliases) for one in prints.records]


def _identity(one: NoteRecord, roots: Mapping[str, str]) -> str:
    """The file a note was read from, where its source has a folder; else the note itself."""
    root = roots.get(one.source)
    return one.note if root is None else f"{root.replace('\\', '/').rstrip('/')}/{one.path}"
