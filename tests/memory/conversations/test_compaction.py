"""A session that is over becomes its summary: step by step, after a crash at any step, and after a failure."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.conversations import compaction
from memory.conversations.archive import earlier_summaries
from memory.conversations.compaction import Compacted, Compactor
from memory.conversations.deleting import delete_turn
from memory.conversations.engine import Engine
from memory.conversations.failures import FIRST_PAUSE, LONGEST_PAUSE
from memory.conversations.reading import NotThereError
from memory.conversations.summarising import Progress, Summariser
from memory.conversations.summary_calls import CompactionError, SummarySettings
from memory.conversations.summary_source import DoneError, NotOverError, as_file
from memory.conversations.transcript import parse
from tests.memory.conversations.scripted import scripted
from tests.memory.conversations.talk import READ, START, Talk, assistant, tool, user

SUMMARY = "## Spare key, 30 November 2026\n\nThe spare key hangs behind the clock in the hall."


class CrashError(BaseException):
    """Ends everything, as a crash does: nothing tidies up after it."""


class Model:
    """Stands in for the model."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.answer: Callable[[], str] = lambda: SUMMARY

    async def __call__(self, turns: Sequence[str], progress: Progress) -> str:
        self.asked.append(list(turns))
        return self.answer()


class Indexed:
    """Stands in for the engine: what it holds of the files, as they were then."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.refuses = False

    async def index(self, client: str, path: Path) -> int:
        if self.refuses or not path.exists():  # noqa: ASYNC240 - a test may wait
            return 0
        self.files[path.name] = path.read_text()  # noqa: ASYNC240
        return 1

    async def forget(self, client: str, path: Path) -> None:
        self.files.pop(path.name, None)


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    with Talk(tmp_path) as talk:
        yield talk


def over(talk: Talk) -> str:
    """Ends the session under way; its id."""
    [closed] = talk.store.expire(talk.now + timedelta(hours=4))
    talk.now += timedelta(hours=4)
    return closed.session


def said(talk: Talk) -> str:
    talk.say([user("Where is the key?")], assistant("Behind the clock.", READ))
    talk.say([user("# Eggs\n\nHow long? {x}")], assistant("Six minutes."))
    return over(talk)


def files(talk: Talk) -> dict[str, list[str]]:
    folder = talk.directory / "work"
    return {name: sorted(path.name for path in (folder / name).iterdir()) for name in ("sessions", "archive")}


def compactor(talk: Talk, model: Model, index: Any = None, **more: Any) -> Compactor:
    return Compactor(talk.store, index or Indexed(), model, **{"clock": lambda: talk.now, **more})


async def test_a_session_is_summarised_indexed_and_put_away(talk: Talk) -> None:
    session = said(talk)
    model, index = Model(), Indexed()
    index.files[f"{session}.md"] = "the transcript"
    one = compactor(talk, model, index)
    assert one.pending("work") == [session]
    assert await one.compact("work", session) == Compacted(session, 2, 0)
    assert files(talk) == {"sessions": [f"{session}-summary.md"], "archive": [f"{session}.md"]}
    assert index.files == {f"{session}-summary.md": f"# Summary of session {session}\n\n{SUMMARY}\n"}
    [turns] = model.asked
    key = (
        "## User (2026-11-30 04:12:33 UTC, conversation 1, turn 1)\n\nWhere is the key?\n\n"
        "## Assistant (2026-11-30 04:12:38 UTC, claude-sonnet-4, conversation 1, turn 1)\n\nBehind the clock.\n\n"
        '> Called Read: {"file_path": "/notes/keys.md"}'
    )
    eggs = (
        "## User (2026-11-30 04:12:43 UTC, conversation 2, turn 1)\n\n\\# Eggs\n\nHow long? {x}\n\n"
        "## Assistant (2026-11-30 04:12:48 UTC, claude-sonnet-4, conversation 2, turn 1)\n\nSix minutes."
    )
    assert turns == [key, eggs]
    assert (one.pending("work"), one.archived("work"), one.warnings) == ([], [session], [])


async def test_what_cannot_be_summarised_is_said(talk: Talk) -> None:
    session = said(talk)
    one = compactor(talk, Model())
    await one.compact("work", session)
    with pytest.raises(DoneError, match="summarised already"):
        await one.compact("work", session)
    recorded = talk.say([user("And now?")], assistant("Noon."))
    assert recorded
    with pytest.raises(NotOverError, match="still goes on"):
        await one.compact("work", recorded.session, again=True)
    for unknown in ("2026-01-01T000000Z-aaaa", "../archive"):
        with pytest.raises(NotThereError, match="there is no session"):
            await one.compact("work", unknown)
    assert one.state("work") == {"pending": 0, "working": None, "failures": []}


async def test_again_keeps_the_earlier_summary(talk: Talk) -> None:
    session = said(talk)
    model, index = Model(), Indexed()
    one = compactor(talk, model, index)
    await one.compact("work", session)
    model.answer = lambda: "In other words."
    assert await one.compact("work", session, again=True) == Compacted(session, 2, 0)
    assert model.asked[0] == model.asked[1]
    [earlier] = earlier_summaries(talk.directory / "work", session)
    assert (earlier.name, SUMMARY in earlier.read_text()) == (f"{session}-summary-1.md", True)
    assert "In other words." in index.files[f"{session}-summary.md"]
    assert files(talk)["archive"] == [f"{session}-summary-1.md", f"{session}.md"]


async def test_a_failure_keeps_the_transcript_and_is_tried_again_after_growing_pauses(talk: Talk) -> None:
    session = said(talk)
    model, index = Model(), Indexed()
    one = compactor(talk, model, index)

    def fail() -> str:
        raise CompactionError("the endpoint answered HTTP 500")

    model.answer = fail
    waited: list[timedelta] = []
    for tries in range(1, 13):
        await one.compact_pending(["work"])
        [failure] = one.state("work")["failures"]
        assert (failure["session"], failure["message"], failure["tries"]) == (
            session,
            "the endpoint answered HTTP 500",
            tries,
        )
        pause = one._failures.of("work")[session].next_at - talk.now
        waited.append(pause)
        talk.now += pause - timedelta(seconds=1)
        await one.compact_pending(["work"])
        assert len(model.asked) == tries
        talk.now += timedelta(seconds=1)
    assert waited[:4] == [FIRST_PAUSE, FIRST_PAUSE * 2, FIRST_PAUSE * 4, FIRST_PAUSE * 8]
    assert waited[-1] == LONGEST_PAUSE
    assert one.warnings == [
        "Sessions of work could not be summarised, and are tried again: the endpoint answered HTTP 500"
    ]
    assert (files(talk), index.files) == ({"sessions": [f"{session}.md"], "archive": []}, {})
    model.answer = lambda: SUMMARY
    await one.compact_pending(["work"])
    assert (one.warnings, one.pending("work")) == ([], [])


async def test_one_that_fails_does_not_hold_up_the_others(talk: Talk) -> None:
    first = said(talk)
    talk.say([user("What shall we bake?")], assistant("A cake."))
    second = over(talk)
    model = Model()

    def answer() -> str:
        if len(model.asked) == 1:
            raise CompactionError("no")
        return SUMMARY

    model.answer = answer
    one = compactor(talk, model)
    await one.compact_pending(["work"])
    assert (one.pending("work"), one.archived("work")) == ([first], [second])


async def test_an_index_that_refuses_leaves_only_its_step_to_do(talk: Talk) -> None:
    session = said(talk)
    model, index = Model(), Indexed()
    index.refuses = True
    one = compactor(talk, model, index)
    with pytest.raises(CompactionError, match="could not be indexed yet"):
        await one.compact("work", session)
    assert files(talk)["sessions"] == [f"{session}-summary.md", f"{session}.md"]
    index.refuses = False
    await one.compact("work", session)
    assert len(model.asked) == 1
    assert files(talk) == {"sessions": [f"{session}-summary.md"], "archive": [f"{session}.md"]}


async def test_faults_of_others_hold_no_text(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    session = said(talk)

    async def broken(*_: object) -> int:
        raise RuntimeError("Where is the key?")

    monkeypatch.setattr(Indexed, "index", broken)
    one = compactor(talk, Model())
    with pytest.raises(CompactionError) as error:
        await one.compact("work", session)
    assert str(error.value) == "it could not be indexed (RuntimeError)"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compaction, "put_summary", full)
    with pytest.raises(CompactionError, match=r"^the disk refuses \(No space left on device\)$"):
        await one.compact("work", session, again=True)


async def test_what_was_deleted_meanwhile_is_in_no_summary(talk: Talk) -> None:
    session = said(talk)
    memory = talk.store.memory_of("work")
    model = Model()

    def answer() -> str:
        delete_turn(memory, session, 1, 1)
        return SUMMARY

    model.answer = answer
    one = compactor(talk, model)
    with pytest.raises(CompactionError, match="it was changed while it was summarised"):
        await one.compact("work", session)
    assert files(talk) == {"sessions": [f"{session}.md"], "archive": []}
    model.answer = lambda: SUMMARY
    assert await one.compact("work", session) == Compacted(session, 1, 0)
    assert "Where is the key?" not in model.asked[-1][0]


async def test_a_turn_that_a_rule_keeps_is_left_out_and_that_is_said(talk: Talk) -> None:
    session = said(talk)
    asked: list[tuple[str, list[str]]] = []

    async def may_send(client: str, texts: Sequence[str]) -> list[bool]:
        asked.append((client, list(texts)))
        return ["Eggs" not in text for text in texts]

    model = Model()
    one = compactor(talk, model, may_send=may_send)
    assert await one.compact("work", session) == Compacted(session, 1, 1)
    # The text as it was said, not as it is escaped: notes are found in it line by line.
    assert asked == [
        (
            "work",
            [
                'Where is the key?\n\nBehind the clock.\n\n{"file_path": "/notes/keys.md"}',
                "# Eggs\n\nHow long? {x}\n\nSix minutes.",
            ],
        )
    ]
    assert "Eggs" not in str(model.asked)
    summary = (talk.directory / "work" / "sessions" / f"{session}-summary.md").read_text()
    assert summary.endswith("\n\n1 turn was left out: rules keep notes in them from the model that wrote this.\n")


async def test_where_rules_keep_everything_nothing_is_sent(talk: Talk) -> None:
    session = said(talk)

    async def nothing(_: str, texts: Sequence[str]) -> list[bool]:
        return [False] * len(texts)

    async def fault(*_: object) -> list[bool]:
        raise ValueError("a fault")

    model = Model()
    for may_send, message in ((nothing, "rules keep all of its turns from the model"), (fault, "ValueError")):
        with pytest.raises(CompactionError, match=message):
            await compactor(talk, model, may_send=may_send).compact("work", session)
    assert model.asked == []


async def test_a_conversation_that_goes_on_is_summarised_with_its_beginning(talk: Talk) -> None:
    begun = [user("Where is the key?"), assistant("Behind the clock.")]
    talk.say(begun[:1], begun[1])
    talk.say([user("How long are eggs boiled?")], assistant("Six minutes."))
    first = over(talk)
    model = Model()
    one = compactor(talk, model)
    await one.compact("work", first)
    talk.say([*begun, user("And the other one?")], assistant("In the shed."))
    second = over(talk)
    await one.compact("work", second)
    assert [text for turn in model.asked[1] for text in turn.split("\n\n") if not text.startswith("##")] == [
        "Where is the key?",
        "Behind the clock.",
        "And the other one?",
        "In the shed.",
    ]
    # It is deleted with what it tells of (deleting.py).
    deleted = delete_turn(talk.store.memory_of("work"), first, 1, 1)
    assert {path.name for path in deleted.gone} == {f"{first}-summary.md", f"{second}-summary.md"}
    assert one.pending("work") == [first, second]


async def test_a_file_that_a_person_wrote_is_summarised_as_it_is(talk: Talk) -> None:
    session = said(talk)
    path = talk.directory / "work" / "sessions" / f"{session}.md"
    path.write_text("The key: behind the clock.")
    model = Model()
    one = compactor(talk, model)
    await one.compact("work", session)
    assert model.asked == [["The key: behind the clock."]]
    (talk.directory / "work" / "archive" / f"{session}.md").write_text(" \n")
    with pytest.raises(CompactionError, match="nothing is said in it"):
        await one.compact("work", session, again=True)


@pytest.mark.parametrize(
    ("summary", "written"),
    [
        ("# Conversation 9 (2026-11-30 04:12:33 UTC)", "### Conversation 9 (2026-11-30 04:12:33 UTC)"),
        (
            "## User (2026-11-30 04:12:33 UTC, conversation 1, turn 1)\n\nI agree.",
            "### User (2026-11-30 04:12:33 UTC, conversation 1, turn 1)\n\nI agree.",
        ),
        (f"## {'long ' * 100}", "long " * 99 + "long"),
        ("\n\n## Key\n", "## Key"),
    ],
)
def test_a_summary_cannot_pass_for_a_transcript(summary: str, written: str) -> None:
    text = as_file("2026-11-30T041233Z-k3f9", summary)
    assert text == f"# Summary of session 2026-11-30T041233Z-k3f9\n\n{written}\n"
    assert parse(text.encode()).conversations == ()


# Crashes


STEPS = ("summarised", "put", "indexed", "archived", "forgotten")


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("step", STEPS)
async def test_a_crash_after_any_step_is_mended_at_the_start(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, step: str, *, again: bool
) -> None:
    session = said(talk)
    model, index = Model(), Indexed()
    if again:
        await compactor(talk, model, index).compact("work", session)
        model.answer = lambda: f"{SUMMARY} Again."

    def crash_after(patched: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        async def async_crash(*args: Any) -> None:
            await real(*args)
            raise CrashError

        def crash(*args: Any) -> None:
            real(*args)
            raise CrashError

        patched.setattr(owner, name, async_crash if inspect.iscoroutinefunction(real) else crash)

    owner, name = {
        "summarised": (Model, "__call__"),
        "put": (compaction, "_put"),
        "indexed": (Indexed, "index"),
        "archived": (compaction, "_archive"),
        "forgotten": (Indexed, "forget"),
    }[step]
    with monkeypatch.context() as patched:
        crash_after(patched, owner, name)
        with pytest.raises(CrashError):
            await compactor(talk, model, index).compact("work", session, again=again)

    talk.restart()
    talk.store.memory_of("work")
    there = files(talk)
    # Raw or summarised: never both, never neither.
    assert (f"{session}.md" in there["sessions"]) is (f"{session}-summary.md" not in there["sessions"])
    assert (f"{session}.md" in there["sessions"]) is (f"{session}.md" not in there["archive"])
    one = compactor(talk, model, index)
    await one.compact_pending(["work"])
    if again and step == "summarised":
        await one.compact("work", session, again=True)
    summary = talk.directory / "work" / "sessions" / f"{session}-summary.md"
    assert summary.read_text().endswith("Again.\n" if again else "hall.\n")
    kept = [f"{session}-summary-1.md"] if again else []
    assert files(talk) == {"sessions": [summary.name], "archive": [*kept, f"{session}.md"]}


# All together


@pytest.fixture
async def engine(tmp_path: Path, talk: Talk) -> AsyncIterator[Engine]:
    engine = Engine(talk.store.folder_of)
    talk.recorder.on_recorded.append(engine.changed)
    yield engine
    await engine.close()


async def test_the_summary_is_found_and_the_transcript_no_more(talk: Talk, engine: Engine) -> None:
    question = [user("Where did I put the spare key?")]
    talk.say(question, assistant("I look it up.", READ))
    talk.say([*question, assistant("I look it up.", READ), tool("In the hall")], assistant("Behind the clock."))
    session = over(talk)
    assert (await engine.search("work", "spare key")).memories[0].source == f"sessions/{session}.md"
    async with scripted() as model:
        model.reply = lambda _: SUMMARY
        one = Compactor(talk.store, engine, Summariser(SummarySettings("openai", "tide-1", model.base_url)))
        await one.compact_pending(["work"])
        assert len(model.requests) == 1
    found = await engine.search("work", "Where is the key to the house hidden?")
    assert [memory.source for memory in found.memories] == [f"sessions/{session}-summary.md"]
    assert "hangs behind the clock in the hall" in found.memories[0].text
    assert found.memories[0].started_at == START
    assert (await engine.status("work")).files == 1
    assert (await engine.search("work", "I look it up")).memories == ()
