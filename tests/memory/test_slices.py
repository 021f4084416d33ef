"""A body that is cut is what it is when decoded as a whole, however it was decoded."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import native, slices
from memory.effort import Effort
from memory.json_text import RepeatedKeys, decode_bytes, decode_json
from memory.slices import Elements, Sliced, slice_object
from memory.spans import UNREAD, Element, KnownSpans

FIRST = json.dumps(
    {"role": "user", "content": "so long that it is worth remembering, and longer than its beginning is, too"}
).encode()


@pytest.fixture(params=["native", "python"], autouse=True)
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of an element is found in C, where that was built, and by decoding it."""
    if request.param == "python":
        monkeypatch.setattr(native, "BUILT", False)
    elif not native.BUILT:
        pytest.skip("memory._native was not built: there is no C compiler")


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
def test_every_element_is_what_it_is_alone(element: bytes, body: bytes) -> None:
    whole = body % (FIRST, element, element, element)
    text = whole.decode("utf-8", "surrogatepass")
    decoded = cut(whole)
    assert repr(decoded) == repr(decode_json(text))
    last = decoded["n"][0]
    if element == b'{"a":1,"a":2}':
        assert isinstance(last, RepeatedKeys)
        assert last.pairs == [("a", 1), ("a", 2)]
    assert repr(decode_bytes(element)) == repr(last)


def test_a_short_element_is_known_by_what_comes_next_too() -> None:
    known = KnownSpans(1, 1 << 20)
    short = b'{"role":"user","content":"a message of few words"}'
    slice_object(b'{"m":[%s,%s]}' % (short, FIRST), known)
    again = slice_object(b'{"m":[%s,%s,1]}' % (short, FIRST), known).members["m"]
    assert isinstance(again, Elements)
    assert [one.decoded for one in again.elements] == [UNREAD, UNREAD, UNREAD if native.BUILT else 1]


@pytest.mark.parametrize(
    "broken",
    [b"[1,]", b"[1", b'["a]', b'{"a":1,}', b"{1:2}", b'"\\x"', b'"\\u12"', b"01", b"1.", b"-", b"tru", b"[1 2]", b"]"],
)
def test_what_is_broken_is_refused(broken: bytes) -> None:
    for body in (b'{"m":[%s,%s]}', b'{"n":{"m":[%s, %s]}}'):
        with pytest.raises(ValueError):  # whose words they are is json's choice
            cut(body % (FIRST, broken))
    with pytest.raises(ValueError):
        decode_bytes(broken)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(json_values, max_size=5), st.booleans(), st.sampled_from([(",", ":"), (", ", ": ")]))
def test_bodies_of_any_values(values: list[Any], ascii_only: bool, separators: tuple[str, str]) -> None:
    body = {"m": [json.loads(FIRST), *values], "n": {"o": values}, "p": 1.5}
    text = json.dumps(body, ensure_ascii=ascii_only, separators=separators)
    decoded = cut(text.encode("utf-8", "surrogatepass"))
    assert repr(decoded) == repr(decode_json(text))
    assert math.isclose(decoded["p"], 1.5)


@pytest.mark.parametrize("element", [b'"\xc3\xa9"', b"NaN", b'"\xf0\x9f\x98\x80",-Infinity,"e"'])
def test_a_window_is_decoded_once_for_all_that_is_in_it(element: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    look_at = slices._Reader._look_at

    def looking(reader: slices._Reader, at: int, size: int) -> None:
        sizes.append(size)
        look_at(reader, at, size)

    monkeypatch.setattr(slices._Reader, "_look_at", looking)
    body = b"{%s}" % b",".join([b'"%d":[%s,"\xc3\xa9",[]]' % (number, element) for number in range(300)])
    assert repr(cut(body)) == repr(decode_json(body.decode()))
    told_in_c = native.BUILT and element == b'"\xc3\xa9"'
    assert len(sizes) == (0 if told_in_c else 1)


def test_thousands_of_short_members_are_not_told_apart() -> None:
    short = b"[%s]" % b",".join([b'"\xc3\xa9%d"' % number for number in range(3000)])
    known = KnownSpans(1, 1 << 20)
    body = b'{"a":[1,2],"m":%s,"n":{"o":%s},"p":[%s]}' % (short, short, FIRST)
    sliced = slice_object(body, known)
    nested = sliced.members["n"]
    assert isinstance(nested, Sliced)
    kinds = {"a": Elements, "m": Element, "p": Elements}
    assert {key: type(sliced.members[key]) for key in kinds} == kinds
    assert isinstance(nested.members["o"], Element)
    assert sliced.decoded() == sliced.outline() | {"a": [1, 2], "p": [json.loads(FIRST)]} == json.loads(body)
    members = b",".join([b'"%d":[]' % number for number in range(3000)])
    assert isinstance(slice_object(b'{"m":{%s}}' % members, known).members["m"], Element)
    with pytest.raises(ValueError, match="too many short members"):
        slice_object(b"{%s}" % members, known)
    long = b"[%s]" % b",".join([b'"%0200d"' % number for number in range(3000)])
    assert isinstance(slice_object(b'{"m":%s}' % long, known).members["m"], Elements)


def test_what_begins_alike_is_not_hashed_for_ever() -> None:
    """Short elements that begin as long ones did: each of these may be what comes."""
    known, effort = KnownSpans(1, 1 << 20), Effort(30_000)
    short, long = b'"%s"' % (b"a" * 120), [b'"%s%d"' % (b"a" * 9_000, number) for number in range(3)]
    for one in (short, *long):
        known.add(one, 0, len(one))
    data = b",".join([short] * 100)
    assert known.find(data, 0, effort)[1] == len(short)  # the long ones were tried for it
    assert effort.is_spent
    assert known.find(data, 0, effort) == ([], 0)
    assert cut(b'{"m":[%s]}' % data) == {"m": ["a" * 120] * 100}
