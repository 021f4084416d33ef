"""What is recorded of requests and answers: each turn once, whole, in the conversation that it belongs to."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.conversations import files
from memory.conversations.known import MOST_CONVERSATIONS
from memory.conversations.reading import read
from memory.conversations.said import Message, Result
from memory.conversations.sessions import Limits
from memory.conversations.transcript import Called, Link, Returned, Transcript
from tests.memory.conversations.talk import READ, START, Talk, assistant, tool, user


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    with Talk(tmp_path / "memory") as made:
        yield made


def read_all(talk: Talk, client: str = "work") -> Transcript:
    memory = talk.store.memory_of(client)
    [path] = memory.sessions.iterdir()
    return read(memory, path.stem)


def said_in(transcript: Transcript) -> list[tuple[int, int, tuple[Any, ...]]]:
    """(conversation, turn, pieces of all its parts)."""
    return [
        (chat.number, turn.number, tuple(piece for part in turn.parts for piece in part.pieces))
        for chat in transcript.conversations
        for turn in chat.turns
    ]


def test_two_turns_and_a_tool_loop(talk: Talk) -> None:
    calls = assistant("I look.", READ)
    history = [user("Where is the key?"), calls, tool("# Keys\nIn the blue box.")]
    assert talk.place(history[:1], calls) == (1, 1)
    assert talk.place(history, assistant("In the blue box.")) == (1, 1)
    assert talk.place([*history, assistant("In the blue box."), user("Thanks!")], assistant("You are welcome.")) == (
        1,
        2,
    )
    assert talk.transcript() == (
        "# Conversation 1 (2026-11-30 04:12:33 UTC)\n\n"
        "## User (2026-11-30 04:12:33 UTC, conversation 1, turn 1)\n\nWhere is the key?\n\n"
        "## Assistant (2026-11-30 04:12:38 UTC, claude-sonnet-4, conversation 1, turn 1)\n\nI look.\n\n"
        '> Called Read: {"file_path": "/notes/keys.md"}\n\n'
        "## Assistant (2026-11-30 04:12:48 UTC, claude-sonnet-4, conversation 1, turn 1, continued)\n\n"
        "> Result of 23 characters: # Keys In the blue box.\n\nIn the blue box.\n\n"
        "## User (2026-11-30 04:12:53 UTC, conversation 1, turn 2)\n\nThanks!\n\n"
        "## Assistant (2026-11-30 04:12:58 UTC, claude-sonnet-4, conversation 1, turn 2)\n\nYou are welcome.\n\n"
    )


def test_a_session_file_says_whose_it_is(talk: Talk) -> None:
    recorded = talk.say([user("a")], assistant("b"))
    assert recorded is not None
    assert recorded.path == talk.directory / "work" / "sessions" / f"{recorded.session}.md"
    transcript = read_all(talk)
    assert (transcript.client, transcript.session) == ("work", recorded.session)
    assert transcript.started == "2026-11-30T04:12:33Z"
    assert recorded.session.startswith("2026-11-30T041233Z-")


def test_conversations_that_take_turns_are_told_apart(talk: Talk) -> None:
    one, other = [user("Eggs?")], [user("Ships?")]
    assert talk.place(one, assistant("Boiled.")) == (1, 1)
    assert talk.place(other, assistant("Sailing.")) == (2, 1)
    assert talk.place([*one, assistant("Boiled."), user("Long?")], assistant("Six minutes.")) == (1, 2)
    assert talk.place([*other, assistant("Sailing."), user("Where?")], assistant("East.")) == (2, 2)
    assert [line for line in talk.transcript().split("\n") if line.startswith("# ")] == [
        "# Conversation 1 (2026-11-30 04:12:33 UTC)",
        "# Conversation 2 (2026-11-30 04:12:43 UTC)",
        "# Conversation 1 (2026-11-30 04:12:53 UTC, continued)",
        "# Conversation 2 (2026-11-30 04:13:03 UTC, continued)",
    ]
    assert said_in(read_all(talk)) == [
        (1, 1, ("Eggs?", "Boiled.")),
        (1, 2, ("Long?", "Six minutes.")),
        (2, 1, ("Ships?", "Sailing.")),
        (2, 2, ("Where?", "East.")),
    ]


def test_the_longest_prefix_wins(talk: Talk) -> None:
    talk.place([user("Hello")], assistant("Hi"))
    talk.place([user("Hello"), assistant("Hi"), user("Eggs?")], assistant("Boiled."))
    longer = [user("Hello"), assistant("Hi"), user("Eggs?"), assistant("Boiled."), user("Long?")]
    assert talk.place(longer, assistant("Six minutes.")) == (1, 3)
    assert "instead of" not in talk.transcript()


def test_a_retry_is_not_recorded_twice(talk: Talk) -> None:
    assert talk.place([user("a")], assistant("b")) == (1, 1)
    before = talk.transcript()
    assert talk.place([user("a")], assistant("b")) is None
    assert talk.place([user(" a\n")], assistant("b"), key="another") is None
    talk.restart()
    assert talk.place([user("a")], assistant("b")) is None
    assert talk.transcript() == before


def test_an_edited_message_is_a_fork(talk: Talk) -> None:
    start = [user("a"), assistant("b")]
    talk.place(start[:1], assistant("b"))
    talk.place([*start, user("c")], assistant("d"))
    assert talk.place([*start, user("c, but better")], assistant("e")) == (1, 3)
    assert "## User (2026-11-30 04:12:53 UTC, conversation 1, turn 3, instead of turn 2)" in talk.transcript()
    assert talk.place([*start, user("c, but better"), assistant("e"), user("f")], assistant("g")) == (1, 4)
    assert talk.place([*start, user("c"), assistant("d"), user("h")], assistant("i")) == (1, 5)
    assert talk.transcript().count("instead of") == 1


def test_an_answer_that_was_edited_is_a_fork(talk: Talk) -> None:
    talk.place([user("a")], assistant("b"))
    assert talk.place([user("a"), assistant("b, edited"), user("c")], assistant("d")) == (1, 2)
    assert [turn.instead_of for turn in read_all(talk).conversations[0].turns] == [None, 1]


def test_an_answer_that_was_made_anew_is_a_fork(talk: Talk) -> None:
    talk.place([user("a")], assistant("one"))
    assert talk.place([user("a")], assistant("two")) == (1, 2)
    assert said_in(read_all(talk)) == [(1, 1, ("a", "one")), (1, 2, ("a", "two"))]
    assert [turn.instead_of for turn in read_all(talk).conversations[0].turns] == [None, 1]


def test_an_answer_that_was_cut_off_is_asked_for_again(talk: Talk) -> None:
    talk.place([user("a")], assistant("as f"), complete=False)
    assert talk.place([user("a")], assistant("as far as it goes")) == (1, 1)
    [turn] = read_all(talk).conversations[0].turns
    assert [(part.pieces, part.cut_off, part.again) for part in turn.parts] == [
        (("a",), False, False),
        (("as f",), True, False),
        (("as far as it goes",), False, True),
    ]


def test_an_answer_that_was_interrupted_may_come_back_otherwise(talk: Talk) -> None:
    talk.place([user("a")], assistant("as f"), complete=False)
    assert talk.place([user("a"), assistant("as"), user("go on")], assistant("far")) == (1, 2)
    assert [turn.instead_of for turn in read_all(talk).conversations[0].turns] == [None, None]


def test_an_answer_that_grows_is_one_answer(talk: Talk) -> None:
    """Some streams tell their end with every piece."""
    talk.place([user("a")], assistant("Boiled "), at=START)
    assert talk.place([user("a")], assistant("Boiled eggs.", READ), at=START) == (1, 1)
    assert talk.place([user("a"), assistant("Boiled eggs.", READ), tool("x")], assistant("Done")) == (1, 1)
    for answer in ("East", "East, then north."):
        assert talk.place([user("Where?")], assistant(answer), key="socket", continues=True, at=START) == (2, 1)
    assert said_in(read_all(talk))[0][2] == (
        *("a", "Boiled ", "eggs.", Called("Read", '{"file_path": "/notes/keys.md"}')),
        *(Returned(1, "x"), "Done"),
    )


def test_a_changed_system_prompt_and_a_moved_cache_mark_change_nothing(talk: Talk) -> None:
    """Neither is among the messages; what is left of them is what a client puts into these."""
    talk.place([user("<system-reminder>Monday</system-reminder>\na")], assistant("b"))
    reminded = user("<system-reminder>Tuesday</system-reminder>\nc")
    assert talk.place([user("a"), assistant("b"), reminded], assistant("d")) == (1, 2)
    assert said_in(read_all(talk)) == [(1, 1, ("a", "b")), (1, 2, ("c", "d"))]
    assert "Monday" not in talk.transcript()


def test_history_that_was_sent_before_there_was_a_memory_is_not_recorded(talk: Talk) -> None:
    history = [user("a"), assistant("b"), user("c"), assistant("", READ), tool("text")]
    assert talk.place(history, assistant("d")) == (1, 1)
    assert said_in(read_all(talk)) == [
        (1, 1, ("c", Called("Read", '{"file_path": "/notes/keys.md"}'), Returned(4, "text"), "d"))
    ]
    assert talk.place([user("a"), assistant("b"), user("edited")], assistant("e")) == (1, 2)


def test_a_clients_own_key_is_one_conversation(talk: Talk) -> None:
    assert talk.place([user("Hello")], assistant("Hi"), key="one") == (1, 1)
    assert talk.place([user("Hello")], assistant("Hi, again"), key="two") == (2, 1)
    assert talk.place([user("A summary of the chat")], assistant("Yes"), key="one") == (1, 2)
    assert talk.place([user("For a helper")], assistant("", READ), key="two") == (2, 2)
    calls = assistant("", READ)
    assert talk.place([user("For a helper"), calls, tool("x")], assistant("Done"), key="two") == (2, 2)


def test_a_new_key_goes_on_with_what_it_sends_again(talk: Talk) -> None:
    talk.place([user("a")], assistant("b"), key="one")
    history = [user("a"), assistant("b"), user("c")]
    assert talk.place(history, assistant("d"), key="resumed") == (1, 2)
    assert talk.place([user("nothing in common")], assistant("e"), key="resumed") == (1, 3)
    assert talk.place([user("nor here")], assistant("f"), key="one") == (1, 4)


def test_only_what_is_new_is_sent(talk: Talk) -> None:
    """`previous_response_id`, and Responses over a WebSocket."""
    assert talk.place([user("a")], assistant("b"), answer_id="resp-1") == (1, 1)
    talk.restart()
    going_on = {"continues": True, "previous": "resp-1"}
    assert talk.place([user("c")], assistant("", READ), answer_id="resp-2", **going_on) == (1, 2)
    assert talk.place([tool("x")], assistant("d"), answer_id="resp-3", continues=True, previous="resp-2") == (1, 2)
    assert talk.place([user("c")], assistant("", READ), answer_id="resp-4", **going_on) is None
    assert talk.place([user("edited")], assistant("e"), **going_on) == (1, 3)
    assert [turn.instead_of for turn in read_all(talk).conversations[0].turns] == [None, None, 2]
    history = [user("a"), assistant("b"), user("c"), assistant("", READ), tool("x"), assistant("d"), user("f")]
    assert talk.place(history, assistant("g")) == (1, 4)
    assert talk.place([user("h")], assistant("i"), continues=True, previous="never seen") == (2, 1)
    assert talk.place([user("h")], assistant("i"), continues=True, previous="never seen") is None


def test_only_what_is_new_is_sent_under_a_key(talk: Talk) -> None:
    going_on = {"continues": True, "key": "socket"}
    assert talk.place([user("a")], assistant("b"), key="socket") == (1, 1)
    assert talk.place([user("go on")], assistant("c"), **going_on) == (1, 2)
    assert talk.place([user("go on")], assistant("c"), **going_on) is None
    assert talk.place([user("go on")], assistant("d"), **going_on) == (1, 3)
    assert talk.place([tool("pending")], assistant("", READ), **going_on) == (1, 3)
    assert talk.place([tool("pending")], assistant("", READ), **going_on) == (1, 3)
    assert [turn.instead_of for turn in read_all(talk).conversations[0].turns] == [None, None, None]
    history = [user("a"), assistant("b"), user("go on"), assistant("c"), user("go on"), assistant("d")]
    loop = [tool("pending"), assistant("", READ), tool("pending"), assistant("", READ)]
    assert talk.place([*history, *loop, user("e")], assistant("f"), key="socket") == (1, 4)


def test_an_exchange_without_an_answer_is_nothing(talk: Talk) -> None:
    assert talk.place([user("a")], assistant(" \n"), complete=False) is None
    assert not (talk.directory / "work").exists()
    assert talk.place([user("a"), user("b")], assistant("c")) == (1, 1)
    assert said_in(read_all(talk)) == [(1, 1, ("a\n\nb", "c"))]


def test_a_result_in_a_persons_message_comes_first_in_its_turn(talk: Talk) -> None:
    calls = assistant("", READ)
    talk.place([user("a")], calls)
    mixed = Message("user", "No, wait", results=(Result("call-1", "text"),))
    assert talk.place([user("a"), calls, mixed], assistant("b")) == (1, 2)
    assert said_in(read_all(talk))[1] == (1, 2, ("No, wait", Returned(4, "text"), "b"))


def test_keys_are_masked_and_conversations_go_on_all_the_same(talk: Talk) -> None:
    secret = "sk-ant-api03-Zx8Qm2Lk9Vb4Np7T"
    asked = [user(f"Is {secret} a key?"), assistant(f"{secret} is one.", READ), tool(f"{'x' * 190} {secret}")]
    talk.place(asked[:1], asked[1])
    assert talk.place(asked, assistant("Yes")) == (1, 1)
    assert secret not in talk.transcript()
    assert "Zx8Q" not in "".join(path.read_text() for path in talk.directory.rglob("*") if path.is_file())
    assert said_in(read_all(talk))[0][2][:2] == ("Is sk-ant-[masked] a key?", "sk-ant-[masked] is one.")


def test_keys_stay_where_that_is_wanted(talk: Talk) -> None:
    talk.recorder.redact_secrets = False
    talk.place([user("sk-ant-api03-Zx8Qm2Lk9Vb4Np7T")], assistant("b"))
    assert said_in(read_all(talk)) == [(1, 1, ("sk-ant-api03-Zx8Qm2Lk9Vb4Np7T", "b"))]


def test_clients_are_apart(talk: Talk) -> None:
    talk.say([user("a")], assistant("b"))
    assert talk.place([user("a"), assistant("b"), user("c")], assistant("d"), client="home") == (1, 1)
    assert said_in(read_all(talk, "home")) == [(1, 1, ("c", "d"))]


def test_whoever_listens_hears_of_the_file(talk: Talk) -> None:
    heard: list[tuple[str, Path]] = []
    talk.recorder.on_recorded.append(lambda client, path: heard.append((client, path)))
    recorded = talk.say([user("a")], assistant("b"))
    assert recorded is not None
    talk.say([user("a")], assistant("b"))
    assert heard == [("work", recorded.path)]


def test_messages_can_be_prepared_before(talk: Talk) -> None:
    messages = [user("a"), assistant("b"), assistant("", READ), tool("c")]
    prepared = talk.recorder.prepare(messages)
    assert len(prepared.messages) == len(prepared.digests) == 3
    assert talk.place(messages, assistant("d"), prepared=prepared) == (1, 1)
    assert talk.place(messages, assistant("d")) is None


def test_a_session_ends_by_silence_and_a_conversation_goes_on_in_the_next(talk: Talk) -> None:
    first = talk.say([user("a")], assistant("b"))
    talk.now += timedelta(hours=3, minutes=1)
    second = talk.say([user("a"), assistant("b"), user("c")], assistant("d"))
    assert first is not None
    assert second is not None
    assert first.session != second.session
    transcript = read(talk.store.memory_of("work"), second.session)
    assert said_in(transcript) == [(1, 1, ("c", "d"))]
    assert transcript.conversations[0].goes_on_from == Link(first.session, 1)
    history = [user("a"), assistant("b"), user("c"), assistant("d")]
    assert talk.place([*history, user("e")], assistant("f")) == (1, 2)
    assert talk.place([user("a"), assistant("b"), user("c, edited")], assistant("g")) == (1, 3)


def test_a_tool_loop_goes_on_in_the_next_session(talk: Talk) -> None:
    talk.place([user("a")], assistant("Wait", READ))
    talk.now += timedelta(hours=4)
    recorded = talk.say([user("a"), assistant("Wait", READ), tool("x")], assistant("Done"))
    assert recorded is not None
    transcript = read(talk.store.memory_of("work"), recorded.session)
    assert said_in(transcript) == [(1, 1, (Returned(1, "x"), "Done"))]
    assert transcript.conversations[0].goes_on_from is not None


def test_a_session_ends_when_it_has_lasted_so_long(talk: Talk) -> None:
    talk.store.limits = Limits(inactivity=timedelta(hours=1), longest=timedelta(hours=2))
    sessions = set()
    for number in range(6):
        recorded = talk.say([user(f"message {number}")], assistant("b"))
        assert recorded is not None
        sessions.add(recorded.session)
        talk.now += timedelta(minutes=50)
    assert len(sessions) == 2


def test_everything_goes_on_after_a_restart(talk: Talk) -> None:
    talk.place([user("a")], assistant("b"), key="one")
    talk.place([user("x")], assistant("y"))
    talk.restart()
    assert talk.place([user("a"), assistant("b"), user("c")], assistant("d"), key="one") == (1, 2)
    assert talk.place([user("x"), assistant("y"), user("z")], assistant("w")) == (2, 2)
    assert talk.place([user("new")], assistant("one")) == (3, 1)
    assert len(list((talk.directory / "work" / "sessions").iterdir())) == 1


def test_a_session_that_a_person_deleted_is_over(talk: Talk) -> None:
    first = talk.say([user("a")], assistant("b"))
    assert first is not None
    first.path.unlink()
    second = talk.say([user("a"), assistant("b"), user("c")], assistant("d"))
    assert second is not None
    assert second.session != first.session
    assert said_in(read(talk.store.memory_of("work"), second.session)) == [(1, 1, ("c", "d"))]


@pytest.mark.parametrize("deleted", [".", "work", "work/sessions"])
def test_a_person_may_delete_folders_at_any_time(talk: Talk, deleted: str) -> None:
    talk.say([user("a")], assistant("b"))
    shutil.rmtree(talk.directory / deleted)
    for _ in range(2):
        talk.say([user("a"), assistant("b"), user("c")], assistant("d"))
        assert said_in(read_all(talk)) == [(1, 1, ("c", "d"))]
        talk.restart()


def test_a_file_that_a_person_edited_is_left_as_it_is(talk: Talk) -> None:
    first = talk.say([user("a")], assistant("b"))
    assert first is not None
    with first.path.open("a") as file:
        file.write("my own words, without a line's end")
    talk.restart()
    talk.say([user("a"), assistant("b"), user("c")], assistant("d"))
    assert "my own words, without a line's end\n## User" in talk.transcript()
    edited = first.path.read_text().replace("## User", "## user", 1)
    first.path.write_text(edited[:-20])
    talk.restart()
    assert first.path.read_text() == edited[:-20]


def test_the_oldest_conversations_are_forgotten(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_CONVERSATIONS == 1000
    monkeypatch.setattr("memory.conversations.known.MOST_CONVERSATIONS", 3)
    for number in range(4):
        talk.say([user(f"message {number}")], assistant("b"), key=f"key {number}", answer_id=f"answer {number}")
    assert talk.place([user("message 1"), assistant("b"), user("c")], assistant("d")) == (2, 2)
    assert talk.place([user("message 0"), assistant("b"), user("c")], assistant("d")) == (5, 1)
    known = talk.store.memory_of("work").known
    assert len(known.places) == 4 + 2 + 4  # the new one remembers its history too
    assert known.by_key(talk.store.hasher.name("key", "key 0")) is None
    assert known.by_answer(talk.store.hasher.name("answer", "answer 0")) is None


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_nobody_else_can_read_it(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with Talk(tmp_path / "a" / "memory") as talk:
            talk.say([user("a")], assistant("b"))
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a").rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("new", [False, True])
def test_on_a_full_disk_nothing_is_half_written(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, at: int, *, new: bool
) -> None:
    """The journal is written first, then the transcript; of either half is on the disk when it is full."""
    history = [user("a"), assistant("b")]
    if not new:
        talk.say(history[:1], history[1])
    folder = talk.store.folder_of("work")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    calls = 0
    write = os.write

    def full(file: int, content: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls < at:
            return write(file, content)
        if calls == at:
            return write(file, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            talk.say([*history, user("c")], assistant("d"))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert talk.place([*history, user("c")], assistant("d")) == ((1, 1) if new else (1, 2))
    talk.restart()
    assert talk.place([*history, user("c"), assistant("d"), user("e")], assistant("f")) == ((1, 2) if new else (1, 3))


def test_many_threads_record_every_turn_once(talk: Talk) -> None:
    def run(number: int) -> None:
        messages: list[Message] = []
        for turn in range(10):
            messages.append(user(f"question {number} {turn}"))
            for _ in range(2):
                talk.say([*messages], assistant(f"answer {number} {turn}"), client=f"client-{number % 2}")
            messages.append(assistant(f"answer {number} {turn}"))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in (0, 1):
        transcript = read_all(talk, f"client-{client}")
        assert sorted(pieces for *_, pieces in said_in(transcript)) == sorted(
            (f"question {number} {turn}", f"answer {number} {turn}")
            for number in range(client, 6, 2)
            for turn in range(10)
        )
        assert all([turn.number for turn in chat.turns] == list(range(1, 11)) for chat in transcript.conversations)
