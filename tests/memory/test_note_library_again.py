"""A library that scans again, or starts anew: only what changed is read."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from memory.note_library import LibraryOptions, NoteLibrary
from memory.notes import MemoryDocument, Note
from memory.sources import make_source
from tests.memory.libraries import LONG, Remembered, write


class Watched:
    """What a library reads and indexes from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from memory.index import NoteIndex

        self.read: list[str] = []
        self.indexed: list[str] = []
        build = NoteIndex.build

        def building(notes: Iterable[Note], **options: object) -> NoteIndex:
            notes = list(notes)
            self.indexed += [note.path for note in notes if not note.unread]
            return build(notes, **options)  # type: ignore[arg-type]

        def opening(file: str, mode: str, buffering: int) -> object:
            self.read.append(Path(file).name)
            return open(file, mode, buffering=buffering)  # noqa: PTH123

        monkeypatch.setattr(NoteIndex, "build", building)
        monkeypatch.setattr("memory.sources.markdown.open", opening, raising=False)
        monkeypatch.setattr("memory.sources.markdown.SETTLED_AFTER", -(10**18))


async def test_only_changed_notes_are_read_and_indexed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    lines = {
        "A": "A heron stands at the weir until noon",
        "B": "Bread is baked on the second Friday",
        "C": "Candles burn longer in a cold room",
    }
    library = NoteLibrary([make_source("vault", "markdown", write(tmp_path, **lines))])
    await library.scan()
    assert watched.read == watched.indexed == ["A.md", "B.md", "C.md"]

    new = "Nobody had seen the key to the tower"
    write(tmp_path, B=f"[[C]]\n{new}")
    index = (await library.scan()).index

    assert watched.read[3:] == watched.indexed[3:] == ["B.md"]
    assert [sighting.note for text in (lines["A"], lines["C"], new) for sighting in index.match(text)] == [
        "vault/A.md",
        "vault/C.md",
        "vault/B.md",
    ]
    assert index.match(lines["B"]) == ()
    assert library.snapshot.map.links() == [["vault/B.md", "vault/C.md"]]
    await library.scan()
    assert watched.read[4:] == watched.indexed[4:] == []


async def test_a_new_name_is_found_after_a_rescan(tmp_path: Path) -> None:
    library = NoteLibrary([make_source("vault", "markdown", write(tmp_path, A="---\naliases: [Alpha]\n---\n", B=""))])
    before = (await library.scan()).index

    write(tmp_path, A="---\naliases: [Omega]\n---\n")
    after = (await library.scan()).index

    assert [[one.note for one in index.match("[[Alpha]]")] for index in (before, after)] == [["vault/A.md"], []]
    assert [[one.note for one in index.match("[[Omega]]")] for index in (before, after)] == [[], ["vault/A.md"]]


async def test_after_other_options_every_note_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    source = make_source("vault", "markdown", write(tmp_path, A="twelve chars", B=""))
    library = NoteLibrary([source])
    await library.scan()

    library.configure([source], LibraryOptions(minimum_line_length=12))
    index = (await library.scan()).index

    assert watched.read == ["A.md", "B.md"] * 2
    assert index.facts("vault/A.md").distinctive == 1


async def test_a_scan_that_failed_leaves_nothing_half_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    library = NoteLibrary([make_source("vault", "markdown", write(tmp_path, A=LONG))])
    await library.scan()
    write(tmp_path, A=f"{LONG}, changed")
    with monkeypatch.context() as patched:
        patched.setattr("memory.note_library.NoteMap", None)
        with pytest.raises(TypeError):
            await library.scan()

    index = (await library.scan()).index

    assert watched.read == ["A.md"] * 3
    assert [sighting.note for sighting in index.match(f"{LONG}, changed")] == ["vault/A.md"]


async def test_a_source_that_failed_meanwhile_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    vault = write(tmp_path / "vault", A=LONG)
    library = NoteLibrary([make_source("vault", "markdown", vault)])
    await library.scan()
    vault.rename(tmp_path / "away")
    assert (await library.scan()).sources[0].error is not None
    (tmp_path / "away").rename(vault)

    snapshot = await library.scan()

    assert watched.read == ["A.md"] * 2
    assert [sighting.note for sighting in snapshot.index.match(LONG)] == ["vault/A.md"]


async def test_a_user_s_source_that_gives_the_same_keeps_map_and_index() -> None:
    source = Remembered("mine", MemoryDocument("a.md", LONG), MemoryDocument("b.md", "[[a]]", links=("a",)))
    library = NoteLibrary([source])
    first = await library.scan()

    second = await library.scan()
    source.documents = [MemoryDocument("a.md", LONG, title="Another")]
    third = await library.scan()

    assert source.loads == 3
    assert second.map is first.map
    assert second.index is first.index
    assert third.map.nodes()[0]["title"] == "Another"


# ---- what is kept for the next start


async def test_a_second_start_parses_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = write(tmp_path / "vault", A=f"# H\n[[B]]\n{LONG}", B="---\ntitle: Bee\n---\n")
    first = NoteLibrary([make_source("vault", "markdown", vault)], cache=tmp_path / "cache")
    before = await first.scan()
    await first.aclose()
    monkeypatch.setattr("memory.sources.markdown.parse", None)

    second = NoteLibrary([make_source("vault", "markdown", vault)], cache=tmp_path / "cache")
    after = await second.scan()
    await second.aclose()

    assert after.sources[0].warnings == ()
    assert after.map.nodes() == before.map.nodes()
    assert after.map.links() == before.map.links()
    assert [sighting.note for sighting in after.index.match(LONG)] == ["vault/A.md"]


async def test_what_changed_later_is_kept_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = write(tmp_path / "vault", A="one")
    library = NoteLibrary([make_source("vault", "markdown", vault)], cache=tmp_path / "cache")
    await library.scan()
    write(vault, A="[[B]]", B="")
    await library.scan()
    await library.aclose()
    monkeypatch.setattr("memory.sources.markdown.parse", None)

    again = NoteLibrary([make_source("vault", "markdown", vault)], cache=tmp_path / "cache")

    assert (await again.scan()).map.links() == [["vault/A.md", "vault/B.md"]]


async def test_without_a_cache_nothing_is_written(tmp_path: Path) -> None:
    vault = write(tmp_path / "vault", A="one")
    library = NoteLibrary([make_source("vault", "markdown", vault)])
    await library.scan()
    await library.aclose()

    assert os.listdir(tmp_path) == ["vault"]  # noqa: PTH208  # the loop may wait for a test
