"""The immutable index that finds notes again in a text. It holds fingerprints and names, never a note's text.

A rescan builds a new index and swaps it in with one assignment; who holds the old one may finish with it. The rules
are those of `docs/detection.md`.
"""

from __future__ import annotations

import re
import secrets
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from memory.exchange import MOST_EVIDENCE, Evidence, Grade, Sighting
from memory.lines import CAN_BEGIN_A_PREFIX, canonical_line, fingerprint, has_path_prefix, without_prefix
from memory.mentions import MentionFinder, NamedNote
from memory.notes import Note

type Mentions = Literal["careful", "seed"]

MOST_NOTES_WITH_A_LINE = 3
"""A line that is in more notes than this says nothing about any of them."""
MINIMUM_LINE_LENGTH = 24
SHORTEST_MINIMUM = 8

_MAY_NAME = re.compile(r"\[\[|\.[A-Za-z]")


class LineFacts(NamedTuple):
    """How recognisable a note is: its lines that are not blank, and its distinctive ones (each counted once).

    Without a distinctive line a note can only be found by a mention.
    """

    lines: int
    distinctive: int


@dataclass(frozen=True, slots=True)
class NotePrint:
    """What an index needs of one note, made without any other note, so that an unchanged note's can be kept.

    Made with one seed and one minimum length; only prints of the same seed go together.
    """

    note: str
    source: str
    path: str
    title: str
    aliases: tuple[str, ...]
    lines: int
    """Lines that are not blank."""
    long: array[int]
    """Fingerprints of its lines that are long enough, each once."""
    naming: array[int]
    """Fingerprints of its lines, short ones too, that may name a note."""

    @classmethod
    def of(cls, note: Note, *, seed: int, minimum_line_length: int) -> NotePrint:
        long: dict[int, None] = {}
        naming: dict[int, None] = {}
        lines = 0
        for line in note.text.split("\n"):
            canonical = canonical_line(line)
            if not canonical:
                continue
            lines += 1
            is_long, may_name = len(canonical) >= minimum_line_length, _MAY_NAME.search(canonical) is not None
            if is_long or may_name:
                key = fingerprint(canonical, seed)
                if is_long:
                    long[key] = None
                if may_name:
                    naming[key] = None
        return cls(
            note=note.id,
            source=note.source,
            path=note.path,
            title=note.title,
            aliases=note.aliases,
            lines=lines,
            long=array("Q", long),
            naming=array("Q", naming),
        )


class FoundMention(NamedTuple):
    note: int
    grade: Grade


class Found(NamedTuple):
    """What is in one text. `lines`: fingerprint -> the notes that have that line; notes by their place in the index."""

    lines: Mapping[int, tuple[int, ...]]
    mentions: tuple[FoundMention, ...]


class NoteIndex:
    """Notes by the lines that only they have, and by their names. Immutable; made by `build`."""

    def __init__(
        self,
        prints: Iterable[NotePrint],
        *,
        seed: int,
        roots: Mapping[str, str],
        minimum_line_length: int,
        mentions: Mentions,
        fold_paths: bool,
    ) -> None:
        known = sorted(prints, key=lambda one: one.note)
        self._seed = seed
        self._minimum = minimum_line_length
        self._careful = mentions == "careful"
        self._ids = tuple(one.note for one in known)
        self.notes: Mapping[str, str] = MappingProxyType({one.note: one.title for one in known})
        """Note id -> title."""
        named = [
            NamedNote(one.path, one.title, one.aliases, roots.get(one.source), _identity(one, roots)) for one in known
        ]
        self._mentions = MentionFinder(named, careful=self._careful, fold_paths=fold_paths)

        notes_with: dict[int, tuple[int, ...]] = {}
        for place, one in enumerate(known):
            for key in one.long:
                notes_with[key] = (*notes_with.get(key, ()), place)
        self._owners = {
            key: places
            for key, places in notes_with.items()
            if len(places) <= MOST_NOTES_WITH_A_LINE
            or len({named[place].identity for place in places}) <= MOST_NOTES_WITH_A_LINE
        }
        self._naming: dict[int, tuple[int, ...]] = {}
        for place, one in enumerate(known):
            for key in one.naming:
                if key not in self._owners:
                    self._naming[key] = (*self._naming.get(key, ()), place)
        self._facts = {
            one.note: LineFacts(one.lines, sum(1 for key in one.long if key in self._owners)) for one in known
        }

    @classmethod
    def build(
        cls,
        notes: Iterable[Note],
        *,
        roots: Mapping[str, str] | None = None,
        minimum_line_length: int = MINIMUM_LINE_LENGTH,
        mentions: Mentions = "careful",
        fold_paths: bool = False,
    ) -> NoteIndex:
        """An index of `notes`, in any order; their text is read once and not kept.

        `roots` names the absolute folder of each source that has one: absolute paths below it are then mentions, and
        a file that two sources reach is one note. `fold_paths` is for file systems that do not tell `A.md` from
        `a.md`. `minimum_line_length` is in characters (code points) and at least 8; less raises ValueError.
        """
        if minimum_line_length < SHORTEST_MINIMUM:
            raise ValueError(f"minimum_line_length is {minimum_line_length}; it must be at least {SHORTEST_MINIMUM}")
        seed = secrets.randbits(32)
        return cls(
            (NotePrint.of(note, seed=seed, minimum_line_length=minimum_line_length) for note in notes),
            seed=seed,
            roots=roots or {},
            minimum_line_length=minimum_line_length,
            mentions=mentions,
            fold_paths=fold_paths,
        )

    def facts(self, note: str) -> LineFacts:
        """KeyError: no note has this id."""
        return self._facts[note]

    def match(self, text: str) -> tuple[Sighting, ...]:
        """The notes in one text. Their evidence points at the whole of it (the empty pointer)."""
        tally = Tally(self)
        tally.add("", self.find(text))
        return tally.sightings()

    def find(self, text: str, *, names: bool = True) -> Found:
        """Lines and mentions in one text, by place: what a scan adds up over the strings of a body."""
        if len(text) < self._minimum and "." not in text and "[[" not in text:
            return _NOTHING
        lines = text.split("\n")
        rows = self._lines_in(text, lines) if len(text) >= self._minimum else {}
        found = {key: self._owners[key] for key in rows.values()}
        mentions = self._mentions.find(text, lines) if names else []
        if not mentions:
            return Found(found, ()) if found else _NOTHING
        content = {note for notes in found.values() for note in notes}
        grades: dict[FoundMention, None] = {}
        for row, note, listed in mentions:
            if self._careful and content and self._is_of(content, rows.get(row), lines[row]):
                continue
            grades[FoundMention(note, "listing" if listed else "reference")] = None
        return Found(found, tuple(grades))

    def note_at(self, place: int) -> str:
        return self._ids[place]

    def _lines_in(self, text: str, lines: list[str]) -> dict[int, int]:
        """Row -> fingerprint of each row that is a distinctive line of a note."""
        seed, minimum, owners = self._seed, self._minimum, self._owners
        path_prefix = has_path_prefix(text)
        found: dict[int, int] = {}
        for row, line in enumerate(lines):
            if len(line) < minimum:
                continue
            canonical = canonical_line(line)
            if len(canonical) < minimum:
                continue
            key = fingerprint(canonical, seed)
            if key in owners:
                found[row] = key
                continue
            if not (path_prefix or canonical[0] in CAN_BEGIN_A_PREFIX):
                continue
            for rest in without_prefix(line, first=canonical[0], path_prefix=path_prefix):
                if (key := fingerprint(rest, seed)) in owners:
                    found[row] = key
                    break
        return found

    def _is_of(self, content: set[int], key: int | None, line: str) -> bool:
        """Whether a line that names a note is itself a line of a note that this text holds."""
        if key is not None:
            return True
        canonical = canonical_line(line)
        forms = (canonical, *without_prefix(line, first=canonical[:1]))
        return any(not content.isdisjoint(self._naming.get(fingerprint(form, self._seed), ())) for form in forms)


class Tally:
    """Adds up what the strings of one body hold: k of n with each line once, evidence per string."""

    def __init__(self, index: NoteIndex) -> None:
        self._index = index
        self._lines: dict[int, set[int]] = {}
        self._content: dict[int, list[Evidence]] = {}
        self._named: dict[int, list[Evidence]] = {}

    def add(self, pointer: str, found: Found) -> None:
        counts: dict[int, int] = {}
        for key, notes in found.lines.items():
            for note in notes:
                self._lines.setdefault(note, set()).add(key)
                counts[note] = counts.get(note, 0) + 1
        for note, count in counts.items():
            _keep(self._content.setdefault(note, []), Evidence(pointer, count, "line"))
        for note, grade in found.mentions:
            _keep(self._named.setdefault(note, []), Evidence(pointer, 0, grade))

    def sightings(self) -> tuple[Sighting, ...]:
        """By content first, then by reference, then those that a folder listing alone names; by id within each."""
        sightings = [self._sighting(note, "line", evidence) for note, evidence in sorted(self._content.items())]
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
            by="content" if grade == "line" else "reference",
            grade=grade,
            matched=len(self._lines.get(place, ())),
            distinctive=self._index.facts(note).distinctive,
            evidence=tuple(evidence),
        )


_NOTHING = Found(MappingProxyType({}), ())


def _keep(evidence: list[Evidence], one: Evidence) -> None:
    if len(evidence) < MOST_EVIDENCE:
        evidence.append(one)


def _identity(one: NotePrint, roots: Mapping[str, str]) -> str:
    """The file a note was read from, where its source has a folder; else the note itself."""
    root = roots.get(one.source)
    return one.note if root is None else f"{root.replace('\\', '/').rstrip('/')}/{one.path}"
