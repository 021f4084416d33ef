"""Summaries that fail: what is known of it after a restart, and what is deleted while it is being summarised."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from memory.conversations.compaction import Compacted
from memory.conversations.deleting import delete_session
from memory.conversations.engine import Engine
from memory.conversations.failures import FILE_NAME, FIRST_PAUSE, LONGEST_PAUSE, Failures
from memory.conversations.memories import Memories
from memory.conversations.reading import NotThereError
from memory.conversations.summarising import Progress
from memory.conversations.summary_calls import CompactionError
from tests.memory.conversations.talk import Talk, assistant, user
from tests.memory.conversations.test_compaction import SUMMARY, Model, compactor, files, over, said


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    with Talk(tmp_path / "memory") as made:
        yield made


class Failing(Model):
    def __init__(self) -> None:
        super().__init__()
        self.answer = self.fail

    @staticmethod
    def fail() -> str:
        raise CompactionError("the endpoint answered HTTP 500")


async def test_the_pauses_grow_on_over_restarts(talk: Talk) -> None:
    session = said(talk)
    model = Failing()
    for tries in range(1, 12):
        one = compactor(talk, model)
        await one.compact_pending(["work"])
        assert (one.state("work")["failures"][0]["tries"], len(model.asked)) == (tries, tries)
        talk.restart()
        again = compactor(talk, model)
        assert again.state("work")["failures"] == one.state("work")["failures"]
        assert again.warnings == [
            "Sessions of work could not be summarised, and are tried again: the endpoint answered HTTP 500"
        ]
        pause = min(FIRST_PAUSE * 2 ** (tries - 1), LONGEST_PAUSE)
        talk.now += pause - timedelta(seconds=1)
        await again.compact_pending(["work"])
        assert len(model.asked) == tries
        talk.now += timedelta(seconds=1)
    model.answer = lambda: SUMMARY
    one = compactor(talk, model)
    await one.compact_pending(["work"])
    assert (one.archived("work"), one.warnings) == ([session], [])
    assert not (talk.directory / "work" / FILE_NAME).exists()
    assert compactor(talk, model).warnings == []


async def test_what_a_person_asks_for_does_not_wait(talk: Talk) -> None:
    session = said(talk)
    with pytest.raises(CompactionError):
        await compactor(talk, Failing()).compact("work", session)
    talk.restart()
    assert await compactor(talk, Model()).compact("work", session) == Compacted(session, 2, 0)


async def test_it_holds_no_text_and_nobody_waits_for_a_clock_that_was_set_back(talk: Talk) -> None:
    session = said(talk)
    with pytest.raises(CompactionError):
        await compactor(talk, Failing()).compact("work", session)
    kept = json.loads((talk.directory / "work" / FILE_NAME).read_text())
    assert kept == {
        session: {
            "message": "the endpoint answered HTTP 500",
            "tries": 1,
            "nextAt": (talk.now + FIRST_PAUSE).timestamp(),
        }
    }
    talk.now -= timedelta(days=1)
    model = Model()
    await compactor(talk, model).compact_pending(["work"])
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"a": 1}', '{"a": {"message": "x", "tries": 1, "nextAt": 1e99}}', "[" * 100_000]
)
async def test_a_damaged_file_says_nothing(talk: Talk, content: str) -> None:
    said(talk)
    (talk.directory / "work" / FILE_NAME).write_text(content)
    one = compactor(talk, Failing())
    assert one.warnings == []
    await one.compact_pending(["work"])
    assert one.state("work")["failures"][0]["tries"] == 1
    assert Failures(talk.store).all() == one._failures.all()


async def test_a_session_that_is_gone_is_told_of_no_more(talk: Talk) -> None:
    first = said(talk)
    talk.say([user("What shall we bake?")], assistant("A cake."))
    second = over(talk)
    one = compactor(talk, Failing())
    await one.compact_pending(["work"])
    delete_session(talk.store.memory_of("work"), first)
    await one.compact_pending(["work"])
    assert [failure["session"] for failure in one.state("work")["failures"]] == [second]
    assert list(json.loads((talk.directory / "work" / FILE_NAME).read_text())) == [second]


# Deleting meanwhile, as the dashboard does


class Pausing(Model):
    """Model and index at once, which wait at one step until they are told to go on."""

    def __init__(self, engine: Engine, step: str) -> None:
        super().__init__()
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self._engine = engine
        self._step = step

    async def __call__(self, turns: Sequence[str], progress: Progress) -> str:
        await self._at("asked")
        return await super().__call__(turns, progress)

    async def index(self, client: str, path: Path) -> int:
        await self._at("written")
        count = await self._engine.index(client, path)
        await self._at("indexed")
        return count

    async def forget(self, client: str, path: Path) -> None:
        await self._at("put away")
        await self._engine.forget(client, path)

    async def _at(self, step: str) -> None:
        if step == self._step:
            self.begun.set()
            await self.goes_on.wait()


STEPS = ["asked", "written", "indexed"]


@pytest.fixture
async def memories(talk: Talk) -> AsyncIterator[Memories]:
    def folder_of(client: str) -> Path:
        memory = talk.store.existing(client)
        if memory is None:
            raise FileNotFoundError
        return memory.folder

    made = Memories(talk.store, Engine(folder_of))
    yield made
    await made.aclose()


@pytest.mark.parametrize("step", STEPS)
async def test_a_session_is_deleted_while_it_is_summarised(talk: Talk, memories: Memories, step: str) -> None:
    session = said(talk)
    model = Pausing(memories._engine, step)
    one = compactor(talk, model, model)
    compacting = one.start("work", session)
    await model.begun.wait()
    await memories.delete_session("work", session)
    model.goes_on.set()
    with pytest.raises(NotThereError, match="was deleted while it was summarised"):
        await compacting
    assert files(talk) == {"sessions": [], "archive": []}
    assert (one.warnings, one.state("work")["failures"]) == ([], [])
    assert not (talk.directory / "work" / FILE_NAME).exists()
    assert (await memories.recall("work", "spare key")).memories == ()


async def test_a_session_is_deleted_right_after_it_was_put_away(talk: Talk, memories: Memories) -> None:
    session = said(talk)
    model = Pausing(memories._engine, "put away")
    compacting = compactor(talk, model, model).start("work", session)
    await model.begun.wait()
    await memories.delete_session("work", session)
    model.goes_on.set()
    assert await compacting == Compacted(session, 2, 0)
    assert files(talk) == {"sessions": [], "archive": []}
    assert (await memories.recall("work", "spare key")).memories == ()


@pytest.mark.parametrize("is_back", [False, True])
@pytest.mark.parametrize("step", STEPS)
async def test_all_of_a_client_is_deleted_while_a_session_of_it_is_summarised(
    talk: Talk, memories: Memories, step: str, *, is_back: bool
) -> None:
    """`is_back`: it says something new meanwhile, and has another folder."""
    session = said(talk)
    model = Pausing(memories._engine, step)
    one = compactor(talk, model, model)
    compacting = one.start("work", session)
    await model.begun.wait()
    await memories.delete_all("work")
    if is_back:
        talk.say([user("What shall we bake?")], assistant("A cake."))
    model.goes_on.set()
    with pytest.raises(NotThereError, match="was deleted while it was summarised"):
        await compacting
    assert not (talk.directory / "work").exists()
    assert talk.store.clients() == (["work"] if is_back else [])
    assert (one.warnings, one.state("work")["failures"]) == ([], [])
    found = (await memories.recall("work", "spare key cake")).memories
    assert ["cake" in memory.text for memory in found] == [True] * is_back
    if is_back:
        assert not (talk.directory / "work-2" / FILE_NAME).exists()
        assert len(list((talk.directory / "work-2" / "sessions").iterdir())) == 1
