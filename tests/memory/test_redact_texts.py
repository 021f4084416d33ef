"""Parts of the strings of a body are replaced in its bytes; what is signed in it, and what stands in one array."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.body import read_body
from memory.redact_structure import Structure
from memory.redact_texts import BodyTexts, Replacement
from memory.walk import strings_of

FORM = "application/x-www-form-urlencoded"
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3) | inner.map(json.dumps)
    ),
    max_leaves=8,
)


def spliced(
    data: bytes, replacements: dict[str, tuple[int, int, str]], content_type: str = "application/json"
) -> bytes:
    body = BodyTexts.of(data, content_type)
    return body.spliced(
        (text, Replacement(*replacements[text.text])) for text in body.texts if text.text in replacements
    )


@pytest.mark.parametrize(
    ("raw", "start", "end", "expected"),
    [
        (r'"\u0061b\n\ud83d\ude42c"', 0, 1, r'"#b\n\ud83d\ude42c"'),
        (r'"\u0061b\n\ud83d\ude42c"', 2, 3, r'"\u0061b#\ud83d\ude42c"'),
        (r'"\u0061b\n\ud83d\ude42c"', 3, 4, r'"\u0061b\n#c"'),
        (r'"\u0061b\n\ud83d\ude42c"', 4, 5, r'"\u0061b\n\ud83d\ude42#"'),
        (r'"\u0061b\n\ud83d\ude42c"', 1, 4, r'"\u0061#c"'),
        (r'"\ud83d\u0041\ude42x"', 1, 2, r'"\ud83d#\ude42x"'),
        (r'"\uD83D\uD83D\uDE42x"', 1, 2, r'"\uD83D#x"'),
        (r'"\\u0061\"\/"', 1, 2, r'"\\#0061\"\/"'),
        ('"é🙂\ud83dx"', 1, 2, '"é#\ud83dx"'),
        ('"é🙂\ud83dx"', 3, 4, '"é🙂\ud83d#"'),
        ('"a\tb\nc"', 2, 3, '"a\t#\nc"'),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-32-be"])
def test_characters_are_found_in_what_they_are_written_as(
    raw: str, start: int, end: int, expected: str, encoding: str
) -> None:
    text = json.loads(raw, strict=False)
    for before, behind in (("", "\n"), (' {"é": [1, ', ', "z"]}')):
        data, result = ((before + one + behind).encode(encoding, "surrogatepass") for one in (raw, expected))
        assert spliced(data, {text: (start, end, "#")}) == result


@given(JSON_VALUES, st.booleans(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=200)
def test_each_text_is_where_it_is_said_to_be(value: Any, ascii_only: bool, seed: int) -> None:
    data = json.dumps([value], ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    body = BodyTexts.of(data)
    strings = strings_of(read_body(data).value, {})
    assert sorted(text.text for text in body.texts if not text.holds_json) == sorted(filter(None, strings.texts))
    assert sorted(text.text for text in body.texts if text.holds_json) == sorted(strings.holding)
    assert body.spliced([]) == data
    # What is replaced by itself says what it said.
    same = body.spliced((text, Replacement(0, len(text.text), text.text)) for text in body.texts if not text.holds_json)
    assert json.loads(same) == json.loads(data) or any(text.holds_json for text in body.texts)
    if body.texts:
        text = random.Random(seed).choice(body.texts)
        cut = body.spliced([(text, Replacement(0, len(text.text), "#"))])
        assert len(cut) <= len(data) + 1
        assert read_body(cut).reasons == ()


def test_parts_that_overlap_are_replaced_together() -> None:
    data = json.dumps({"a": json.dumps({"b": "inner"}), "c": "0123456789"}).encode()
    body = BodyTexts.of(data)
    outer, inner, digits = (
        next(text for text in body.texts if text.text == said) for said in ('{"b": "inner"}', "inner", "0123456789")
    )
    parts = [
        (inner, Replacement(1, 3, "i")),
        (outer, Replacement(0, 14, "all")),
        (digits, Replacement(4, 8, "late")),
        (digits, Replacement(2, 5, "early")),
        (digits, Replacement(8, 9, "next")),
    ]
    assert json.loads(body.spliced(parts)) == {"a": "all", "c": "01earlynext9"}


def test_a_form_is_read_as_servers_read_it() -> None:
    data = "a+b=%C3%A9%41+%zz%&é&=%f0%9f%99%82%ff".encode()
    texts = [text.text for text in BodyTexts.of(data, FORM).texts]
    assert texts == ["a b", "éA %zz%", "é", "🙂\udcff"]
    assert spliced(data, {"éA %zz%": (1, 3, "é&=")}, FORM) == "a+b=%C3%A9%C3%A9%26%3D%zz%&é&=%f0%9f%99%82%ff".encode()
    assert spliced(data, {"🙂\udcff": (1, 2, "")}, FORM) == "a+b=%C3%A9%41+%zz%&é&=%f0%9f%99%82".encode()


def test_strings_are_of_one_array_or_of_none() -> None:
    text = '{"a": ["x", ["y", "z"], {"k": "v"}, "w"], "b": "u"}'
    arrays = Structure.of(text).arrays
    of = {word: arrays.get(text.index(f'"{word}"') + 1) for word in "xyzkvwu"}
    assert of == {"x": 6, "w": 6, "y": 12, "z": 12, "k": None, "v": None, "u": None}


@pytest.mark.parametrize(
    ("text", "signed"),
    [
        ('{"type": "thinking", "signature": "x"}', ["{0}"]),
        ('[{"\\u0074ype": "thinking", "signature": "x"}, {"type": "thinking"}]', ["{1}"]),
        ('{"type": "thinking", "signature": "x", "torn": "', ["to its end"]),
        ("}}]]{", []),
    ],
)
def test_what_is_signed(text: str, signed: list[str]) -> None:
    found = [text[start:end] for start, end in Structure.of(text).signed]
    expected = {"{0}": text, "{1}": text[1 : text.find("}") + 1], "to its end": text}
    assert found == [expected[one] for one in signed]


def test_what_is_signed_inside_of_it_is_a_part_of_it() -> None:
    text = '{"type": "thinking", "a": [{"thoughtSignature": "x"}, {"thoughtSignature": "y"}], "signature": "z"}'
    structure = Structure.of(f"[{text}, 1]")
    assert structure.signed == [(1, 1 + len(text))]
    assert [structure.is_signed(place) for place in (0, 1, len(text), len(text) + 1)] == [False, True, True, False]
