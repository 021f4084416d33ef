"""Looking for notes in the body of a request: every string in it, whatever the protocol.

A scan never raises. What could not be looked at is said in its state and reasons (docs/detection.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.body import Body, read_body
from memory.cache import SHORTEST_STRING, ElementResult, Results, ScanCache
from memory.effort import Effort
from memory.exchange import Scan
from memory.index import NoteIndex
from memory.pieces import PIECE, Joined
from memory.slices import Elements, Sliced
from memory.spans import Element, Run
from memory.strings import Strings, Together, Wanted, places_in, strings_in, strings_of_value
from memory.tally import NOTHING, Found, Tallied, Tally
from memory.walk import key_pointer, may_tell

NAMES = "too many names"

_STRING_COSTS = 64
"""Bytes that looking at one more string costs as much as."""
_NOTHING_BYTES = NOTHING.nbytes
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
    found: dict[int, Found] = field(default_factory=dict)
    """What is in its strings, by their numbers."""


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


class _Work:
    """The parts of one body. Strings are looked at many at a time, which costs far less than one by one."""

    def __init__(self, index: NoteIndex, results: Results | None) -> None:
        self._index = index
        self._results = results
        options = index.options
        # With few letters there is no quote, unless they are wide.
        self._wanted = Wanted(options.minimum_line_length, options.quotes)
        self._dull: set[str] = set()
        self._segments = [_Segment()]
        self._effort = Effort()
        self._elements: list[tuple[_Part, Element]] = []
        self._decoded: list[tuple[_Part, Strings]] = []
        """What is looked at together: parts, and what they are or what is in them."""
        self._size = 0

    def add_members(self, where: str, sliced: Sliced) -> None:
        for key, member in sliced.members.items():
            inside = where + key_pointer(key)
            if len(key) >= self._wanted.shortest or may_tell(key, wide=self._wanted.wide):
                self.add(where, {key: None})
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
            return
        self._elements.append((self._part(where, element.digest), element))
        self._grow(element.end - element.start)

    def add(self, where: str, value: Any) -> None:
        strings = strings_of_value(value, self._wanted, self._dull)
        self._decoded.append((self._part(where), strings))
        self._grow(_STRING_COSTS * len(strings.rows) + len(strings.text))

    def _part(self, where: str, digest: bytes | None = None) -> _Part:
        part = _Part(where, ElementResult([], {}), digest)
        self._segments[-1].parts.append(part)
        return part

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size >= PIECE:
            self._look()

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

    def _look(self) -> None:
        """Look at the parts that are waiting, and close them."""
        if not (self._elements or self._decoded):
            return
        elements, self._elements = self._elements, []
        decoded, self._decoded = self._decoded, []
        self._size = 0
        parts = [part for part, _ in (*elements, *decoded)]
        together, of_decoded = self._together(parts, [element for _, element in elements], [one for _, one in decoded])
        new: list[tuple[_Part, int, bytes]] = []
        if self._results:
            together = self._not_known(parts, together, self._results, new)
        if len(together.rows):
            self._find(parts, together)
        remember = None if self._effort.is_spent else self._results
        if remember:
            for part, number, key in new:
                found = part.found.get(number, NOTHING)
                remember.strings.put(key, found, found.nbytes if found is not NOTHING else _NOTHING_BYTES)
        for number, part in enumerate(parts):
            if part.found:
                there = sorted(part.found)
                if number in of_decoded:
                    places = of_decoded[number].places(there)
                else:
                    places = places_in(elements[number][1], self._wanted, there)
                part.result.found.extend([(pointer, part.found[one]) for pointer, one in places])
            if remember and part.digest:
                remember.elements.put(part.digest, part.result, part.result.nbytes)

    def _together(
        self, parts: Sequence[_Part], elements: Sequence[Element], decoded: Sequence[Strings]
    ) -> tuple[Together, dict[int, Strings]]:
        """The strings of parts, `elements` first, and by the numbers of the parts those of decoded values."""
        taken = strings_in(elements, self._wanted)
        of_decoded = {
            number: strings_of_value(elements[number].value, self._wanted, self._dull) for number in taken.unread
        }
        of_decoded.update(enumerate(decoded, len(elements)))
        for number, strings in of_decoded.items():
            parts[number].result.reasons.update(dict.fromkeys(strings.reasons))
        for number, reason in taken.reasons:
            parts[number].result.reasons[reason] = None
        return Together.joined((taken.strings, Together.of(of_decoded.items()))), of_decoded

    def _not_known(
        self, parts: Sequence[_Part], together: Together, results: Results, new: list[tuple[_Part, int, bytes]]
    ) -> Together:
        """The strings that are to be looked at. `new` gets part, number and key of those that are worth remembering."""
        known: list[int] = []
        text = memoryview(together.text)
        long = (together.rows[:, 1] - together.rows[:, 0] >= SHORTEST_STRING).nonzero()[0]
        of_parts = together.values[long].tolist()
        key_of, strings = results.key, results.strings
        for row, value, (begin, end, number, holds_json) in zip(
            long.tolist(), of_parts, together.rows[long].tolist(), strict=True
        ):
            key = key_of(text[begin:end], names=not holds_json)
            found = strings.get(key)
            if found is None:
                new.append((parts[value], number, key))
                continue
            known.append(row)
            if found is not NOTHING:
                parts[value].found[number] = found
        return together.without(known) if known else together

    def _find(self, parts: Sequence[_Part], together: Together) -> None:
        """Look for notes in strings. Names and quotes are found in what JSON holds, and not in the JSON."""
        rows = together.rows
        found = self._index.find_all(Joined(together.text, rows[:, 0]), rows[:, 3] != 0, self._effort)
        there = list(found)
        numbers = rows[there, 2].tolist()
        for value, number, one in zip(together.values[there].tolist(), numbers, found.values(), strict=True):
            parts[value].found[number] = one


def _add_up(parts: Sequence[_Part], tally: Tally) -> None:
    for part in parts:
        tally.reasons.update(part.result.reasons)
        for inside, found in part.result.found:
            tally.add(part.pointer + inside, found)
