"""The strings of JSON, taken from its bytes and from what it is decoded to: the same ones, with the same places."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import native
from memory.json_text import decode_json
from memory.spans import UNREAD, Element
from memory.strings import Strings, Together, Wanted, places_in, strings_in, strings_of_value

built = pytest.mark.skipif(not native.BUILT, reason="memory._native was not built: there is no C compiler")

EVERYTHING = Wanted()
LONG = Wanted(24)
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" * 100


def element_of(source: bytes, start: int, end: int) -> Element:
    return Element(source, start, end, None, UNREAD)


def taken(data: bytes, wanted: Wanted = EVERYTHING) -> Strings | None:
    """The strings of one value, taken from its bytes; None: it has to be decoded."""
    element = element_of(data, 0, len(data))
    found = strings_in([element], wanted)
    if found.unread:
        assert (found.unread, found.strings.text, len(found.strings.rows), found.reasons) == ([0], b"", 0, [])
        return None
    assert not found.strings.values.any()
    reasons = dict.fromkeys([reason for _, reason in found.reasons])
    return Strings(found.strings.text, found.strings.rows, tuple(reasons), partial(places_in, element, wanted))


def in_bytes(data: bytes, wanted: Wanted = EVERYTHING) -> Strings:
    strings = taken(data, wanted)
    assert strings is not None
    return strings


def decoded(data: bytes, wanted: Wanted = EVERYTHING) -> Strings:
    return strings_of_value(decode_json(data.decode("utf-8", "surrogatepass")), wanted)


def told(strings: Strings) -> list[tuple[str, bytes, bool]]:
    """(pointer, text, whether its JSON was decoded) of each string, in the order of the value."""
    said = {number: (strings.text[begin:end], bool(holds)) for begin, end, number, holds in strings.rows.tolist()}
    return [(pointer, *said[number]) for pointer, number in strings.places(sorted(said))] if said else []


@built
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r'"a"', [("", "a", False)]),
        (r'{"k": ["a", {"b/c~": "d"}, [[]], {}, ""]}',
         [("/k", "k", False), ("/k/0", "a", False), ("/k/1/b~1c~0", "b/c~", False), ("/k/1/b~1c~0", "d", False),
          ("/k/4", "", False)]),
        (r'{"a key of many words": 1, "\u0062": "x"}',
         [("/{…}", "a key of many words", False), ("/b", "b", False), ("/b", "x", False)]),
        (r'["{\"a\": [\"x\", \"\\\"y\\\"\"]}"]',
         [("/0", r'{"a": ["x", "\"y\""]}', True), ("/0!/a", "a", False), ("/0!/a/0", "x", False),
          ("/0!/a/1", '"y"', True), ("/0!/a/1!", "y", False)]),
        (r'[" \u00a0{}\u3000 ", "{} x", "[1,]", "{\"a\":1}\u001f"]',
         [("/0", " \u00a0{}\u3000 ", True), ("/1", "{} x", False), ("/2", "[1,]", False), ("/3", '{"a":1}\x1f', True),
          ("/3!/a", "a", False)]),
        (r'["\u00a0{}", "\"", "{", "1", "[1.5e-3, -0, true, false, null]", "[01]", "[1.]", "[-]", "[1e]", "[nul]", "[Not]", "[Image]", "[-Inf]"]',
         [("/0", "\u00a0{}", False), ("/1", '"', False), ("/2", "{", False), ("/3", "1", False),
          ("/4", "[1.5e-3, -0, true, false, null]", True), ("/5", "[01]", False), ("/6", "[1.]", False),
          ("/7", "[-]", False), ("/8", "[1e]", False), ("/9", "[nul]", False), ("/10", "[Not]", False),
          ("/11", "[Image]", False), ("/12", "[-Inf]", False)]),
        ('["\\ud83d\\ude00\\ud83d é\\n\\u0000\\/", "line\nbreak"]', [("/0", "😀\ud83d é\n\0/", False), ("/1", "line\nbreak", False)]),
        (r'{"a": 1, "a": "twice", "b": {}}', [("/a", "a", False), ("/a", "a", False), ("/a", "twice", False), ("/b", "b", False)]),
    ],
)  # fmt: skip
def test_what_there_is_and_where(source: str, expected: list[tuple[str, str, bool]]) -> None:
    data = source.encode()
    written = [(pointer, text.encode("utf-8", "surrogatepass"), holds) for pointer, text, holds in expected]
    assert told(in_bytes(data)) == written
    assert told(decoded(data)) == written


@built
def test_every_white_space_and_every_length_of_a_name() -> None:
    spaces = [character for character in map(chr, range(0x3002)) if character.isspace()]
    value = [f" {space}{{}}{space}" for space in spaces] + [
        "{}\u200b",
        "{}\u2010",
        " \u2030[]",
        "\ud83d\udc00",
        "\ud83d\udfff",
    ]
    data = json.dumps(value).encode()
    assert told(in_bytes(data)) == told(decoded(data))
    assert [holds for _, _, holds in told(in_bytes(data))] == [True] * len(spaces) + [False] * 5
    for length in (0, 1, 63, 64, 65):
        name = "n" * length
        for key in (name, "\\u006e" * length):
            expected = "/{…}" if length == 65 else f"/{name}"
            assert [pointer for pointer, *_ in told(in_bytes(b'{"%s":"v"}' % key.encode()))] == [expected, expected]


@built
@pytest.mark.parametrize(
    "source",
    [
        b"[NaN]",
        b"-Infinity",
        b'["[Infinity]"]',
        b"[" * 300 + b"]" * 300,
        b'["\xff"]',
        b'["\xc0\xaf"]',
        b'["\xed\xa0"]',
        json.dumps(["[" * 300 + "]" * 300]).encode(),
        b"[1,]",
        b'["a"',
        b'"a" ',
        b'"\\x"',
        b'"\\u12g4"',
        b'"a',
        b"",
        b"{",
        b'{"a" 1}',
        b'{"a":1 "b":2}',
        b"tru",
    ],
)
def test_what_has_to_be_decoded(source: bytes) -> None:
    assert taken(source) is None


@built
def test_json_in_strings_is_decoded_four_times() -> None:
    value: Any = ["deep"]
    for _ in range(4):
        value = [json.dumps(value)]
    data = json.dumps(value).encode()
    assert told(in_bytes(data)) == told(decoded(data))
    assert told(in_bytes(data))[-1] == ("/0!/0!/0!/0!/0", b"deep", False)
    deeper = json.dumps([data.decode()]).encode()
    assert taken(deeper) is None
    assert decoded(deeper).reasons == ("nested too deep",)


@built
def test_what_is_too_short_is_left_out() -> None:
    short = ["x" * 23, "é" * 23, "字" * 8, "see a.md", "[[b]]", "[b]", "c\\d", "[]", "y" * 24, "é" * 24]
    data = json.dumps([short, {"key": 1, "k.md": 2}], ensure_ascii=False).encode()
    for wanted, more in ((LONG, []), (Wanted(24, wide=True), ["é" * 23, "字" * 8])):
        expected = {"see a.md", "[[b]]", "c\\d", "y" * 24, "é" * 24, "k.md", *more}
        for strings in (in_bytes(data, wanted), decoded(data, wanted)):
            assert {text.decode() for text in strings.text.split(b"\n")} == expected
            assert len(strings.rows) == len(expected)


@built
def test_what_is_encoded_is_left_out() -> None:
    picture = f"data:image/png;base64,{PICTURE}"
    value = ["before", PICTURE, {"url": f"see {picture} there", "json": json.dumps({"url": picture})}, "after"]
    data = json.dumps(value).encode()
    for strings in (in_bytes(data), decoded(data)):
        assert PICTURE[:60].encode() not in strings.text
        assert strings.reasons == ("attachment",)
        # In the order of the value what is left of each.
        assert [(pointer, len(text), holds) for pointer, text, holds in told(strings)] == [
            ("/0", 6, False),
            ("/1", 0, False),
            ("/2/url", 3, False),
            ("/2/url", 32, False),
            ("/2/json", 4, False),
            ("/2/json", 33, True),
            ("/2/json!/url", 3, False),
            ("/2/json!/url", 22, False),
            ("/3", 5, False),
        ]


@built
def test_several_are_taken_at_once() -> None:
    values = [
        b'["one", "two"]',
        b"[1]",
        b'["lost", NaN]',
        b'""',
        b'[2, ["{}"]]',
        b"{",
        json.dumps([PICTURE, "last"]).encode(),
    ]
    source = b",".join(values)
    ends = np.cumsum([len(value) + 1 for value in values]) - 1
    elements = [element_of(source, int(end) - len(value), int(end)) for value, end in zip(values, ends, strict=True)]
    strings, reasons, unread = strings_in(elements, EVERYTHING)
    assert strings.text == b"one\ntwo\n\n{}\nlast\n"
    assert strings.rows.tolist() == [
        [0, 3, 0, 0], [4, 7, 1, 0], [8, 8, 0, 0], [9, 11, 0, 1], [12, 16, 1, 0], [17, 17, 0, 0]
    ]  # fmt: skip
    assert strings.values.tolist() == [0, 0, 3, 4, 6, 6]
    assert (reasons, unread) == ([(6, "attachment")], [2, 5])
    nothing = strings_in([], EVERYTHING)
    assert (nothing.strings.text, nothing.strings.rows.shape, list(nothing.unread)) == (b"", (0, 4), [])


@built
def test_of_a_value_that_has_to_be_decoded_nothing_encoded_is_left() -> None:
    whole, torn = (json.dumps([PICTURE, "last"]).encode()[: -1 if is_torn else None] for is_torn in (False, True))
    source = torn + whole
    elements = [element_of(source, 0, len(torn)), element_of(source, len(torn), len(source))]
    strings, reasons, unread = strings_in(elements, EVERYTHING)
    assert (strings.text, strings.values.tolist()) == (b"last\n", [1, 1])
    assert (reasons, unread) == ([(1, "attachment")], [0])
    spans = np.array([(0, len(torn)), (len(torn), len(source))], np.int64)
    assert native.strings(source, spans, *EVERYTHING)[2] == PICTURE.encode()


def test_several_are_put_together_and_some_left_out() -> None:
    values = (["one", "two"], [1], "", [2, ["{}"]])
    together = Together.of([(2 * number, strings_of_value(value, EVERYTHING)) for number, value in enumerate(values)])
    assert together.text == b"one\ntwo\n\n{}"
    assert together.rows.tolist() == [[0, 3, 0, 0], [4, 7, 1, 0], [8, 8, 0, 0], [9, 11, 0, 1]]
    assert together.values.tolist() == [0, 0, 4, 6]
    for left_out, text, rows, of_values in (
        ([0, 2], b"two\n{}", [[0, 3, 1, 0], [4, 6, 0, 1]], [0, 6]),
        ([1, 3], b"one\n", [[0, 3, 0, 0], [4, 4, 0, 0]], [0, 4]),
        ([0, 1, 3], b"", [[0, 0, 0, 0]], [4]),
        ([3], b"one\ntwo\n", [[0, 3, 0, 0], [4, 7, 1, 0], [8, 8, 0, 0]], [0, 0, 4]),
    ):
        left = together.without(left_out)
        assert (left.text, left.rows.tolist(), left.values.tolist()) == (text, rows, of_values)
    assert together.without([0, 1, 2, 3]).rows.shape == (0, 4)
    assert Together.of([]).text == b""


@built
def test_a_part_that_is_none_is_refused() -> None:
    for start, stop in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(ValueError, match="no part"):
            native.strings(b"[1]", np.array([(0, 3), (start, stop)], np.int64), 0, False)
        with pytest.raises(ValueError, match="no part"):
            native.pointers(b"[1]", start, stop, 0, False, b"")
    with pytest.raises(ValueError, match="no part"):
        native.end_of_value(b"[1]", 4)
    with pytest.raises(ValueError, match="not so many"):
        native.pointers(b'["a"]', 0, 5, 0, False, np.array([1], np.uint64))
    assert native.end_of_value(b"", 0) is None


scraps = st.lists(
    st.sampled_from(
        ["a", "see a.md", "[[b]]", "{", "}", "[", "]", '"', ",", ":", " ", "\n", "\u00a0", "\u2029", "\x1d", "\\", "\\n", "\\u00e9",
         "\\ud83d", "\\ude00", "1", "-1.5e3", "true", "NaN", "é", "字", "😀", "\ud83d", "\0", "x" * 30, "key", '{"a":"b"}',
         ";base64,", "QUJD" * 40]
    ),
    max_size=8,
).map("".join)  # fmt: skip
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | scraps,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(scraps | st.text(max_size=4), inner, max_size=4),
        inner.map(json.dumps),
        inner.map(lambda value: json.dumps(value, ensure_ascii=False, indent=1)),
    ),
    max_leaves=12,
)


@built
@given(values, st.booleans(), st.sampled_from([EVERYTHING, LONG, Wanted(24, wide=True)]))
def test_the_same_strings(value: Any, ascii_only: bool, wanted: Wanted) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert native.end_of_value(data + b",", 0) == len(data)
    ours = taken(data, wanted)
    theirs = decoded(data, wanted)
    if ours is None:
        assert theirs.reasons or b"NaN" in data  # there is JSON deeper than is decoded, or with NaN
    else:
        assert told(ours) == told(theirs)
        assert sorted(ours.reasons) == sorted(theirs.reasons)


@built
@given(values, st.data())
def test_broken_json_is_told_from_json(value: Any, data: st.DataObject) -> None:
    whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    at = data.draw(st.integers(0, len(whole)))
    byte = data.draw(st.sampled_from([b"", b"]", b"}", b",", b'"', b"\\", b"x", b"\xff", b"0", b":", b" "]))
    broken = whole[:at] + byte + whole[at + 1 :]
    end = native.end_of_value(broken, 0)
    if end is not None:
        decode_json(broken[:end].decode("utf-8", "surrogatepass"))
    else:
        try:
            decode_json(broken.decode("utf-8", "surrogatepass"))
        except ValueError:
            return
        assert b"NaN" in broken
