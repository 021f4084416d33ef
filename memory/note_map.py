"""The graph of notes and links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import networkx as nx

from memory.links import LinkResolver, is_attachment
from memory.notes import Note


class LineFacts(Protocol):
    """How many lines of a note count, and how many of them are distinctive (detection.md)."""

    @property
    def lines(self) -> int: ...

    @property
    def distinctive(self) -> int: ...


class NoteMap:
    """The notes as nodes and their links as edges of `graph`, a `networkx.DiGraph` over note ids.

    A node carries `source, title, path, folder, tags, aliases, size` (bytes), `lines, distinctiveLines, detectable`
    ("text": the note has a distinctive line; "mention": only its name can be recognised) and `unresolved` (names in
    its links that no note has). No edge leads from a note to itself, and each pair is there once. Links stay within
    their source. No note text is kept.
    """

    def __init__(self, notes: Iterable[Note] = (), facts: Callable[[str], LineFacts] | None = None) -> None:
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        by_source: defaultdict[str, list[Note]] = defaultdict(list)
        for note in notes:
            by_source[note.source].append(note)
            self.graph.add_node(note.id, **_attributes(note, facts(note.id) if facts else None))
        for source_notes in by_source.values():
            self._link(source_notes)

    def _link(self, notes: list[Note]) -> None:
        resolver = LinkResolver(notes)
        for note in notes:
            unresolved: set[str] = set()
            for link in note.links:
                other = resolver.resolve(link.target, note)
                if other is None:
                    if not is_attachment(link.target):
                        unresolved.add(link.target.casefold())
                elif other.id != note.id:
                    self.graph.add_edge(note.id, other.id)
            self.graph.nodes[note.id]["unresolved"] = len(unresolved)

    def __len__(self) -> int:
        return self.graph.number_of_nodes()

    def __contains__(self, note_id: object) -> bool:
        return note_id in self.graph

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes as `GET api/memory` gives them, with `id` and `degree` (links in and out)."""
        return [
            {"id": note_id, **attributes, "degree": self.graph.degree(note_id)}
            for note_id, attributes in self.graph.nodes(data=True)
        ]

    def links(self) -> list[list[str]]:
        """`[from, to]` for each link."""
        return [[start, end] for start, end in self.graph.edges()]


def _attributes(note: Note, facts: LineFacts | None) -> dict[str, Any]:
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
    }
