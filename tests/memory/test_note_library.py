"""All sources of a library together: what a scan makes of them, and when there is one."""

import asyncio
import gc
import json
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from memory.note_library import LibraryOptions, NoteLibrary, SourceState
from memory.notes import Link, MemoryDocument, Note, SourceWarning
from memory.sources import make_source
from tests.memory.libraries import LONG, Remembered, heard, write


async def test_before_the_first_scan(tmp_path: Path) -> None:
    library = NoteLibrary([make_source("vault", "markdown", tmp_path)])

    assert library.snapshot.to_json() == {
        "loadedAt": None,
        "sources": [
            {
                "name": "vault",
                "kind": "markdown",
                "location": str(tmp_path),
                "enabled": True,
                "notes": 0,
                "skipped": 0,
                "scannedAt": None,
                "warnings": [],
                "error": None,
            }
        ],
        "nodes": [],
        "links": [],
    }


async def test_a_scan(tmp_path: Path) -> None:
    write(
        tmp_path, A=f"---\ntitle: Alpha\n---\n[[B]] [[Nowhere]] #tag\n{LONG}", B="---\na: {{b}} c\n---\n", C="x" * 500
    )
    library = NoteLibrary([make_source("vault", "markdown", tmp_path, max_note_bytes=400)])
    before = datetime.now(UTC)

    snapshot = await library.scan()

    assert snapshot is library.snapshot
    assert snapshot.loaded_at is not None
    assert before <= snapshot.loaded_at <= datetime.now(UTC)
    assert snapshot.sources == (
        SourceState(
            name="vault",
            kind="markdown",
            location=str(tmp_path),
            notes=2,
            skipped=1,
            scanned_at=snapshot.loaded_at,
            warnings=(SourceWarning("B.md", "the frontmatter is not valid YAML (line 2); read without it"),),
        ),
    )
    api = json.loads(json.dumps(snapshot.to_json()))
    assert api["loadedAt"].endswith("Z")
    assert api["links"] == [["vault/A.md", "vault/B.md"]]
    assert [(node["id"], node["title"], node["detectable"], node["unresolved"]) for node in api["nodes"]] == [
        ("vault/A.md", "Alpha", "text", 1),
        ("vault/B.md", "B", "mention", 0),
    ]
    assert api["nodes"][0]["distinctiveLines"] == snapshot.index.facts("vault/A.md").distinctive == 1
    assert api["nodes"][0]["lines"] == snapshot.index.facts("vault/A.md").lines
    assert LONG not in json.dumps(api)


async def test_options_reach_the_index(tmp_path: Path) -> None:
    write(tmp_path, A="twelve chars")
    source = make_source("vault", "markdown", tmp_path)

    for length, distinctive in ((12, 1), (13, 0)):
        library = NoteLibrary([source], options=LibraryOptions(minimum_line_length=length))
        assert (await library.scan()).index.facts("vault/A.md").distinctive == distinctive


async def test_a_users_own_source() -> None:
    source = Remembered(
        "mine",
        MemoryDocument("facts/one.md", LONG, title="One", aliases=("1",), tags=("t",), links=("two", Link("nowhere"))),
        MemoryDocument("facts/two", "ä"),
        MemoryDocument("facts/two", "a second one"),
    )
    library = NoteLibrary([source])

    snapshot = await library.scan()

    one, two = snapshot.map.nodes()
    assert (one["id"], one["title"], one["folder"], one["aliases"]) == ("mine/facts/one.md", "One", "mine/facts", ["1"])
    assert (two["id"], two["title"], two["size"], two["degree"]) == ("mine/facts/two", "two", 2, 1)
    assert snapshot.sources[0].notes == 2
    assert snapshot.sources[0].warnings == (SourceWarning("facts/two", "two notes have this path; the first counts"),)


async def test_one_source_that_fails_leaves_the_others(tmp_path: Path) -> None:
    write(tmp_path / "vault", A=LONG)
    broken, silent = Remembered("broken"), Remembered("silent")
    broken.error, silent.error = RuntimeError("the database is locked"), ZeroDivisionError()
    missing = make_source("missing", "markdown", tmp_path / "nowhere")
    library = NoteLibrary([broken, missing, silent, make_source("vault", "markdown", tmp_path / "vault")])

    snapshot = await library.scan()

    assert [(state.name, state.notes, state.error) for state in snapshot.sources] == [
        ("broken", 0, "the database is locked"),
        ("missing", 0, f"{tmp_path / 'nowhere'} does not exist"),
        ("silent", 0, "ZeroDivisionError"),
        ("vault", 1, None),
    ]
    assert [node["id"] for node in snapshot.map.nodes()] == ["vault/A.md"]
    broken.error, broken.documents = None, [MemoryDocument("b.md", "")]
    assert [node["id"] for node in (await library.scan()).map.nodes()] == ["broken/b.md", "vault/A.md"]


async def test_a_source_that_gives_no_documents_is_an_error_of_its_own() -> None:
    faulty, fine = Remembered("faulty", {"path": "a.md"}), Remembered("fine", MemoryDocument("a.md", ""))  # type: ignore[arg-type]
    textless = Remembered("textless", MemoryDocument("a.md", None))  # type: ignore[arg-type]

    snapshot = await NoteLibrary([faulty, textless, fine]).scan()

    reason = "load() gave something that is no MemoryDocument with a text"
    assert [state.error for state in snapshot.sources] == [reason, reason, None]
    assert len(snapshot.map) == 1


async def test_an_error_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    library = NoteLibrary([make_source("vault", "markdown", tmp_path / "nowhere")])

    await library.scan()
    await library.scan()

    assert [record.getMessage() for record in caplog.records] == [
        f"source vault: {tmp_path / 'nowhere'} does not exist"
    ]


async def test_a_disabled_source_is_shown_and_not_read(tmp_path: Path) -> None:
    library = NoteLibrary([make_source("off", "markdown", tmp_path / "nowhere", enabled=False)])

    (state,) = (await library.scan()).sources

    assert (state.name, state.enabled, state.notes, state.scanned_at, state.error) == ("off", False, 0, None, None)


async def test_a_rescan_that_finds_no_change_keeps_map_and_index(tmp_path: Path) -> None:
    library = NoteLibrary([make_source("vault", "markdown", write(tmp_path, A=LONG))])
    changes = heard(library)
    first = await library.scan()

    second = await library.scan()
    (tmp_path / "A.md").write_text(LONG, encoding="utf-8")  # another time stamp, the same text
    third = await library.scan()

    assert first.index is second.index is third.index
    assert first.map is second.map is third.map
    assert first.loaded_at is not None
    assert second.loaded_at is not None
    assert second.loaded_at > first.loaded_at
    assert second.sources[0].scanned_at == second.loaded_at
    assert changes == [first]


async def test_a_rescan_that_finds_a_change(tmp_path: Path) -> None:
    library = NoteLibrary([make_source("vault", "markdown", write(tmp_path, A="[[B]]", B=""))])
    changes = heard(library)
    first = await library.scan()

    write(tmp_path, B="[[A]]")
    second = await library.scan()
    (tmp_path / "A.md").unlink()
    third = await library.scan()

    assert second.index is not first.index
    assert second.map.links() == [["vault/A.md", "vault/B.md"], ["vault/B.md", "vault/A.md"]]
    assert third.map.links() == []
    assert [node["unresolved"] for node in third.map.nodes()] == [1]
    assert changes == [first, second, third]


async def test_a_new_warning_or_error_is_a_change(tmp_path: Path) -> None:
    source = Remembered("mine")
    library = NoteLibrary([source])
    changes = heard(library)
    first = await library.scan()

    source.error = RuntimeError("gone")
    second = await library.scan()
    third = await library.scan()

    assert changes == [first, second]
    assert third.index is first.index


async def test_many_callers_share_one_scan() -> None:
    source = Remembered("mine", MemoryDocument("a.md", ""))
    source.gate.clear()
    library = NoteLibrary([source])

    callers = [asyncio.create_task(library.scan()) for _ in range(5)]
    await asyncio.sleep(0)
    callers[0].cancel()
    await asyncio.sleep(0)
    source.gate.set()
    snapshots = await asyncio.gather(*callers[1:])

    assert source.loads == 1
    assert callers[0].cancelled()
    assert all(snapshot is library.snapshot for snapshot in snapshots)
    await library.scan()
    assert source.loads == 2


async def test_the_work_is_done_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory.index import NoteIndex

    threads: list[threading.Thread] = []
    build = NoteIndex.build

    def watched(notes: Iterable[Note], **options: object) -> NoteIndex:
        threads.append(threading.current_thread())
        return build(notes, **options)  # type: ignore[arg-type]

    library = NoteLibrary([make_source("vault", "markdown", write(tmp_path, A=LONG))])
    monkeypatch.setattr(NoteIndex, "build", watched)
    heard_on: list[threading.Thread] = []
    library.on_change.append(lambda _: heard_on.append(threading.current_thread()))

    await library.scan()

    assert threads
    assert threading.main_thread() not in threads
    assert heard_on == [threading.main_thread()]


async def test_progress(tmp_path: Path) -> None:
    write(tmp_path / "one", A="", B="")
    write(tmp_path / "two", C="")
    library = NoteLibrary([make_source(name, "markdown", tmp_path / name) for name in ("one", "two")])
    seen: list[tuple[str, int, int]] = []

    await library.scan(lambda source, done, total: seen.append((source, done, total)))
    await library.scan()

    assert seen == [("one", 0, 2), ("one", 1, 2), ("one", 2, 2), ("two", 0, 1), ("two", 1, 1)]


async def test_refresh_if_old() -> None:
    source = Remembered("mine")
    library = NoteLibrary([source], options=LibraryOptions(refresh_interval=3600))

    library.refresh_if_old()
    library.refresh_if_old()
    assert library.snapshot.loaded_at is None
    await library.scan()
    assert source.loads == 1

    library.refresh_if_old()
    await asyncio.sleep(0)
    assert source.loads == 1

    library.options = LibraryOptions(refresh_interval=0)
    library.refresh_if_old()
    async with asyncio.timeout(60):
        while source.loads < 2:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.01)
    assert source.loads == 2


async def test_closing_ends_a_running_scan(tmp_path: Path) -> None:
    write(tmp_path, **{f"note{number}": "" for number in range(200)})
    library = NoteLibrary([make_source("vault", "markdown", tmp_path)])
    reached, go_on = threading.Event(), threading.Event()
    seen: list[int] = []

    def progress(source: str, done: int, total: int) -> None:
        seen.append(done)
        reached.set()
        go_on.wait(60)

    scan = asyncio.create_task(library.scan(progress))
    await asyncio.to_thread(reached.wait, 60)
    closing = asyncio.create_task(library.aclose())
    await asyncio.sleep(0)
    go_on.set()
    await closing

    with pytest.raises(asyncio.CancelledError):
        await scan
    assert len(seen) < 200
    assert library.snapshot.loaded_at is None
    library.refresh_if_old()
    await library.aclose()


async def test_a_scan_that_fails_by_a_fault_of_ours_is_raised_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def faulty(*_: object, **__: object) -> None:
        raise KeyError("a fault")

    library = NoteLibrary([Remembered("mine", MemoryDocument("a.md", ""))])
    monkeypatch.setattr("memory.note_library.NoteMap", faulty)

    with pytest.raises(KeyError):
        await library.scan()
    await asyncio.sleep(0)

    assert [record.getMessage() for record in caplog.records] == ["the scan of the notes failed"]
    monkeypatch.undo()
    assert len((await library.scan()).map) == 1


async def test_no_text_is_kept(tmp_path: Path) -> None:
    secret = uuid4().hex
    write(tmp_path, A=f"---\na: {secret}\nb: [{{{{\n---\n{secret} [[B]]", B=f"---\na: {secret}\n---\n{secret}\n")
    library = NoteLibrary([make_source("vault", "markdown", tmp_path)])

    await library.scan()
    gc.unfreeze()  # what was there before the test may keep it too
    gc.collect()

    kept = [
        found for found in gc.get_objects() if isinstance(found, Note | MemoryDocument) and secret in str(found.text)
    ]
    containers = [found for found in gc.get_objects() if isinstance(found, dict | list | tuple | set)]
    strings = [one for found in containers for one in tuple(found.values() if isinstance(found, dict) else found)]
    assert not any(found.text for found in kept)
    assert not [one for one in strings if type(one) is str and secret in one and one is not secret]


async def test_a_file_that_two_sources_reach_is_one_note_for_distinctiveness(tmp_path: Path) -> None:
    """Four copies of a line make it nobody's; one file seen four times does not."""
    write(tmp_path, A=LONG)
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", B=f"{LONG}, in the folder below")
    sources = [make_source(f"s{number}", "markdown", tmp_path) for number in range(3)]
    sources += [make_source(f"t{number}", "markdown", tmp_path / "sub") for number in range(3)]

    index = (await NoteLibrary(sources).scan()).index

    assert index.facts("s2/A.md").distinctive == 1
    assert index.facts("s0/sub/B.md").distinctive == index.facts("t2/B.md").distinctive == 1
