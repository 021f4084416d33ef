from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import networkx as nx
import pytest

from memory.links import LinkResolver
from memory.note_map import NoteDetails, NoteMap
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


def test_a_tag_that_no_note_has_is_not_missing() -> None:
    tagged = replace(note("A.md"), links=(Link("B", tag=True), Link("nowhere", tag=True)))

    note_map = NoteMap([tagged, note("B.md")])

    assert note_map.links() == [["vault/A.md", "vault/B.md"]]
    assert note_map.nodes()[0]["unresolved"] == 0


def test_the_graph_is_what_nodes_and_links_say() -> None:
    note_map = NoteMap([note("A.md", "B", "nowhere"), note("B.md", "A", "C"), note("C.md"), note("D.md")])

    assert [[start, end] for start, end in note_map.graph.edges] == note_map.links()
    assert [
        {"id": node, **attributes, "degree": note_map.graph.degree(node)}
        for node, attributes in note_map.graph.nodes(data=True)
    ] == note_map.nodes()
    assert note_map.graph is note_map.graph


def test_components_and_orphans() -> None:
    note_map = NoteMap(
        [
            note("A.md", "B"),
            note("B.md"),
            note("C.md", "B"),
            note("D.md", "E"),
            note("E.md"),
            note("F.md", "F", "nowhere"),
        ]
    )

    assert [{one.removeprefix("vault/") for one in part} for part in note_map.components()] == [
        {"A.md", "B.md", "C.md"},
        {"D.md", "E.md"},
        {"F.md"},
    ]
    assert note_map.orphans() == ["vault/F.md"]


def test_communities_are_the_same_each_time_and_on_request_only_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [[f"{group}{number}.md" for number in range(6)] for group in "abc"]
    notes = [note(one, *(other for other in group if other != one)) for group in groups for one in group]
    notes[0] = replace(notes[0], links=(*notes[0].links, Link("b0")))
    note_map = NoteMap(notes)

    found = note_map.communities()

    assert found is not None
    assert {frozenset(one.removeprefix("vault/") for one in group) for group in found} == {*map(frozenset, groups)}
    assert found == NoteMap(notes).communities()
    monkeypatch.setattr("memory.note_map.MOST_FOR_COMMUNITIES", len(notes) - 1)
    assert note_map.communities() is None
    assert note_map.communities(on_request=True) == found


def test_details() -> None:
    notes = [note("A.md", "B", "Nowhere", "nowhere", "p.png"), note("B.md"), note("C.md", "a")]

    note_map = NoteMap(
        notes, {"vault/A.md": Facts(9, 3), "vault/B.md": Facts(2, 0), "vault/C.md": Facts(1, 1)}.__getitem__
    )

    assert note_map.details("vault/A.md") == NoteDetails(
        lines=9,
        distinctive_lines=3,
        detectable="text",
        links=("vault/B.md",),
        backlinks=("vault/C.md",),
        unresolved=("Nowhere",),
    )
    assert note_map.details("vault/B.md").detectable == "mention"
    with pytest.raises(KeyError):
        note_map.details("B.md")


# ---- out of the map before


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets that are resolved from now on."""
    resolved: list[str] = []
    resolve = LinkResolver.resolve

    def counting(self: LinkResolver, target: str, origin: Note) -> Note | None:
        resolved.append(target)
        return resolve(self, target, origin)

    monkeypatch.setattr(LinkResolver, "resolve", counting)
    return resolved


def test_only_the_links_of_changed_notes_are_resolved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, other = note("A.md", "B"), note("B.md", "A", "C"), note("X.md", "Y", source="other")
    before = NoteMap([a, b, other])
    resolved = counted(monkeypatch)

    changed = NoteMap([a, note("B.md", "B", "C"), other], previous=before)

    assert resolved == ["B", "C"]
    assert changed.links() == [["vault/A.md", "vault/B.md"]]
    assert before.links() == [["vault/A.md", "vault/B.md"], ["vault/B.md", "vault/A.md"]]
    assert [one["unresolved"] for one in changed.nodes()] == [0, 1, 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda notes: [*notes, note("C.md")],
        lambda notes: notes[:1],
        lambda notes: [notes[0], note("B.md", "A", "C", aliases=("C",))],
        lambda notes: [notes[0], replace(notes[1], names=("C",))],
    ],
    ids=["one came", "one went", "another alias", "another page name"],
)
def test_another_name_resolves_every_link_of_its_source_again(
    change: Callable[[list[Note]], list[Note]], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, other = [note("A.md", "B", "C"), note("B.md", "A", "C")], note("X.md", "Y", source="other")
    before = NoteMap([*notes, other])
    after = [*change(notes), other]
    fresh = NoteMap(after)
    resolved = counted(monkeypatch)

    changed = NoteMap(after, previous=before)

    assert changed.links() == fresh.links()
    assert changed.nodes() == fresh.nodes()
    assert resolved[:2] == ["B", "C"]
    assert "Y" not in resolved


def test_no_text_is_kept() -> None:
    note_map = NoteMap([replace(note("A.md"), text="secret")])

    assert not any(one.text for one in note_map._notes.values())


def test_empty() -> None:
    assert NoteMap().nodes() == []
    assert NoteMap().links() == []
    assert NoteMap().components() == NoteMap().orphans() == NoteMap().communities() == []
