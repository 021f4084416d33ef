"""The graph of notes and links, and what a person looks for on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import networkx as nx

from memory.links import LinkResolver, is_attachment
from memory.notes import Note

MOST_FOR_COMMUNITIES = 5_000
"""Notes. For more than this, communities are found only on request: they take networkx minutes at 50,000."""

type Detectable = Literal["text", "mention"]


class LineFacts(Protocol):
    """How many lines of a note count, and how many of them are distinctive (detection.md)."""

    @property
    def lines(self) -> int: ...

    @property
    def distinctive(self) -> int: ...


@dataclass(frozen=True, slots=True)
class NoteDetails:
    """One note as its panel shows it. Ids of notes, and names as they stand in its links; no text."""

    lines: int
    distinctive_lines: int
    detectable: Detectable
    links: tuple[str, ...]
    backlinks: tuple[str, ...]
    unresolved: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Resolved:
    """The links of one note: ids of other notes, and names that no note has, each once."""

    links: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()


class NoteMap:
    """The notes as nodes and their links as edges of `graph`, a `networkx.DiGraph` over note ids. Immutable.

    A node carries `source, title, path, folder, tags, aliases, size` (bytes), `lines, distinctiveLines, detectable`
    ("text": the note has a distinctive line; "mention": only its name can be recognised) and `unresolved` (names in
    its links that no note has). No edge leads from a note to itself, and each pair is there once. Links stay within
    their source. No note text is kept.

    What `previous` resolved is taken over for notes that are the same objects, where no note of their source has got
    another name, come or gone.
    """

    def __init__(
        self,
        notes: Iterable[Note] = (),
        facts: Callable[[str], LineFacts] | None = None,
        previous: NoteMap | None = None,
    ) -> None:
        self._notes = {note.id: replace(note, text="", unread=True) if note.text else note for note in notes}
        self._facts = facts
        self._resolved: dict[str, _Resolved] = {}
        self._resolvers: dict[str, LinkResolver] = {}
        by_source: defaultdict[str, list[Note]] = defaultdict(list)
        for note in self._notes.values():
            by_source[note.source].append(note)
        for source, source_notes in by_source.items():
            self._resolve(source, source_notes, previous)

    def _resolve(self, source: str, notes: list[Note], previous: NoteMap | None) -> None:
        known, resolver = previous._resolution(source) if previous else ({}, None)  # noqa: SLF001  # of the same class
        if resolver is None or not resolver.knows(notes):
            known, resolver = {}, LinkResolver(notes)
        self._resolvers[source] = resolver
        for note in notes:
            old, resolved = known.get(note.id, (None, None))
            self._resolved[note.id] = resolved if old is note and resolved else _resolved(note, resolver)

    def _resolution(self, source: str) -> tuple[Mapping[str, tuple[Note, _Resolved]], LinkResolver | None]:
        known = {one.id: (one, self._resolved[one.id]) for one in self._notes.values() if one.source == source}
        return known, self._resolvers.get(source)

    def __len__(self) -> int:
        return len(self._notes)

    def __contains__(self, note_id: object) -> bool:
        return note_id in self._notes

    @property
    def notes(self) -> Mapping[str, Note]:
        """Id -> note, without text."""
        return self._notes

    @cached_property
    def graph(self) -> nx.DiGraph[str]:
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from((note_id, self._attributes(note)) for note_id, note in self._notes.items())
        graph.add_edges_from((start, end) for start, one in self._resolved.items() for end in one.links)
        return graph

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes as `GET api/memory` gives them, with `id` and `degree` (links in and out)."""
        return list(self.each_node())

    def each_node(self) -> Iterator[dict[str, Any]]:
        """`nodes`, one by one: to hold them all at once sets Python looking for garbage in everything there is."""
        incoming = Counter(end for one in self._resolved.values() for end in one.links)
        for note_id, note in self._notes.items():
            degree = len(self._resolved[note_id].links) + incoming[note_id]
            yield {"id": note_id, **self._attributes(note), "degree": degree}

    def links(self) -> list[list[str]]:
        """`[from, to]` for each link."""
        return list(self.each_link())

    def each_link(self) -> Iterator[list[str]]:
        """`links`, one by one."""
        return ([start, end] for start, one in self._resolved.items() for end in one.links)

    def components(self) -> list[set[str]]:
        """The parts of the map that no link connects, the largest first; a note alone is one too."""
        return sorted(nx.weakly_connected_components(self.graph), key=len, reverse=True)

    def orphans(self) -> list[str]:
        """Notes without a link in or out."""
        linked = {end for one in self._resolved.values() for end in one.links}
        return [note_id for note_id, one in self._resolved.items() if not one.links and note_id not in linked]

    def communities(self, *, on_request: bool = False) -> list[set[str]] | None:
        """Groups of notes that link to each other more than to others (Louvain), the largest first; the same each time.

        None above `MOST_FOR_COMMUNITIES` notes, unless somebody asked for it. Takes seconds: not for the event loop.
        """
        if len(self) > MOST_FOR_COMMUNITIES and not on_request:
            return None
        return sorted(nx.community.louvain_communities(self.graph.to_undirected(), seed=1), key=len, reverse=True)

    def details(self, note_id: str) -> NoteDetails:
        """KeyError: no note has this id."""
        note, one = self._notes[note_id], self._resolved[note_id]
        attributes = self._attributes(note)
        return NoteDetails(
            lines=attributes["lines"],
            distinctive_lines=attributes["distinctiveLines"],
            detectable=attributes["detectable"],
            links=one.links,
            backlinks=tuple(start for start, other in self._resolved.items() if note_id in other.links),
            unresolved=one.unresolved,
        )

    def _attributes(self, note: Note) -> dict[str, Any]:
        facts = self._facts(note.id) if self._facts else None
        return {
            "source": note.source,
            "title": note.title,
            "path": note.path,
            "folder": note.folder,
            "tags": list(note.tags),
            "aliases": list(note.aliases),
            "size": note.size,
            "lines": facts.lines if facts else 0,
            "distinctiveLines": facts.distinctive if facts else 0,
            "detectable": "text" if facts and facts.distinctive else "mention",
            "unresolved": len(self._resolved[note.id].unresolved),
        }


def _resolved(note: Note, resolver: LinkResolver) -> _Resolved:
    links: dict[str, None] = {}
    unresolved: dict[str, str] = {}
    for link in note.links:
        other = resolver.resolve(link.target, note)
        if other is not None:
            if other.id != note.id:
                links[other.id] = None
        elif not link.tag and not is_attachment(link.target):
            unresolved.setdefault(link.target.casefold(), link.target)
    return _Resolved(tuple(links), tuple(unresolved.values()))
