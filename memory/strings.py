"""The strings of JSON values as a scan looks at them: all in one text, and where each is told when it is asked for.

They are taken from the bytes of the values in C where that was built (`memory/_native_json.c`), else from the decoded values
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
from memory.spans import Element
from memory.walk import strings_of

type Rows = NDArray[np.int64]
"""Shape (strings, 4): where each begins and ends in a text, in bytes; its number in its value; 1 where it holds JSON that was
decoded. They follow each other, a newline between two.
"""


class Wanted(NamedTuple):
    """Strings with less than `shortest` characters are left out, unless a name or JSON may be in them, or `wide` is true and
    some of their characters are not ASCII.
    """

    shortest: int = 0
    wide: bool = False


class Strings(NamedTuple):
    """The strings of one value. `text` is all in UTF-8, without what is encoded in them and long (`memory/blobs.py`).

    Of a string that holds JSON both are there: itself, in which names do not count, and the strings in it.
    """

    text: bytes
    rows: Rows
    reasons: tuple[str, ...]
    """Why that is not all of them."""
    places: Callable[[Sequence[int]], Iterable[tuple[str, int]]]
    """(pointer, number) for some numbers, which ascend, in the order of the value. The pointer is that of `walk.Strings`."""


class Together(NamedTuple):
    """The strings of several values in one text, as `Strings` has those of one."""

    text: bytes
    rows: Rows
    values: NDArray[np.int64]
    """Of which value each row is."""

    @classmethod
    def of(cls, strings: Iterable[tuple[int, Strings]]) -> Self:
        """Strings, each with the number of its value."""
        return cls.joined([cls(one.text, one.rows, np.full(len(one.rows), value, np.int64)) for value, one in strings])

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        some = [part for part in parts if len(part.rows)]
        if len(some) <= 1:
            return some[0] if some else cls(b"", np.empty((0, 4), np.int64), np.empty(0, np.int64))
        rows = np.concatenate([part.rows for part in some])
        sizes = np.array([len(part.text) + 1 for part in some], np.int64)
        rows[:, :2] += np.repeat(np.cumsum(sizes) - sizes, [len(part.rows) for part in some])[:, None]
        values = np.concatenate([part.values for part in some])
        return cls(b"\n".join([part.text for part in some]), rows, values)

    def without(self, left_out: Sequence[int]) -> Self:
        """All but the strings in some rows, which ascend."""
        pieces: list[bytes] = []
        at = 0
        for begin, end in self.rows[left_out, :2].tolist():
            if begin > at:
                pieces.append(self.text[at : begin - 1])
            at = end + 1
        if at <= len(self.text):
            pieces.append(self.text[at:])
        stay = np.ones(len(self.rows), np.bool_)
        stay[left_out] = False
        rows = self.rows[stay]
        _put_places(rows, rows[:, 1] - rows[:, 0])
        return self._replace(text=b"\n".join(pieces), rows=rows, values=self.values[stay])


class Taken(NamedTuple):
    """What was taken from the bytes of some values."""

    strings: Together
    reasons: Sequence[tuple[int, str]]
    """(number of a value, why that is not all of its strings)."""
    unread: Sequence[int]
    """The values that have to be decoded for it."""


def strings_in(elements: Sequence[Element], wanted: Wanted) -> Taken:
    """The strings of elements of one body."""
    if not (elements and native.BUILT):
        return Taken(Together.of(()), (), range(len(elements)))
    spans = np.array([(element.start, element.end) for element in elements], np.int64)
    text, rows, aside, rows_aside, unread = native.strings(elements[0].source, spans, *wanted)
    found = np.frombuffer(rows, np.int64).reshape(-1, 5)
    strings = Together(text, found[:, :4], found[:, 4])
    reasons: list[tuple[int, str]] = []
    if rows_aside:
        texts: list[bytes] = []
        columns = np.frombuffer(rows_aside, np.int64).reshape(-1, 5)
        for begin, end, _, _, value in columns.tolist():
            shown, reason = _shown(aside[begin:end].decode("utf-8", "surrogatepass"))
            texts.append(shown)
            if reason:
                reasons.append((value, reason))
        more = Together(b"\n".join(texts), _joined(texts, columns[:, 2:4]), columns[:, 4])
        strings = Together.joined((strings, more))
    return Taken(strings, reasons, np.frombuffer(unread, np.int64).tolist())


def places_in(element: Element, wanted: Wanted, numbers: Sequence[int]) -> Iterator[tuple[str, int]]:
    """`Strings.places` of an element whose strings were taken from its bytes."""
    written = native.pointers(element.source, element.start, element.end, *wanted, np.array(numbers, np.uint64))
    return zip(written.decode().split("\n"), numbers, strict=True)


def strings_of_value(value: Any, wanted: Wanted, dull: set[str] | None = None) -> Strings:
    """The strings of a decoded value. `dull` gets the keys that are left out; those in it are left out."""
    reasons: dict[str, None] = {}
    found = strings_of(value, reasons, shortest=wanted.shortest, wide=wanted.wide, dull=dull)
    texts, holding = found.texts, found.holding

    def places(numbers: Sequence[int]) -> Iterator[tuple[str, int]]:
        in_texts = {id(texts[number]): number for number in numbers if number < len(texts)}
        in_holding = {id(holding[number - len(texts)]): number for number in numbers if number >= len(texts)}
        return found.places(in_texts, in_holding)

    encoded: list[bytes] = []
    for text in chain(texts, holding):
        shown, reason = _shown(text)
        encoded.append(shown)
        if reason:
            reasons[reason] = None
    about = np.zeros((len(encoded), 2), np.int64)
    about[:, 0] = np.arange(len(encoded))
    about[len(texts) :, 1] = 1
    return Strings(b"\n".join(encoded), _joined(encoded, about), tuple(reasons), places)


def _shown(text: str) -> tuple[bytes, str | None]:
    """A string without what is encoded in it, and why that is not all of it."""
    shown, reason = beside_blobs(text) if len(text) >= SHORTEST_BLOB else (text, None)
    return shown.encode("utf-8", "surrogatepass"), reason


def _joined(encoded: Sequence[bytes], about: NDArray[np.int64]) -> Rows:
    """The rows of strings that are put together, of which numbers and kinds are told."""
    rows = np.empty((len(encoded), 4), np.int64)
    _put_places(rows, np.fromiter(map(len, encoded), np.int64, len(encoded)))
    rows[:, 2:] = about
    return rows


def _put_places(rows: Rows, lengths: NDArray[np.int64]) -> None:
    """Where strings of some lengths begin and end."""
    rows[:, 1] = np.cumsum(lengths + 1) - 1
    rows[:, 0] = rows[:, 1] - lengths
