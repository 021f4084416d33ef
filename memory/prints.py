"""What is kept of notes: their names, and fingerprints of their lines as rows of numbers. No text is among them.

The rows of a note are made of that note alone. So those of a note that has not changed are taken over when the notes
are read again. They belong to one seed: rows of two seeds do not go together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import NamedTuple

import mmh3
import numpy as np
from numpy.typing import NDArray

from memory.lines import canonical_rows, fingerprints
from memory.notes import Note
from memory.pieces import Rows
from memory.sieve import FEWEST_LETTERS, letters_of, sieve_hashes

_MAY_NAME = re.compile(rb"\[\[|\.[A-Za-z]")
_BATCH = 1 << 20
"""Bytes of notes whose rows are made in one go."""


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
        rows = self.at(np.argsort(self.keys))
        same = rows.keys[1:] == rows.keys[:-1]
        runs = np.flatnonzero(np.append(same, False) | np.append(False, same))
        order = runs[np.lexsort((rows.owners[runs], rows.keys[runs]))]
        for column in rows:  # in place: nobody else has them yet
            column[runs] = column[order]
        return rows

    def once(self) -> LineRows:
        """A line that is in a note several times is there once. The rows are in order."""
        again = (self.keys[1:] == self.keys[:-1]) & (self.owners[1:] == self.owners[:-1])
        return self.at(np.append(True, ~again)) if again.any() else self

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
        starts = np.flatnonzero(np.append(True, self.keys[1:] != self.keys[:-1])[: len(self.keys)])
        count = np.diff(np.append(starts, len(self.keys)))
        few = count <= most
        group = np.repeat(np.arange(len(starts)), count)
        if not few.all():
            crowded = ~few[group]
            notes = np.unique(np.stack((group[crowded], identities[self.owners[crowded]])), axis=1)
            few = np.bincount(notes[0], minlength=len(count)) <= most
        distinctive: NDArray[np.bool_] = few[group]
        return distinctive


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
        records: dict[int, NoteRecord] = {}
        digests: dict[int, bytes] = {}
        before = np.full(len(notes), -1, np.int64)
        for number, note in enumerate(notes):
            place = places.get(note.id)
            record = None if place is None else self.records[place]
            if note.unread:
                if record is None:
                    raise ValueError(f"{note.id} is new and comes without its text")
                is_same = True
            else:
                text = note.text.encode("utf-8", "surrogatepass")
                digest = mmh3.mmh3_x64_128_digest(text, self.seed)
                is_same = record is not None and record.digest == digest
            if place is None or record is None or not is_same:
                printer.add(number, text)
                digests[number] = digest
            else:
                before[number] = place
                if (record.title, record.aliases) != (note.title, note.aliases):
                    record = replace(record, title=note.title, aliases=note.aliases)
                records[number] = record

        after = np.full(len(self.records), -1, np.int64)
        after[before[before >= 0]] = np.flatnonzero(before >= 0)
        long, naming, longest, counts = printer.finish()
        for number, lines in counts:
            note = notes[number]
            records[number] = NoteRecord(
                note.id, note.source, note.path, note.title, note.aliases, lines, digests[number]
            )
        prints = Prints(
            seed=self.seed,
            minimum_line_length=self.minimum_line_length,
            records=tuple([records[number] for number in range(len(notes))]),
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
        self._owners: list[int] = []
        self._texts: list[bytes] = []
        self._size = 0
        self._long: list[LineRows] = []
        self._naming: list[LineRows] = []
        self._counts: list[tuple[int, int]] = []
        self._longest = 0

    def add(self, owner: int, text: bytes) -> None:
        """Take in one note, in UTF-8."""
        self._owners.append(owner)
        self._texts.append(text)
        self._size += len(text)
        if self._size >= _BATCH:
            self._flush()

    def finish(self) -> tuple[LineRows, LineRows, int, list[tuple[int, int]]]:
        """(rows of long lines, rows of naming ones, bytes of the longest line, how many lines each note has)."""
        self._flush()
        return joined(self._long), joined(self._naming).in_order(), self._longest, self._counts

    def _flush(self) -> None:
        if not self._texts:
            return
        rows_each = [text.count(b"\n") + 1 for text in self._texts]
        owners = np.repeat(np.array(self._owners, np.uint32), rows_each)
        data = canonical_rows(b"\n".join(self._texts))
        there = np.frombuffer(data, np.uint8)
        rows = Rows.of(there)
        ends = np.append(0, np.cumsum(rows.ends > rows.starts))[np.cumsum(rows_each)]
        self._counts += zip(self._owners, np.diff(np.append(0, ends)).tolist(), strict=True)

        no_first = np.flatnonzero((there & 0xC0) == 0x80)
        """Bytes that are not the first of their character."""
        characters = rows.ends - np.searchsorted(no_first, rows.ends)
        characters -= rows.starts - np.searchsorted(no_first, rows.starts)
        is_long = characters >= self._minimum
        names = np.zeros(len(rows.ends), np.bool_)
        names[np.searchsorted(rows.ends, [match.start() for match in _MAY_NAME.finditer(data)])] = True
        lines = data.split(b"\n")
        if is_long.any():
            self._long.append(self._rows(list(compress(lines, is_long.tolist())), owners[is_long]))
            self._longest = max(self._longest, int((rows.ends - rows.starts)[is_long].max()))
        naming = names & ~is_long
        if naming.any():
            self._naming.append(self._rows(list(compress(lines, naming.tolist())), owners[naming]))
        self._owners, self._texts, self._size = [], [], 0

    def _rows(self, lines: Sequence[bytes], owners: NDArray[np.uint32]) -> LineRows:
        data = b"\n".join(lines)
        letters = letters_of(data)
        in_letters = Rows.of(np.frombuffer(letters, np.uint8))
        rich = np.flatnonzero(in_letters.ends - in_letters.starts >= FEWEST_LETTERS)
        hashes = np.zeros(len(lines), np.uint32)
        hashes[rich] = sieve_hashes(letters, in_letters.starts[rich], in_letters.ends[rich], self._seed)
        return LineRows(fingerprints(data, self._seed), owners, hashes).in_order().once()
