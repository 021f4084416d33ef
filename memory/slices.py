"""A body cut into its elements (each message, each block of `system`, each tool), decoded only where it is new.

Agents send the whole conversation again each turn. Where an element ended the last time is remembered under a hash of
how it begins; if the bytes up to there have the hash of a JSON value that was decoded once, they are that value, and
need not be decoded again to know where the next one begins. No text is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, overload

import mmh3

from memory.json_text import decode_json, decode_value
from memory.recent import Recent

SMALLEST = 48
"""Bytes from which an element is worth remembering."""
_BEGINNING = 96
"""Bytes that tell elements apart well enough: the head of a message with the id of a tool call in it."""
_MOST_LENGTHS = 8
"""How many elements that begin alike are told apart."""
_RUN_LENGTH = 16
"""Elements in a run, on the average."""
_LONGEST_RUN = 64
_WINDOW = 1 << 15
_OBJECTS = 2
"""How deep objects are cut: Gemini's clients put the whole request into one."""
_ITEM_BYTES = 200
"""What one remembered value takes, about."""

_WHITE = re.compile(rb"[ \t\n\r]*")
_UNREAD: Any = object()
_COMMA = ord(",")
_digest = mmh3.mmh3_x64_128_digest
"""128 bits of MurmurHash3."""


class Element(NamedTuple):
    """A JSON value in a body. `digest` None: it is short and always decoded."""

    source: bytes
    start: int
    end: int
    digest: bytes | None
    decoded: Any

    @property
    def value(self) -> Any:
        """Decoded now, if it was not before."""
        if self.decoded is not _UNREAD:
            return self.decoded
        return decode_json(self.source[self.start : self.end].decode("utf-8", "surrogatepass"))


class Run(NamedTuple):
    """Elements that stand in a row, with a comma and nothing else between two. `spans` are (start, end, digest) of each,
    counted from the run's start.
    """

    source: bytes
    start: int
    digest: bytes
    spans: tuple[tuple[int, int, bytes], ...]
    decoded: tuple[Element, ...] = ()
    """Its elements, if they were decoded for it."""

    def elements(self) -> Iterator[Element]:
        yield from self.decoded
        for start, end, digest in () if self.decoded else self.spans:
            yield Element(self.source, self.start + start, self.start + end, digest, _UNREAD)


class KnownSpans:
    """Which bytes are a whole JSON value, or a run of them, and how long those with a given beginning were.

    Holds hashes only, made with `seed`, which is random for each process. Two threads may use it at once: what they can
    lose is decoded again.
    """

    def __init__(self, seed: int, most_bytes: int) -> None:
        self._seed = seed
        self._values = Recent[bytes, bool](most_bytes // 4)
        self._lengths = Recent[int, tuple[int, ...]](most_bytes // 4)
        self._runs = Recent[int, tuple[_KnownRun, ...]](most_bytes // 2)

    def find(self, data: bytes, start: int) -> tuple[list[Element | Run], int]:
        """What is known from `start` on, with a comma and nothing else between; and the end of the last of it.

        What comes after that end is not looked at: it decides whether all this is what it seems.
        """
        runs_of, lengths_of, is_known = self._runs.get, self._lengths.get, self._values.get
        seed, view, last = self._seed, memoryview(data), len(data) - 1
        found: list[Element | Run] = []
        at = end = start
        while True:
            beginning = hash(data[at : at + _BEGINNING])
            for length, digest, spans in runs_of(beginning) or ():
                if at + length <= last and _digest(view[at : at + length], seed) == digest:
                    found.append(Run(data, at, digest, spans))
                    end = at + length
                    break
            else:
                for length in lengths_of(beginning) or ():
                    if at + length <= last and is_known(digest := _digest(view[at : at + length], seed)):
                        end = at + length
                        found.append(Element(data, at, end, digest, _UNREAD))
                        break
                else:
                    return found, end
            if data[end] != _COMMA:
                return found, end
            at = end + 1

    def add(self, data: bytes, start: int, end: int) -> bytes | None:
        """Remember a value. Its digest; None if it is too short to be worth it."""
        if end - start < SMALLEST:
            return None
        digest = _digest(memoryview(data)[start:end], self._seed)
        beginning = hash(data[start : start + _BEGINNING])
        lengths = self._lengths.get(beginning) or ()
        if end - start not in lengths:
            self._lengths.put(beginning, (end - start, *lengths[: _MOST_LENGTHS - 1]), _ITEM_BYTES)
        self._values.put(digest, value=True, size=_ITEM_BYTES)
        return digest

    def with_runs(self, parts: Sequence[Element | Run]) -> list[Element | Run]:
        """The parts of an array, with runs for the elements that make some; these are remembered.

        Where a run ends is told by the hash of its last element, so that the same elements make the same runs whatever
        comes before or after them.
        """
        grouped: list[Element | Run] = []
        begin = 0
        for part in parts:
            if isinstance(part, Run) or part.digest is None:
                grouped.append(part)
                begin = len(grouped)
                continue
            before = grouped[-1] if begin < len(grouped) else None
            if isinstance(before, Element) and part.start != before.end + 1:
                begin = len(grouped)
            grouped.append(part)
            if part.digest[0] % _RUN_LENGTH == 0 or len(grouped) - begin == _LONGEST_RUN:
                if len(grouped) - begin > 1:
                    grouped[begin:] = [self._add_run([one for one in grouped[begin:] if isinstance(one, Element)])]
                begin = len(grouped)
        return grouped

    def _add_run(self, run: Sequence[Element]) -> Run:
        data, start, length = run[0].source, run[0].start, run[-1].end - run[0].start
        spans = tuple([(one.start - start, one.end - start, one.digest or b"") for one in run])
        digest = _digest(memoryview(data)[start : start + length], self._seed)
        beginning = hash(data[start : start + _BEGINNING])
        known = self._runs.get(beginning) or ()
        if all(one.digest != digest for one in known):
            known = (_KnownRun(length, digest, spans), *known[: _MOST_LENGTHS - 1])
            self._runs.put(beginning, known, _ITEM_BYTES * sum(len(one.spans) for one in known))
        return Run(data, start, digest, spans, tuple(run))


class _KnownRun(NamedTuple):
    length: int
    digest: bytes
    spans: tuple[tuple[int, int, bytes], ...]


class Elements(Sequence[Any]):
    """The values of an array, each decoded when it is asked for."""

    def __init__(self, parts: Sequence[Element | Run]) -> None:
        self.parts = parts

    @cached_property
    def elements(self) -> list[Element]:
        return list(self._each())

    def __len__(self) -> int:
        return sum(len(part.spans) if isinstance(part, Run) else 1 for part in self.parts)

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
            if isinstance(part, Run):
                yield from part.elements()
            else:
                yield part


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
    is no object and for a key that stands twice: decoding the whole tells what it is.
    """
    reader = _Reader(data, known)
    sliced, end = reader.object(reader.after_white(0), _OBJECTS)
    if reader.after_white(end) != len(data):
        raise ValueError("the object is not all there is")
    return sliced


class _Reader:
    """Reads JSON values at places in bytes. Text is decoded a window at a time: a body may be known but for its end."""

    def __init__(self, data: bytes, known: KnownSpans) -> None:
        self._data = data
        self._known = known
        self._text = ""
        self._ascii = True
        self._from = self._to = 0
        """The window in the data."""
        self._place = self._byte = 0
        """Where the last value ended, in the window's text and in the data."""

    def after_white(self, at: int) -> int:
        if self._data[at : at + 1] not in (b" ", b"\t", b"\n", b"\r"):
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
            self._expect(at, b'"')
            key, at = self.decode(at)
            if key in members:
                raise ValueError("a key stands twice")
            at = self.after_white(at)
            self._expect(at, b":")
            at = self.after_white(at + 1)
            if data[at : at + 1] == b"[":
                members[key], at = self.array(at)
            elif data[at : at + 1] == b"{" and depth > 1:
                members[key], at = self.object(at, depth - 1)
            else:
                value, end = self.decode(at)
                members[key] = Element(data, at, end, self._known.add(data, at, end), value)
                at = end
            at = self.after_white(at)
            if data[at : at + 1] == b"}":
                return Sliced(members), at + 1
            self._expect(at, b",")
            at = self.after_white(at + 1)

    def array(self, at: int) -> tuple[Elements, int]:
        data = self._data
        parts: list[Element | Run] = []
        at = self.after_white(at + 1)
        while data[at : at + 1] != b"]" or parts:  # a comma may not be the last thing in it
            known, end = self._known.find(data, at)
            parts += known
            if not known:
                value, end = self.decode(at)
                parts.append(Element(data, at, end, self._known.add(data, at, end), value))
            at = self.after_white(end)
            if data[at : at + 1] == b"]":
                break
            self._expect(at, b",")
            at = self.after_white(at + 1)
        return Elements(self._known.with_runs(parts)), at + 1

    def _expect(self, at: int, character: bytes) -> None:
        if self._data[at : at + 1] != character:
            raise ValueError(f"{character.decode()} is missing")

    def decode(self, at: int) -> tuple[Any, int]:
        """The value at a byte, and the byte after it."""
        if not (self._byte <= at < self._to and at - self._byte <= SMALLEST):
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

    def _look_at(self, at: int, size: int) -> None:
        end = min(len(self._data), at + size)
        while end < len(self._data) and self._data[end] & 0xC0 == 0x80:
            end += 1
        window = self._data[at:end]
        self._ascii = window.isascii()
        self._text = window.decode("utf-8", "surrogatepass")
        self._from, self._to, self._place, self._byte = at, end, 0, at
