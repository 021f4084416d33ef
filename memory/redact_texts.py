"""The strings of a body with where each one stands in its bytes, so that a part of one is replaced and nothing else.

A string of JSON in a string of JSON is written in the text of the outer one, and that in the body. To replace a part of
it, the same part is replaced in the text that it is written in, and so on down to the bytes: whatever is outside keeps
its escapes, its white space and its order. The texts are those that a scan looks at (`memory/body.py`, `memory/walk.py`).
"""

from __future__ import annotations

import codecs
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, batched
from typing import Literal, NamedTuple, Protocol
from urllib.parse import quote_plus, unquote_to_bytes

from memory.forms import is_form, part_contents
from memory.json_text import decode_json
from memory.walk import MOST_DECODINGS

_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_TORN_STRING = re.compile(r'(?:\A|")([^"\\]*+(?:\\.[^"\\]*+)*+)', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_OPENING = {"{": "}", "[": "]", '"': '"'}
_MAY_OPEN = frozenset('{[" \t\n\r')
_FORM_UNIT = re.compile(r"(?:%[0-9a-fA-F]{2})+|[^%]+|%")
_MARKS = (  # the first that fits counts
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF8, "utf-8"),
)


class Writing(Protocol):
    """How a text is written in another one."""

    def places(self, raw: str, text: str, at: Sequence[int]) -> list[int]:
        """Where in `raw`, which says `text`, the characters are that are `at` some places in the text, ascending."""

    def written(self, text: str) -> str: ...


class _InBytes(NamedTuple):
    """Characters as bytes, which are shown as the characters U+0000 to U+00FF."""

    encoding: str
    errors: str

    def places(self, raw: str, text: str, at: Sequence[int]) -> list[int]:
        del raw
        before = [0, *at]
        parts = [text[start:end] for start, end in zip(before, at, strict=False)]
        return list(accumulate([len(part.encode(self.encoding, self.errors)) for part in parts]))

    def written(self, text: str) -> str:
        return text.encode(self.encoding, "surrogatepass").decode("latin-1")


class _InJson:
    """The characters of a JSON string, some of them escaped."""

    def places(self, raw: str, text: str, at: Sequence[int]) -> list[int]:
        if len(raw) == len(text):  # without escapes, or with one that is broken: it stands for itself
            return list(at)
        after: list[int] = []
        """The places behind the escapes, in the text."""
        more = [0]
        """How many characters more are in `raw` up to there."""
        for escape in _ESCAPE.finditer(raw):
            after.append(escape.start() - more[-1] + 1)
            more.append(more[-1] + len(escape[0]) - 1)
        return [place + more[bisect_right(after, place)] for place in at]

    def written(self, text: str) -> str:
        # In ASCII, which is the same in whatever encoding the body has.
        return json.dumps(text)[1:-1]


class _InForm:
    """`application/x-www-form-urlencoded` (WHATWG URL)."""

    def places(self, raw: str, text: str, at: Sequence[int]) -> list[int]:
        del text
        ends = [0, *accumulate([length for length, _ in _form_units(raw)])]
        return [ends[place] for place in at]

    def written(self, text: str) -> str:
        return quote_plus(text, errors="surrogatepass")


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A string of a body. `source[start:end]` is how it stands in the text that it is written in."""

    text: str
    source: Text | None
    """None: this is the body itself, its bytes as the characters U+0000 to U+00FF."""
    start: int
    end: int
    writing: Writing
    outermost: int
    """Where the string of the body begins that it is in."""
    holds_json: bool = False
    """It is JSON, whose strings are texts themselves."""

    @property
    def raw(self) -> str:
        return self.source.text[self.start : self.end] if self.source else self.text


class Replacement(NamedTuple):
    """`text` for what is from `start` to `end`, in characters."""

    start: int
    end: int
    text: str


class BodyTexts(NamedTuple):
    """`texts` are the strings of a body, each behind the one that it is written in."""

    whole: Text
    texts: tuple[Text, ...]
    base: Text | None = None
    """The characters of the body, where its strings are written in these: it is JSON or a form."""
    is_json: bool = False
    """`base` is JSON, torn or not."""

    @classmethod
    def of(cls, data: bytes, content_type: str = "application/json") -> BodyTexts:
        """The texts of a body whose Content-Encoding is undone. It never raises; what is no text has none."""
        whole = Text(data.decode("latin-1"), None, 0, len(data), _InBytes("latin-1", "strict"), 0)
        start = data.lstrip()[:1]
        if not start:
            return cls(whole, ())
        if is_form(content_type) and start not in (b"{", b"["):
            if content_type.strip().lower().startswith("multipart/"):
                return cls(whole, tuple(_with_inner(_of_parts(whole, data, content_type))))
            base = Text(
                data.decode("utf-8", "surrogateescape"), whole, 0, len(data), _InBytes("utf-8", "surrogateescape"), 0
            )
            return cls(whole, tuple(_with_inner(_of_fields(base))), base)
        base = _characters(whole, data)
        state = _state_of(base.text)
        if state == "none":
            return cls(whole, tuple(_with_inner([base])))
        return cls(whole, tuple(_with_inner(_strings_in(base, torn=state == "torn"))), base, is_json=True)

    def spliced(self, replacements: Iterable[tuple[Text, Replacement]]) -> bytes:
        """The body with parts of its texts replaced, and every other byte as it was.

        Parts that overlap are replaced together, by what is to stand for the first of them.
        """
        parts: dict[int, list[Replacement]] = {}
        for text, replacement in replacements:
            parts.setdefault(id(text), []).append(replacement)
        for inner in (*reversed(self.texts), self.base):
            if inner is None or inner.source is None or id(inner) not in parts:
                continue
            merged = _merged(parts[id(inner)])
            places = inner.writing.places(inner.raw, inner.text, [place for part in merged for place in part[:2]])
            parts.setdefault(id(inner.source), []).extend(
                Replacement(inner.start + start, inner.start + end, inner.writing.written(part.text))
                for part, (start, end) in zip(merged, batched(places, 2), strict=True)
            )
        raw = self.whole.text
        done: list[str] = []
        end = 0
        for part in _merged(parts.get(id(self.whole), [])):
            done += (raw[end : part.start], part.text)
            end = part.end
        return "".join((*done, raw[end:])).encode("latin-1")


def _merged(parts: Iterable[Replacement]) -> list[Replacement]:
    """In order, those that overlap as one."""
    merged: list[Replacement] = []
    for part in sorted(parts, key=lambda part: (part.start, -part.end)):
        if merged and part.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, part.end))
        else:
            merged.append(part)
    return merged


def _characters(whole: Text, data: bytes) -> Text:
    """The characters of a body: in the encoding that JSON of its shape has, else in UTF-8 as far as it is some."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", ""))
    encoding = encoding or json.detect_encoding(data)
    try:
        text, errors = data[len(mark) :].decode(encoding, "surrogatepass"), "surrogatepass"
    except UnicodeDecodeError:
        mark, encoding, errors = b"", "utf-8", "surrogateescape"
        text = data.decode(encoding, errors)
    return Text(text, whole, len(mark), len(data), _InBytes(encoding, errors), 0)


def _of_fields(base: Text) -> Iterator[Text]:
    """The names and values of a form."""
    start = 0
    for pair in base.text.split("&"):
        name, _, value = pair.partition("=")
        for at, raw in ((start, name), (start + len(name) + 1, value)):
            if raw:
                text = "".join([characters for _, characters in _form_units(raw)])
                yield Text(text, base, at, at + len(raw), _InForm(), at)
        start += len(pair) + 1


def _form_units(raw: str) -> Iterator[tuple[int, str]]:
    """Characters of a form, with how many stand for each of them."""
    for unit in _FORM_UNIT.finditer(raw):
        if len(unit[0]) > 1 and unit[0][0] == "%":
            for character in unquote_to_bytes(unit[0]).decode("utf-8", "surrogateescape"):
                yield 3 * len(character.encode("utf-8", "surrogateescape")), character
        else:
            yield from ((1, character) for character in unit[0].replace("+", " "))


def _of_parts(whole: Text, data: bytes, content_type: str) -> Iterator[Text]:
    """The contents of an upload's parts that are text."""
    for start, end in part_contents(data, content_type):
        try:
            text = data[start:end].decode("utf-8")
        except UnicodeDecodeError:
            continue
        yield Text(text, whole, start, end, _InBytes("utf-8", "strict"), start)


def _with_inner(texts: Iterable[Text]) -> Iterator[Text]:
    """The texts and those in them, as often as JSON in strings is decoded."""
    for level in range(MOST_DECODINGS + 1):
        deeper: list[Text] = []
        for text in texts:
            state = "none"
            if level < MOST_DECODINGS and text.text[:1] in _MAY_OPEN:
                inner = text.text.strip()
                if len(inner) > 1 and _OPENING.get(inner[0]) == inner[-1]:
                    state = _state_of(inner, too_deep_only=True)
            if state == "none":
                yield text
                continue
            holding = replace(text, holds_json=True)
            yield holding
            deeper += _strings_in(holding, torn=state == "torn")
        texts = deeper


def _state_of(text: str, *, too_deep_only: bool = False) -> Literal["json", "torn", "none"]:
    """Whether a text is JSON. What begins like it and cannot be decoded is torn, or only if it is nested too deep."""
    try:
        decode_json(text)
    except RecursionError:
        return "torn"
    except ValueError:
        return "torn" if text.lstrip()[:1] in ("{", "[") and not too_deep_only else "none"
    return "json"


def _strings_in(json_text: Text, *, torn: bool) -> Iterator[Text]:
    """The strings of JSON, keys too. In torn JSON it is not known what is within quotes, so all between them are taken."""
    for match in (_TORN_STRING if torn else _STRING).finditer(json_text.text):
        raw = match[1]
        if not raw:
            continue
        start = match.start(1)
        text = _unescaped(raw) if "\\" in raw else raw
        outermost = json_text.outermost if json_text.holds_json else start
        yield Text(text, json_text, start, match.end(1), _InJson(), outermost)


def _unescaped(raw: str) -> str:
    """What a JSON string says; as it stands where an escape in it is broken."""
    try:
        text = decode_json(f'"{raw}"')
    except ValueError:
        return raw
    return text if isinstance(text, str) else raw
