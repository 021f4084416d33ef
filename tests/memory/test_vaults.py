"""Vaults that nobody here wrote. They lie beside the repository; where they do not, these tests are skipped."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from memory.library import NoteLibrary, Snapshot
from memory.sources import make_source

DATA = Path(__file__).parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is not here")


async def scanned(vault: Path) -> Snapshot:
    return await NoteLibrary([make_source("vault", "markdown", vault)]).scan()


@pytest.mark.parametrize(
    ("vault", "notes"),
    [
        ("dendron-site-MIT", 1012),
        ("foam-docs-MIT", 86),
        ("foam-test-data-MIT", 17),
        ("kepano-MIT", 103),
        ("logseq-docs-MIT", 318),
        ("obsidiantools-stub-BSD3", 8),
        ("oldwinter-zh-MIT", 3176),
    ],
)
async def test_every_vault_loads(vault: str, notes: int) -> None:
    snapshot = await scanned(DATA / "vaults" / vault)
    (state,) = snapshot.sources

    assert (state.error, state.warnings, state.skipped, state.notes) == (None, (), 0, notes)
    assert len(snapshot.map) == notes
    assert json.dumps(snapshot.to_json())


async def test_kepano_agrees_with_the_peer_wherever_that_follows_obsidian() -> None:
    """Every edge that only one of the two has is given its reason, or fails here (docs/notes.md has the table)."""
    vault = DATA / "vaults" / "kepano-MIT"
    peer = json.loads((DATA / "expected" / "peer_kepano.obsidiantools.json").read_text(encoding="utf-8"))
    texts = {file.stem: file.read_text(encoding="utf-8") for file in vault.rglob("*.md")}
    snapshot = await scanned(vault)

    theirs = {(start, end) for start, end in peer["edges_list"]}
    ours = {(_stem(start), _stem(end)) for start, end in snapshot.map.links()}
    assert len(snapshot.map) == peer["md_files"] == len(texts)

    only_ours = Counter(_why_only_ours(texts[start], end) for start, end in ours - theirs)
    only_theirs = Counter(_why_only_theirs(start, end, texts, ours) for start, end in theirs - ours)
    assert len(ours & theirs) == 2
    assert only_ours == {"in the frontmatter": 82}
    assert only_theirs == {"no such note": 10, "in another case": 1}


async def test_kepano_against_a_plain_reading() -> None:
    """This vault has no code around its links and no two notes of one name, so a regular expression can judge it."""
    vault = DATA / "vaults" / "kepano-MIT"
    names = {file.stem.casefold(): file.stem for file in vault.rglob("*.md")}
    edges: set[tuple[str, str]] = set()
    unresolved: set[tuple[str, str]] = set()
    for file in vault.rglob("*.md"):
        for target in re.findall(r"\[\[([^\]|#]+)", file.read_text(encoding="utf-8")):
            if target.casefold() in names:
                edges.add((file.stem, names[target.casefold()]))
            elif not target.endswith((".base", ".jpg", ".png")):
                unresolved.add((file.stem, target.casefold()))

    snapshot = await scanned(vault)

    assert {(_stem(start), _stem(end)) for start, end in snapshot.map.links()} == {
        (start, end) for start, end in edges if start != end
    }
    assert sum(node["unresolved"] for node in snapshot.map.nodes()) == len(unresolved)


@pytest.mark.parametrize(
    ("vault", "peer_file", "edges"),
    [("foam-docs-MIT", "peer_foam-docs", 176), ("obsidiantools-stub-BSD3", "peer_stub", 4)],
)
async def test_every_edge_of_the_peer_to_a_note_is_ours(vault: str, peer_file: str, edges: int) -> None:
    peer = json.loads((DATA / "expected" / f"{peer_file}.obsidiantools.json").read_text(encoding="utf-8"))
    ghosts = set(peer["nonexistent"])
    # The peer calls notes of one name by as much of their path as tells them apart.
    theirs = {tuple(name.rpartition("/")[2] for name in edge) for edge in peer["edges_list"] if edge[1] not in ghosts}

    snapshot = await scanned(DATA / "vaults" / vault)

    assert len(theirs) == edges
    assert theirs <= {(_stem(start), _stem(end)) for start, end in snapshot.map.links()}


def _why_only_ours(text: str, end: str) -> str:
    """The peer reads no frontmatter."""
    match = re.match(r"---\n.*?\n---\n", text, re.DOTALL)
    return "in the frontmatter" if match and f"[[{end}" in match[0] else "unexplained"


def _why_only_theirs(start: str, end: str, texts: dict[str, str], ours: set[tuple[str, str]]) -> str:
    """The peer draws a node for every name that no note has, and tells upper from lower case."""
    same = next((name for name in texts if name.casefold() == end.casefold()), None)
    if same is None:
        return "no such note"
    return "in another case" if same != end and (start, same) in ours else "unexplained"


def _stem(note_id: str) -> str:
    return note_id.rpartition("/")[2].removesuffix(".md")
