"""Which conversation a request goes on with, asked before there is an answer to it, and which conversation asks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.conversations.recorder import Recorded
from memory.conversations.said import Call, Message
from tests.memory.conversations.talk import READ, Talk, assistant, tool, user


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    with Talk(tmp_path / "memory") as made:
        yield made


def goes_on(talk: Talk, messages: list[Message], *, client: str = "work", **more: Any) -> tuple[str, int] | None:
    asked: dict[str, Any] = {"key": None, "prepared": None, "continues": False, "previous": None, **more}
    found = talk.recorder.conversation_of(client, messages=messages, **asked)
    prepared = talk.recorder.prepare(messages)
    assert talk.recorder.conversation_of(client, messages=(), **{**asked, "prepared": prepared}) == found
    return found


def of(recorded: Recorded | None) -> tuple[str, int]:
    assert recorded is not None
    return recorded.session, recorded.conversation


def test_a_request_goes_on_with_what_it_sends_again(talk: Talk) -> None:
    eggs = of(talk.say([user("Eggs?")], assistant("Boiled.")))
    ships = of(talk.say([user("Ships?")], assistant("Sailing.", READ)))
    assert eggs != ships
    assert goes_on(talk, [user("Eggs?"), assistant("Boiled."), user("Long?")]) == eggs
    assert goes_on(talk, [user("Ships?"), assistant("Sailing.", READ), tool("x")]) == ships
    assert goes_on(talk, [user("Eggs?")]) == eggs  # asked again
    assert goes_on(talk, [user("Eggs?"), assistant("Boiled, edited"), user("Long?")]) == eggs
    assert goes_on(talk, [user("Tides?")]) is None
    assert goes_on(talk, [user("Eggs?")], client="home") is None


def test_its_key_and_the_answer_that_it_names_count(talk: Talk) -> None:
    one = of(talk.say([user("Hello")], assistant("Hi"), key="one", answer_id="resp-1"))
    two = of(talk.say([user("Hello")], assistant("Hi, again"), key="two"))
    assert goes_on(talk, [user("anything")], key="one") == one
    assert goes_on(talk, [user("anything")], key="two") == two
    assert goes_on(talk, [user("Hello")], key="three") is None  # two chats that begin alike
    assert goes_on(talk, [user("Hello"), assistant("Hi"), user("c")], key="three") == one
    assert goes_on(talk, [user("new")], continues=True, previous="resp-1") == one
    assert goes_on(talk, [user("new")], continues=True, previous="resp-1", key="two") == one
    assert goes_on(talk, [user("new")], continues=True, previous="never seen", key="two") == two
    assert goes_on(talk, [user("Hello")], continues=True, previous="never seen") is None


def test_it_is_where_the_request_is_recorded_then(talk: Talk) -> None:
    """The same answer as `record` gives, as long as no session ends in between."""
    asked: list[tuple[list[Message], dict[str, Any]]] = [
        ([user("a")], {}),
        ([user("a"), assistant("b"), user("c")], {}),
        ([user("x")], {"key": "k"}),
        ([user("y")], {"key": "k", "continues": True}),
        ([user("a"), assistant("b"), user("c, edited")], {}),
        ([user("z")], {}),
    ]
    known: set[tuple[str, int]] = set()
    for number, (messages, more) in enumerate(asked):
        found = goes_on(talk, messages, **more)
        recorded = of(talk.say(messages, assistant("b" if number == 0 else f"answer {number}"), **more))
        assert found == (recorded if recorded in known else None)
        known.add(recorded)
    assert len(known) == 3


def test_asking_writes_nothing(talk: Talk) -> None:
    assert goes_on(talk, [user("a")]) is None
    assert talk.recorder.asking("work") is None
    assert not (talk.directory / "work").exists()
    talk.say([user("a")], assistant("b"))
    before = {path: path.read_bytes() for path in talk.directory.rglob("*") if path.is_file()}
    goes_on(talk, [user("a"), assistant("b"), user("c")])
    goes_on(talk, [user("new")], key="new")
    assert {path: path.read_bytes() for path in talk.directory.rglob("*") if path.is_file()} == before


def test_a_conversation_of_an_earlier_session_is_named_by_where_it_was_last(talk: Talk) -> None:
    first = of(talk.say([user("a")], assistant("b")))
    talk.now += timedelta(hours=4)
    history = [user("a"), assistant("b"), user("c")]
    assert goes_on(talk, history) == first
    second = of(talk.say(history, assistant("d")))
    assert second != first
    assert goes_on(talk, [*history, assistant("d"), user("e")]) == second


def test_the_conversation_that_asks_is_that_whose_last_answer_calls_the_tool(talk: Talk) -> None:
    call, program = (
        Call("1", "mcp___memory__Recall", "{}"),
        Call("2", "exec", "await tools.memory.Recall({query: 'tea'})"),
    )
    talk.recorder.recall_tool = "Recall"
    assert talk.recorder.asking("work") is None
    one = of(talk.say([user("Eggs?")], assistant("Let me see.", call)))
    two = of(talk.say([user("Ships?")], assistant("", READ)))
    assert talk.recorder.asking("work") == one
    assert talk.recorder.asking("home") is None
    three = of(talk.say([user("Tea?")], assistant("", program)))
    assert talk.recorder.asking("work") == three
    talk.say([user("Tea?"), assistant("", program), tool("x")], assistant("Yes."))
    assert talk.recorder.asking("work") == one
    talk.say([user("Eggs?"), assistant("Let me see.", call), tool("x")], assistant("Boiled."))
    assert talk.recorder.asking("work") is None
    assert two not in {one, three}
