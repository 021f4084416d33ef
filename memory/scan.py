"""Looking for notes in the body of a request: every string in it, whatever the protocol.

A scan never raises. What could not be looked at is said in its state and reasons (`docs/detection.md`); a body that is
broken is looked at as far as it can be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from memory.exchange import Scan
from memory.forms import is_form, read_form
from memory.index import NoteIndex, Tally

MOST_DECODINGS = 4
"""How often JSON in a string in JSON … is decoded. Clients nest it once or twice."""
BLOB_LENGTH = 4096
"""Characters from which a string of the shape of base64 is skipped. Shorter ones are looked through all the same."""
_SHORTEST_BLOB = 128

ATTACHMENT = "attachment"
BLOB = "encoded or encrypted data"
TOO_DEEP = "nested too deep"
NOT_JSON = "not JSON"
NOT_UTF8 = "not UTF-8"
NOT_TEXT = "not text"

_BASE64_BEGINS = re.compile(r"[A-Za-z0-9+/_-]{60}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{60,}+(?:\r?\n[A-Za-z0-9+/_-]++)*+={0,2}\s*")
_DATA_URL = re.compile(r"data:[^,\s]{0,200};base64,", re.IGNORECASE)
_MAGIC = ("iVBOR", "/9j/", "R0lGOD", "UklGR", "JVBERi", "UEsDB", "SUkq", "AAAA", "T2dnU", "SUQz")
"""How PNG, JPEG, GIF, WebP or WAV, PDF, ZIP or Office, TIFF, MP4, Ogg and MP3 begin in base64."""
_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)', re.DOTALL)
_OPENING = {"{": "}", "[": "]", '"': '"'}

_DECODER = json.JSONDecoder(object_pairs_hook=tuple, parse_int=float, strict=False)
"""An object becomes a tuple of pairs, so that of duplicate keys none is lost (which one a server reads is its choice).
Numbers are not looked at; as floats they may have any number of digits."""


class _Place(NamedTuple):
    """Where a value is, as a chain up to the root: a pointer is written out only where something is found."""

    parent: _Place | None
    token: str | int | None
    """A key, a position, or None: into the JSON that the string holds."""


class _Text(NamedTuple):
    place: _Place | None
    text: str
    decoded: bool
    """It holds JSON, whose strings come after it: names count there and not here."""


def scan_body(index: NoteIndex, body: bytes, content_type: str = "application/json") -> Scan:
    """Scan a decompressed request body. `content_type` matters for multipart and form bodies only."""
    start = body.lstrip()[:1]
    if not start:
        return Scan("complete")
    reasons: dict[str, None] = {}
    if is_form(content_type) and start not in (b"{", b"["):
        form = read_form(body, content_type)
        reasons[f"{NOT_JSON}: {form.kind}"] = None
        if form.left_out:
            reasons[ATTACHMENT] = None
        return _scan(index, form.fields, reasons)
    encoding = json.detect_encoding(body)
    try:
        text = body.decode(encoding, "surrogatepass")
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
        reasons[NOT_UTF8] = None
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        looks_like_json = text.lstrip()[:1] in ("{", "[")
        if not looks_like_json and (reasons or "\0" in text or not encoding.startswith("utf-8")):
            return Scan("unscanned", (NOT_TEXT,))
        reasons[TOO_DEEP if isinstance(error, RecursionError) else NOT_JSON] = None
        value = _Torn(text) if looks_like_json else text
    return _scan(index, value, reasons)


def scan_value(index: NoteIndex, value: Any) -> Scan:
    """Scan JSON that is already decoded: dicts, lists, strings, numbers, booleans, None."""
    return _scan(index, value, {})


class _Torn(NamedTuple):
    """JSON that cannot be decoded as a whole; its strings can, one by one, without their places."""

    text: str


def _scan(index: NoteIndex, value: Any, reasons: dict[str, None]) -> Scan:
    tally = Tally(index)
    for place, text, decoded in _texts(value, reasons):
        if len(text) >= _SHORTEST_BLOB and (reason := _blob(text)):
            reasons[reason] = None
            if len(text) >= BLOB_LENGTH:
                continue
        found = index.find(text, names=not decoded)
        if found.lines or found.mentions:
            tally.add(_pointer(place), found)
    return Scan("partial" if reasons else "complete", tuple(reasons), tally.sightings())


def _texts(root: Any, reasons: dict[str, None]) -> Iterator[_Text]:
    """Every string and key of a value in the body's order, and of the JSON inside its strings. A stack, no recursion:
    a body may be nested as deep as its sender likes.
    """
    level = 0
    stack: list[tuple[int, Iterator[tuple[_Place | None, Any, bool]]]] = [(level, iter([(None, root, False)]))]
    while stack:
        level, members = stack[-1]
        for place, value, is_key in members:
            inner: Any = None
            if isinstance(value, str):
                if not is_key and (inner := _json_inside(value, level, reasons)) is not None:
                    stack.append((level + 1, iter([(_Place(place, None), inner, False)])))
                yield _Text(place, value, decoded=inner is not None)
                if inner is not None:
                    break
            elif isinstance(value, dict | list | tuple):
                stack.append((level, _members(place, value)))
                break
        else:
            stack.pop()


def _members(place: _Place | None, value: Any) -> Iterator[tuple[_Place | None, Any, bool]]:
    if isinstance(value, _Torn):
        for string in _STRING.finditer(value.text):
            yield place, _unescaped(string[1]), False
    elif isinstance(value, list):
        for position, member in enumerate(value):
            yield _Place(place, position), member, False
    else:
        for key, member in value.items() if isinstance(value, dict) else value:
            here = _Place(place, key)
            yield here, key, True
            yield here, member, False


def _json_inside(text: str, level: int, reasons: dict[str, None]) -> Any:
    """The JSON that a string is, decoded; None: it is none, or only a number or a word."""
    if text[:1] not in _OPENING and not text[:1].isspace():
        return None
    inner = text.strip()
    if len(inner) < 2 or _OPENING.get(inner[0]) != inner[-1]:
        return None
    try:
        value = _DECODER.decode(inner)
    except RecursionError:
        reasons[TOO_DEEP] = None
        value = _Torn(inner)
    except ValueError:
        return None
    if level >= MOST_DECODINGS:
        reasons[TOO_DEEP] = None
        return None
    return value


def _unescaped(string: str) -> str:
    """The text of a JSON string literal, without its quotes; as it stands where an escape in it is broken."""
    try:
        text = _DECODER.decode(f'"{string}"')
    except ValueError:
        return string
    return text if isinstance(text, str) else string


def _blob(text: str) -> str | None:
    """Why a string cannot be read, judged by its shape."""
    if ";base64," in text and _DATA_URL.search(text):
        return ATTACHMENT
    if _BASE64_BEGINS.match(text) and _BASE64.fullmatch(text):
        return ATTACHMENT if text.startswith(_MAGIC) else BLOB
    return None


def _pointer(place: _Place | None) -> str:
    """RFC 6901, with `!` where the JSON inside a string begins."""
    tokens: list[str] = []
    while place is not None:
        token = place.token
        tokens.append("!" if token is None else "/" + str(token).replace("~", "~0").replace("/", "~1"))
        place = place.parent
    return "".join(reversed(tokens))
