"""A body that is cut is what it is when decoded as a whole, however it was decoded."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import slices
from memory.json_text import RepeatedKeys, decode_bytes, decode_json, guess_json
from memory.slices import Elements, slice_object
from memory.spans import UNREAD, KnownSpans

FIRST = json.dumps(
    {"role": "user", "content": "so long that it is worth remembering, and longer than its beginning is, too"}
).encode()


@pytest.fixture
def guesses(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The faster decoder is asked from the second element on that is new, and what it is asked is written down."""
    asked: list[bytes] = []

    def guess(data: bytes) -> Any:
        asked.append(data)
        return guess_json(data)

    monkeypatch.setattr(slices, "_ENOUGH_NEW", 1)
    monkeypatch.setattr(slices, "guess_json", guess)
    return asked


def cut(body: bytes) -> Any:
    return slice_object(body, KnownSpans(1, 1 << 20)).decoded()


@pytest.mark.parametrize(
    "element",
    [
        b'{"a":1,"a":2}',
        b'{"b":[{"a":1,"a":1}]}',
        b'{"a": 1}',
        b'"\\ud83d"',
        b'"\\u00e9"',
        b'"\xc3\xa9"',
        b'"line\nbreak"',
        b"1",
        b"-0",
        b"1e5",
        b"1.50",
        b"18446744073709551615",
        b"18446744073709551616",
        b"-9223372036854775809",
        b"1" * 5_000,
        b"Infinity",
        b"null",
        b"[" * 600 + b"]" * 600,
    ],
)
@pytest.mark.parametrize("body", [b'{"m":[%s,%s,%s],"n":[%s]}', b'{"r":{"m":[%s, %s ,%s]},"n":[ %s]}'])
def test_every_element_is_what_it_is_alone(guesses: list[bytes], element: bytes, body: bytes) -> None:
    whole = body % (FIRST, element, element, element)
    text = whole.decode("utf-8", "surrogatepass")
    decoded = cut(whole)
    assert repr(decoded) == repr(decode_json(text))
    assert len(guesses) == 1
    last = decoded["n"][0]
    if element == b'{"a":1,"a":2}':
        assert isinstance(last, RepeatedKeys)
        assert last.pairs == [("a", 1), ("a", 2)]
    assert repr(decode_bytes(element)) == repr(last)


def test_what_was_there_before_is_not_guessed(guesses: list[bytes]) -> None:
    known = KnownSpans(1, 1 << 20)
    slice_object(b'{"m":[%s,%s]}' % (FIRST, FIRST[:-2] + b'2"}'), known)
    guesses.clear()
    new = [FIRST[:-2] + b'%d"}' % number for number in range(3, 6)]
    body = b'{"m":[%s,%s],"n":[7,8]}' % (FIRST, b",".join([FIRST[:-2] + b'2"}', *new]))
    assert slice_object(body, known).decoded() == json.loads(body)
    assert guesses == [b'{"m":[' + body[body.index(new[1]) :]]


def test_a_short_element_is_known_by_what_comes_next_too() -> None:
    known = KnownSpans(1, 1 << 20)
    short = b'{"role":"user","content":"a message of few words"}'
    slice_object(b'{"m":[%s,%s]}' % (short, FIRST), known)
    again = slice_object(b'{"m":[%s,%s,1]}' % (short, FIRST), known).members["m"]
    assert isinstance(again, Elements)
    assert [one.decoded for one in again.elements] == [UNREAD, UNREAD, 1]


def test_a_guess_that_is_not_what_stands_there_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "_ENOUGH_NEW", 1)
    monkeypatch.setattr(slices, "guess_json", lambda _: {"m": [{"a": 1}, "x", 12, 12]})
    assert cut(b'{"m":[%s,{"a":2},"xy",123,12]}' % FIRST)["m"][1:] == [{"a": 2}, "xy", 123, 12]


def test_a_body_of_which_little_is_new_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    monkeypatch.setattr(slices, "guess_json", asked.append)
    body = b'{"m":[%s]}' % b",".join([b"[%d,%s]" % (number, FIRST) for number in range(20)])
    known = KnownSpans(1, 1 << 20)
    assert len(slice_object(body, known).decoded()["m"]) == 20
    assert [len(one) / len(body) for one in asked] == [pytest.approx(0.95, abs=0.01)]
    asked.clear()
    slice_object(body, known)
    slice_object(body.replace(b"[0,{", b"[9,{"), known)
    assert asked == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(json_values, max_size=5), st.booleans(), st.sampled_from([(",", ":"), (", ", ": ")]))
def test_bodies_of_any_values(values: list[Any], ascii_only: bool, separators: tuple[str, str]) -> None:
    body = {"m": [json.loads(FIRST), *values], "n": {"o": values}, "p": 1.5}
    text = json.dumps(body, ensure_ascii=ascii_only, separators=separators)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "_ENOUGH_NEW", 1)
        decoded = cut(text.encode("utf-8", "surrogatepass"))
    assert repr(decoded) == repr(decode_json(text))
    assert math.isclose(decoded["p"], 1.5)
