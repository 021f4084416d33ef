"""The MCP memory server's graph: entities, observations and relations, whatever state the file is in."""

import gc
import json
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.note_library import NoteLibrary
from memory.notes import Link, MemoryDocument, Note, SourceWarning
from memory.sources import BuiltInSource, make_source
from memory.sources.graph import MOST_WARNINGS, Graph, read_graph
from memory.sources.knowledge_graph import KnowledgeGraphSource
from memory.sources.limits import Limits

WREN = {"type": "entity", "name": "Wren", "entityType": "ship", "observations": ["Two masts.", "Built in the yard."]}
YARD = {"type": "entity", "name": "Old Yard", "entityType": "place", "observations": ["Closed on Mondays."]}
BUILT = {"type": "relation", "from": "Wren", "to": "Old Yard", "relationType": "built in"}


def lines(*records: Any) -> bytes:
    """As the server writes them: no line end after the last."""
    return b"\n".join(record if isinstance(record, bytes) else json.dumps(record).encode() for record in records)


def read(*records: Any) -> Graph:
    return read_graph(lines(*records), "memory.jsonl")


def reasons(graph: Graph) -> list[str]:
    assert {warning.path for warning in graph.warnings} <= {"memory.jsonl"}
    return [warning.reason for warning in graph.warnings]


def test_a_graph() -> None:
    graph = read(WREN, YARD, BUILT)

    wren, yard = graph.documents
    assert (wren.path, wren.title, wren.text) == ("ship/Wren.md", "Wren", "Two masts.\nBuilt in the yard.")
    assert (wren.tags, wren.links) == (("ship",), (Link("/place/Old Yard.md"),))
    assert (yard.path, yard.title, yard.tags, yard.links) == ("place/Old Yard.md", "Old Yard", ("place",), ())
    assert (graph.warnings, graph.is_cut) == ((), False)


@pytest.mark.parametrize(
    "content",
    [
        lines(WREN, YARD, BUILT) + b"\n",
        lines(WREN, b"", YARD, b"  ", BUILT, b"", b""),
        lines(WREN, YARD, BUILT).replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + lines(WREN, YARD, BUILT),
        lines(WREN, YARD, BUILT).decode().encode("utf-16"),
        lines(BUILT, WREN, YARD),
        json.dumps([WREN, YARD, BUILT]).encode(),
        json.dumps([WREN, YARD, BUILT], indent=2).encode(),
        json.dumps({"entities": [WREN, YARD], "relations": [BUILT]}, indent=2).encode(),
        json.dumps(
            {
                "entities": [{key: one[key] for key in ("name", "entityType", "observations")} for one in (WREN, YARD)],
                "relations": [{key: BUILT[key] for key in ("from", "to", "relationType")}],
            }
        ).encode(),
        lines(*({key: value for key, value in one.items() if key != "type"} for one in (WREN, YARD, BUILT))),
        lines(
            *({"_type" if key == "type" else key: value for key, value in one.items()} for one in (WREN, YARD, BUILT))
        ),
    ],
)
def test_the_same_graph_written_otherwise(content: bytes) -> None:
    assert read_graph(content, "memory.jsonl") == read(WREN, YARD, BUILT)


def test_one_entity_is_a_graph() -> None:
    assert [document.path for document in read(WREN).documents] == ["ship/Wren.md"]
    assert read_graph(json.dumps(WREN, indent=2).encode(), "m") == read(WREN)


def test_observations_are_texts_or_objects_with_text() -> None:
    mixed = {**WREN, "observations": ["One.", {"text": "Two.", "timestamp": "2025-01-01"}, "One."]}
    odd = {**YARD, "observations": ["Kept.", 7, None, {"note": "no text"}]}
    none = {"type": "entity", "name": "Bare", "entityType": "ship"}
    wrong = {"type": "entity", "name": "Wrong", "entityType": "ship", "observations": "a text"}

    graph = read(mixed, odd, none, wrong)

    assert [document.text for document in graph.documents] == ["One.\nTwo.", "Kept.", "", ""]
    assert reasons(graph) == [
        "line 2: 3 observations without text left out",
        "line 4: observations that are no list are left out",
    ]


def test_entities_that_are_there_twice_merge() -> None:
    again = {**WREN, "entityType": "boat", "observations": ["Built in the yard.", "Sold in May."]}

    [wren] = read(WREN, again).documents

    assert (wren.path, wren.tags) == ("ship/Wren.md", ("ship", "boat"))
    assert wren.text == "Two masts.\nBuilt in the yard.\nSold in May."


async def test_relations_to_unknown_entities_stay_unresolved(tmp_path: Path) -> None:
    relations = [("Wren", "Nobody"), ("Stranger", "Wren"), ("Wren", "chart.png"), ("Wren", "Wren"), ("A", "B")]
    content = lines(WREN, *({"type": "relation", "from": a, "to": b, "relationType": "knows"} for a, b in relations))
    (tmp_path / "memory.jsonl").write_bytes(content)

    snapshot = await NoteLibrary([make_source("mcp", "knowledge_graph", tmp_path)]).scan()

    [wren] = snapshot.map.nodes()
    assert (wren["unresolved"], wren["degree"]) == (3, 0)
    assert snapshot.sources[0].warnings == (
        SourceWarning("memory.jsonl", "1 relation between entities that are not there"),
    )


async def test_a_relation_means_exactly_that_entity(tmp_path: Path) -> None:
    names = ["a/b", "b", "../b", "x.md", "100%2F", "Zoë"]
    entities = [{"type": "entity", "name": name, "entityType": "t/u", "observations": []} for name in names]
    chain = [{"type": "relation", "from": a, "to": b, "relationType": "r"} for a, b in pairwise(names)]
    (tmp_path / "memory.jsonl").write_bytes(lines(*entities, *chain))

    snapshot = await NoteLibrary([make_source("mcp", "knowledge_graph", tmp_path)]).scan()

    nodes = {node["id"]: node for node in snapshot.map.nodes()}
    assert [node["path"] for node in nodes.values()] == [
        *("t%2Fu/a%2Fb.md", "t%2Fu/b.md", "t%2Fu/..%2Fb.md", "t%2Fu/x.md.md", "t%2Fu/100%252F.md", "t%2Fu/Zoë.md"),
    ]
    assert [(nodes[a]["title"], nodes[b]["title"]) for a, b in snapshot.map.links()] == [
        (one["from"], one["to"]) for one in chain
    ]
    assert {node["folder"] for node in nodes.values()} == {"mcp/t%2Fu"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"type": "entity", "na', "not valid JSON"),
        (b"\0\0\0", "not valid JSON"),
        (b"[" * 100_000, "too many levels of brackets"),
        (b'{"type": "entity", "name": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b"7", "no JSON object"),
        (b"[]", "no JSON object"),
        (b"{}", "neither an entity nor a relation"),
        (b'{"type": "tool"}', "neither an entity nor a relation"),
        (b'{"type": "entity", "entityType": "ship"}', "an entity without a name"),
        (b'{"type": "entity", "name": "", "observations": []}', "an entity without a name"),
        (b'{"type": "entity", "name": ["x"], "observations": []}', "an entity without a name"),
        (b'{"type": "relation", "from": "Wren"}', "a relation without `from` and `to`"),
        (b'{"type": "relation", "from": "Wren", "to": null}', "a relation without `from` and `to`"),
    ],
)
def test_one_bad_line_is_one_warning(line: bytes, reason: str) -> None:
    graph = read(WREN, line, YARD, BUILT)

    assert graph.documents == read(WREN, YARD, BUILT).documents
    assert reasons(graph) == [f"line 2: {reason}"]
    assert not graph.is_cut


def test_what_is_no_text() -> None:
    latin = b'{"type": "entity", "name": "Caf\xe9", "entityType": "place", "observations": [7]}'
    half_a_pair = b'{"type": "entity", "name": "\\ud83d", "entityType": "sign", "observations": ["\\udc00 up"]}'

    graph = read(latin, half_a_pair, WREN)

    assert [document.path for document in graph.documents] == ["place/Caf\ufffd.md", "sign/?.md", "ship/Wren.md"]
    assert graph.documents[1].text == "? up"
    assert reasons(graph) == [
        "line 1: not valid UTF-8; what cannot be read is replaced; 1 observation without text left out"
    ]
    whole = read_graph(b"[" + latin.replace(b"[7]", b"[]") + b"]", "memory.jsonl")
    assert reasons(whole) == ["not valid UTF-8; what cannot be read is replaced"]


def test_where_in_one_json_document() -> None:
    assert reasons(read_graph(json.dumps([WREN, 7]).encode(), "memory.jsonl")) == ["[1]: no JSON object"]
    content = json.dumps({"entities": [{}], "relations": [{"from": "a"}], "more": 1}).encode()
    assert reasons(read_graph(content, "memory.jsonl")) == [
        "entities[0]: neither an entity nor a relation",
        "relations[0]: neither an entity nor a relation",
    ]


def test_warnings_end_somewhere() -> None:
    graph = read(WREN, *([b"x"] * (MOST_WARNINGS + 5)), YARD)

    assert len(graph.documents) == 2
    assert len(graph.warnings) == MOST_WARNINGS + 1
    assert graph.warnings[-1] == SourceWarning("memory.jsonl", "and 5 more lines like these")


@pytest.mark.parametrize("content", [b"# A page\n\nText.\n", b"\xff" * 50, b"7", b'{"entities": [{"name"', b"[\n {}\n"])
def test_what_is_no_graph_is_one_warning(content: bytes) -> None:
    graph = read_graph(content, "memory.jsonl")

    assert reasons(graph) == ["nothing in it is an entity or a relation"]
    assert (graph.documents, graph.is_cut) == ((), True)


def test_nothing_is_an_empty_graph() -> None:
    for content in (b"", b"\n\n", b"\xef\xbb\xbf", b"[]", b'{"entities": [], "relations": []}'):
        assert read_graph(content, "m") == Graph()


# --- the source -------------------------------------------------------------------------------------------------------


async def test_the_file_and_the_folder(tmp_path: Path) -> None:
    source = KnowledgeGraphSource("mcp", tmp_path)
    for ask in (source.load, source.stamp):
        with pytest.raises(FileNotFoundError) as raised:
            await ask()
        assert str(raised.value) == f"{tmp_path} holds neither memory.jsonl nor memory.json"

    (tmp_path / "memory.json").write_bytes(json.dumps({"entities": [YARD]}).encode())
    assert [document.title for document in await source.load()] == ["Old Yard"]
    (tmp_path / "memory.jsonl").write_bytes(lines(WREN))
    assert [document.title for document in await source.load()] == ["Wren"]
    named = KnowledgeGraphSource("mcp", tmp_path / "memory.json")
    assert [document.title for document in await named.load()] == ["Old Yard"]
    assert isinstance(named, BuiltInSource)
    assert (named.name, named.kind, named.location) == ("mcp", "knowledge_graph", str(tmp_path / "memory.json"))


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "graph.jsonl"

    with pytest.raises(FileNotFoundError) as raised:
        await KnowledgeGraphSource("mcp", missing).load()

    assert str(raised.value) == (
        f"{missing} does not exist; the server makes it when it first writes (its MEMORY_FILE_PATH)"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
async def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "memory.jsonl")

    with pytest.raises(OSError, match=r"memory\.jsonl is no file$"):
        await KnowledgeGraphSource("mcp", tmp_path / "memory.jsonl").load()
    with pytest.raises(FileNotFoundError):
        await KnowledgeGraphSource("mcp", tmp_path).load()


async def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_bytes(lines(WREN, YARD, {**WREN, "name": "Tern"}, {**WREN, "name": "Gull", "observations": []}, BUILT))
    source = KnowledgeGraphSource("mcp", file, limits=Limits(["place/*", "Tern*"], max_notes=1, max_note_bytes=29))
    seen: list[tuple[int, int]] = []
    source.on_progress = lambda done, total: seen.append((done, total))

    assert [document.title for document in await source.load()] == ["Wren"]
    assert source.report.skipped == 1
    assert seen == [(1, 1)]
    small = KnowledgeGraphSource("mcp", file, limits=Limits(max_note_bytes=28))
    assert [document.title for document in await small.load()] == ["Old Yard", "Gull"]
    assert small.report.skipped == 2
    monkeypatch.setattr("memory.sources.knowledge_graph.MOST_BYTES", 10)
    with pytest.raises(OSError, match=r"is larger than 0 MiB$"):
        await source.load()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was waited, without waiting."""
    waited: list[float] = []
    monkeypatch.setattr("memory.sources.knowledge_graph.time.sleep", waited.append)
    return waited


CUT = SourceWarning(
    "memory.jsonl", "its end is missing: the last whole state is kept, and it is read again at the next scan"
)


@pytest.mark.parametrize("cut", [lines(WREN, YARD)[:-10], lines(WREN)[:-10], b'{"entities": [', b"\0\0"])
async def test_a_half_written_end_keeps_the_last_good_state(tmp_path: Path, pauses: list[float], cut: bytes) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_bytes(lines(WREN, YARD, b"{}", BUILT))
    library = NoteLibrary([make_source("mcp", "knowledge_graph", file)])
    whole = await library.scan()
    bad = whole.sources[0].warnings
    assert [node["title"] for node in whole.map.nodes()] == ["Wren", "Old Yard"]

    file.write_bytes(cut)
    for _ in range(2):  # for as long as it lasts
        kept = await library.scan()
        assert kept.map is whole.map
        assert kept.sources[0].warnings == (*bad, CUT)
        assert await library.sources[0].stamp() is None  # type: ignore[attr-defined]

    file.write_bytes(lines(YARD))
    healed = await library.scan()
    assert [node["title"] for node in healed.map.nodes()] == ["Old Yard"]
    assert healed.sources[0].warnings == ()
    assert pauses == [0.05, 0.1, 0.05, 0.1]


async def test_a_half_written_end_at_the_first_scan(tmp_path: Path, pauses: list[float]) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_bytes(lines(WREN, b"{}", YARD)[:-10])
    source = KnowledgeGraphSource("mcp", file)

    assert [document.title for document in await source.load()] == ["Wren"]
    assert [warning.reason for warning in source.report.warnings] == [
        "line 2: neither an entity nor a relation",
        "line 3: half-written; it is read again at the next scan",
    ]
    assert await source.stamp() is None, "it is to be read again, though the file is the same"
    file.write_bytes(lines(WREN, YARD, BUILT)[:-10])
    known = {document.path: document for document in await source.load()}
    assert [document.title for document in await source.load_since(known)] == ["Wren", "Old Yard"]
    file.write_bytes(lines(WREN, YARD))
    assert [document.title for document in await source.load()] == ["Wren", "Old Yard"]
    assert await source.stamp() == await source.stamp() is not None


async def test_a_bad_last_line_that_is_ended_is_only_a_bad_line(tmp_path: Path, pauses: list[float]) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_bytes(lines(WREN, b'{"type": "ent', b""))
    source = KnowledgeGraphSource("mcp", file)

    assert [document.title for document in await source.load()] == ["Wren"]
    assert [warning.reason for warning in source.report.warnings] == ["line 2: not valid JSON"]
    assert pauses == []


async def test_a_writer_that_is_done_in_a_moment_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_bytes(lines(WREN))
    library = NoteLibrary([make_source("mcp", "knowledge_graph", file)])
    await library.scan()
    growing = iter([lines(WREN, YARD)[:-5], lines(WREN, YARD)])
    monkeypatch.setattr(
        "memory.sources.knowledge_graph.time.sleep", lambda pause: file.write_bytes(next(growing)) and None
    )

    file.write_bytes(b"")
    snapshot = await library.scan()

    assert [node["title"] for node in snapshot.map.nodes()] == ["Wren", "Old Yard"]
    assert snapshot.sources[0].warnings == ()


async def test_a_graph_that_was_emptied_is_empty(tmp_path: Path, pauses: list[float]) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_bytes(lines(WREN))
    library = NoteLibrary([make_source("mcp", "knowledge_graph", file)])
    await library.scan()

    file.write_bytes(b"")

    for _ in range(2):
        snapshot = await library.scan()
        assert (len(snapshot.map), snapshot.sources[0].warnings) == (0, ())
    assert pauses == [0.05, 0.1], "only the first time"


async def test_only_what_changed_is_a_new_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_bytes(lines(WREN, YARD))
    source = KnowledgeGraphSource("mcp", file)
    known = {document.path: document for document in await source.load()}
    stamp = await source.stamp()
    assert stamp == await source.stamp() is not None

    reads: list[bytes] = []
    monkeypatch.setattr("memory.sources.knowledge_graph._content", lambda path: reads.append(b"") or path.read_bytes())
    assert list(map(id, await source.load_since(known))) == list(map(id, known.values()))
    assert reads == []

    file.write_bytes(lines(WREN, {**YARD, "observations": ["Closed for good."]}, BUILT))
    assert await source.stamp() != stamp
    wren, yard = await source.load_since(known)
    assert (wren.links, yard.text) == ((Link("/place/Old Yard.md"),), "Closed for good.")
    file.write_bytes(lines(YARD))
    known = {document.path: document for document in (wren, yard)}
    [again] = await source.load_since(known)
    assert again is not yard
    file.write_bytes(lines(WREN, YARD))
    assert (await source.load_since({again.path: again}))[1] is again


async def test_no_text_is_kept(tmp_path: Path, pauses: list[float]) -> None:
    words = "A line of the graph that nobody else has written down"
    file = tmp_path / "memory.jsonl"
    file.write_bytes(lines({**WREN, "observations": [f"{words}."]}))
    library = NoteLibrary([make_source("mcp", "knowledge_graph", file)])
    whole = await library.scan()
    file.write_bytes(lines(WREN)[:-10])
    kept = await library.scan()

    assert kept.index is whole.index
    assert kept.index.facts("mcp/ship/Wren.md").distinctive == 1
    gc.collect()
    texts = [one.text for one in gc.get_objects() if isinstance(one, Note | MemoryDocument)]
    assert [text for text in texts if isinstance(text, str) and words in text] == []


@pytest.mark.parametrize(
    ("file", "notes", "links", "unresolved"),
    [("mcp-think-tank-MIT.memory.jsonl", 57, 0, 0), ("server-memory-editor-MIT.memory.jsonl", 7, 8, 5)],
)
async def test_graphs_of_others(shared_data: Path, file: str, notes: int, links: int, unresolved: int) -> None:
    path = shared_data / "mcp-memory" / file
    snapshot = await NoteLibrary([make_source("mcp", "knowledge_graph", path)]).scan()

    assert (snapshot.sources[0].error, snapshot.sources[0].warnings) == (None, ())
    assert (len(snapshot.map), len(snapshot.map.links())) == (notes, links)
    assert sum(node["unresolved"] for node in snapshot.map.nodes()) == unresolved
    # Counted a second way, straight from the file.
    records = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]
    names = {record["name"] for record in records if "entityType" in record}
    relations = {(record["from"], record["to"]) for record in records if "relationType" in record}
    assert len(names) == notes
    assert len([one for one in relations if set(one) <= names]) == links
    assert len([one for one in relations if len(set(one) & names) == 1]) == unresolved


WORDS = '{ } [ ] , : " \\u \\ud800 null "type" "entity" "relation" "name" "from" "to" "entityType" "text"'
WORDS += ' "observations" "entities" "relations"'
PIECES = st.sampled_from(
    [
        *WORDS.encode().split(b" "),
        *(b"\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"9" * 5000, lines(WREN), lines(YARD), lines(BUILT)),
    ]
)


@settings(deadline=None, max_examples=60)  # each makes a folder and scans it
@given(content=st.binary() | st.lists(PIECES, max_size=30).map(b"".join))
async def test_no_bytes_make_the_source_raise(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("memory.sources.knowledge_graph.PAUSES", ())
        file = Path(folder) / "memory.jsonl"
        file.write_bytes(content)
        library = NoteLibrary([make_source("mcp", "knowledge_graph", file)])

        snapshot = await library.scan()

        assert snapshot.sources[0].error is None
        json.dumps(snapshot.to_json()).encode()


VALUES = st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3))


@given(
    records=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["entity", "relation"]) | VALUES,
                **dict.fromkeys(("name", "entityType", "observations", "from", "to"), VALUES),
            },
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_line_is_a_note_a_link_or_one_warning(records: list[dict[str, Any]]) -> None:
    graph = read_graph(lines(*records), "m")

    assert len(graph.warnings) <= len(records) + 1
    names = {record["name"] for record in records if isinstance(record.get("name"), str) and record["name"]}
    assert {document.title for document in graph.documents} <= {
        name.encode("utf-8", "replace").decode() for name in names
    }
    for document in graph.documents:
        document.path.encode()
        document.text.encode()
