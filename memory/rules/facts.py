"""What rules may ask of a note: where it is, its tags, and what its own frontmatter says of sharing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from memory.notes import Note, Share


@dataclass(frozen=True, slots=True)
class NoteFacts:
    """One note as rules see it; the names are those of `Note`."""

    id: str
    source: str
    folder: str
    tags: tuple[str, ...] = ()
    share: Share | None = None

    def __hash__(self) -> int:
        return hash(self.id)  # asked for with each sighting


class Facts(Protocol):
    """The notes at one moment. It must be that of the scan, or rules would judge other notes than were seen."""

    @property
    def any_share(self) -> bool:
        """Whether any note says in its frontmatter how it may be shared."""

    def of(self, note_id: str) -> NoteFacts:
        """KeyError: no note has this id."""


class NotesFacts:
    """The facts of the notes of one `NoteMap` (`NoteMap.notes`), made when they are first asked for."""

    def __init__(self, notes: Mapping[str, Note]) -> None:
        self._notes = notes
        self._facts: dict[str, NoteFacts] = {}

    @cached_property
    def any_share(self) -> bool:
        return any(note.share for note in self._notes.values())

    def of(self, note_id: str) -> NoteFacts:
        facts = self._facts.get(note_id)
        if facts is None:
            facts = self._facts[note_id] = facts_of(self._notes[note_id])
        return facts


def facts_of(note: Note) -> NoteFacts:
    return NoteFacts(note.id, note.source, note.folder, note.tags, note.share)


def facts_of_id(note_id: str) -> NoteFacts:
    """What the id alone says of a note that is gone: no source has a slash in its name."""
    return NoteFacts(note_id, note_id.partition("/")[0], note_id.rpartition("/")[0])
