"""Looking for notes in the body of a request: every string in it, whatever the protocol.

A scan never raises. What could not be looked at is said in its state and reasons (docs/detection.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from memory.blobs import SHORTEST_BLOB, beside_blobs
from memory.body import Body, read_body
from memory.cache import SHORTEST_STRING, ElementResult, Results, ScanCache
from memory.effort import Effort
from memory.exchange import Scan
from memory.index import NoteIndex
from memory.pieces import PIECE
from memory.slices import Elements, Sliced
from memory.spans import Element, Run
from memory.tally import NOTHING, Found, Tallied, Tally
from memory.walk import Strings, key_pointer, strings_of

NAMES = "too many names"

_STRING_COSTS = 64
"""Bytes that looking at one more string costs as much as."""
_MARKS = 2
"""Places in an array up to which it is remembered as a whole: the last may be what changes in the next request."""


class Scanner:
    """Reads bodies and scans them, and remembers in `cache` what it need not do twice.

    It may be used by several threads at once.
    """

    def __init__(self, cache: ScanCache | None = None) -> None:
        self.cache = cache or ScanCache()

    def read(self, data: bytes, content_type: str = "application/json") -> Body:
        """`read_body`, but an element that was in an earlier body is not decoded before it is asked for."""
        return read_body(data, content_type, self.cache.known)

    def scan(self, index: NoteIndex, body: Body) -> Scan:
        """The notes in a body, and how much of it could be looked at."""
        return _scan_body(index, body, self.cache.results(index.generation))


def scan_body(index: NoteIndex, body: Body) -> Scan:
    """Scan one body; nothing is remembered."""
    return _scan_body(index, body, None)


def scan_value(index: NoteIndex, value: Any) -> Scan:
    """Scan JSON that is already decoded: dicts, lists, strings, numbers, booleans, None."""
    return _scan_body(index, Body(value), None)


@dataclass(slots=True)
class _Part:
    """One element of a body, with what is found in it: as it was remembered, or as it comes in."""

    pointer: str
    result: ElementResult
    digest: bytes | None = None
    strings: Strings | None = None
    found: tuple[dict[int, Found], dict[int, Found]] | None = None
    """What is in its strings, and in those that hold JSON, by their `id`. None: nothing so far."""

    def put(self, string: int, found: Found, *, holds_json: bool) -> None:
        self.found = self.found or ({}, {})
        self.found[holds_json][string] = found


@dataclass(slots=True)
class _Segment:
    """Parts of a body that are added up together, after what is known of those before them.

    `marks`: after so many of the parts, what they came to is remembered by a key.
    """

    start: Tallied | None = None
    parts: list[_Part] = field(default_factory=list)
    marks: list[tuple[int, bytes]] = field(default_factory=list)


def _scan_body(index: NoteIndex, body: Body, results: Results | None) -> Scan:
    if not body.readable:
        return Scan("unscanned", body.reasons)
    work = _Work(index, results)
    if isinstance(body.value, Sliced):
        work.add_members("", body.value)
    else:
        work.add("", body.value)
    tally = work.finish()
    reasons = tuple(dict.fromkeys((*body.reasons, *tally.reasons)))
    return Scan("partial" if reasons else "complete", reasons, tally.sightings())


class _Waiting(NamedTuple):
    """A string that is looked at together with others: of what part, its `id`, what it will be remembered by."""

    part: _Part
    string: int
    holds_json: bool
    key: bytes | None


class _Work:
    """The parts of one body. Strings are looked at many at a time, which costs far less than one by one."""

    def __init__(self, index: NoteIndex, results: Results | None) -> None:
        self._index = index
        self._results = results
        options = index.options
        self._shortest = options.minimum_line_length
        # With few letters there is no quote, unless they are wide.
        self._wide = options.quotes
        self._dull: set[str] = set()
        self._segments = [_Segment()]
        self._effort = Effort()
        self._begin()

    def _begin(self) -> None:
        self._waiting: list[_Waiting] = []
        self._texts: list[str] = []
        self._encoded: list[bytes] = []
        self._whole: list[_Part] = []
        """Parts of which every string is waiting or has been looked at."""
        self._size = 0

    def add_members(self, where: str, sliced: Sliced) -> None:
        for key, member in sliced.members.items():
            inside = where + key_pointer(key)
            self.add(inside, key)
            if isinstance(member, Elements):
                self.add_elements(inside, member)
            elif isinstance(member, Sliced):
                self.add_members(inside, member)
            else:
                self.add_element(inside, member)

    def add_elements(self, where: str, elements: Elements) -> None:
        parts = elements.parts
        segment = _Segment()
        self._segments.append(segment)
        marks: dict[int, bytes] = {}
        after = number = 0
        if self._results:
            keys = list(self._results.prefix_keys(where, parts))
            ends = [place for place, part in enumerate(parts) if isinstance(part, Run)]
            marks = {place: keys[place] for place in ends[-_MARKS:]}
            for place in reversed(ends):
                if known := self._results.prefixes.get(keys[place]):
                    segment.start = known
                    after = place + 1
                    number = sum(part.length for part in parts[:after])
                    break
        for place, part in enumerate(parts[after:], after):
            for element in part.elements():
                self.add_element(f"{where}/{number}", element)
                number += 1
            if place in marks:
                segment.marks.append((len(segment.parts), marks[place]))
        self._segments.append(_Segment())

    def add_element(self, where: str, element: Element) -> None:
        if element.digest and self._results and (known := self._results.elements.get(element.digest)):
            if known.found or known.reasons:
                self._segments[-1].parts.append(_Part(where, known))
        else:
            self.add(where, element.value, element.digest)

    def add(self, where: str, value: Any, digest: bytes | None = None) -> None:
        result = ElementResult([], {})
        strings = strings_of(value, result.reasons, shortest=self._shortest, wide=self._wide, dull=self._dull)
        part = _Part(where, result, digest, strings)
        self._segments[-1].parts.append(part)
        self._look_for(part, strings.texts, holds_json=False)
        if strings.holding:
            self._look_for(part, strings.holding, holds_json=True)
        self._whole.append(part)

    def finish(self) -> Tally:
        """All that is in the body, in its order."""
        self._look()
        whole = Tally(self._index)
        for segment in self._segments:
            if not (segment.start or segment.marks):
                _add_up(segment.parts, whole)
                continue
            tally = Tally(self._index, segment.start)
            done = 0
            for count, key in segment.marks:
                _add_up(segment.parts[done:count], tally)
                done = count
                if self._results and not self._effort.is_spent:
                    tallied = tally.tallied()
                    self._results.prefixes.put(key, tallied, tallied.nbytes)
            _add_up(segment.parts[done:], tally)
            whole.add_all(tally.tallied())
        if self._effort.is_spent:
            whole.reasons[NAMES] = None
        return whole

    def _look_for(self, part: _Part, texts: Sequence[str], *, holds_json: bool) -> None:
        results = self._results
        for text in texts:
            shown = text
            if len(text) >= SHORTEST_BLOB:
                shown, reason = beside_blobs(text)
                if reason:
                    part.result.reasons[reason] = None
            encoded = shown.encode("utf-8", "surrogatepass")
            key = None
            if results and len(encoded) >= SHORTEST_STRING:
                key = results.key(encoded, names=not holds_json)
                if found := results.strings.get(key):
                    if found is not NOTHING:
                        part.put(id(text), found, holds_json=holds_json)
                    continue
            self._waiting.append(_Waiting(part, id(text), holds_json, key))
            self._texts.append(shown)
            self._encoded.append(encoded)
            self._size += _STRING_COSTS + len(encoded)
            if self._size >= PIECE:
                self._look()

    def _look(self) -> None:
        """Look at the strings that are waiting, and close the parts that are whole."""
        remember = self._results
        if self._waiting:
            # Names and quotes are found in what JSON holds, and not in the JSON.
            nameless = {number for number, waiting in enumerate(self._waiting) if waiting.holds_json}
            found = self._index.find_all(self._texts, nameless, self._effort, self._encoded)
            remember = None if self._effort.is_spent else remember
            for number, (part, string, holds_json, key) in enumerate(self._waiting):
                there = found.get(number)
                if there:
                    part.put(string, there, holds_json=holds_json)
                if key and remember:
                    there = there or NOTHING
                    remember.strings.put(key, there, there.nbytes)
        for part in self._whole:
            if part.strings and part.found:
                part.result.found.extend(part.strings.places(*part.found))
            if remember and part.digest:
                remember.elements.put(part.digest, part.result, part.result.nbytes)
            part.strings = None  # the decoded text has been used
        self._begin()


def _add_up(parts: Sequence[_Part], tally: Tally) -> None:
    for part in parts:
        tally.reasons.update(part.result.reasons)
        for inside, found in part.result.found:
            tally.add(part.pointer + inside, found)
