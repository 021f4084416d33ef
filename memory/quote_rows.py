"""What is kept of notes to find quotes of them: grams and hashes of lines, as rows of numbers. No text is among them.

Rows are made of each note by itself (`memory/quote_prints.py`). Grams that are in a line which more than three notes
have, or reach into one, tell nothing: otherwise those that reach from a template's line into the first letters after it
would pass for the note's own. Which lines these are depends on all notes, so such grams are kept, and known by their
lines, as a note may go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory import native
from memory.grams import Keys, Positions, different

MOST_NOTES_WITH_IT = 3
"""A line or a gram that is in more notes than this says nothing about any of them."""

_LINE_SHIFT = 5
_MORE = (1 << _LINE_SHIFT) - 1
"""A gram reaches over no more than 31 more lines, as each has a letter."""

type Flags = NDArray[np.bool_]


class LineHashes(NamedTuple):
    """A hash of each line of each note, note by note. A line's number is its place here."""

    hashes: NDArray[np.uint32]
    starts: NDArray[np.intp]
    """The number of each note's first line, and how many lines there are."""

    @classmethod
    def joined(cls, hashes: Sequence[NDArray[np.uint32]], counts: Sequence[NDArray[np.intp]]) -> LineHashes:
        """Of the lines of some notes one after the other, `counts` of each."""
        starts = np.cumsum(np.concatenate([np.zeros(1, np.intp), *counts]))
        return cls(np.concatenate([np.empty(0, np.uint32), *hashes]), starts)

    def then(self, others: LineHashes) -> LineHashes:
        return LineHashes(
            np.concatenate((self.hashes, others.hashes)),
            np.concatenate((self.starts, others.starts[1:] + len(self.hashes))),
        )

    def at(self, notes: Positions) -> LineHashes:
        """The lines of some notes, in this order."""
        counts = np.diff(self.starts)[notes]
        starts = np.concatenate(([0], np.cumsum(counts)))
        source = np.arange(starts[-1]) + np.repeat(self.starts[notes] - starts[:-1], counts)
        return LineHashes(self.hashes[source], starts)


class NoteLines(NamedTuple):
    """The lines of notes, and which of them say nothing about any note. A note's number is its slot."""

    hashes: NDArray[np.uint32]
    starts: NDArray[np.intp]
    files: NDArray[np.intp]
    """The number of the file that each note is from, as notes of one file are one; -1: the note is gone."""
    shared: Flags
    """Whether more than three notes have the line; of a note that is gone: whether they did."""

    @classmethod
    def of(cls, lines: LineHashes, files: NDArray[np.intp]) -> NoteLines:
        return cls(*lines, files, _in_many(lines.hashes, np.repeat(files, np.diff(lines.starts))))

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self)

    def updated(self, more: LineHashes, files: NDArray[np.intp]) -> NoteLines:
        """With the lines of more notes. `files` is that of each note now: the same notes are of one file as before."""
        hashes, starts = LineHashes(self.hashes, self.starts).then(more)
        before = np.append(self.files, np.full(len(files) - len(self.files), -1))
        of_line = np.repeat(files, np.diff(starts))
        changed = np.repeat((files < 0) != (before < 0), np.diff(starts))
        concerned = np.flatnonzero(np.isin(hashes, hashes[changed]) & (of_line >= 0))
        shared = np.append(self.shared, np.zeros(len(more.hashes), np.bool_))
        shared[concerned] = _in_many(hashes[concerned], of_line[concerned])
        return NoteLines(hashes, starts, files, shared)

    def notes(self, rows: GramRows) -> Positions:
        return np.searchsorted(self.starts, rows.first, "right") - 1

    def own(self, rows: GramRows) -> Flags:
        """Which rows are in no shared line, and reach into none."""
        return ~rows.meeting(self.shared)


class GramRows(NamedTuple):
    """Grams of notes."""

    keys: NDArray[np.uint32]
    checks: NDArray[np.uint16]
    """16 more bits of the key."""
    lines: NDArray[np.uint32]
    """The number of the line in which a gram begins, times 32, and over how many more lines it reaches."""
    around: NDArray[np.uint8]
    """Shape (rows, 2): the letters before and after, as `Shingler.around` has them."""

    @classmethod
    def of(cls, keys: Keys, first: Positions, more: Positions, around: NDArray[np.uint8]) -> GramRows:
        upper, checks = halves(keys)
        return cls(upper, checks, (first << _LINE_SHIFT | more).astype(np.uint32), around)

    @classmethod
    def joined(cls, parts: Sequence[GramRows]) -> GramRows:
        """One after the other, in no order."""
        return cls(
            np.concatenate([np.empty(0, np.uint32), *(part.keys for part in parts)]),
            np.concatenate([np.empty(0, np.uint16), *(part.checks for part in parts)]),
            np.concatenate([np.empty(0, np.uint32), *(part.lines for part in parts)]),
            np.concatenate([np.empty((0, 2), np.uint8), *(part.around for part in parts)]),
        )

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self)

    @property
    def whole_keys(self) -> Keys:
        """The 48 bits of each row's key, as one number."""
        return (self.keys.astype(np.uint64) << np.uint64(16)) | self.checks

    @property
    def first(self) -> NDArray[np.uint32]:
        """The numbers of the lines in which the grams begin."""
        return self.lines >> np.uint32(_LINE_SHIFT)

    def at(self, chosen: Positions) -> GramRows:
        return GramRows(
            self.keys.take(chosen), self.checks.take(chosen), self.lines.take(chosen), self.around.take(chosen, axis=0)
        )

    def moved(self, by: NDArray[np.intp]) -> GramRows:
        """The same grams in other lines: each line's number is greater by so much."""
        return self._replace(lines=(self.lines + (by[self.first] << _LINE_SHIFT)).astype(np.uint32))

    def in_order(self) -> GramRows:
        """By key, then by line. A gram that is twice in a line is there once: it tells no more."""
        rows = self.at(np.argsort(self.whole_keys))
        runs = rows.in_runs()
        order = runs[np.lexsort((rows.lines[runs], rows.whole_keys[runs]))]
        for column in rows:  # in place: nobody else has them yet
            column[runs] = column[order]
        keys = rows.whole_keys
        again = (keys[1:] == keys[:-1]) & (rows.lines[1:] == rows.lines[:-1])
        return rows.at(np.flatnonzero(np.append(True, ~again))) if again.any() else rows

    def matches(self, wanted: Keys) -> tuple[Positions, Positions]:
        """Pairs (number of a wanted 64-bit key, row) that have the same 48 bits, ascending. The rows are in order."""
        if not native.BUILT:
            return self.matches_with_numpy(wanted)
        which, rows = np.frombuffer(native.matches(self.keys, self.checks, wanted), np.uint64).reshape(2, -1)
        return which.astype(np.intp, copy=False), rows.astype(np.intp, copy=False)

    def matches_with_numpy(self, wanted: Keys) -> tuple[Positions, Positions]:
        """As `matches`, where nothing was built."""
        which = np.argsort(wanted)  # a binary search is faster where one key follows the other
        keys, checks = halves(wanted.take(which))
        row = np.searchsorted(self.keys, keys)
        found = [(which[:0], row[:0])]
        while len(which) and len(self.keys):
            same = np.flatnonzero((self.keys.take(row, mode="clip") == keys) & (row < len(self.keys)))
            which, row, keys, checks = which.take(same), row.take(same), keys.take(same), checks.take(same)
            equal = np.flatnonzero(self.checks.take(row) == checks)
            found.append((which.take(equal), row.take(equal)))
            row = row + 1
        which, row = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.lexsort((row, which))
        return which[order], row[order]

    def having(self, keys: Keys) -> Positions:
        """The rows that have one of some keys of 48 bits, which ascend. The rows are in order."""
        upper = different((keys >> np.uint64(16)).astype(np.uint32))
        first, last = (np.searchsorted(self.keys, upper, side) for side in ("left", "right"))
        counts = last - first
        rows = np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        having: Positions = rows[is_among(self.at(rows).whole_keys, keys)]
        return having

    def meeting(self, lines: Flags) -> Flags:
        """Which rows are in some lines, or reach into one."""
        first, more = self.first, self.lines & np.uint32(_MORE)
        meeting: Flags = lines.take(first)
        reaching = np.flatnonzero(more)
        step = 1
        while len(reaching):
            meeting[reaching] |= lines.take(first[reaching] + np.uint32(step))
            step += 1
            reaching = reaching[more[reaching] >= step]
        return meeting

    def concerned(self, lines: Flags) -> Positions:
        """The rows that are in some lines or reach into one."""
        there = np.flatnonzero(lines)
        if not len(there):
            return there
        # Lines of one note are near each other: one look over all rows leaves few of them.
        earliest, behind = max(0, int(there[0]) - _MORE), int(there[-1]) + 1
        near = np.flatnonzero((self.lines >= earliest << _LINE_SHIFT) & (self.lines < behind << _LINE_SHIFT))
        reach = np.zeros(len(lines), np.bool_)
        reach[np.maximum(there[:, None] - np.arange(_MORE + 1), 0)] = True
        near = near[reach.take(self.lines.take(near) >> np.uint32(_LINE_SHIFT))]
        return near[self.at(near).meeting(lines)]

    def telling(self, lines: NoteLines) -> Flags:
        """Which rows, all of their keys, tell a note: by no shared line, and a gram that few notes have; once for each."""
        telling = lines.own(self)
        runs = self.in_runs()
        runs = runs[telling[runs]]
        in_runs = self.at(runs)
        keys, notes = in_runs.whole_keys, lines.notes(in_runs)
        same = keys[1:] == keys[:-1]
        telling[runs[1:][same & (notes[1:] == notes[:-1])]] = False
        starts = np.concatenate(([0], np.flatnonzero(~same) + 1))
        ends = np.append(starts[1:], len(runs))
        many = ends - starts > MOST_NOTES_WITH_IT
        for start, end in zip(starts[many].tolist(), ends[many].tolist(), strict=True):
            if len(np.unique(lines.files[notes[start:end]])) > MOST_NOTES_WITH_IT:
                telling[runs[start:end]] = False
        return telling

    def in_runs(self) -> Positions:
        """The rows, usually few, whose key other rows have too."""
        same = (self.keys[1:] == self.keys[:-1]) & (self.checks[1:] == self.checks[:-1])
        run = np.zeros(len(self.keys), np.bool_)
        run[1:] |= same
        run[:-1] |= same
        return np.flatnonzero(run)


def is_among(keys: Keys, ascending: Keys) -> Flags:
    """Which keys are among others."""
    if not len(ascending):
        return np.zeros(len(keys), np.bool_)
    among: Flags = ascending.take(np.searchsorted(ascending, keys), mode="clip") == keys
    return among


def halves(keys: Keys) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """The 48 bits of keys that are kept: the hash that grams are chosen by, then 16 others."""
    return (keys >> np.uint64(32)).astype(np.uint32), (keys >> np.uint64(16)).astype(np.uint16)


def _in_many(hashes: NDArray[np.uint32], files: NDArray[np.intp]) -> Flags:
    """Which lines, by their hashes and their notes' files, more than three files have."""
    pairs = different(np.sort((hashes.astype(np.uint64) << np.uint64(32)) | files.astype(np.uint64)))
    there = pairs >> np.uint64(32)
    many = there[MOST_NOTES_WITH_IT:][there[MOST_NOTES_WITH_IT:] == there[:-MOST_NOTES_WITH_IT]]
    return np.isin(hashes, different(many).astype(np.uint32))
