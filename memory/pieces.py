"""Long texts in pieces, so that no step needs much memory, and other threads wait for none of them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

PIECE = 1 << 18
"""Characters that are looked at in one go."""
_OVERLAP = 1 << 10


class Piece(NamedTuple):
    """`first_row` is the number of its first row in the text, from 0."""

    first_row: int
    text: str


def pieces(text: str) -> Iterator[Piece]:
    """A text cut at newlines, which belong to no piece: `PIECE` characters at most, or one row that is longer."""
    start = row = 0
    while len(text) - start > PIECE:
        end = text.rfind("\n", start, start + PIECE)
        if end < 0:
            end = text.find("\n", start + PIECE)
            if end < 0:
                break
        piece = text[start:end]
        yield Piece(row, piece)
        row += piece.count("\n") + 1
        start = end + 1
    yield Piece(row, text[start:] if start else text)


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """`pattern.finditer(text)`, a piece at a time, for a pattern that looks at less than `_OVERLAP` characters."""
    for start in range(0, len(text), PIECE):
        end = start + PIECE
        for match in pattern.finditer(text, start, end + _OVERLAP):
            if match.start() >= end:
                break
            yield match


class Rows(NamedTuple):
    """Where the rows of a text begin and end, in bytes; the newline is not part of its row."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, text: NDArray[np.uint8]) -> Self:
        newlines = (text == ord("\n")).nonzero()[0]
        return cls(np.concatenate(([0], newlines + 1)), np.append(newlines, len(text)))

    def at(self, chosen: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Where some of the rows begin and end."""
        return zip(self.starts[chosen].tolist(), self.ends[chosen].tolist(), strict=True)


class Batch:
    """Texts, or pieces of one, that are looked at in one go: `data` is all of them in UTF-8, a newline between two."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.numbers: list[int] = []
        """Which text each is, or is a piece of."""
        self.first_rows: list[int] = []
        """Which row of it each begins with."""

    def add(self, number: int, first_row: int, text: str) -> None:
        self.texts.append(text)
        self.numbers.append(number)
        self.first_rows.append(first_row)

    @cached_property
    def data(self) -> bytes:
        # Encoded one by one: a single character beyond ASCII would make a joined text as slow as itself.
        return b"\n".join([text.encode("utf-8", "surrogatepass") for text in self.texts])

    @cached_property
    def bytes(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.data, np.uint8)

    @cached_property
    def rows(self) -> Rows:
        return Rows.of(self.bytes)

    @cached_property
    def _begin(self) -> list[int]:
        """The row of `data` that each text begins with."""
        return [0, *accumulate([text.count("\n") + 1 for text in self.texts])]

    def place_of(self, row: int) -> tuple[int, int]:
        """(number of the text, row in it) of a row of `data`."""
        place = bisect_right(self._begin, row) - 1
        return self.numbers[place], self.first_rows[place] + row - self._begin[place]

    def numbers_at(self, offsets: NDArray[np.intp]) -> set[int]:
        """The numbers of the texts in which some bytes of `data` are."""
        rows = np.unique(np.searchsorted(self.rows.ends, offsets))
        return {self.numbers[bisect_right(self._begin, row) - 1] for row in rows.tolist()}


def batches(texts: Sequence[str]) -> Iterator[Batch]:
    """All texts, in batches of `PIECE` characters, or somewhat more."""
    batch, size = Batch(), 0
    for number, text in enumerate(texts):
        for first_row, piece in pieces(text) if len(text) > PIECE else ((0, text),):
            batch.add(number, first_row, piece)
            size += len(piece)
            if size >= PIECE:
                yield batch
                batch, size = Batch(), 0
    if batch.texts:
        yield batch
