"""The strings of one JSON value as a scan looks at them: all in one text, and where each is told when it is asked for.

They are taken from the bytes of the value in C where that was built (`memory/_native_json.c`), else from the decoded value
(`memory/walk.py`): both find the same strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from memory import native
from memory.blobs import SHORTEST_BLOB, beside_blobs
from memory.walk import strings_of

type Rows = NDArray[np.int64]
"""Shape (strings, 4): where each begins and ends in a text, in bytes; its number; 1 where it holds JSON that was decoded."""


class Wanted(NamedTuple):
    """Strings with less than `shortest` characters are left out, unless a name or JSON may be in them, or `wide` is true and
    some of their characters are not ASCII.
    """

    shortest: int = 0
    wide: bool = False


class Strings(NamedTuple):
    """`text` is the strings in UTF-8, a newline between two, without what is encoded in them and long (`memory/blobs.py`).

    Of a string that holds JSON both are there: itself, in which names do not count, and the strings in it.
    """

    text: bytes
    rows: Rows
    reasons: tuple[str, ...]
    """Why that is not all of them."""
    places: Callable[[Sequence[int]], Iterable[tuple[str, int]]]
    """(pointer, number) for some numbers, which ascend, in the order of the value. The pointer is that of `walk.Strings`."""


class Together(NamedTuple):
    """The strings of several values: their texts as one, with a newline between two, and the rows of all strings in that."""

    text: bytes
    rows: Rows
    values: NDArray[np.intp]
    """Of which value each row is."""

    @classmethod
    def of(cls, strings: Sequence[Strings]) -> Self:
        some = [one for one in strings if len(one.rows)]
        counts = [len(one.rows) for one in strings]
        sizes = np.array(
            [len(one.text) + 1 if count else 0 for one, count in zip(strings, counts, strict=True)], np.int64
        )
        rows = np.concatenate([_rows(b""), *(one.rows for one in strings)])
        rows[:, :2] += np.repeat(np.cumsum(sizes) - sizes, counts)[:, None]
        return cls(b"\n".join([one.text for one in some]), rows, np.repeat(np.arange(len(strings)), counts))

    def without(self, left_out: Sequence[int]) -> Self:
        """All but the strings in some rows."""
        kept = np.delete(self.rows, left_out, axis=0)
        encoded = [self.text[begin:end] for begin, end in kept[:, :2].tolist()]
        return self._replace(
            text=b"\n".join(encoded),
            rows=_joined(encoded, kept[:, 2:].tolist()),
            values=np.delete(self.values, left_out),
        )


def strings_in(source: bytes, start: int, end: int, wanted: Wanted) -> Strings | None:
    """The strings of the JSON in some bytes; None: they have to be taken from what it is decoded."""
    if not native.BUILT or (found := native.strings(source, start, end, *wanted)) is None:
        return None
    text, rows, aside, rows_aside = found

    def places(numbers: Sequence[int]) -> Iterator[tuple[str, int]]:
        written = native.pointers(source, start, end, *wanted, np.array(numbers, np.uint64))
        return zip(written.decode().split("\n"), numbers, strict=True)

    strings = Strings(text, _rows(rows), (), places)
    if not rows_aside:
        return strings
    return _with(
        strings,
        [
            (aside[begin:stop].decode("utf-8", "surrogatepass"), number, holds_json)
            for begin, stop, number, holds_json in _rows(rows_aside).tolist()
        ],
    )


def strings_of_value(value: Any, wanted: Wanted, dull: set[str] | None = None) -> Strings:
    """The strings of a decoded value. `dull` gets the keys that are left out; those in it are left out."""
    reasons: dict[str, None] = {}
    found = strings_of(value, reasons, shortest=wanted.shortest, wide=wanted.wide, dull=dull)
    texts, holding = found.texts, found.holding

    def places(numbers: Sequence[int]) -> Iterator[tuple[str, int]]:
        in_texts = {id(texts[number]): number for number in numbers if number < len(texts)}
        in_holding = {id(holding[number - len(texts)]): number for number in numbers if number >= len(texts)}
        return found.places(in_texts, in_holding)

    strings = Strings(b"", _rows(b""), tuple(reasons), places)
    both = enumerate(chain(texts, holding))
    return _with(strings, [(text, number, number >= len(texts)) for number, text in both])


def _with(strings: Strings, more: Iterable[tuple[str, int, int]]) -> Strings:
    """Strings, and some more: (what it says, number, whether it holds JSON)."""
    reasons = dict.fromkeys(strings.reasons)
    encoded: list[bytes] = []
    about: list[tuple[int, int]] = []
    for text, number, holds_json in more:
        shown, reason = beside_blobs(text) if len(text) >= SHORTEST_BLOB else (text, None)
        if reason:
            reasons[reason] = None
        encoded.append(shown.encode("utf-8", "surrogatepass"))
        about.append((number, holds_json))
    before = [strings.text] if len(strings.rows) else []
    rows = _joined(encoded, about)
    rows[:, :2] += len(strings.text) + 1 if before else 0
    return Strings(
        b"\n".join([*before, *encoded]), np.concatenate([strings.rows, rows]), tuple(reasons), strings.places
    )


def _joined(encoded: Sequence[bytes], about: Sequence[Sequence[int]]) -> Rows:
    """The rows of strings that are put together, of which numbers and kinds are told."""
    rows = np.empty((len(encoded), 4), np.int64)
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    rows[:, 1] = np.cumsum(lengths + 1) - 1
    rows[:, 0] = rows[:, 1] - lengths
    rows[:, 2:] = about or 0
    return rows


def _rows(data: bytes) -> Rows:
    return np.frombuffer(data, np.int64).reshape(-1, 4)
