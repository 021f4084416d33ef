"""What was found in the strings of one body, added up: sightings, each with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from memory.exchange import MOST_EVIDENCE, Evidence, Grade, Sighting
from memory.prints import LineFacts


class FoundContent(NamedTuple):
    """A note (by its place in the index) and the fingerprints of its distinctive lines that are there; none: a quote."""

    note: int
    lines: frozenset[int]


class FoundMention(NamedTuple):
    note: int
    grade: Grade


class Found(NamedTuple):
    """What is in one text."""

    content: tuple[FoundContent, ...]
    mentions: tuple[FoundMention, ...]

    @property
    def nbytes(self) -> int:
        """Memory, about."""
        return 100 + sum(400 + 80 * len(one.lines) for one in self.content) + 100 * len(self.mentions)


NOTHING = Found((), ())


class Tallied(NamedTuple):
    """What a part of a body holds: notes with their lines and evidence, and notes that are named in it."""

    content: tuple[tuple[int, frozenset[int], tuple[Evidence, ...]], ...]
    named: tuple[tuple[int, tuple[Evidence, ...]], ...]

    @property
    def nbytes(self) -> int:
        """Memory, about."""
        of_content = sum(400 + 80 * len(lines) + 200 * len(evidence) for _, lines, evidence in self.content)
        return 100 + of_content + sum(150 + 200 * len(evidence) for _, evidence in self.named)


class KnownNotes(Protocol):
    """What a tally asks of an index: `notes` is id -> title."""

    @property
    def notes(self) -> Mapping[str, str]: ...
    def note_at(self, place: int) -> str: ...
    def facts(self, note: str) -> LineFacts: ...


class Tally:
    """Adds up what the strings of one body hold: k of n with each line once, evidence per string."""

    def __init__(self, index: KnownNotes) -> None:
        self._index = index
        self._lines: dict[int, set[int]] = {}
        self._content: dict[int, list[Evidence]] = {}
        self._named: dict[int, list[Evidence]] = {}

    def add(self, pointer: str, found: Found) -> None:
        for note, lines in found.content:
            self._lines.setdefault(note, set()).update(lines)
            _keep(self._content.setdefault(note, []), Evidence(pointer, len(lines), "line" if lines else "quote"))
        for note, grade in found.mentions:
            _keep(self._named.setdefault(note, []), Evidence(pointer, 0, grade))

    def add_all(self, tallied: Tallied) -> None:
        for note, lines, evidence in tallied.content:
            self._lines.setdefault(note, set()).update(lines)
            _keep(self._content.setdefault(note, []), *evidence)
        for note, evidence in tallied.named:
            _keep(self._named.setdefault(note, []), *evidence)

    def tallied(self) -> Tallied:
        """What was added up so far, to be added as a whole."""
        return Tallied(
            tuple([(note, frozenset(self._lines[note]), tuple(there)) for note, there in self._content.items()]),
            tuple([(note, tuple(there)) for note, there in self._named.items()]),
        )

    def sightings(self) -> tuple[Sighting, ...]:
        """By content first, then by reference, then those that a folder listing alone names; by id within each."""
        sightings = [
            self._sighting(note, "line" if self._lines[note] else "quote", evidence)
            for note, evidence in sorted(self._content.items())
        ]
        named = sorted(item for item in self._named.items() if item[0] not in self._content)
        for grade in ("reference", "listing"):
            sightings += [
                self._sighting(note, grade, evidence)
                for note, evidence in named
                if grade == ("reference" if any(one.grade == "reference" for one in evidence) else "listing")
            ]
        return tuple(sightings)

    def _sighting(self, place: int, grade: Grade, evidence: list[Evidence]) -> Sighting:
        note = self._index.note_at(place)
        return Sighting(
            note=note,
            title=self._index.notes[note],
            by="content" if grade in {"line", "quote"} else "reference",
            grade=grade,
            matched=len(self._lines.get(place, ())),
            distinctive=self._index.facts(note).distinctive,
            evidence=tuple(evidence),
        )


def _keep(evidence: list[Evidence], *more: Evidence) -> None:
    if len(evidence) < MOST_EVIDENCE:
        evidence.extend(more[: MOST_EVIDENCE - len(evidence)])
