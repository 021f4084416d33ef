"""What was found in the strings of one body, added up: sightings, each with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from memory.exchange import MOST_EVIDENCE, Evidence, Grade, Sighting


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


class KnownNote(NamedTuple):
    """What a sighting says of a note itself."""

    note: str
    title: str
    distinctive: int
    """How many lines it has that are distinctive."""


class KnownNotes(Protocol):
    """What a tally asks of an index."""

    def known(self, place: int) -> KnownNote: ...


@dataclass(slots=True)
class _Noted:
    """What was found of one note. It belongs to the tally that made it, until that hands it on."""

    lines: set[int] = field(default_factory=set)
    content: list[Evidence] = field(default_factory=list)
    named: list[Evidence] = field(default_factory=list)
    sighting: Sighting | None = None
    """Made when it is asked for. It stays true once no tally owns this any more."""

    def copy(self) -> _Noted:
        return _Noted(set(self.lines), list(self.content), list(self.named))

    def add_all(self, other: _Noted) -> None:
        self.lines |= other.lines
        _keep(self.content, other.content)
        _keep(self.named, other.named)

    @property
    def nbytes(self) -> int:
        """Memory, about."""
        return 400 + 80 * len(self.lines) + 200 * (len(self.content) + len(self.named))


class Tallied(NamedTuple):
    """What a tally came to, to go on from: it does not change any more, and shares what it can with others."""

    noted: dict[int, _Noted]
    reasons: tuple[str, ...]
    nbytes: int
    """Memory that it takes alone, about."""


class Tally:
    """Adds up what the strings of one body hold: k of n with each line once, evidence per string.

    It may go on from what another one came to. `reasons` say what was not seen.
    """

    def __init__(self, index: KnownNotes, start: Tallied | None = None) -> None:
        self._index = index
        self._noted = dict(start.noted) if start else {}
        self._own: set[int] = set()
        """The notes of which what is noted belongs to this tally."""
        self.reasons = dict.fromkeys(start.reasons if start else ())

    def add(self, pointer: str, found: Found) -> None:
        for note, lines in found.content:
            noted = self._of(note)
            noted.lines.update(lines)
            if len(noted.content) < MOST_EVIDENCE:
                noted.content.append(Evidence(pointer, len(lines), "line" if lines else "quote"))
        for note, grade in found.mentions:
            named = self._of(note).named
            if len(named) < MOST_EVIDENCE:
                named.append(Evidence(pointer, 0, grade))

    def add_all(self, tallied: Tallied) -> None:
        self.reasons.update(dict.fromkeys(tallied.reasons))
        if not self._noted:
            self._noted = dict(tallied.noted)
            return
        for note, noted in tallied.noted.items():
            if note in self._noted:
                self._of(note).add_all(noted)
            else:
                self._noted[note] = noted

    def tallied(self) -> Tallied:
        """What was added up so far."""
        size = 100 + 100 * len(self._noted) + sum(self._noted[note].nbytes for note in self._own)
        self._own.clear()
        return Tallied(dict(self._noted), tuple(self.reasons), size)

    def sightings(self) -> tuple[Sighting, ...]:
        """By content first, then by reference, then those that a folder listing alone names; by id within each."""
        self._own.clear()
        by_content: list[Sighting] = []
        by_grade: dict[Grade, list[Sighting]] = {
            "line": by_content,
            "quote": by_content,
            "reference": [],
            "listing": [],
        }
        for place in sorted(self._noted):
            noted = self._noted[place]
            sighting = noted.sighting or self._sighting(place, noted)
            by_grade[sighting.grade].append(sighting)
        return (*by_content, *by_grade["reference"], *by_grade["listing"])

    def _of(self, note: int) -> _Noted:
        """What is noted of a note, to be changed."""
        if note in self._own:
            return self._noted[note]
        self._own.add(note)
        known = self._noted.get(note)
        noted = self._noted[note] = known.copy() if known else _Noted()
        return noted

    def _sighting(self, place: int, noted: _Noted) -> Sighting:
        grade: Grade = "line" if noted.lines else "quote"
        if not noted.content:
            grade = "reference" if any(one.grade == "reference" for one in noted.named) else "listing"
        note, title, distinctive = self._index.known(place)
        noted.sighting = Sighting(
            note=note,
            title=title,
            by="content" if noted.content else "reference",
            grade=grade,
            matched=len(noted.lines),
            distinctive=distinctive,
            evidence=tuple(noted.content or noted.named),
        )
        return noted.sighting


def _keep(evidence: list[Evidence], more: Sequence[Evidence]) -> None:
    if len(evidence) < MOST_EVIDENCE:
        evidence.extend(more[: MOST_EVIDENCE - len(evidence)])
