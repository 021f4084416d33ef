"""Deleting a turn, a conversation, a session, a client: what is deleted is nowhere any more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from memory.conversations import deleting
from memory.conversations.archive import put_away, put_summary
from memory.conversations.deleting import (
    Deleted,
    NotGoneError,
    delete_client,
    delete_conversation,
    delete_session,
    delete_turn,
)
from memory.conversations.journal import FILE_NAME
from memory.conversations.reading import NotThereError, conversation, read, sessions, turn
from memory.conversations.store import ClientMemory
from tests.memory.conversations.talk import READ, Talk, assistant, tool, user


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    with Talk(tmp_path / "memory") as made:
        yield made


EGGS = [user("Eggs?"), assistant("Boiled.", READ), tool("a timer"), assistant("Six minutes."), user("Sure?")]


def two_conversations(talk: Talk) -> tuple[ClientMemory, str, Path]:
    """Eggs with two turns, the first in two parts with ships between them; then ships again."""
    talk.say(EGGS[:1], EGGS[1])
    talk.say([user("Ships?")], assistant("Sailing."))
    talk.say(EGGS[:3], EGGS[3])
    talk.say(EGGS, assistant("Quite sure."))
    recorded = talk.say([user("Ships?"), assistant("Sailing."), user("Where?")], assistant("East."))
    assert recorded is not None
    return talk.store.memory_of("work"), recorded.session, recorded.path


def everything(folder: Path) -> str:
    return "".join(path.read_bytes().decode() for path in sorted(folder.rglob("*")) if path.is_file())


def turns_in(memory: ClientMemory, session: str) -> list[tuple[int, int]]:
    return [(chat.number, one.number) for chat in read(memory, session).conversations for one in chat.turns]


def test_a_turn_is_deleted_with_all_its_parts(talk: Talk) -> None:
    memory, session, path = two_conversations(talk)
    assert delete_turn(memory, session, 1, 1) == Deleted(gone=[], changed=[path])
    assert turns_in(memory, session) == [(1, 2), (2, 1), (2, 2)]
    assert not any(word in everything(memory.folder) for word in ("Eggs", "Boiled", "timer", "Six"))
    with pytest.raises(NotThereError, match=r"there is no turn 1 in conversation 1 of session 2026-"):
        delete_turn(memory, session, 1, 1)
    assert path.read_text().split("---\n\n", 1)[1] == (
        "# Conversation 1 (2026-11-30 04:12:33 UTC)\n\n"
        "# Conversation 2 (2026-11-30 04:12:43 UTC)\n\n"
        "## User (2026-11-30 04:12:43 UTC, conversation 2, turn 1)\n\nShips?\n\n"
        "## Assistant (2026-11-30 04:12:48 UTC, claude-sonnet-4, conversation 2, turn 1)\n\nSailing.\n\n"
        "# Conversation 1 (2026-11-30 04:12:53 UTC, continued)\n\n"
        "## User (2026-11-30 04:13:03 UTC, conversation 1, turn 2)\n\nSure?\n\n"
        "## Assistant (2026-11-30 04:13:08 UTC, claude-sonnet-4, conversation 1, turn 2)\n\nQuite sure.\n\n"
        "# Conversation 2 (2026-11-30 04:13:13 UTC, continued)\n\n"
        "## User (2026-11-30 04:13:13 UTC, conversation 2, turn 2)\n\nWhere?\n\n"
        "## Assistant (2026-11-30 04:13:18 UTC, claude-sonnet-4, conversation 2, turn 2)\n\nEast.\n\n"
    )


def test_a_conversation_goes_on_after_a_turn_was_deleted(talk: Talk) -> None:
    memory, session, _ = two_conversations(talk)
    delete_turn(memory, session, 1, 2)
    for _ in range(2):
        assert talk.place([*EGGS, assistant("Quite sure."), user("Thanks")], assistant("Enjoy.")) in {(1, 3), None}
        talk.restart()
    memory = talk.store.memory_of("work")
    assert turn(memory, session, 1, 3).instead_of is None
    assert "# Conversation 1 (2026-11-30 04:13:23 UTC, continued)\n\n## User" in talk.transcript()
    assert turns_in(memory, session) == [(1, 1), (1, 3), (2, 1), (2, 2)]


def test_the_next_turn_does_not_stand_below_another_conversation(talk: Talk) -> None:
    """The heading above the turn that was deleted, the last one of the file, is gone too."""
    talk.say([user("a")], assistant("b"))
    talk.say([user("x")], assistant("y"))
    recorded = talk.say([user("a"), assistant("b"), user("c")], assistant("d"))
    assert recorded is not None
    delete_turn(talk.store.memory_of("work"), recorded.session, 1, 2)
    history = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")]
    assert talk.place(history, assistant("f")) == (1, 3)
    assert [line for line in talk.transcript().split("\n") if line.startswith("# ")] == [
        "# Conversation 1 (2026-11-30 04:12:33 UTC)",
        "# Conversation 2 (2026-11-30 04:12:43 UTC)",
        "# Conversation 1 (2026-11-30 04:13:03 UTC, continued)",
    ]


def test_a_conversation_is_deleted(talk: Talk) -> None:
    memory, session, path = two_conversations(talk)
    places = len(memory.known.places)
    assert delete_conversation(memory, session, 1) == Deleted(gone=[], changed=[path])
    assert turns_in(memory, session) == [(2, 1), (2, 2)]
    assert len(memory.known.places) == 4 < places
    assert not any(word in everything(memory.folder) for word in ("Eggs", "Boiled", "timer", "Six", "Sure", "Quite"))
    assert "# Conversation 1" not in path.read_text()
    with pytest.raises(NotThereError, match=r"there is no conversation 1 in session 2026-"):
        conversation(memory, session, 1)
    talk.restart()
    assert talk.place([*EGGS, assistant("Quite sure."), user("Thanks")], assistant("Enjoy.")) == (3, 1)


def test_what_is_left_without_a_turn_goes(talk: Talk) -> None:
    memory, session, path = two_conversations(talk)
    delete_conversation(memory, session, 2)
    delete_turn(memory, session, 1, 1)
    assert delete_turn(memory, session, 1, 2) == Deleted(gone=[path], changed=[])
    assert sessions(memory) == []
    recorded = talk.say([user("a")], assistant("b"))
    assert recorded is not None
    assert recorded.session != session


def test_a_session_is_deleted(talk: Talk) -> None:
    memory, session, path = two_conversations(talk)
    talk.now += timedelta(hours=4)
    later = talk.say([*EGGS, assistant("Quite sure."), user("Thanks")], assistant("Enjoy."))
    assert later is not None
    assert delete_session(memory, session) == Deleted(gone=[path], changed=[])
    assert [one.id for one in sessions(memory)] == [later.session]
    assert session not in (memory.folder / FILE_NAME).read_text()
    with pytest.raises(NotThereError, match=f"there is no session {session}"):
        delete_session(memory, session)
    talk.restart()
    history = [*EGGS, assistant("Quite sure."), user("Thanks"), assistant("Enjoy."), user("Bye")]
    assert talk.place(history, assistant("Bye")) == (1, 2)


@pytest.mark.parametrize("session", ["../../other", "", "2026-11-30T041233Z-k3f9", "x" * 1000, "\0"])
def test_only_a_session_can_be_named(talk: Talk, session: str) -> None:
    memory, *_ = two_conversations(talk)
    for delete in (lambda: delete_session(memory, session), lambda: delete_turn(memory, session, 1, 1)):
        with pytest.raises(NotThereError, match="there is no session"):
            delete()


def test_a_summary_goes_with_what_it_tells_of(talk: Talk) -> None:
    memory, session, path = two_conversations(talk)
    talk.now += timedelta(hours=4)
    later = talk.say([*EGGS, assistant("Quite sure."), user("Thanks")], assistant("Enjoy."))
    talk.now += timedelta(hours=4)
    unrelated = talk.say([user("a")], assistant("b"))
    assert later is not None
    assert unrelated is not None
    memory.close_session()
    for one in (session, later.session, unrelated.session):
        put_summary(memory.folder, one, f"old {one}")
        put_summary(memory.folder, one, f"new {one}")
        put_away(memory.folder, one)
    assert {one.state for one in sessions(memory)} == {"archived"}
    deleted = delete_turn(memory, session, 1, 1)
    assert deleted == Deleted(
        gone=[
            memory.sessions / f"{session}-summary.md",
            memory.archive / f"{session}-summary-1.md",
            memory.sessions / f"{later.session}-summary.md",
            memory.archive / f"{later.session}-summary-1.md",
        ],
        changed=[path, later.path],
    )
    assert [(one.id, one.state, one.summarised) for one in sessions(memory)] == [
        (unrelated.session, "archived", True),
        (later.session, "closed", False),
        (session, "closed", False),
    ]
    assert "Eggs" not in everything(memory.folder)


def test_a_client_is_deleted(talk: Talk) -> None:
    memory, _, path = two_conversations(talk)
    (memory.folder / ".memsearch").mkdir()
    (memory.folder / ".memsearch" / "index").write_text("Eggs")
    assert delete_client(talk.store, "work") == Deleted(gone=[path], changed=[])
    assert [one.name for one in talk.directory.iterdir() if one.name.startswith("work")] == []
    assert "Eggs" not in everything(talk.directory)
    assert talk.store.left_folders() == []
    recorded = talk.say([*EGGS, assistant("Quite sure."), user("Thanks")], assistant("Enjoy."))
    assert recorded is not None
    assert recorded.path.parent == talk.directory / "work-2" / "sessions"
    assert (recorded.conversation, recorded.turn) == (1, 1)


def test_what_is_still_there_is_said(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, session, path = two_conversations(talk)
    monkeypatch.setattr(deleting.files, "replace", lambda *_: None)
    for delete in (lambda: delete_turn(memory, session, 1, 1), lambda: delete_conversation(memory, session, 1)):
        with pytest.raises(NotGoneError, match="still holds what was to be deleted"):
            delete()
    monkeypatch.undo()
    assert delete_turn(memory, session, 1, 1).changed == [path]
