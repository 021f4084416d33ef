"""The grams of all notes, brought up to date at a cost that goes by what changed.

    store = GramStore.of(made, lines, files)                     # every note's grams and lines, by place
    store = store.updated(before, made, lines, files)            # before[place]: the note's place until now, -1 if made
    which, rows = store.matches(keys)                            # of searched texts: number of a key, row that has it
    store.places(rows), store.around(rows)

Nearly all rows are in the base, in two sorted tables: those that tell a note, and those that do not as too many notes
have them. In which of them a row is depends on the lines that it is in, and on the rows that have its key. So a change of
some notes touches keys: those of the notes' rows, and of rows in lines that have come to be shared, or are so no longer.
The rows of touched keys are judged anew and then found in a second pair of tables, which is small; the base is left as
it is. When much has been touched, all is made into a base again. Nothing is changed in place: who holds an older store may
finish with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory.grams import Keys, Positions, different
from memory.quote_rows import GramRows, LineHashes, NoteLines, is_among

LARGEST_SHARE = 8
"""All is made into a base again when more than one key in this many has been touched, or of as many lines is gone."""


class Tables(NamedTuple):
    """Rows in order: of grams that tell a note, and of those that do not as long as so many notes have them."""

    telling: GramRows
    silent: GramRows

    @classmethod
    def of(cls, rows: GramRows, lines: NoteLines) -> Tables:
        """`rows` are all of their keys that are in no shared line, and others that are, in any order."""
        rows = rows.in_order()
        telling = rows.telling(lines)
        return cls(rows.at(np.flatnonzero(telling)), rows.at(np.flatnonzero(~telling)))

    @property
    def nbytes(self) -> int:
        return self.telling.nbytes + self.silent.nbytes


class GramStore:
    """Immutable; made by `of` and `updated`. Each note has a slot in `lines`, which it keeps; its place may change."""

    def __init__(
        self, base: Tables, recent: Tables, touched: Keys, lines: NoteLines, place_of: Positions, slot_of: Positions
    ) -> None:
        self.base = base
        self.recent = recent
        self.touched = touched
        """The keys whose rows are looked up in `recent`, ascending."""
        self.lines = lines
        self._place_of = place_of
        """The place of each slot's note, -1 if it is gone."""
        self._slot_of = slot_of
        """The slot of the note at each place."""

    @classmethod
    def of(cls, rows: GramRows, lines: LineHashes, files: NDArray[np.intp]) -> GramStore:
        """The rows of notes, in any order, and their lines, both by place."""
        note_lines = NoteLines.of(lines, files)
        nothing = GramRows.joined([])
        places = np.arange(len(files))
        return cls(
            Tables.of(rows, note_lines), Tables(nothing, nothing), nothing.whole_keys, note_lines, places, places
        )

    def updated(self, before: Positions, rows: GramRows, lines: LineHashes, files: NDArray[np.intp]) -> GramStore:
        """The store of other notes: `before[place]` is a note's place until now, -1 where it is the next of those that
        `rows` and `lines` are of. `files` is each note's file, by place.
        """
        kept, made = np.flatnonzero(before >= 0), np.flatnonzero(before < 0)
        slots = len(self._place_of)
        slot_of = np.empty(len(before), np.intp)
        slot_of[kept] = self._slot_of[before[kept]]
        slot_of[made] = slots + np.arange(len(made))
        place_of = np.full(slots + len(made), -1)
        place_of[slot_of] = np.arange(len(before))
        of_slot = np.full(len(place_of), -1)
        of_slot[slot_of] = files
        rows = rows.moved(np.full(len(lines.hashes), len(self.lines.hashes)))
        if not _same_partition(self.lines.files[slot_of[kept]], files[kept]):
            return self._with_base_of(rows, LineHashes(*self.lines[:2]).then(lines), slot_of, files)

        now = self.lines.updated(lines, of_slot)
        there = len(self.lines.shared)
        gone = np.repeat((of_slot[:slots] < 0) & (self.lines.files >= 0), np.diff(self.lines.starts))
        changed = gone | (now.shared[:there] != self.lines.shared)
        keys = [rows.whole_keys[now.own(rows)]]
        for table in (*self.base, *self.recent):
            concerned = table.at(table.concerned(changed))
            own = self.lines.own(concerned) | now.own(concerned)
            keys.append(concerned.whole_keys[own])
        anew = different(np.sort(np.concatenate(keys)))
        judged = [*self.recent, rows]
        for table in self.base:
            others = table.at(table.having(anew))
            judged.append(others.at(np.flatnonzero(now.own(others))))
        recent = GramRows.joined(judged)
        recent = recent.at(np.flatnonzero(of_slot[now.notes(recent)] >= 0))
        touched = different(np.sort(np.concatenate((self.touched, anew))))
        of_gone = np.diff(now.starts)[of_slot < 0].sum()
        worn = max(len(recent.keys), len(touched)) * LARGEST_SHARE > len(self)
        if worn or of_gone * LARGEST_SHARE > len(now.hashes):
            return self._with_base_of(rows, LineHashes(*now[:2]), slot_of, files)
        return GramStore(self.base, Tables.of(recent, now), touched, now, place_of, slot_of)

    def _with_base_of(
        self, more: GramRows, lines: LineHashes, slot_of: Positions, files: NDArray[np.intp]
    ) -> GramStore:
        """All rows and some more, those of notes in some slots, as a base again."""
        place_of = np.full(len(lines.starts) - 1, -1)
        place_of[slot_of] = np.arange(len(slot_of))
        now = lines.at(slot_of)
        rows = GramRows.joined([*self.base, *self.recent, more])
        counts = np.diff(lines.starts)
        rows = rows.at(np.flatnonzero(np.repeat(place_of >= 0, counts)[rows.first]))
        return GramStore.of(rows.moved(np.repeat(now.starts[place_of] - lines.starts[:-1], counts)), now, files)

    def as_base(self) -> GramStore:
        """The same as if it had been made at once."""
        lines = self.lines
        nothing = GramRows.joined([])
        return self._with_base_of(nothing, LineHashes(*lines[:2]), self._slot_of, lines.files[self._slot_of])

    @property
    def nbytes(self) -> int:
        """Memory of all that is kept."""
        indexes = (self.touched, self._place_of, self._slot_of)
        return sum(part.nbytes for part in (self.base, self.recent, self.lines, *indexes))

    @property
    def notes(self) -> int:
        """How many there are."""
        return len(self._slot_of)

    def __len__(self) -> int:
        """How many rows can be found."""
        return len(self.base.telling.keys) + len(self.recent.telling.keys)

    def matches(self, wanted: Keys) -> tuple[Positions, Positions]:
        """Pairs (number of a wanted 64-bit key, row) that have the same 48 bits, by the numbers."""
        which, rows = self.base.telling.matches(wanted)
        if not len(self.touched):
            return which, rows
        left = np.flatnonzero(~is_among(wanted.take(which) >> np.uint64(16), self.touched))
        recent, recent_rows = self.recent.telling.matches(wanted)
        recent_rows += len(self.base.telling.keys)
        which, rows = np.concatenate((which.take(left), recent)), np.concatenate((rows.take(left), recent_rows))
        order = np.argsort(which, kind="stable")
        return which.take(order), rows.take(order)

    def at(self, rows: Positions) -> GramRows:
        """What is known of some rows."""
        base, recent = self.base.telling, self.recent.telling
        if not len(recent.keys):
            return base.at(rows)
        is_recent = rows >= len(base.keys)
        order = np.argsort(np.argsort(is_recent, kind="stable"), kind="stable")
        return GramRows.joined([base.at(rows[~is_recent]), recent.at(rows[is_recent] - len(base.keys))]).at(order)

    def places(self, rows: GramRows) -> Positions:
        """The places of the notes that rows are of."""
        return self._place_of[self.lines.notes(rows)]


def _same_partition(first: NDArray[np.intp], second: NDArray[np.intp]) -> bool:
    """Whether two numberings tell apart the same."""
    pairs = first * (second.max(initial=0) + 1) + second
    return len({len(different(np.sort(numbers))) for numbers in (first, second, pairs)}) == 1
