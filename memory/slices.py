"""A body cut into its elements (each message, each block of `system`, each tool), decoded only where it is new.

Agents send the whole conversation again each turn. What is known of it (`memory/spans.py`) is not decoded again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple, overload

from memory import native
from memory.effort import Effort
from memory.json_text import decode_value
from memory.spans import MOST_ALIKE, UNREAD, Element, KnownSpans, Run

_WINDOW = 1 << 15
_OBJECTS = 2
"""How deep objects are cut: Gemini's clients put the whole request into one."""
_MANY = 2048
_SHORT = 200
"""Bytes that members have on the average, where there are many: to look at one more costs far more than at its bytes."""
_FEW = 32
"""Members that a container may have however many there are."""
_WHITE = re.compile(rb"[ \t\n\r]*")


class Elements(Sequence[Any]):
    """The values of an array, each decoded when it is asked for."""

    def __init__(self, parts: Sequence[Element | Run]) -> None:
        self.parts = parts

    @cached_property
    def elements(self) -> list[Element]:
        return list(self._each())

    def __len__(self) -> int:
        return sum(part.length for part in self.parts)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [element.value for element in self.elements[index]]
        return self.elements[index].value

    def __iter__(self) -> Iterator[Any]:
        return (element.value for element in self._each())

    def _each(self) -> Iterator[Element]:
        for part in self.parts:
            yield from part.elements()


class Sliced(NamedTuple):
    """A JSON object: each key, once, with its value, the elements of its array, or its object cut in the same way."""

    members: dict[str, Element | Elements | Sliced]

    def outline(self) -> dict[str, Any]:
        """The object with `Elements` for its arrays: who looks at a few of them decodes no more."""
        return {
            key: one if isinstance(one, Elements) else one.outline() if isinstance(one, Sliced) else one.value
            for key, one in self.members.items()
        }

    def decoded(self) -> dict[str, Any]:
        return {
            key: list(one) if isinstance(one, Elements) else one.decoded() if isinstance(one, Sliced) else one.value
            for key, one in self.members.items()
        }


def slice_object(data: bytes, known: KnownSpans) -> Sliced:
    """Cut a JSON object in UTF-8.

    Raises ValueError and RecursionError where it cannot be decoded, as `decode_json` does, and ValueError also for what
    is no object, for a key that stands twice and for thousands of short members: decoding the whole tells what it is.
    """
    reader = _Reader(data, known)
    sliced, end = reader.object(reader.after_white(0), _OBJECTS)
    if reader.after_white(end) != len(data):
        raise ValueError("the object is not all there is")
    return sliced


class _TooManyError(ValueError):
    """A body has so many members, and so short ones, that those of this container are not told apart."""


class _Reader:
    """Reads JSON values at places in bytes. Text is decoded a window at a time: a body may be known but for its end."""

    def __init__(self, data: bytes, known: KnownSpans) -> None:
        self._data = data
        self._known = known
        self._effort = Effort(MOST_ALIKE * len(data))
        self._cut = 0
        """How many members were told apart."""
        self._text = ""
        self._ascii = True
        self._from = self._to = 0
        """The window in the data."""
        self._place = self._byte = 0
        """Where the last value ended, in the window's text and in the data."""

    def after_white(self, at: int) -> int:
        if self._data[at : at + 1] > b" ":
            return at
        match = _WHITE.match(self._data, at)
        return match.end() if match else at

    def object(self, at: int, depth: int) -> tuple[Sliced, int]:
        """An object, cut, and the objects in it, `depth` in all; and the byte after it."""
        data = self._data
        members: dict[str, Element | Elements | Sliced] = {}
        self._expect(at, b"{")
        at = self.after_white(at + 1)
        if data[at : at + 1] == b"}":
            return Sliced(members), at + 1
        while True:
            key, at = self._key(at)
            if key in members:
                raise ValueError("a key stands twice")
            at = self.after_white(at)
            self._expect(at, b":")
            at = self.after_white(at + 1)
            members[key], at = self.member(at, depth)
            at = self.after_white(at)
            if data[at : at + 1] == b"}":
                return Sliced(members), at + 1
            self._expect(at, b",")
            self._count(len(members), at)
            at = self.after_white(at + 1)

    def _key(self, at: int) -> tuple[str, int]:
        """A member's key, and the byte after it. Nearly every one is plain, and needs no window of the text."""
        self._expect(at, b'"')
        end = self._data.find(b'"', at + 1)
        written = self._data[at + 1 : end]
        if end > 0 and written.isascii() and b"\\" not in written:
            return written.decode(), end + 1
        key, end = self.decode(at)
        return key, end

    def member(self, at: int, depth: int) -> tuple[Element | Elements | Sliced, int]:
        """What a member of an object is, cut if it is a container; and the byte after it."""
        first = self._data[at : at + 1]
        with suppress(_TooManyError):
            if first == b"[":
                return self.array(at)
            if first == b"{" and depth > 1:
                return self.object(at, depth - 1)
        value, end = self._element(at)
        return Element(self._data, at, end, self._known.add(self._data, at, end), value), end

    def array(self, at: int) -> tuple[Elements, int]:
        """An array, and the byte after it."""
        data = self._data
        parts: list[Element | Run] = []
        at = self.after_white(at + 1)
        while data[at : at + 1] != b"]" or parts:  # a comma may not be the last thing in it
            known, end = self._known.find(data, at, self._effort)
            if known:
                parts += known
                self._pass(end)
            else:
                value, end = self._element(at)
                parts.append(Element(data, at, end, self._known.add(data, at, end), value))
            at = self.after_white(end)
            behind = data[at : at + 1]
            if behind == b"]":
                break
            if behind != b",":
                raise ValueError(", is missing")
            self._count(len(parts), at)
            at = self.after_white(at + 1)
        return Elements(self._known.with_runs(parts)), at + 1

    def _element(self, at: int) -> tuple[Any, int]:
        """A value, decoded only where its end is not found without that; and the byte after it."""
        if native.BUILT and (end := native.end_of_value(self._data, at)):
            self._pass(end)
            return UNREAD, end
        return self.decode(at)

    def _count(self, members: int, at: int) -> None:
        """A container has one more, the last of so many, which ends before a byte."""
        self._cut += 1
        if members > _FEW and self._cut >= _MANY and at < _SHORT * self._cut:
            raise _TooManyError("too many short members")

    def _expect(self, at: int, character: bytes) -> None:
        if self._data[at : at + 1] != character:
            raise ValueError(f"{character.decode()} is missing")

    def decode(self, at: int) -> tuple[Any, int]:
        """The value at a byte, and the byte after it."""
        if not self._byte <= at < self._to:
            self._look_at(at, _WINDOW)
        while True:
            # Between two values there is only ASCII, so this many bytes are as many characters.
            start = self._place + at - self._byte
            try:
                value, end = decode_value(self._text, start)
                whole = end < len(self._text) or self._to == len(self._data)
            except ValueError:
                if self._to == len(self._data):
                    raise
                whole = False
            if whole:
                break
            # What goes on being new is decoded in ever larger windows.
            self._look_at(at, 4 * (self._to - self._from))
        length = end - start if self._ascii else len(self._text[start:end].encode("utf-8", "surrogatepass"))
        self._place, self._byte = end, at + length
        return value, self._byte

    def _pass(self, end: int) -> None:
        """Go on behind what was not decoded: in the same window, which costs more to decode than a short value."""
        if self._byte <= end <= self._to:
            passed = self._data[self._byte : end]
            self._place += len(passed) if self._ascii else len(passed.decode("utf-8", "surrogatepass"))
            self._byte = end
        else:
            self._to = 0

    def _look_at(self, at: int, size: int) -> None:
        end = min(len(self._data), at + size)
        while end < len(self._data) and self._data[end] & 0xC0 == 0x80:
            end += 1
        window = self._data[at:end]
        self._ascii = window.isascii()
        self._text = window.decode("utf-8", "surrogatepass")
        self._from, self._to, self._place, self._byte = at, end, 0, at
