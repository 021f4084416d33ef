"""JSON values in the bytes of a body, and a memory of where such values ended before.

Where an element ended the last time is remembered under a hash of how it begins; if the bytes up to there have the hash
of a JSON value that was decoded once, they are that value, and need not be decoded again to know where the next one
begins. No text is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import xxhash

from memory.effort import Effort
from memory.json_text import decode_bytes
from memory.recent import Recent

SMALLEST = 48
"""Bytes from which an element is worth remembering."""
_BEGINNING = 96
"""Bytes that tell elements apart well enough: the head of a message with the id of a tool call in it. Of a shorter
element what comes next is among them, which seldom changes.
"""
MOST_ALIKE = 8
"""How many elements that begin alike are told apart."""
_RUN_LENGTH = 16
"""Elements in a run, on the average."""
_LONGEST_RUN = 64
_ITEM_BYTES = 200
"""What one remembered value takes, about."""

UNREAD: Any = object()
_COMMA = ord(",")
_digest = xxhash.xxh3_128_digest
"""128 bits of XXH3."""


class Element(NamedTuple):
    """A JSON value in a body. `digest` None: it is short and always decoded."""

    source: bytes
    start: int
    end: int
    digest: bytes | None
    decoded: Any

    @property
    def length(self) -> int:
        return 1

    def elements(self) -> tuple[Element]:
        return (self,)

    @property
    def value(self) -> Any:
        """Decoded now, if it was not before."""
        if self.decoded is not UNREAD:
            return self.decoded
        return decode_bytes(self.source[self.start : self.end])


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

    @property
    def length(self) -> int:
        return len(self.spans)

    @property
    def end(self) -> int:
        return self.start + self.spans[-1][1]

    def elements(self) -> Iterator[Element]:
        yield from self.decoded
        for start, end, digest in () if self.decoded else self.spans:
            yield Element(self.source, self.start + start, self.start + end, digest, UNREAD)


class KnownSpans:
    """Which bytes are a whole JSON value, or a run of them, and how long those with a given beginning were.

    Holds hashes only, made with `seed`, which is random for each process. Two threads may use it at once: what they can
    lose is decoded again.
    """

    def __init__(self, seed: int, most_bytes: int) -> None:
        self._seed = seed
        self._values = Recent[int, tuple[_KnownValue, ...]](most_bytes // 2)
        self._runs = Recent[int, tuple[_KnownRun, ...]](most_bytes // 2)

    def find(self, data: bytes, start: int, effort: Effort) -> tuple[list[Element | Run], int]:
        """What is known from `start` on, with a comma and nothing else between; and the end of the last of it.

        What comes after that end is not looked at: it decides whether all this is what it seems. `effort` is how many
        bytes may be hashed: thousands of short elements may begin as long ones did that are known.
        """
        runs_of, values_of, seed, last = self._runs.get, self._values.get, self._seed, len(data) - 1
        view = memoryview(data)
        found: list[Element | Run] = []
        at = end = start
        while True:
            beginning = hash(data[at : at + _BEGINNING])
            for length, digest, spans in runs_of(beginning) or ():
                if at + length <= last and effort.spend(length) and _digest(view[at : at + length], seed) == digest:
                    found.append(Run(data, at, digest, spans))
                    end = at + length
                    break
            else:
                for length, digest in values_of(beginning) or ():
                    if at + length <= last and effort.spend(length) and _digest(view[at : at + length], seed) == digest:
                        end = at + length
                        found.append(Element(data, at, end, digest, UNREAD))
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
        value = data[start:end]
        beginning = hash(data[start : start + _BEGINNING])
        new = _KnownValue(end - start, _digest(value, self._seed))
        known = self._values.get(beginning) or ()
        if new not in known:
            known = (new, *known[: MOST_ALIKE - 1])
            self._values.put(beginning, known, _ITEM_BYTES * len(known))
        return new.digest

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
            known = (_KnownRun(length, digest, spans), *known[: MOST_ALIKE - 1])
            self._runs.put(beginning, known, _ITEM_BYTES * sum(len(one.spans) for one in known))
        return Run(data, start, digest, spans, tuple(run))


class _KnownValue(NamedTuple):
    length: int
    digest: bytes


class _KnownRun(NamedTuple):
    length: int
    digest: bytes
    spans: tuple[tuple[int, int, bytes], ...]
