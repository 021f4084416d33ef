"""What the dialects are made of: events with their bytes, places in JSON, keys, counts, and the hidden past."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addons.loop import events
from addons.loop.dialect import Passage
from addons.loop.dialects import dialect_for
from addons.loop.events import EventSplitter, TooLongError, decoded, event_bytes, event_of, json_bytes
from addons.loop.keys import before_of, key_of
from addons.loop.past import HiddenPast
from addons.loop.places import Edit, Place, appended, edited, elements, members, with_element
from addons.loop.usage import summed

STREAM = b"\xef\xbb\xbfevent: a\ndata: 1\n\n: hello\n\ndata:2\r\ndata: 3\r\n\r\ndata: 4\r\rdata: 5\n\r\nid: 1\nevent: b\r\n\ndata\n\r\n"
EVENTS = [("a", "1"), (None, None), (None, "2\n3"), (None, "4"), (None, "5"), ("b", None), (None, "")]


@given(st.lists(st.integers(1, len(STREAM))))
def test_a_stream_is_cut_into_events_wherever_its_pieces_are_cut(cuts: list[int]) -> None:
    splitter, found, start = EventSplitter(), [], 0
    for end in sorted({*cuts, len(STREAM)}):
        found += splitter.feed(STREAM[start:end])
        start = end
    assert [(one.name, one.data) for one in found] == EVENTS
    assert b"".join(one.raw for one in found) + splitter.rest() == STREAM


def test_a_carriage_return_at_the_end_may_be_half_a_line_end() -> None:
    splitter = EventSplitter()
    assert list(splitter.feed(b"data: 1\r\n\r")) == []
    (event,) = splitter.feed(b"\ndata: 2\r\r")
    assert event.raw == b"data: 1\r\n\r\n"
    assert splitter.rest() == b"data: 2\r\r"
    assert splitter.rest() == b""


def test_an_event_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_EVENT", 100)
    splitter = EventSplitter()
    found = splitter.feed(b"data: 1\n\ndata: " + b"2" * 100)
    assert next(found).data == "1"
    with pytest.raises(TooLongError):
        next(found)


def test_events_are_written_as_they_are_read() -> None:
    assert event_bytes("x", "a") == b"event: a\ndata: x\n\n"
    assert json_bytes({"a": "é\n🌊\ud800"}) == b'data: {"a":"\\u00e9\\n\\ud83c\\udf0a\\ud800"}\n\n'
    assert event_of(b"data:  x\nretry: 1\n\n").data == " x"
    assert event_of(b"data: \xff\n\n").data == "\ufffd"


@pytest.mark.parametrize(
    "text", ["", "{", "nothing", "NaN", '{"a": Infinity}', "1" * 5000, "[" * 100_000, "[" * 201 + "]" * 201, None]
)
def test_what_is_no_json_is_nothing(text: str | None) -> None:
    assert decoded(text) is None


@pytest.mark.parametrize("text", ["[" * 200 + "]" * 200, "[" + "[]," * 999 + "{}]", '"' + "[" * 999 + '"', "1"])
def test_what_is_json_is_decoded(text: str) -> None:
    assert decoded(text) == json.loads(text)


def test_members_and_elements_have_their_places() -> None:
    text = ' {"a" : [1, {"b":2} ,"]"] ,"é\\n":null} tail'
    found = members(text)
    assert {key: place.of(text) for key, place in found.items()} == {"a": '[1, {"b":2} ,"]"]', "é\n": "null"}
    assert [place.of(text) for place in elements(text, found["a"].start)] == ["1", '{"b":2}', '"]"']
    assert members("{ }") == {}
    assert elements("[ ]", 0) == []


@pytest.mark.parametrize(
    "text", ["", "[]", '{"a":1', '{"a" 1}', '{"a":1 "b":2}', '{"a":1,}', "{1:2}", '{"a":1,"a":2}', "{a:1}", "{,}"]
)
def test_what_is_no_object_has_no_members(text: str) -> None:
    with pytest.raises(ValueError):
        members(text)


@pytest.mark.parametrize("text", ["", "{}", "[1", "[1 2]", "[1,]", "[,]"])
def test_what_is_no_array_has_no_elements(text: str) -> None:
    with pytest.raises(ValueError):
        elements(text, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{"k":[9]}'),
        (' { "a": 1 } ', ' { "a": 1,"k":[9] } '),
        ('{"k": [ ], "a": 1}', '{"k": [9 ], "a": 1}'),
        ('{"k":[1 , 2 ]}', '{"k":[1 , 2,9 ]}'),
        ('{"k": null}', '{"k": [9]}'),
    ],
)
def test_an_element_is_put_at_the_end(text: str, expected: str) -> None:
    assert edited(text, [with_element(text, members(text), "k", "9")]) == expected


def test_an_element_of_what_is_no_array() -> None:
    with pytest.raises(ValueError):
        with_element('{"k": 1}', members('{"k": 1}'), "k", "9")


def test_edits_are_made_in_the_order_of_their_places() -> None:
    text = "[1,2,3]"
    more = appended(text, Place(0, 7), ["4", "5"])
    nothing = appended(text, Place(0, 7), [])
    assert edited(text, [more, nothing, Edit(Place(1, 2), "one"), Edit(Place(3, 3), "a"), Edit(Place(3, 3), "b")]) == (
        "[one,ab2,3,4,5]"
    )


@given(st.lists(st.integers() | st.text(), max_size=4), st.lists(st.none() | st.text(), max_size=3))
def test_what_is_appended_is_at_the_end(values: list[Any], more: list[Any]) -> None:
    text = json.dumps(values)
    edit = appended(text, Place(0, len(text)), [json.dumps(one) for one in more])
    assert json.loads(edited(text, [edit])) == values + more


def test_a_key_is_made_of_what_is_said_and_not_of_how() -> None:
    key = key_of("b", ["At  noon.\n", "é"], ["1"])
    assert key == key_of("b", ["At", " noon.é"], ["1"])
    others = [
        key_of("c", ["At noon.é"], ["1"]),
        key_of("b", ["At noon."], ["1"]),
        key_of("b", ["At noon.é"], ["1", "2"]),
    ]
    assert len({key, *others}) == 4
    assert key_of("b", [" "], []) is None
    assert key_of("b", [], ["1"]) is not None
    assert key_of("b", ["\ud83c\udf0a"], []) == key_of("b", ["🌊"], [])


def test_what_an_answer_follows_is_what_a_person_said() -> None:
    plain = before_of(["When?"], [])
    assert plain == before_of(["<system-reminder>Be brief.</system-reminder>\n", " When? "], [])
    assert (
        len({plain, before_of(["Where?"], []), before_of(["When?"], ["1"]), before_of(["When?"], [], "earlier")}) == 4
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"a": 1, "b": {"c": 2}, "t": "x"}, {"a": 10, "b": {"c": 1, "d": 1}, "t": "y"}, {"a": 11, "b": {"c": 3, "d": 1}, "t": "y"}),
        ({"a": 1}, {"a": None}, {"a": 1}),
        ({"a": None}, {"a": 1}, {"a": 1}),
        ([1], [2], [1, 2]),
        (None, {"a": 1}, {"a": 1}),
        ({"a": 1}, None, {"a": 1}),
        (0.25, 1, 1.25),
        (True, True, True),
        ("1", 2, 2),
    ],
)  # fmt: skip
def test_costs_are_added_up(first: Any, second: Any, expected: Any) -> None:
    assert summed(first, second) == expected


def test_the_past_of_one_client_is_not_that_of_another() -> None:
    past = HiddenPast()
    passage = Passage(("a",))
    past.of("one").keep({"k": passage})
    assert past.of("one").passage("k") is passage
    assert past.of("two").passage("k") is None
    past.of("two").keep({"k": Passage(("b",))})
    past.forget("one")
    assert past.of("one").passage("k") is None
    assert past.of("two").passage("k") == Passage(("b",))


def test_what_was_hidden_before_all_was_forgotten_is_not_kept_after_it() -> None:
    past = HiddenPast()
    under_way, other = past.of("one"), past.of("two")
    past.forget("one")
    under_way.keep({"k": Passage(("a",))})
    other.keep({"k": Passage(("b",))})
    assert past.of("one").passage("k") is None
    assert past.of("two").passage("k") is not None
    past.of("one").keep({"k": Passage(("c",))})
    assert past.of("one").passage("k") == Passage(("c",))


def test_what_was_not_used_for_longest_is_forgotten_first() -> None:
    past = HiddenPast(most_characters=330)
    for key in "abc":
        past.of("one").keep({key: Passage(("x" * 5,), ("y" * 5,))})
    assert past.of("one").passage("a") is not None
    past.of("one").keep({"d": Passage(("x",))})
    assert [key for key in "abcd" if past.of("one").passage(key)] == ["a", "c", "d"]


def test_a_passage_that_is_kept_again_counts_once() -> None:
    past = HiddenPast(most_characters=250)
    for _ in range(9):
        past.of("one").keep({"a": Passage(("x" * 20,))})
    past.of("one").keep({"b": Passage(("x" * 20,))})
    assert past.of("one").passage("a") is not None
    past.of("one").keep({"c": Passage(("x" * 500,))})
    assert [key for key in "abc" if past.of("one").passage(key)] == []


def test_the_loop_speaks_what_it_says() -> None:
    assert dialect_for("anthropic") is not None
    assert dialect_for("openai-chat") is not None
    assert dialect_for("ollama") is None
