"""Which conversation a request goes on, told by the messages that it sends again."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.conversations.messages import is_persons, last_persons, merged, visible
from memory.conversations.prefixes import Hash, Hasher, Place, Verdict, judge
from memory.conversations.said import Call, Message, Result
from tests.memory.conversations.talk import READ, assistant, tool, user

HASHER = Hasher(bytes(range(16)))
START = "0" * 32

TEXT = st.text("abc é\n", min_size=1, max_size=4).filter(str.strip)
CHATS = st.lists(TEXT, min_size=1, max_size=5).map(
    lambda texts: [(assistant if place % 2 else user)(text) for place, text in enumerate(texts)]
)


def places_of(messages: list[Message]) -> list[Hash]:
    return HASHER.places(START, HASHER.digests(messages))


def remembered(messages: list[Message], answer: Message, turn: int = 1) -> dict[Hash, Place]:
    """As they are after this request with this answer."""
    *_, asked, answered = places_of([*messages, answer])
    return {
        asked: Place(1, "s", 1, turn, answered=False, complete=True),
        answered: Place(1, "s", 1, turn, answered=True),
    }


def verdict_on(known: dict[Hash, Place], messages: list[Message], answer: Message, *, grown: bool = False) -> Verdict:
    places = places_of([*messages, answer])
    return judge(known, merged(messages), places[:-1], places[-1], grown=grown)


def shaken(text: str) -> str:
    return f"\t{unicodedata.normalize('NFD', text)} \r\n".replace(" ", "  ")


@given(CHATS, CHATS)
def test_a_stored_prefix_means_continuation_and_the_longest_wins(stored: list[Message], asked: list[Message]) -> None:
    """The same as comparing the messages themselves, with each white space gone."""

    def plain(messages: list[Message]) -> list[tuple[str, str]]:
        return [(one.role, "".join(unicodedata.normalize("NFC", one.text).split())) for one in messages]

    known = {
        place: Place(1, "s", 1, number, answered=bool(number % 2 == 0))
        for number, place in enumerate(places_of(stored))
        if number
    }
    found = judge(known, asked, places_of(asked), "f" * 32).parent
    common = 0
    while common < min(len(stored), len(asked)) and plain(stored)[common] == plain(asked)[common]:
        common += 1
    assert found == (places_of(stored)[common] if common else None)


@given(CHATS)
def test_white_space_and_the_form_of_letters_make_no_difference(messages: list[Message]) -> None:
    assert places_of([replace(one, text=shaken(one.text)) for one in messages]) == places_of(messages)


@given(CHATS, st.data())
def test_an_edited_message_is_found_out(messages: list[Message], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(messages) - 1))
    edited = [*messages]
    edited[at] = replace(edited[at], text=f"{edited[at].text}x")
    before, after = places_of(messages), places_of(edited)
    assert before[: at + 1] == after[: at + 1]
    assert not set(before[at + 1 :]) & set(after[at + 1 :])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (user("a"), assistant("a")),
        (user("a"), Message("tool", "a")),
        (assistant("", Call("1", "Read", "{}")), assistant("", Call("1", "Write", "{}"))),
        (assistant("", Call("1", "Read", '{"a": 1}')), assistant("", Call("1", "Read", '{"a": 2}'))),
        (assistant("a", Call("1", "b", "c")), assistant("ab", Call("1", "", "c"))),
        (tool("a"), tool("b")),
        (Message("tool", results=(Result("1", "a"), Result("1", "b"))), Message("tool", results=(Result("1", "ab"),))),
    ],
)
def test_role_and_content_make_a_message(one: Message, other: Message) -> None:
    assert HASHER.message(one) != HASHER.message(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (assistant("", Call("1", "Read", '{"b": 1, "a": 2}')), assistant("", Call("x", "Read", '{"a":2,"b":1}'))),
        (assistant("", Call("1", "Read", "not json ")), assistant("", Call("1", "Read", "not json"))),
        (tool("a", call="1"), tool("a", call="2")),
        (user("a"), user("<system-reminder>\nToday is …\n</system-reminder>\na")),
        (user("a"), user("x-anthropic-billing-header: cc_version=2.1.197; cch=abc12;\na")),
        (user("a\nb"), user("ab")),
    ],
)
def test_what_clients_change_makes_no_difference(one: Message, other: Message) -> None:
    assert HASHER.message(one) == HASHER.message(other)


def test_hashes_say_nothing_to_whoever_has_no_key() -> None:
    assert HASHER.message(user("a")) != Hasher(bytes(16)).message(user("a"))
    assert HASHER.name("key", "a") != HASHER.name("answer", "a")


@pytest.mark.parametrize(
    ("messages", "kind", "start", "instead_of"),
    [
        ([user("a"), assistant("b"), user("c")], "turn", 2, None),
        ([user("a"), assistant("b"), user("c"), user("d")], "turn", 2, None),
        ([user("a")], "retry", 1, None),
        ([user("a"), assistant("b")], "more", 2, None),
        ([user("x")], "new", 0, None),
        ([user("x"), assistant("y"), user("z")], "new", 2, None),
        ([user("a"), assistant("edited"), user("c")], "turn", 2, 1),
        ([user("a"), user("c")], "turn", 1, 1),
        ([], "new", 0, None),
    ],
)
def test_a_request_after_one_turn(messages: list[Message], kind: str, start: int, instead_of: int | None) -> None:
    verdict = verdict_on(remembered([user("a")], assistant("b")), messages, assistant("b"))
    assert (verdict.kind, verdict.start, verdict.instead_of) == (kind, start, instead_of)


def test_another_answer_to_the_same_request() -> None:
    known = remembered([user("a")], assistant("b"))
    asked = places_of([user("a")])[-1]
    assert verdict_on(known, [user("a")], assistant("other")) == Verdict("turn", asked, 0, 1)
    assert verdict_on(known, [user("a")], assistant("b and more"), grown=True) == Verdict("more", asked, 1)
    known[asked].complete = False
    assert verdict_on(known, [user("a")], assistant("other")) == Verdict("again", asked, 1)
    assert verdict_on(known, [user("a"), assistant("b, as far as it came"), user("c")], assistant("d")) == (
        Verdict("turn", asked, 2)
    )


def test_an_edited_message_stands_instead_of_the_turn_that_went_on_from_there() -> None:
    known = remembered([user("a")], assistant("b"))
    answered = places_of([user("a"), assistant("b")])[-1]
    known[answered].next = 2
    messages = [user("a"), assistant("b"), user("c, edited")]
    assert verdict_on(known, messages, assistant("d")) == Verdict("turn", answered, 2, 2)


def test_a_tool_loop_goes_on_with_its_turn() -> None:
    calls = assistant("I look.", READ)
    known = remembered([user("a")], calls)
    verdict = verdict_on(known, [user("a"), calls, tool("text")], assistant("done"))
    assert (verdict.kind, verdict.start) == ("more", 2)
    asked_meanwhile = [user("a"), calls, tool("text"), user("and this?")]
    verdict = verdict_on(known, asked_meanwhile, assistant("done"))
    assert (verdict.kind, verdict.start) == ("turn", 3)


def test_messages_are_brought_to_one_form() -> None:
    assert merged(
        [
            Message("user", "<system-reminder>x</system-reminder>"),
            user("a"),
            assistant("b"),
            assistant("", READ),
            Message("user", "<system-reminder>x</system-reminder>", results=(Result("1", "c"),)),
            tool("d"),
            user("e"),
            user("f"),
        ]
    ) == (
        user("a"),
        assistant("b", READ),
        Message("tool", results=(Result("1", "c"), Result("call-1", "d"))),
        user("e"),
        user("f"),
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n", "a\n"),
        ("<system-reminder>\nx\n</system-reminder>\n\nWhat now?", "What now?"),
        ("a <system-reminder>x</system-reminder> b<system-reminder>y</system-reminder>", "a  b"),
        ("<environment_context>\n<cwd>/src</cwd>\n</environment_context>", ""),
        ("<system-reminder>never closed", "<system-reminder>never closed"),
        ("<system-reminder>" * 100_000, "<system-reminder>" * 100_000),
        ("x-anthropic-billing-header: a\nb", "b"),
    ],
)
def test_what_the_client_puts_in_is_not_seen(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_person_writes_in_the_users_role() -> None:
    assert is_persons(user("a"))
    assert not is_persons(user(" \n"))
    assert not is_persons(user("<system-reminder>a</system-reminder>"))
    assert not is_persons(assistant("a"))
    assert not is_persons(tool("a"))
    assert last_persons([user("a"), assistant("b"), user("c"), user("d"), tool("e")]) == range(2, 4)
    assert last_persons([user("a")]) == range(1)
    assert not last_persons([assistant("b")])
