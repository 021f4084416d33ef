"""Killed at any moment: nothing that was answered is lost, and nothing is there twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memory.conversations.journal import FILE_NAME
from memory.conversations.reading import read
from memory.conversations.recorder import Recorder
from memory.conversations.store import Store
from tests.memory.conversations.kill_program import said
from tests.memory.conversations.talk import Talk, assistant, user

ROOT = Path(__file__).parents[3]
_CHANCE = random.Random(20261130)
MOMENTS = [_CHANCE.uniform(0, 0.03) for _ in range(24)]
"""Seconds after the first request."""


def run_and_kill(directory: Path, first: int, moment: float) -> tuple[int, int]:
    """The last request that was sent, and the last that was answered (-1: none); killed that long after the first one."""
    command = [sys.executable, "-m", "tests.memory.conversations.kill_program", str(directory), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        time.sleep(moment)  # the moment is what is tested
        process.kill()
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    numbers = {
        word: [int(line.split()[1]) for line in lines if line.startswith(word) and line.endswith("\n")]
        for word in ("asked", "answered")
    }
    return max(numbers["asked"]), max(numbers["answered"], default=first - 1)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_killed_at_random_moments_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """Each time the client tries the request again that was not answered, and goes on from there."""
    number = 0
    for moment in MOMENTS:
        asked, answered = run_and_kill(tmp_path, number, moment)
        assert answered in {asked, asked - 1}
        store = Store(tmp_path)
        store.open()
        try:
            recorded = Recorder(store).record("work", said(asked))
            assert recorded is None or answered < asked
        finally:
            store.close()
        number = asked + 1
    store = Store(tmp_path)
    store.open()
    memory = store.memory_of("work")
    store.close()
    [path] = memory.sessions.iterdir()
    found = {
        (chat.number, turn.number): [piece for part in turn.parts for piece in part.pieces]
        for chat in read(memory, path.stem).conversations
        for turn in chat.turns
    }
    expected = [said(one) for one in range(number)]
    assert [
        pieces == [one.messages[0].text, one.answer.text]
        for pieces, one in zip((found.get((one % 2 + 1, one // 2 + 1)) for one in range(number)), expected, strict=True)
    ] == [True] * number
    assert len(found) == number


@pytest.mark.parametrize("beginning", [0, 0.1, 0.5, 0.999])
@pytest.mark.parametrize("first", [True, False])
def test_a_part_that_was_not_written_whole_is_taken_away(tmp_path: Path, beginning: float, *, first: bool) -> None:
    """As if the system had stopped in the middle of the write; the journal's line is there before."""
    with Talk(tmp_path) as talk:
        history = [user("a"), assistant("b")]
        if not first:
            talk.say(history[:1], history[1])
            before = talk.transcript()
            size = len(next((tmp_path / "work" / "sessions").iterdir()).read_bytes())
        recorded = talk.say([*history, user("c\n" * 50)], assistant("d"))
        assert recorded is not None
        content = recorded.path.read_bytes()
        start = 0 if first else size
        recorded.path.write_bytes(content[: start + int(len(content[start:]) * beginning)])
        talk.restart()
        folder = talk.store.folder_of("work")
        if first:
            assert list((folder / "sessions").iterdir()) == []
            assert (folder / FILE_NAME).read_bytes() == b""
        else:
            assert talk.transcript() == before
        assert talk.place([*history, user("c\n" * 50)], assistant("d")) == (1, 1 if first else 2)
        assert talk.transcript().count("c\nc\n") == 25


@pytest.mark.parametrize("cut", [1, 5, 200])
def test_a_line_of_the_journal_that_was_not_written_whole_is_taken_away(tmp_path: Path, cut: int) -> None:
    """The transcript's part comes after it, and is not there."""
    with Talk(tmp_path) as talk:
        talk.say([user("a")], assistant("b"))
        before = talk.transcript()
        journal = talk.store.folder_of("work") / FILE_NAME
        [path] = (tmp_path / "work" / "sessions").iterdir()
        kept = path.read_bytes()
        talk.say([user("a"), assistant("b"), user("c")], assistant("d"))
        path.write_bytes(kept)
        journal.write_bytes(journal.read_bytes()[:-cut])
        talk.restart()
        assert talk.place([user("a"), assistant("b"), user("c")], assistant("d")) == (1, 2)
        assert talk.transcript().startswith(before)
        assert talk.transcript().count("\nc\n") == 1
