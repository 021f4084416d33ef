"""Redacting whatever a body is: text, forms, uploads, torn JSON, and a note written in any way."""

from __future__ import annotations

import json
import random
import textwrap
import unicodedata
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode

from hypothesis import given, settings
from hypothesis import strategies as st

from memory.redact import redact
from tests.memory.redacting import (
    MARK,
    OTHER,
    SHORT,
    TIDE,
    built,
    is_only_cut,
    leaks,
    mark,
    note,
    redacted,
)

# --- bodies that are no JSON -----------------------------------------------------------------------------------------


def test_plain_text() -> None:
    data = f"\ufeffHello é\r\n{TIDE}\r\n{SHORT}\r\nbye \ud83d".encode("utf-8", "surrogatepass")
    assert redacted(data, "🙂").data == "\ufeffHello é\r\n🙂\r\n🙂\r\nbye \ud83d".encode("utf-8", "surrogatepass")


def test_broken_utf8_stays_as_it_is() -> None:
    data = b'{"a": "\xff\xfe\xe2\x82\n' + f"x\n{TIDE}\n{SHORT}".encode() + b'\n\xc3", "b": "\xff"}'
    assert redacted(data).data == data.replace(TIDE.encode(), MARK.encode()).replace(SHORT.encode(), MARK.encode())
    assert redacted(data).complete


def test_json_lines_and_torn_json() -> None:
    line = json.dumps({"text": f"{TIDE}\n{SHORT}"}).encode()
    expected = json.dumps({"text": f"{MARK}\n{MARK}"}).encode()
    assert redacted(line + b"\n" + line).data == expected + b"\n" + expected
    assert redacted(line + b"\n" + line[:-9]).data == expected + b"\n" + expected[: -len(MARK) - 2] + b"P"
    torn = redacted(b'{"a": 1,' + line[:-2])
    assert torn.data == b'{"a": 1,' + expected[:-2]


def test_a_form() -> None:
    data = (
        urlencode([("a b", "x"), ("text", f"é\n{TIDE}\n{SHORT}\n🙂 %41"), (SHORT, ""), ("z", "%")]).encode() + b"&q&=&&"
    )
    result = redacted(data, "[é & =]", "application/x-www-form-urlencoded")
    assert result.complete
    fields = parse_qsl(data.decode(), keep_blank_values=True)
    after = parse_qsl(result.data.decode(), keep_blank_values=True)
    assert after == [fields[0], ("text", "é\n[é & =]\n[é & =]\n🙂 %41"), *fields[2:]]
    assert is_only_cut(data, result.data, b"%5B%C3%A9+%26+%3D%5D")


def test_an_upload() -> None:
    def body(text: str, binary: bytes = b"\x00\xff") -> bytes:
        return (
            b'--b\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\n'
            + binary
            + b"\r\n--b\r\n\r\n"
            + text.encode()
            + b'\r\n--b\r\nContent-Disposition: form-data; name="j"\r\n\r\n'
            + json.dumps({"x": text}).encode()
            + b"\r\n--b--\r\n"
        )

    result = redacted(body(f"é\n{TIDE}\n{SHORT}"), "[é]", 'multipart/form-data; boundary="b"')
    assert result.data == body("é\n[é]\n[é]").replace(b'"\\u00e9\\n', b'"\\u00e9\\n')
    assert result.complete


# --- any body --------------------------------------------------------------------------------------------------------


def words(random_: random.Random, count: int) -> str:
    return " ".join(
        "".join(random_.choices("abcdefghijklmnopqrstuvwxyzäöü", k=random_.randint(3, 9))) for _ in range(count)
    )


def written(value: Any, random_: random.Random) -> str:
    """JSON with characters escaped at random."""

    def escaped(character: str) -> str:
        plain = json.dumps(character, ensure_ascii=False)[1:-1]
        units = character.encode("utf-16-be", "surrogatepass")
        by_number = "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))
        return random_.choice([plain, plain, plain, by_number])

    if isinstance(value, str):
        return '"' + "".join(map(escaped, value)) + '"'
    if isinstance(value, dict):
        pairs = [
            f"{written(key, random_)}{random_.choice([':', ' : '])}{written(one, random_)}"
            for key, one in value.items()
        ]
        return "{" + random_.choice([",", ",\n  "]).join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(written(one, random_) for one in value) + "]"
    return json.dumps(value)


def carried(text: str, random_: random.Random) -> Any:
    """A text as some client might send it."""
    for change in random_.sample(CHANGES, random_.randint(0, 2)):
        text = change(text, random_)
    value: Any = f"{random_.choice(['', 'See below.\n', '🙂 é "x\\\n'])}{text}{random_.choice(['', '\nThanks.'])}"
    for _ in range(random_.randint(0, 4)):
        inside = random_.choice([{"text": value}, [value], {value: 1}, {"ö": 1, "x": [0, {"y": value}]}])
        value = random_.choice([written(inside, random_), f" {written(inside, random_)}\n"])
    return value


CHANGES: list[Callable[[str, random.Random], str]] = [
    lambda text, _: unicodedata.normalize("NFD", text),
    lambda text, _: text.replace("\n", "\r\n"),
    lambda text, random_: "\n".join(
        f"{number:6}→{row}" for number, row in enumerate(text.split("\n"), random_.randint(1, 99))
    ),
    lambda text, _: "\n".join(f"> {row}" for row in text.split("\n")),
    lambda text, random_: "\n".join(textwrap.wrap(text, random_.randint(15, 60))),
    lambda text, _: f"{text}\n\n{text}",
]


@given(st.integers(0, 2**32), st.integers(0, 4), st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]))
@settings(deadline=None, max_examples=80)
def test_no_line_is_left_and_nothing_else_is_changed(seed: int, shorts: int, encoding: str) -> None:
    random_ = random.Random(seed)
    first, last = words(random_, 20), words(random_, 15)
    secrets = [f"{words(random_, 1)} {random_.randint(1000, 9999)}" for _ in range(shorts)]
    text = "\n".join([first, *secrets, last])
    index = built(note("a.md", text), note("b.md", OTHER))
    body = {"model": "m", "messages": [{"content": carried(text, random_)}, {"content": f"{OTHER}\nbye"}], "n": 1.50}
    data = written(body, random_).encode(encoding, "surrogatepass")
    result = redact(index, data, [mark("a.md", "[0]")])
    assert result.complete
    assert not leaks(result.data.decode(encoding).encode(), (first, last, *secrets))
    assert is_only_cut(data, result.data, "[0]".encode("utf-16-le" if encoding == "utf-16" else "utf-8"))
    assert json.loads(result.data.decode(encoding))["messages"][1]["content"] == f"{OTHER}\nbye"


@given(
    st.binary(max_size=300),
    st.sampled_from(["application/json", "multipart/x; boundary=b", "application/x-www-form-urlencoded"]),
)
def test_any_bytes_stay_as_they_are(data: bytes, content_type: str) -> None:
    assert redacted(data, MARK, content_type).data == data


PIECES = [
    TIDE,
    SHORT,
    "\n",
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\\u00",
    "\\ud83d",
    "\ud83d",
    "é",
    "1",
    "--b\r\n",
    "\r\n\r\n",
    "%4",
    "&",
    "=",
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=25).map("".join),
    st.sampled_from(["application/json", "multipart/x; boundary=b", "application/x-www-form-urlencoded"]),
    st.binary(max_size=3),
)
@settings(deadline=None, max_examples=150)
def test_any_body_is_redacted_or_said_not_to_be(text: str, content_type: str, junk: bytes) -> None:
    data = text.encode("utf-8", "surrogatepass") + junk
    result = redacted(data, MARK, content_type)
    # No scan looks at the heads of an upload's parts, nor for quotes in names: `[[…]]` is one.
    if result.complete and not content_type.startswith("multipart/") and "[[" not in text:
        assert TIDE.encode() not in result.data
    encoded = b"%5Bwithheld%5D" if b"%5Bwithheld%5D" in result.data else MARK.encode()
    assert is_only_cut(data, result.data, encoded)


def test_text_that_begins_like_json() -> None:
    data = f"[note] see below\n{TIDE}\n{SHORT}\nand so on".encode()
    assert redacted(data).data == f"[note] see below\n{MARK}\n{MARK}\nand so on".encode()
