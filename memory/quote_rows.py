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

from memory.grams import Keys, different

MOST_NOTES_WITH_IT = 3
"""A line or a gram that is in more notes than this says nothing about any of them."""

_LINE_SHIFT = 5
_MORE = (1 << _LINE_SHIFT) - 1
"""A gram reaches over no more than 31 more lines, as each has a letter."""


class LineHashes(NamedTuple):
    """A hash of each line of each note, note by note in the order of their places. A line's number is its place here."""

    hashes: NDArray[np.uint32]
    starts: NDArray[np.intp]
    """The number of each note's first line, and how many lines there are."""

    @property
    def nbytes(self) -> int:
        return self.hashes.nbytes + self.starts.nbytes

    @classmethod
    def of(cls, hashes: Sequence[int], counts: Sequence[int]) -> LineHashes:
        """Of the lines of some notes one after the other, `counts` of each."""
        return cls(np.array(hashes, np.uint32), np.concatenate(([0], np.cumsum(counts, dtype=np.intp))))

    def merged(self, before: NDArray[np.intp], made: LineHashes) -> LineHashes:
        """The lines of notes that had the places `before` here; where that is -1, the next note's of `made`."""
        starts = np.where(before < 0, 0, self.starts[before])
        counts = np.where(before < 0, 0, self.starts[before + 1] - starts)
        new = np.flatnonzero(before < 0)
        counts[new] = np.diff(made.starts)
        starts[new] = made.starts[:-1] + len(self.hashes)
        now = np.concatenate(([0], np.cumsum(counts)))
        source = np.arange(now[-1]) + np.repeat(starts - now[:-1], counts)
        return LineHashes(np.concatenate((self.hashes, made.hashes))[source], now)

    def notes(self, lines: NDArray[np.integer]) -> NDArray[np.intp]:
        """The notes that some lines, by number, belong to."""
        return np.searchsorted(self.starts, lines, "right") - 1

    def shared(self, files: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which lines more than three notes have. Notes of one file are one."""
        of_file = np.repeat(files, np.diff(self.starts)).astype(np.uint64)
        pairs = np.sort((self.hashes.astype(np.uint64) << np.uint64(32)) | of_file)
        hashes = different(pairs) >> np.uint64(32)
        many = hashes[MOST_NOTES_WITH_IT:][hashes[MOST_NOTES_WITH_IT:] == hashes[:-MOST_NOTES_WITH_IT]]
        return np.isin(self.hashes, different(many).astype(np.uint32))


class GramRows(NamedTuple):
    """Grams of notes, by key, then by line."""

    keys: NDArray[np.uint32]
    checks: NDArray[np.uint16]
    """16 more bits of the key."""
    lines: NDArray[np.uint32]
    """The number of the line in which a gram begins, times 32, and over how many more lines it reaches."""
    around: NDArray[np.uint8]
    """Shape (rows, 2): the letters before and after, as `Shingler.around` has them."""

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self)

    @classmethod
    def of(cls, keys: Keys, first: NDArray[np.intp], more: NDArray[np.intp], around: NDArray[np.uint8]) -> GramRows:
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

    def in_order(self) -> GramRows:
        return _by_line(self.at(np.argsort(self.whole_keys)))

    def with_more(self, rows: GramRows) -> GramRows:
        """Both in order. Much faster than to sort them, where there are few others."""
        at = np.searchsorted(self.whole_keys, rows.whole_keys)
        merged = GramRows(
            np.insert(self.keys, at, rows.keys),
            np.insert(self.checks, at, rows.checks),
            np.insert(self.lines, at, rows.lines),
            np.insert(self.around, at, rows.around, axis=0),
        )
        return _by_line(merged)

    def at(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> GramRows:
        return GramRows(self.keys[chosen], self.checks[chosen], self.lines[chosen], self.around[chosen])

    def moved(self, lines: LineHashes, places: NDArray[np.intp], now: LineHashes) -> GramRows:
        """The rows of notes whose lines were `lines`, at the notes' new places, without those of a place -1."""
        counts = np.diff(lines.starts)
        shifts = np.where(places < 0, 0, now.starts[places] - lines.starts[:-1])
        if (places >= 0).all() and not shifts.any():
            return self
        first = first_lines(self.lines)
        shift = np.repeat(shifts << _LINE_SHIFT, counts)[first]
        rows = self._replace(lines=(self.lines + shift).astype(np.uint32))
        return rows if (places >= 0).all() else rows.at(np.repeat(places >= 0, counts)[first])

    def telling(self, lines: LineHashes, files: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows tell a note: not of a line that many notes have, and of a gram that few have; once for a note."""
        until = np.concatenate(([0], np.cumsum(lines.shared(files))))
        first = first_lines(self.lines)
        telling: NDArray[np.bool_] = until[first] == until[first + (self.lines & np.uint32(_MORE)) + np.uint32(1)]
        runs = self.in_runs()
        runs = runs[telling[runs]]
        keys, notes = self.whole_keys[runs], lines.notes(first[runs])
        same = keys[1:] == keys[:-1]
        telling[runs[1:][same & (notes[1:] == notes[:-1])]] = False
        starts = np.concatenate(([0], np.flatnonzero(~same) + 1))
        ends = np.append(starts[1:], len(runs))
        many = ends - starts > MOST_NOTES_WITH_IT
        for start, end in zip(starts[many].tolist(), ends[many].tolist(), strict=True):
            if len(np.unique(files[notes[start:end]])) > MOST_NOTES_WITH_IT:
                telling[runs[start:end]] = False
        return telling

    @property
    def whole_keys(self) -> Keys:
        """The 48 bits of each row's key, as one number."""
        return (self.keys.astype(np.uint64) << np.uint64(16)) | self.checks

    def in_runs(self) -> NDArray[np.intp]:
        """The rows, usually few, whose key other rows have too."""
        same = (self.keys[1:] == self.keys[:-1]) & (self.checks[1:] == self.checks[:-1])
        run = np.zeros(len(self.keys), np.bool_)
        run[1:] |= same
        run[:-1] |= same
        return np.flatnonzero(run)


def _by_line(rows: GramRows) -> GramRows:
    """Rows that are by key, by line too. They are changed in place: nobody else has them yet."""
    runs = rows.in_runs()
    order = runs[np.lexsort((rows.lines[runs], rows.whole_keys[runs]))]
    for column in rows:
        column[runs] = column[order]
    return rows


def first_lines(lines: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The numbers of the lines in which grams begin, from `GramRows.lines`."""
    return lines >> np.uint32(_LINE_SHIFT)


def halves(keys: Keys) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """The 48 bits of keys that are kept: 28 of the hash that grams are chosen by and 4 others, then 16 others."""
    return (keys >> np.uint64(32)).astype(np.uint32), (keys >> np.uint64(16)).astype(np.uint16)
