"""Which notes rules may withhold changes while the library runs: it knows all lines of those, and of no others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from memory.exchange import Redaction
from memory.note_library import NoteLibrary
from memory.notes import Note
from memory.redact import NOT_KNOWN, redact
from memory.rules import Rule, RuleBook, When, facts_of
from memory.sources import make_source
from memory.sources.markdown import MarkdownSource

LEDGER = "The ledger of the harbour lies in the third drawer.\nPIN 4711\n"
LETTER = "A letter to the pilot, who never answered any of ours.\nCode 0815\n"
STRIPPED = b'"[withheld]\\n[withheld]\\n"'


def reach_ledger(note: Note) -> bool:
    return note.path == "Ledger.md"


def reach_all(_: Note) -> bool:
    return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "Ledger.md").write_text(LEDGER, "utf-8")
    (vault / "Letter.md").write_text(LETTER, "utf-8")
    return vault


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what has just been written is not read once more."""
    monkeypatch.setattr("memory.sources.markdown.SETTLED_AFTER", -(10**18))


def library_of(folder: Path, cache: Path | None = None) -> NoteLibrary:
    return NoteLibrary([make_source("vault", "markdown", folder)], cache=cache)


def withheld(library: NoteLibrary, note: str, text: str) -> bytes | tuple[str, ...]:
    body = b'"%s"' % text.replace("\n", r"\n").encode()
    redacted = redact(library.snapshot.index, body, [Redaction(f"vault/{note}", "[withheld]")])
    return redacted.data if redacted.complete else redacted.reasons


def lines(library: NoteLibrary) -> dict[str, Any]:
    """Of each note whose lines are all known, how many there are."""
    every = library.snapshot.index.every_line
    return {note: len(every.wanted([note]).folds) for note in every.notes}


async def test_at_the_first_scan_all_lines_of_the_notes_in_reach_are_known(folder: Path) -> None:
    library = library_of(folder)
    library.reach(reach_ledger)
    assert not library.is_ready
    await library.scan()
    assert (library.is_ready, lines(library)) == (True, {"vault/Ledger.md": 2})
    assert withheld(library, "Ledger.md", LEDGER) == STRIPPED
    assert withheld(library, "Letter.md", LETTER) == (NOT_KNOWN,)


@pytest.mark.parametrize("cached", [False, True])
async def test_a_reach_that_grows_reads_the_notes_again(folder: Path, tmp_path: Path, cached: bool) -> None:
    cache = tmp_path / "cache" if cached else None
    first = library_of(folder, cache)
    await first.scan()
    await first.aclose()
    library = library_of(folder, cache)
    await library.scan()
    assert lines(library) == {}
    for reach, known in (
        (reach_ledger, {"vault/Ledger.md": 2}),
        (reach_all, {"vault/Ledger.md": 2, "vault/Letter.md": 2}),
    ):
        library.reach(reach)
        assert not library.is_ready
        await library.scan()
        assert (library.is_ready, lines(library)) == (True, known)
    assert withheld(library, "Letter.md", LETTER) == STRIPPED


@pytest.mark.usefixtures("settled")
async def test_a_reach_that_shrinks_forgets_lines_and_reads_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = library_of(folder)
    library.reach(reach_all)
    before = await library.scan()
    monkeypatch.setattr(MarkdownSource, "_read", None)
    for reach, known in ((reach_ledger, {"vault/Ledger.md": 2}), (None, {})):
        library.reach(reach)
        await library.scan()
        assert (library.is_ready, lines(library)) == (True, known)
    assert library.snapshot.map.nodes() == before.map.nodes()


@pytest.mark.usefixtures("settled")
async def test_another_reach_of_the_same_notes_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = library_of(folder)
    library.reach(reach_ledger)
    before = await library.scan()
    heard: list[object] = []
    library.on_change.append(heard.append)
    monkeypatch.setattr(MarkdownSource, "_read", None)
    library.reach(lambda note: note.path == "Ledger.md")
    after = await library.scan()
    assert (library.is_ready, after.index, after.map, heard) == (True, before.index, before.map, [])


async def test_after_edits_as_many_lines_are_known_as_after_a_whole_scan(folder: Path) -> None:
    library = library_of(folder)
    library.reach(reach_all)
    await library.scan()
    (folder / "Ledger.md").write_text(LEDGER + "And a key under the mat\n", "utf-8")
    (folder / "Letter.md").unlink()
    (folder / "New.md").write_text("A new note has come with the tide this morning.\nTwo\nThree\n", "utf-8")
    await library.scan()
    whole = library_of(folder)
    whole.reach(reach_all)
    await whole.scan()
    assert lines(library) == lines(whole) == {"vault/Ledger.md": 3, "vault/New.md": 3}
    assert withheld(library, "Ledger.md", "key: And a key under the mat") == withheld(
        whole, "Ledger.md", "key: And a key under the mat"
    )
    text = LEDGER + "And a key under the mat"
    assert withheld(library, "Ledger.md", text) == rb'"[withheld]\n[withheld]\n[withheld]"'


async def test_a_reach_that_comes_during_a_scan_is_that_of_its_result(folder: Path) -> None:
    library = library_of(folder)
    running = asyncio.ensure_future(library.scan())
    await asyncio.sleep(0)
    library.reach(reach_all)
    await running
    assert (library.is_ready, set(lines(library))) == (True, {"vault/Ledger.md", "vault/Letter.md"})


@pytest.mark.parametrize(
    ("when", "reached"),
    [
        (When(), True),
        (When(note=("vault/Ledger.md",)), True),
        (When(note=("vault/Letter.md",)), False),
        (When(folder=("vault/Money",)), False),
        (When(tags=("private",)), True),
        (When(tags=("public",)), False),
        (When(source=("other",)), False),
        (When(source=("vault",), tags=("private",), to="cloud", client=("codex",)), True),
    ],
)
def test_a_rule_reaches_the_notes_that_meet_what_it_says_of_notes(when: When, reached: bool) -> None:
    note = Note("vault/Ledger.md", "vault", "Ledger.md", "Ledger", "", (), ("private/money",), (), 0)
    for then, may in (("redact", reached), ("block", False), ("hold", False)):
        book = RuleBook((Rule("first", When(), "allow"), Rule("r", when, then)))  # type: ignore[arg-type]
        assert book.may_redact(facts_of(note)) is may
        assert book.redacts is (then == "redact")


@pytest.mark.parametrize("share", ["never", "local", "ask"])
def test_what_a_note_says_of_sharing_withholds_no_line(share: Any) -> None:
    note = Note("vault/Ledger.md", "vault", "Ledger.md", "Ledger", "", (), (), (), 0, share=share)
    assert RuleBook((), local_targets=("home",)).may_redact(facts_of(note)) is False
