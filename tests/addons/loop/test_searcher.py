"""What a search hands over, under the rules of where the model is; and what the model is told when it comes to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from yarl import URL

from addons.flows import Asked
from addons.loop.dialect import Ask
from addons.loop.searcher import FAULTY, OFF, TOO_LATE, Found, Searcher
from addons.outgoing import Outgoing
from memory.conversations.memories import Memories
from memory.conversations.recall import Holdings, Memory, Recalled
from memory.conversations.recorder import Recorder
from memory.exchange import Recalls, Scan, SentTo, Sighting
from memory.note_library import NoteLibrary
from memory.notes import MemoryDocument
from memory.rules import Rule, RuleBook, When
from memory.rules.conditions import Comparison
from tests.addons.parts import TIDES, Shelf, content, exchange_of

CHART, CLOCK = TIDES.splitlines()
CLOUD = SentTo("claude-test", "cloud", "api.anthropic.com:443")
CARRIED = content("vault/Locks.md")
HOME = SentTo("qwen3", "local", "127.0.0.1:11434")


def memory(text: str) -> Memory:
    return Memory("sessions/a.md", "a", 1, "Turn 1", None, 0.5, text)


def going_to(sent: SentTo, *, name: str = "api.anthropic.com", last: bool = True) -> Outgoing:
    return Outgoing(name, "POST", URL("https://api.anthropic.com/"), (), b"{}", (), sent, 1, None, last)


@dataclass
class Remembered:
    """Stands in for the memories, and for what records them."""

    texts: list[str] = field(default_factory=list)
    waits: float = 0
    fault: Exception | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    own: list[dict[str, Any]] = field(default_factory=list)

    async def recall(self, client: str, query: str, **more: Any) -> Recalled:
        self.asked.append({"client": client, "query": query, **more})
        await asyncio.sleep(self.waits)
        if self.fault is not None:
            raise self.fault
        return Recalled(tuple(map(memory, self.texts)), Holdings(2))

    def conversation_of(self, client: str, **more: Any) -> tuple[str, int]:
        self.own.append({"client": client, **more})
        return "s", 3


@dataclass
class Desk:
    """A search of one exchange."""

    remembered: Remembered
    rules: RuleBook | None = field(default_factory=lambda: RuleBook(()))
    is_scanning: bool = True
    has_memory: bool = True
    notes: NoteLibrary = field(default_factory=lambda: NoteLibrary([Shelf()]))
    handed: list[tuple[list[str], SentTo]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.exchange = exchange_of()
        searcher = Searcher(
            lambda: cast("Memories", self.remembered) if self.has_memory else None,
            lambda _client: cast("Recorder", self.remembered) if self.has_memory else None,
            self.notes,
            rules=lambda: self.rules,
            is_scanning=lambda: self.is_scanning,
            handed=lambda _exchange, found, sent: self.handed.append(([one.note for one in found], sent)),
            seconds=0.2 if self.remembered.waits else 20,
        )
        self.search = searcher.for_exchange(self.exchange, lambda: Asked("key", (), None, continues=True, previous="p"))

    async def find(self, arguments: str = '{"query": "tides"}', outgoing: Outgoing | None = None) -> Found:
        return await self.search.search(Ask("call", arguments), outgoing or going_to(CLOUD))


@pytest.fixture
async def desk() -> Any:
    made: list[Desk] = []

    def make(*texts: str, **more: Any) -> Desk:
        remembered = Remembered(list(texts), more.pop("waits", 0), more.pop("fault", None))
        made.append(Desk(remembered, **more))
        return made[-1]

    yield make
    for one in made:
        await one.notes.aclose()


type Make = Callable[..., Desk]


async def test_what_is_found_is_quoted_and_counted(desk: Make) -> None:
    one = desk("Ida bakes a cake.", CHART)
    found = await one.find('{"query": "tides", "limit": 3, "after": "2026-03-04"}')
    assert found.text == Recalled((memory("Ida bakes a cake."), memory(CHART)), Holdings(2)).as_text()
    assert ([sighting.note for sighting in found.sightings], found.memories) == (["vault/Tides.md"], 2)
    [asked] = one.remembered.asked
    assert (asked["client"], asked["query"], asked["limit"], asked["own"]) == ("claude-code", "tides", 3, ("s", 3))
    assert one.remembered.own == [
        {"client": "claude-code", "key": "key", "messages": (), "prepared": None, "continues": True, "previous": "p"}
    ]
    assert one.exchange.recalls == Recalls(1, 0)
    one.search.hand_over([found, found], CLOUD)
    assert (one.handed, one.exchange.recalls) == ([(["vault/Tides.md"], CLOUD)], Recalls(1, 4))


@pytest.mark.parametrize("then", ["block", "redact", "redirect", "hold"])
async def test_a_memory_that_a_rule_keeps_from_the_cloud_is_left_out_there(desk: Make, then: Any) -> None:
    rule = Rule("tides stay home", When(note=("vault/Tides.md",), to="cloud"), then, ("home",), "allow")
    one = desk(CHART, "Ida bakes a cake.", rules=RuleBook((rule,), local_targets=("home",)))
    found = await one.find()
    assert found == Found(Recalled((memory("Ida bakes a cake."),)).as_text(), (), 1)
    at_home = await one.find(outgoing=going_to(HOME, name="home", last=False))
    assert (CHART in at_home.text, at_home.memories) == (True, 2)


@pytest.mark.parametrize(("name", "memories"), [("home", 1), ("elsewhere", 0)])
async def test_a_memory_goes_to_the_target_that_its_rule_names(desk: Make, name: str, memories: int) -> None:
    rule = Rule("tides go home", When(note=("vault/Tides.md",)), "redirect", ("home",))
    one = desk(CHART, rules=RuleBook((rule,), local_targets=("home",)))
    assert (await one.find(outgoing=going_to(HOME, name=name, last=False))).memories == memories


async def test_a_rule_about_the_request_itself_has_been_followed_already(desk: Make) -> None:
    one = desk(CHART, rules=RuleBook((Rule("ask me", When(client=("claude-code",)), "hold"),)))
    assert (await one.find()).memories == 1


async def test_memories_are_judged_together(desk: Make) -> None:
    rule = Rule("not all of it", When(note=("vault/Tides.md",), coverage=Comparison(">=", 100), to="cloud"), "block")
    one = desk(CHART, CLOCK, "Ida bakes a cake.", rules=RuleBook((rule,)))
    found = await one.find()
    assert [text in found.text for text in (CHART, CLOCK, "Ida")] == [True, False, True]


async def test_a_memory_is_judged_together_with_those_of_earlier_searches(desk: Make) -> None:
    rule = Rule("not all of it", When(note=("vault/Tides.md",), coverage=Comparison(">=", 100), to="cloud"), "block")
    one = desk(CHART, rules=RuleBook((rule,)))
    assert (await one.find()).memories == 1
    one.remembered.texts = [CLOCK, CHART]
    again = await one.find()
    assert ([text in again.text for text in (CLOCK, CHART)], again.sightings) == ([False, True], ())


async def test_of_searches_beside_each_other_one_knows_what_the_other_found(desk: Make) -> None:
    rule = Rule("not all of it", When(note=("vault/Tides.md",), coverage=Comparison(">=", 100), to="cloud"), "block")
    one = desk(CHART, rules=RuleBook((rule,)))
    given = iter([one.remembered, Remembered([CLOCK])])
    one.search._searcher = replace(one.search._searcher, memories=lambda: cast("Memories", next(given)))
    found = await asyncio.gather(one.find(), one.find())
    assert sorted(each.memories for each in found) == [0, 1]


@pytest.mark.parametrize(("carried", "memories"), [((), 1), ((CARRIED,), 0), ((replace(CARRIED, by="reference"),), 1)])
async def test_the_notes_in_the_request_count_with_those_in_a_memory(
    desk: Make, carried: tuple[Sighting, ...], memories: int
) -> None:
    rule = Rule("not two", When(notes=Comparison(">=", 2), by=("content",), to="cloud"), "hold")
    locks = MemoryDocument("Locks.md", "Nobody has oiled the lock of the upper weir.")
    one = desk(CHART, rules=RuleBook((rule,)), notes=NoteLibrary([Shelf([MemoryDocument("Tides.md", TIDES), locks])]))
    one.exchange.scan = Scan("complete", (), carried)
    assert (await one.find()).memories == memories


@pytest.mark.parametrize("then", ["block", "redact", "hold", "allow"])
@pytest.mark.parametrize("client", ["claude-code", "codex"])
async def test_a_memory_is_of_the_session_that_it_is_from(desk: Make, then: Any, client: str) -> None:
    rule = Rule("sessions stay home", When(source=("conversations",), to="cloud"), then)
    sessions = Shelf([MemoryDocument(f"{client}/a.md", "", f"{client}, a")], name="conversations", kind="conversations")
    one = desk("Ida bakes a cake.", rules=RuleBook((rule,)), notes=NoteLibrary([sessions]))
    found = await one.find()
    is_its = client == "claude-code"
    assert found.memories == (0 if is_its and then != "allow" else 1)
    seen = [(each.note, each.by) for each in found.sightings]
    assert seen == ([("conversations/claude-code/a.md", "content")] if is_its and then == "allow" else [])


@pytest.mark.parametrize(("restricts", "memories"), [(False, 1), (True, 0)])
async def test_what_is_not_looked_at_goes_where_nothing_is_restricted(
    desk: Make, restricts: bool, memories: int
) -> None:
    rules = (Rule("tides stay home", When(note=("vault/Tides.md",), to="cloud"), "block"),) if restricts else ()
    one = desk(CHART, rules=RuleBook(rules), is_scanning=False)
    found = await one.find()
    assert (found.memories, found.sightings) == (memories, ())


@pytest.mark.parametrize(
    ("more", "arguments", "told"),
    [
        ({"waits": 30}, "{}", "`query` must say what to look for"),
        ({}, "[", "`query` must say what to look for"),
        ({}, "", "`query` must say what to look for"),
        ({}, '{"query": "x", "after": "soon"}', "`after` must be a date"),
        ({"waits": 30}, '{"query": "x"}', TOO_LATE),
        ({"fault": OSError(5, "Oh no, tides")}, '{"query": "x"}', FAULTY),
        ({"fault": ZeroDivisionError("tides")}, '{"query": "x"}', FAULTY),
        ({"has_memory": False}, '{"query": "x"}', OFF),
    ],
)
async def test_the_model_is_told_why_nothing_was_found(
    desk: Make, caplog: pytest.LogCaptureFixture, more: Any, arguments: str, told: str
) -> None:
    one = desk(CHART, **more)
    found = await one.find(arguments)
    assert told in found.text
    assert (found.sightings, found.memories) == ((), 0)
    assert "tides" not in caplog.text


async def test_what_cannot_be_judged_is_not_handed_over(desk: Make) -> None:
    class Unjudging(RuleBook):
        def find(self, *_: Any) -> Any:
            raise ZeroDivisionError

    one = desk(CHART, rules=Unjudging(()))
    assert await one.find() == Found(FAULTY)


async def test_a_search_that_finds_nothing_says_what_there_is(desk: Make) -> None:
    found = await desk().find()
    assert found == Found("No relevant memories found. 2 sessions are recorded.")
