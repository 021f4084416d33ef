"""Looking for notes in the body of a request: every string in it, whatever the protocol.

A scan never raises. What could not be looked at is said in its state and reasons (docs/detection.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from memory.body import Body, read_body
from memory.cache import SHORTEST_STRING, ElementResult, Results, RunKey, RunResult, ScanCache
from memory.exchange import Scan
from memory.index import NoteIndex
from memory.mentions import Effort
from memory.pieces import PIECE
from memory.slices import Element, Elements, Sliced
from memory.tally import NOTHING, Found, Tally
from memory.walk import BLOB_LENGTH, SHORTEST_BLOB, Strings, blob_reason, key_pointer, strings_of

NAMES = "too many names"

_STRING_COSTS = 64
"""Characters that looking at one more string costs as much as."""


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
    in_texts: dict[int, Found] | None = None
    in_holding: dict[int, Found] | None = None
    """`id` of a string -> what is in it, as it is in `strings`."""

    def put(self, text: str, found: Found, *, holds_json: bool) -> None:
        if holds_json:
            self.in_holding = self.in_holding or {}
            self.in_holding[id(text)] = found
        else:
            self.in_texts = self.in_texts or {}
            self.in_texts[id(text)] = found


def _scan_body(index: NoteIndex, body: Body, results: Results | None) -> Scan:
    if not body.readable:
        return Scan("unscanned", body.reasons)
    work = _Work(index, results)
    if isinstance(body.value, Sliced):
        work.add_members("", body.value)
    else:
        work.add("", body.value)
    reasons = dict.fromkeys(body.reasons)
    tally = Tally(index)
    for result in work.finish():
        reasons.update(dict.fromkeys(result.reasons))
        tally.add_all(result.tallied)
    return Scan("partial" if reasons else "complete", tuple(reasons), tally.sightings())


class _Run(NamedTuple):
    """A run whose elements are looked at; key None: elements that are no run."""

    key: RunKey | None
    parts: list[_Part]


class _Work:
    """The parts of one body. Strings are looked at many at a time, which costs far less than one by one."""

    def __init__(self, index: NoteIndex, results: Results | None) -> None:
        self._index = index
        self._results = results
        self._runs: list[_Run | RunResult] = [_Run(None, [])]
        self._effort = Effort()
        self._begin()

    def _begin(self) -> None:
        self._texts: list[str] = []
        """Strings that are waiting to be looked at together, each of a part."""
        self._part_of: list[_Part] = []
        self._nameless: set[int] = set()
        """The numbers of those that hold JSON: names and quotes are found in what they hold."""
        self._keys: dict[int, bytes] = {}
        """What some of them will be remembered by."""
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
        number = 0
        for part in elements.parts:
            if isinstance(part, Element):
                self.add_element(f"{where}/{number}", part)
                number += 1
                continue
            key = RunKey(part.digest, where, number)
            known = self._results.runs.get(key) if self._results else None
            if known:
                self._runs.append(known)
            else:
                self._runs.append(_Run(key, []))
                for element in part.elements():
                    self.add_element(f"{where}/{number}", element)
                    number += 1
            number = key.first + len(part.spans)
            self._runs.append(_Run(None, []))

    def add_element(self, where: str, element: Element) -> None:
        if element.digest and self._results and (known := self._results.elements.get(element.digest)):
            if known.found or known.reasons:
                self._add_part(_Part(where, known))
        else:
            self.add(where, element.value, element.digest)

    def add(self, where: str, value: Any, digest: bytes | None = None) -> None:
        result = ElementResult([], {})
        strings = strings_of(value, result.reasons)
        part = _Part(where, result, digest, strings)
        self._add_part(part)
        self._look_for(part, strings.texts, holds_json=False)
        self._look_for(part, strings.holding, holds_json=True)
        self._whole.append(part)

    def finish(self) -> Iterator[RunResult]:
        """All that is in the body, in its order."""
        self._look()
        for run in self._runs:
            if isinstance(run, RunResult):
                yield run
                continue
            tally = Tally(self._index)
            reasons: dict[str, None] = {}
            for part in run.parts:
                reasons.update(part.result.reasons)
                for inside, found in part.result.found:
                    tally.add(part.pointer + inside, found)
            result = RunResult(tally.tallied(), tuple(reasons))
            if self._results and run.key and not self._effort.is_spent:
                self._results.runs.put(run.key, result, result.tallied.nbytes)
            yield result
        if self._effort.is_spent:
            yield RunResult(Tally(self._index).tallied(), (NAMES,))

    def _add_part(self, part: _Part) -> None:
        run = self._runs[-1]
        assert isinstance(run, _Run)
        run.parts.append(part)

    def _look_for(self, part: _Part, texts: Sequence[str], *, holds_json: bool) -> None:
        options, results = self._index.options, self._results
        shortest, quotes = options.minimum_line_length, options.quotes
        for text in texts:
            length = len(text)
            if length < shortest and "." not in text and "[[" not in text and (not quotes or text.isascii()):
                continue  # no line, no name, and no quote: that few letters make one only where they are wide
            if length >= SHORTEST_BLOB and (reason := blob_reason(text)):
                part.result.reasons[reason] = None
                if length >= BLOB_LENGTH:
                    continue
            if results and length >= SHORTEST_STRING:
                key = results.key(text, names=not holds_json)
                if found := results.strings.get(key):
                    if found is not NOTHING:
                        part.put(text, found, holds_json=holds_json)
                    continue
                self._keys[len(self._texts)] = key
            if holds_json:
                self._nameless.add(len(self._texts))
            self._texts.append(text)
            self._part_of.append(part)
            self._size += _STRING_COSTS + length
            if self._size >= PIECE:
                self._look()

    def _look(self) -> None:
        """Look at the strings that are waiting, and close the parts that are whole."""
        texts, nameless = self._texts, self._nameless
        found = self._index.find_all(texts, nameless, self._effort)
        for number, there in found.items():
            self._part_of[number].put(texts[number], there, holds_json=number in nameless)
        remember = None if self._effort.is_spent else self._results
        if remember:
            for number, key in self._keys.items():
                there = found.get(number, NOTHING)
                remember.strings.put(key, there, there.nbytes)
        for part in self._whole:
            if part.strings and (part.in_texts or part.in_holding):
                part.result.found.extend(part.strings.places(part.in_texts or {}, part.in_holding or {}))
            if remember and part.digest:
                remember.elements.put(part.digest, part.result, part.result.nbytes)
            part.strings = None  # the decoded text has been used
        self._begin()
