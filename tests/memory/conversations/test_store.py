"""Whose folder is whose, sessions that end, and the one process that may write."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from memory.conversations import files
from memory.conversations.journal import FILE_NAME
from memory.conversations.reading import read, sessions, sizes, summary, text
from memory.conversations.sessions import Limits, Session, is_id, new_id
from memory.conversations.store import CLIENTS_FILE, Closed, DamagedError, InUseError, Store
from tests.memory.conversations.talk import START, Talk, assistant, user


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    with Talk(tmp_path / "memory") as made:
        yield made


def test_a_client_has_a_folder_of_its_name(talk: Talk) -> None:
    assert talk.store.folder_of("work") == talk.directory / "work"
    assert sorted(path.name for path in (talk.directory / "work").iterdir()) == ["archive", "sessions"]
    talk.restart()
    assert talk.store.folder_of("work") == talk.directory / "work"
    assert talk.store.clients() == ["work"]


def test_a_client_that_is_made_again_inherits_nothing(talk: Talk) -> None:
    talk.say([user("a")], assistant("b"))
    talk.say([user("a")], assistant("b"), client="home")
    assert talk.store.configure(["work", "home", "without-memory"]) == []
    assert talk.store.configure(["home"]) == [talk.directory / "work"]
    talk.restart()
    assert talk.store.configure(["work", "home"]) == []
    assert talk.store.left_folders() == [talk.directory / "work"]
    recorded = talk.say([user("a"), assistant("b"), user("c")], assistant("d"))
    assert recorded is not None
    assert recorded.path.parent == talk.directory / "work-2" / "sessions"
    assert "goes on" not in recorded.path.read_text().lower()
    assert len(list((talk.directory / "work" / "sessions").iterdir())) == 1
    talk.store.configure(["home"])
    assert talk.store.folder_of("work") == talk.directory / "work-3"


def test_a_token_goes_with_its_client(talk: Talk) -> None:
    mine, yours = "0a" * 32, "0b" * 32
    talk.store.configure(["work", "home"])
    assert talk.store.token_of("work") is None
    for client, digest in (("work", yours), ("work", mine), ("home", yours)):
        talk.store.set_token(client, digest)
    talk.say([user("a")], assistant("b"))
    talk.restart()
    assert (talk.store.token_of("work"), talk.store.token_of("home")) == (mine, yours)
    talk.store.forget("work", shutil.rmtree)
    assert talk.store.token_of("work") == mine  # its conversations are gone, and not itself
    talk.store.configure(["home"])
    talk.restart()
    talk.store.configure(["work", "home"])
    assert (talk.store.token_of("work"), talk.store.token_of("home")) == (None, yours)
    assert mine not in (talk.directory / CLIENTS_FILE).read_text()
    assert (talk.directory / CLIENTS_FILE).stat().st_mode & 0o777 == 0o600


def test_a_token_that_cannot_be_written_down_leaves_the_one_before(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    talk.store.set_token("work", "0a" * 32)

    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(files, "replace", refuse)
    with pytest.raises(OSError):
        talk.store.set_token("work", "0b" * 32)
    assert talk.store.token_of("work") == "0a" * 32


def test_a_table_of_clients_from_before_there_were_tokens(tmp_path: Path) -> None:
    (tmp_path / CLIENTS_FILE).write_text(f'{{"key": "{"00" * 16}", "folders": {{"work": "work"}}}}')
    store = Store(tmp_path)
    store.open()
    assert (store.clients(), store.token_of("work")) == (["work"], None)
    store.close()


def test_a_folder_that_is_there_already_is_nobodys(talk: Talk) -> None:
    (talk.directory / "work").mkdir()
    assert talk.store.folder_of("work") == talk.directory / "work-2"


def test_what_is_under_way_for_a_client_that_is_gone_has_no_old_folder(talk: Talk) -> None:
    memory = talk.store.memory_of("work")
    talk.store.configure([])
    assert memory.left
    assert talk.say([user("a")], assistant("b")) is not None
    assert list(memory.sessions.iterdir()) == []


def test_one_process_at_a_time(talk: Talk) -> None:
    program = (
        "import sys; from pathlib import Path; from memory.conversations.store import InUseError, Store\n"
        "try: Store(Path(sys.argv[1])).open()\n"
        "except InUseError as error: print(error)\n"
    )
    command = [sys.executable, "-c", program, str(talk.directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    assert done.stdout == (
        f"another mitmemory uses the conversations in {talk.directory}: ask that one, or end it first\n"
    )
    with pytest.raises(InUseError):
        Store(talk.directory).open()
    talk.store.close()
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    assert done.stdout == ""


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"key": "00", "folders": {}}',
        '{"key": "zz", "folders": {}}',
        f'{{"key": "{"00" * 16}", "folders": []}}',
        f'{{"key": "{"00" * 16}", "folders": {{"../x": "work"}}}}',
        f'{{"key": "{"00" * 16}", "folders": {{"work": "../x"}}}}',
        f'{{"key": "{"00" * 16}", "folders": {{"a": "work", "b": "work"}}}}',
        f'{{"key": "{"00" * 16}", "folders": {{"a": 1}}}}',
        f'{{"key": "{"00" * 16}", "folders": {{}}, "tokens": []}}',
        f'{{"key": "{"00" * 16}", "folders": {{}}, "tokens": {{"work": "{"0" * 63}"}}}}',
        f'{{"key": "{"00" * 16}", "folders": {{}}, "tokens": {{"work": null}}}}',
    ],
)
def test_a_damaged_table_of_clients_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / CLIENTS_FILE).write_text(content)
    with pytest.raises(DamagedError, match="is damaged: restore it, or move it away"):
        Store(tmp_path).open()
    (tmp_path / CLIENTS_FILE).unlink()
    store = Store(tmp_path)
    store.open()
    store.close()


def test_a_session_ends_after_a_time_of_silence(talk: Talk) -> None:
    recorded = talk.say([user("a")], assistant("b"))
    assert recorded is not None
    silent = START + timedelta(seconds=5, hours=3)
    assert talk.store.expire(silent) == []
    expected = [Closed("work", recorded.session, recorded.path)]
    assert talk.store.expire(silent + timedelta(seconds=1)) == expected
    assert talk.store.expire(silent + timedelta(days=1)) == []
    again = talk.say([user("x")], assistant("y"))
    assert again is not None
    assert again.session != recorded.session


def test_what_expired_meanwhile_is_closed_at_start(talk: Talk) -> None:
    first = talk.say([user("a")], assistant("b"))
    talk.say(
        [user("a")],
        assistant("b"),
        client="home",
        at=talk.now + timedelta(hours=2),
        answered_at=START + timedelta(hours=2),
    )
    talk.restart()
    assert first is not None
    assert talk.store.expire(START + timedelta(hours=4)) == [Closed("work", first.session, first.path)]
    talk.restart()
    assert talk.store.memory_of("work").known.session is None
    assert talk.store.memory_of("home").known.session is not None


@pytest.mark.parametrize(
    ("silent", "lasting", "over"),
    [
        (timedelta(hours=3), timedelta(hours=7), False),
        (timedelta(hours=3, seconds=1), timedelta(hours=7), True),
        (timedelta(), timedelta(hours=8), False),
        (timedelta(), timedelta(hours=8, seconds=1), True),
        (-timedelta(hours=9), timedelta(), False),
    ],
)
def test_when_a_session_is_over(silent: timedelta, lasting: timedelta, *, over: bool) -> None:
    now = START + timedelta(days=1)
    assert Session("id", now - lasting, now - silent).is_over(now, Limits()) is over


def test_ids_are_readable_and_sort_by_time() -> None:
    made = new_id(START)
    assert made.startswith("2026-11-30T041233Z-")
    assert is_id(made)
    assert made != new_id(START)
    assert not any(
        is_id(text) for text in ("", "../x", made.upper(), f"{made}/", f"{made}\n", "2026-11-30T041233Z-k3f9-summary")
    )


def test_sessions_are_listed_newest_first(talk: Talk) -> None:
    first = talk.say([user("a")], assistant("b"))
    talk.now += timedelta(hours=4)
    second = talk.say([user("c")], assistant("d"))
    assert first is not None
    assert second is not None
    memory = talk.store.memory_of("work")
    (memory.sessions / "my own.md").write_text("a person's file")
    (memory.sessions / f"{first.session}-summary.md").write_text("What was said")
    first.path.rename(memory.archive / first.path.name)
    found = sessions(memory)
    assert [(one.id, one.state, one.summarised) for one in found] == [
        (second.session, "current", False),
        (first.session, "archived", True),
    ]
    assert found[1].started == START
    assert found[1].size == (memory.archive / first.path.name).stat().st_size + 13
    assert summary(memory, first.session) == "What was said"
    assert summary(memory, second.session) is None
    assert text(memory, second.session) == second.path.read_text()
    assert read(memory, first.session).session == first.session
    total = sizes(memory)
    assert total.sessions == second.path.stat().st_size + 13 + 15
    assert total.archive == (memory.archive / first.path.name).stat().st_size
    assert total.other == (memory.folder / FILE_NAME).stat().st_size


def test_a_journal_that_was_damaged_is_read_as_far_as_it_goes(talk: Talk) -> None:
    talk.say([user("a")], assistant("b"))
    talk.say([user("x")], assistant("y"))
    journal = talk.directory / "work" / FILE_NAME
    first, second = journal.read_text().splitlines()
    wrong = [{**json.loads(first), "passed": 1}, {**json.loads(first), "more": 1}, {"closed": 1}, [], 1]
    lines = [first, "", "[" * 100_000, "\ufffd", *map(json.dumps, wrong), second]
    journal.write_text("\n".join(lines) + '\n{"torn')
    talk.restart()
    assert talk.place([user("a"), assistant("b"), user("c")], assistant("d")) == (1, 2)
    assert talk.place([user("x"), assistant("y"), user("z")], assistant("w")) == (2, 2)
    assert '{"torn' not in journal.read_text()


def test_a_journal_does_not_grow_for_ever(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        talk.say([user(f"message {number}")], assistant("b"))
    monkeypatch.setattr("memory.conversations.journal.MOST_LINES", 4)
    talk.restart()
    assert talk.place([user("message 8"), assistant("b"), user("c")], assistant("d")) == (9, 2)
    assert len((talk.directory / "work" / FILE_NAME).read_text().splitlines()) == 5
    assert talk.place([user("message 0"), assistant("b"), user("c")], assistant("d")) == (10, 1)
