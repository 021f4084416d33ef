from typing import NamedTuple

import networkx as nx

from memory.note_map import NoteMap
from memory.notes import Link, Note


class Facts(NamedTuple):
    lines: int
    distinctive: int


def note(path: str, *links: str, source: str = "vault", title: str = "", aliases: tuple[str, ...] = ()) -> Note:
    return Note(
        id=f"{source}/{path}",
        source=source,
        path=path,
        title=title or path,
        text="",
        aliases=aliases,
        tags=("tag",),
        links=tuple(Link(link.removeprefix("!"), link.startswith("!")) for link in links),
        size=7,
    )


def test_a_node_as_the_api_gives_it() -> None:
    notes = [note("projects/A.md", "B", "Nowhere", title="Alpha", aliases=("First",)), note("B.md")]

    note_map = NoteMap(notes, {"vault/projects/A.md": Facts(9, 3), "vault/B.md": Facts(2, 0)}.__getitem__)

    assert note_map.nodes() == [
        {
            "id": "vault/projects/A.md",
            "source": "vault",
            "title": "Alpha",
            "path": "projects/A.md",
            "folder": "vault/projects",
            "tags": ["tag"],
            "aliases": ["First"],
            "size": 7,
            "lines": 9,
            "distinctiveLines": 3,
            "detectable": "text",
            "unresolved": 1,
            "degree": 1,
        },
        {
            "id": "vault/B.md",
            "source": "vault",
            "title": "B.md",
            "path": "B.md",
            "folder": "vault",
            "tags": ["tag"],
            "aliases": [],
            "size": 7,
            "lines": 2,
            "distinctiveLines": 0,
            "detectable": "mention",
            "unresolved": 0,
            "degree": 1,
        },
    ]
    assert note_map.links() == [["vault/projects/A.md", "vault/B.md"]]
    assert isinstance(note_map.graph, nx.DiGraph)
    assert len(note_map) == 2
    assert "vault/B.md" in note_map
    assert "B.md" not in note_map


def test_each_pair_once_and_no_link_to_itself() -> None:
    a = note("A.md", "B", "B.md", "!b", "A", "", "Alias of A", aliases=("Alias of A",))

    note_map = NoteMap([a, note("B.md", "A")])

    assert note_map.links() == [["vault/A.md", "vault/B.md"], ["vault/B.md", "vault/A.md"]]
    assert [node["degree"] for node in note_map.nodes()] == [2, 2]
    assert [node["unresolved"] for node in note_map.nodes()] == [0, 0]


def test_unresolved_counts_names_and_no_attachments() -> None:
    note_map = NoteMap([note("A.md", "Nowhere", "nowhere", "Elsewhere", "!picture.png", "paper.pdf")])

    assert note_map.nodes()[0]["unresolved"] == 2
    assert note_map.links() == []


def test_links_stay_in_their_source() -> None:
    note_map = NoteMap([note("A.md", "B", source="one"), note("B.md", source="two")])

    assert note_map.links() == []
    assert [node["unresolved"] for node in note_map.nodes()] == [1, 0]


def test_empty() -> None:
    assert NoteMap().nodes() == []
    assert NoteMap().links() == []
