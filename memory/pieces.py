"""Texts as one buffer, and long ones in pieces: no step needs much memory, and other threads wait for none of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

PIECE = 1 << 19
"""Bytes, or characters, that are looked at in one go."""
_OVERLAP = 1 << 10


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


class Joined:
    """Texts that are looked at together: `data` is all of them in UTF-8, a newline between two; `starts` is where each begins."""

    def __init__(self, data: bytes, starts: NDArray[np.int64]) -> None:
        self.data = data
        # One more than there are texts: where the next one would begin.
        self._starts = np.append(starts, len(data) + 1)

    @classmethod
    def of(cls, encoded: Sequence[bytes]) -> Self:
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1
        return cls(b"\n".join(encoded), np.cumsum(lengths) - lengths)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Bytes of each text."""
        return np.diff(self._starts) - 1

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """`data` cut at newlines, which belong to no piece, each piece with the place in `data` where it begins.

        A piece has `PIECE` bytes at most, or is one row that has more.
        """
        data = self.data
        start = 0
        while len(data) - start > PIECE:
            end = data.rfind(b"\n", start, start + PIECE)
            if end < 0:
                end = data.find(b"\n", start + PIECE)
                if end < 0:
                    break
            yield start, data[start:end]
            start = end + 1
        yield start, data[start:]  # not copied where it is the whole

    def texts_at(self, places: Sequence[int] | NDArray[np.int64]) -> list[int]:
        """The numbers of the texts in which some bytes of `data` are."""
        return (np.searchsorted(self._starts, np.array(places, np.int64), "right") - 1).tolist()  # type: ignore[no-any-return]

    def text(self, number: int) -> bytes:
        return self.data[int(self._starts[number]) : int(self._starts[number + 1]) - 1]

    def rows_of(self, text: int, places: Sequence[int]) -> list[int]:
        """In which rows of a text some bytes of it are, from 0; `places` are in `data`, and ascend."""
        rows: list[int] = []
        row, counted = 0, int(self._starts[text])
        for place in places:
            row += self.data.count(b"\n", counted, place)
            counted = place
            rows.append(row)
        return rows
