"""What notes say of sharing, from the file to what rules ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.exchange import Sighting
from memory.note_library import NoteLibrary
from memory.notes import MemoryDocument
from memory.rules import Judged, NoteFacts, NotesFacts, RuleBook, judge
from memory.sources import make_source


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


async def test_a_note_carries_its_rule_with_it(tmp_path: Path) -> None:
    write(tmp_path, "x/Diary.md", "---\nshare: never\ntags: [private]\n---\nText")
    write(tmp_path, "Plan.md", "Text")
    snapshot = await NoteLibrary([make_source("vault", "markdown", tmp_path)]).scan()

    facts = NotesFacts(snapshot.map.notes)

    assert facts.any_share
    assert facts.of("vault/x/Diary.md") == NoteFacts("vault/x/Diary.md", "vault", "vault/x", ("private",), "never")
    assert facts.of("vault/Plan.md") == NoteFacts("vault/Plan.md", "vault", "vault")
    seen = [Sighting("vault/x/Diary.md", "Diary", "reference", "reference", 0, 0)]
    decision = judge(RuleBook(), Judged("codex", "openai", "m", "cloud"), seen, facts)
    assert (decision.action, decision.rule) == ("block", "share: never")


async def test_a_note_that_says_something_else_now_is_another_note(tmp_path: Path) -> None:
    write(tmp_path, "A.md", "---\nshare: never\n---\n")
    library = NoteLibrary([make_source("vault", "markdown", tmp_path)])
    await library.scan()
    write(tmp_path, "A.md", "---\nshare: local\n---\n")

    snapshot = await library.scan()

    assert snapshot.map.notes["vault/A.md"].share == "local"


async def test_a_word_that_says_nothing_is_a_warning_and_no_rule(tmp_path: Path) -> None:
    write(tmp_path, "A.md", "---\nshare: perhaps\n---\n")
    snapshot = await NoteLibrary([make_source("vault", "markdown", tmp_path)]).scan()

    assert not NotesFacts(snapshot.map.notes).any_share
    (warning,) = snapshot.sources[0].warnings
    assert warning.reason == "`share` in the frontmatter is none of never, local, ask; rules decide"


async def test_a_memory_file_of_claude_code(tmp_path: Path) -> None:
    write(tmp_path, "projects/-home-me-x/memory/MEMORY.md", "---\nshare: ask\n---\n")
    snapshot = await NoteLibrary([make_source("claude-code", "claude_code", tmp_path)]).scan()

    assert [note.share for note in snapshot.map.notes.values()] == ["ask"]


@pytest.mark.parametrize("share", ["never", None])
async def test_a_document_of_the_users_own_source(share: str | None) -> None:
    class Own:
        name, kind, location = "own", "own", "memory"

        async def load(self) -> list[MemoryDocument]:
            return [MemoryDocument("A", "", share=share)]  # type: ignore[arg-type]

    snapshot = await NoteLibrary([Own()]).scan()

    assert snapshot.map.notes["own/A"].share == share
