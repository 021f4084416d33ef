"""What is kept of notes: their names, and fingerprints of their lines as rows of numbers. No text is among them.

The rows of a note are made of that note alone. So those of a note that has not changed are taken over when the notes
are read again. They belong to one seed: rows of two seeds do not go together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple

import mmh3
import numpy as np
from numpy.typing import NDArray

from memory.lines import canonical_line, fingerprints
from memory.notes import Note
from memory.pieces import Rows
from memory.sieve import FEWEST_LETTERS, letters_of, sieve_hashes

_MAY_NAME = re.compile(r"\[\[|\.[A-Za-z]")
_BATCH = 1 << 20
"""Characters of notes whose rows are made in one go."""


class LineFacts(NamedTuple):
    """How recognisable a note is: its lines that are not blank, and its distinctive ones (each counted once).

    Without a distinctive line a note can only be found by a mention.
    """

    lines: int
    distinctive: int


@dataclass(frozen=True, slots=True)
class NoteRecord:
    """A note by its names. `digest` tells whether its text is still the one that its rows were made of."""

    note: str
    source: str
    path: str
    title: str
    aliases: tuple[str, ...]
    lines: int
    """Lines that are not blank."""
    digest: bytes


class LineRows(NamedTuple):
    """(fingerprint of a line, place of a note that has it, sieve hash), one row for each different line of each note.

    The sieve hash is 0 for a line with too few letters to be sieved.
    """

    keys: NDArray[np.uint64]
    owners: NDArray[np.uint32]
    hashes: NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.owners.nbytes + self.hashes.nbytes

    def at(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> LineRows:
        return LineRows(self.keys[chosen], self.owners[chosen], self.hashes[chosen])

    def moved(self, places: NDArray[np.int64]) -> LineRows:
        """The rows with their owners' new places, without those of owners whose new place is -1."""
        owners = places[self.owners]
        stay = owners >= 0
        return LineRows(self.keys[stay], owners[stay].astype(np.uint32), self.hashes[stay])

    def in_order(self) -> LineRows:
        """By fingerprint, then by owner."""
        return self.at(np.lexsort((self.owners, self.keys)))

    def owners_of(self, wanted: NDArray[np.uint64]) -> list[tuple[int, ...]]:
        """For each fingerprint the places of the notes that have it, ascending; the rows are in order."""
        first = np.searchsorted(self.keys, wanted, "left")
        last = np.searchsorted(self.keys, wanted, "right")
        return [
            tuple(self.owners[start:end].tolist()) if start < end else ()
            for start, end in zip(first.tolist(), last.tolist(), strict=True)
        ]

    def distinctive(self, identities: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
        """Which rows, in order, are of lines that no more than `most` notes have. Notes of one identity are one."""
        _, group, count = np.unique(self.keys, return_inverse=True, return_counts=True)
        few = count <= most
        if not few.all():
            crowded = ~few[group]
            notes = np.unique(np.stack((group[crowded], identities[self.owners[crowded]])), axis=1)
            few = np.bincount(notes[0], minlength=len(count)) <= most
        return few[group]


def joined(parts: Sequence[LineRows]) -> LineRows:
    return LineRows(
        np.concatenate([np.empty(0, np.uint64), *(part.keys for part in parts)]),
        np.concatenate([np.empty(0, np.uint32), *(part.owners for part in parts)]),
        np.concatenate([np.empty(0, np.uint32), *(part.hashes for part in parts)]),
    )


@dataclass(frozen=True, slots=True)
class Prints:
    """What is kept of some notes. The rows' owners are places in `records`, which are in the order of their ids."""

    seed: int
    minimum_line_length: int
    records: tuple[NoteRecord, ...] = ()
    long: tuple[LineRows, ...] = ()
    """Of the lines that are long enough, in any order."""
    naming: LineRows = field(default_factory=lambda: joined([]))
    """Of shorter lines that may name a note, in order."""
    longest: int = 0
    """Bytes that no line among them exceeds."""

    def updated(self, notes: Sequence[Note]) -> tuple[Prints, NDArray[np.int64]]:
        """The prints of `notes` (by id), those of notes that are here with the same text taken over; and for each note
        its place here, -1 if it is made anew.

        ValueError: a note that is not here comes unread.
        """
        places = {record.note: place for place, record in enumerate(self.records)}
        printer = _Printer(self.seed, self.minimum_line_length)
        records: list[NoteRecord] = []
        before = np.full(len(notes), -1, np.int64)
        for number, note in enumerate(notes):
            place = places.get(note.id)
            if note.unread:
                if place is None:
                    raise ValueError(f"{note.id} is new and comes without its text")
                digest = self.records[place].digest
            else:
                digest = mmh3.mmh3_x64_128_digest(note.text.encode("utf-8", "surrogatepass"), self.seed)
            if place is not None and self.records[place].digest == digest:
                before[number] = place
                lines = self.records[place].lines
            else:
                lines = printer.add(number, note.text)
            records.append(NoteRecord(note.id, note.source, note.path, note.title, note.aliases, lines, digest))

        after = np.full(len(self.records), -1, np.int64)
        after[before[before >= 0]] = np.flatnonzero(before >= 0)
        long, naming, longest = printer.finish()
        prints = Prints(
            seed=self.seed,
            minimum_line_length=self.minimum_line_length,
            records=tuple(records),
            long=(*(rows.moved(after) for rows in self.long), long),
            naming=joined([self.naming.moved(after), naming]).in_order(),
            longest=max(self.longest, longest),
        )
        return prints, before


class _Printer:
    """Makes the rows of notes, those of many notes at a time."""

    def __init__(self, seed: int, minimum_line_length: int) -> None:
        self._seed = seed
        self._minimum = minimum_line_length
        self._long = _Lines([], [])
        self._naming = _Lines([], [])
        self._long_rows: list[LineRows] = []
        self._naming_rows: list[LineRows] = []
        self._longest = self._size = 0

    def add(self, owner: int, text: str) -> int:
        """Take in one note, and return how many of its lines are not blank."""
        lines = [canonical for line in text.split("\n") if (canonical := canonical_line(line))]
        once = dict.fromkeys(lines)
        self._long.add(owner, [line for line in once if len(line) >= self._minimum])
        self._naming.add(owner, [line for line in once if len(line) < self._minimum and _MAY_NAME.search(line)])
        self._size += len(text)
        if self._size >= _BATCH:
            self._flush()
        return len(lines)

    def finish(self) -> tuple[LineRows, LineRows, int]:
        """(rows of long lines, rows of naming ones, bytes of the longest line)."""
        self._flush()
        return joined(self._long_rows), joined(self._naming_rows), self._longest

    def _flush(self) -> None:
        if self._long.lines:
            rows, longest = self._long.rows(self._seed)
            self._long_rows.append(rows)
            self._longest = max(self._longest, longest)
        if self._naming.lines:
            self._naming_rows.append(self._naming.rows(self._seed)[0])
        self._long, self._naming, self._size = _Lines([], []), _Lines([], []), 0


class _Lines(NamedTuple):
    """Canonical lines, each with the note that it is of."""

    lines: list[str]
    owners: list[int]

    def add(self, owner: int, lines: Sequence[str]) -> None:
        self.lines.extend(lines)
        self.owners.extend(repeat(owner, len(lines)))

    def rows(self, seed: int) -> tuple[LineRows, int]:
        """(their rows, bytes of the longest of them)."""
        data = "\n".join(self.lines).encode("utf-8", "surrogatepass")
        lines = Rows.of(np.frombuffer(data, np.uint8))
        letters = letters_of(data)
        in_letters = Rows.of(np.frombuffer(letters, np.uint8))
        rich = np.flatnonzero(in_letters.ends - in_letters.starts >= FEWEST_LETTERS)
        hashes = np.zeros(len(self.lines), np.uint32)
        hashes[rich] = sieve_hashes(letters, in_letters.starts[rich], in_letters.ends[rich], seed)
        rows = LineRows(fingerprints(data, seed), np.array(self.owners, np.uint32), hashes)
        return rows, int((lines.ends - lines.starts).max())
