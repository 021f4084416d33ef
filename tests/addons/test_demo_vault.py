"""The sample vault and the script of the demo: complete, linked, and counted right by two independent counts."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import networkx as nx
import pytest

from addons.demo.answers import answer
from addons.demo.reply import FRIENDLY, Moment
from addons.demo.sample import CLAUDE, GRAPH, SOURCE, VAULT, Expected, SampleVault
from addons.demo.script import Exchange, demo_exchanges, replies
from memory.body import read_body
from memory.index import NoteIndex
from memory.note_library import NoteLibrary
from memory.scan import scan_body
from memory.sources import make_source

LINK = re.compile(r"!?\[\[([^\]|#\\]*)")
UNRESOLVED = {"Winch Manual", "Sailing Club Minutes"}
ORPHANS = {"Allotment Wifi.md", "Gift Ideas.md", "Words I Like.md"}

VAULT_NOTES = SampleVault()
EXCHANGES = demo_exchanges(VAULT_NOTES, local_url="http://127.0.0.1:1", session="s")


def links() -> nx.DiGraph[str]:
    """Paths and their links by a reading of one's own; a name in several folders would be a mistake here."""
    names = {Path(path).stem: path for path in VAULT_NOTES.texts}
    assert len(names) == len(VAULT_NOTES.texts)
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(VAULT_NOTES.texts)
    for path, text in VAULT_NOTES.texts.items():
        targets = {target for target in LINK.findall(text) if target not in UNRESOLVED}
        graph.add_edges_from((path, names[target]) for target in targets)
    return graph


def test_the_vault_is_a_connected_map_with_hubs_and_three_orphans() -> None:
    graph = links()
    assert 55 <= len(graph) <= 70
    assert {path.partition("/")[0] for path in graph if "/" in path} == {
        "areas", "journal", "people", "projects", "reading", "recipes",
    }  # fmt: skip
    degrees = dict(graph.to_undirected(as_view=True).degree())
    assert {path for path, degree in degrees.items() if degree == 0} == ORPHANS
    assert [len(part) for part in nx.weakly_connected_components(graph) if len(part) > 1] == [len(graph) - 3]
    assert set(sorted(degrees, key=lambda path: -degrees[path])[:2]) == {"Home.md", "projects/Tide Clock 2.md"}


def test_every_link_resolves_except_the_deliberate_two() -> None:
    names = {Path(path).stem for path in VAULT_NOTES.texts}
    targets = {target for text in VAULT_NOTES.texts.values() for target in LINK.findall(text)}
    assert targets - names == UNRESOLVED


def test_some_notes_are_private_and_the_files_are_plain() -> None:
    private = {
        path for path, text in VAULT_NOTES.texts.items() if re.search(r"^tags: \[.*\bprivate\b", text, re.MULTILINE)
    }
    assert private == {"areas/Health.md", "areas/Money.md", "people/Dr Lindqvist.md"}
    for path in VAULT.rglob("*.md"):
        raw = path.read_bytes()
        assert raw.endswith(b"\n")
        assert not raw.endswith(b"\n\n")
        assert b"\r" not in raw
        assert b"\t" not in raw


def test_a_heading_of_every_day_is_not_distinctive_and_a_shared_quote_is() -> None:
    heading, quote = (
        "## What moved today, and what did not",
        "> A tool that needs explaining twice needs changing once.",
    )
    holders = [path for path, text in VAULT_NOTES.texts.items() if heading in text]
    assert len(holders) == 13
    assert not any(heading in lines for lines in VAULT_NOTES.distinctive.values())
    assert [path for path, lines in VAULT_NOTES.distinctive.items() if quote in lines] == [
        "people/Teodor Brandt.md",
        "reading/Notes on Repair.md",
    ]
    assert set(VAULT_NOTES.expect([quote])) == {"vault/people/Teodor Brandt.md", "vault/reading/Notes on Repair.md"}


def test_what_the_exchanges_expect() -> None:
    def content(matched: int, distinctive: int, *, resent: bool = False) -> Expected:
        return Expected("content", matched, distinctive, resent)

    plan, sourdough = "vault/projects/Tide Clock 2.md", "vault/recipes/Rye Sourdough.md"
    assert [one.expected for one in EXCHANGES] == [
        {},
        {},
        {plan: content(12, 12)},
        {plan: content(12, 12, resent=True), "vault/people/Ines Okoye.md": content(6, 6)},
        {"vault/journal/2026-03-09.md": content(5, 5), "vault/journal/2026-03-10.md": content(6, 6)},
        {},
        {"vault/areas/Winter Storage.md": content(2, 3)},
        {sourdough: content(7, 7)},
        {sourdough: content(7, 7)},
        {
            "vault/projects/Harbour Almanac.md": Expected("reference", 0, 8),
            "vault/projects/Pricing.md": Expected("reference", 0, 6),
        },
        {"vault/projects/Pricing.md": content(0, 6)},
        {},
        {"vault/areas/Money.md": content(2, 6)},
        {},
        {"vault/areas/Health.md": content(6, 6)},
    ]
    assert [one.to for one in EXCHANGES] == ["cloud"] * 14 + ["local"]
    assert len({one.headers["User-Agent"].partition("/")[0] for one in EXCHANGES}) == 7


@pytest.fixture(scope="module")
def index() -> NoteIndex:
    async def scanned() -> NoteIndex:
        library = NoteLibrary(
            [
                make_source(SOURCE, "markdown", VAULT),
                make_source("claude-code", "claude_code", CLAUDE),
                make_source("mcp-memory", "knowledge_graph", GRAPH),
            ]
        )
        snapshot = await library.scan()
        await library.aclose()
        assert [state.warnings for state in snapshot.sources] == [(), (), ()]
        assert [state.notes for state in snapshot.sources] == [61, 4, 6]
        assert sum(node["unresolved"] for node in snapshot.map.nodes() if node["source"] != SOURCE) == 0
        return snapshot.index

    return asyncio.run(scanned())


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda one: one.title)
def test_the_suites_own_scan_agrees(exchange: Exchange, index: NoteIndex) -> None:
    scan = scan_body(index, read_body(exchange.encoded()))
    assert scan.state == "complete"
    found = {one.note: (one.by, one.matched, one.distinctive) for one in scan.sightings}
    assert found == {note: (one.by, one.matched, one.distinctive) for note, one in exchange.expected.items()}


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda one: one.title)
def test_the_model_knows_its_reply(exchange: Exchange) -> None:
    script = replies(EXCHANGES)
    assert script(exchange.protocol, json.loads(exchange.encoded())) is exchange.reply
    target = "/" + exchange.url.split("/", 3)[3]
    headers = {name.lower(): value for name, value in exchange.headers.items()}
    said = answer("POST", target, headers, exchange.encoded(), script=script, moment=Moment(1, 2))
    assert said.status == 200


def test_a_stranger_gets_a_friendly_reply() -> None:
    assert replies(EXCHANGES)("anthropic", {"messages": []}) is FRIENDLY


def test_links_in_what_is_sent_stand_in_lines_that_count() -> None:
    """Else a link in a short line would be a mention of its own, and the expected counts would not say so."""
    for exchange in EXCHANGES:
        for note in exchange.expected:
            path = note.removeprefix(f"{SOURCE}/")
            lines = VAULT_NOTES.lines(path)
            assert [line for line in lines if "[[" in line and line not in VAULT_NOTES.distinctive[path]] == []
