"""The lines of notes that only they have, and how the rows of a text are looked up among them.

The exact rule of `memory/lines.py` decides; the sieve of `memory/sieve.py` spares it nearly every row. What is found
is what the rule, applied to each row, would find: `tests/memory/reference.py` is that, written out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory.lines import CAN_BEGIN_A_PREFIX, canonical_line, fingerprints, without_prefix
from memory.pieces import Batch, Rows
from memory.prints import LineRows
from memory.sieve import FEWEST_LETTERS, IN_WHITE_SPACE, Sieve, letters_of, sieve_hashes

_LONG_ROW = 1 << 16
_LONGEST_PREFIX = 2_000
"""Bytes that the longest prefix of `lines.PREFIXES` may have, the white space before it not counted."""

_LINE_NUMBER = re.compile(rb"L[0-9]{1,7}:")
_HASH_LINE = re.compile(rb"#[0-9A-Za-z]{1,8}\|")
_PATH = re.compile(rb"\.[\w\x80-\xff]{1,64}[:-][0-9]{1,7}[:-]")
"""What a row has in it whose prefix has letters."""


class FoundLine(NamedTuple):
    """A line's fingerprint, and the places of the notes that have it."""

    key: int
    notes: tuple[int, ...]


class LineIndex:
    """Immutable. `rows` are those of distinctive lines, in order; `longest` is the bytes of the longest such line."""

    def __init__(self, rows: LineRows, *, longest: int, seed: int, minimum_line_length: int) -> None:
        self.rows = rows
        self._longest = longest
        self._seed = seed
        self._minimum = minimum_line_length
        rich = rows.hashes != 0
        self._sieve = Sieve(rows.hashes[rich])
        self._has_poor_lines = not rich.all()

    @property
    def nbytes(self) -> int:
        return self._sieve.nbytes + self.rows.nbytes

    def find(self, batch: Batch) -> Iterator[tuple[int, int, FoundLine]]:
        """(number of the text, row in it from 0, line) for each row that is a distinctive line, ascending."""
        data = batch.data
        if not len(self.rows.keys) or (len(batch.texts) == 1 and not self._may_be_one(data) and b"\n" not in data):
            return
        rows = batch.rows
        candidates, behind_path = self._candidates(data, rows)
        lines = [data[start:end] for start, end in rows.at(candidates)]
        found = self._exact(lines, behind_path)
        for number, row in enumerate(candidates.tolist()):
            if number in found:
                yield *batch.place_of(row), found[number]

    def _candidates(self, data: bytes, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The rows that the exact rule has to look at, ascending, and which of them may begin with a path's prefix."""
        letters = letters_of(data)
        in_letters = Rows.of(np.frombuffer(letters, np.uint8))
        counts = in_letters.ends - in_letters.starts
        long = rows.ends - rows.starts >= self._minimum
        rich = np.flatnonzero(long & (counts >= FEWEST_LETTERS))
        hashes = sieve_hashes(letters, in_letters.starts[rich], in_letters.ends[rich], self._seed)
        chosen = [rich[self._sieve.passing(hashes)]]
        if self._has_poor_lines:
            chosen.append(np.flatnonzero(long & (counts < FEWEST_LETTERS)))
        # Behind a prefix that has letters, a row does not have the letters of the note's line.
        some = np.flatnonzero(long & (counts > 0))
        begin_with_l = some[np.frombuffer(letters, np.uint8)[in_letters.starts[some]] == ord("L")]
        spans = zip(begin_with_l.tolist(), rows.at(begin_with_l), strict=True)
        chosen.append(np.array([row for row, span in spans if _LINE_NUMBER.search(data, *span)], np.int64))
        if b"|" in data and b"#" in data:
            chosen.append(_rows_with(_HASH_LINE, data, rows))
        behind_path = _rows_with(_PATH, data, rows)
        chosen.append(behind_path)
        candidates = np.unique(np.concatenate(chosen)) if any(map(len, chosen[1:])) else chosen[0]
        return candidates, np.isin(candidates, behind_path)

    def _exact(self, lines: Sequence[bytes], behind_path: NDArray[np.bool_]) -> dict[int, FoundLine]:
        """Number of a line -> what it is by the rule: as it stands first, then without one prefix."""
        texts: dict[int, str] = {}
        canonical: list[tuple[int, str]] = []
        for number, data in enumerate(lines):
            if self._may_be_one(data):
                texts[number] = text = data.decode("utf-8", "surrogatepass")
                line = canonical_line(text)
                if len(line) >= self._minimum:
                    canonical.append((number, line))
        found = self._owned(canonical)
        behind: list[tuple[int, str]] = []
        for number, whole in canonical:
            path_prefix = bool(behind_path[number])
            if number not in found and (path_prefix or whole[0] in CAN_BEGIN_A_PREFIX):
                forms = without_prefix(texts[number], first=whole[0], path_prefix=path_prefix)
                behind += [(number, form) for form in forms if len(form) >= self._minimum]
        return found | self._owned(behind)

    def _may_be_one(self, line: bytes) -> bool:
        """Whether a line is not far too long; its white space does not count."""
        if len(line) <= _LONG_ROW:
            return True
        return len(line.translate(None, IN_WHITE_SPACE)) <= self._longest + _LONGEST_PREFIX

    def _owned(self, numbered: Sequence[tuple[int, str]]) -> dict[int, FoundLine]:
        """Number -> the first of its canonical lines that notes have."""
        if not numbered:
            return {}
        rows = "\n".join([line for _, line in numbered]).encode("utf-8", "surrogatepass")
        keys = fingerprints(rows, self._seed)
        found: dict[int, FoundLine] = {}
        for (number, _), key, notes in zip(numbered, keys.tolist(), self.rows.owners_of(keys), strict=True):
            if notes:
                found.setdefault(number, FoundLine(key, notes))
        return found


def _rows_with(pattern: re.Pattern[bytes], data: bytes, rows: Rows) -> NDArray[np.int64]:
    """The rows in which a pattern is found, ascending."""
    found: list[int] = []
    match = pattern.search(data)
    while match:
        row = int(np.searchsorted(rows.ends, match.start()))
        found.append(row)
        match = pattern.search(data, int(rows.ends[row]))
    return np.array(found, np.int64)
