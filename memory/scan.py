"""Looking for notes in the body of a request: every string in it, whatever the protocol.

A scan never raises. What could not be looked at is said in its state and reasons (docs/detection.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from memory.body import ATTACHMENT, TOO_DEEP, Body, RepeatedKeys, Torn, decode_json
from memory.exchange import Scan
from memory.index import NoteIndex, Tally

MOST_DECODINGS = 4
"""How often JSON in a string in JSON … is decoded. Clients nest it once or twice."""
BLOB_LENGTH = 4096
"""Characters from which a string of the shape of base64 is skipped. Shorter ones are looked through all the same."""
_SHORTEST_BLOB = 128

BLOB = "encoded or encrypted data"
NO_NAME = "{…}"
"""What stands in a pointer for a key that may be text."""

_NAME = re.compile(r"[A-Za-z0-9_.$@:/+~-]{0,64}")
_BASE64_BEGINS = re.compile(r"[A-Za-z0-9+/_-]{60}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{60,}+(?:\r?\n[A-Za-z0-9+/_-]++)*+={0,2}\s*")
_DATA_URL = re.compile(r"data:[^,\s]{0,200};base64,", re.IGNORECASE)
_MAGIC = ("iVBOR", "/9j/", "R0lGOD", "UklGR", "JVBERi", "UEsDB", "SUkq", "AAAA", "T2dnU", "SUQz")
"""How PNG, JPEG, GIF, WebP or WAV, PDF, ZIP or Office, TIFF, MP4, Ogg and MP3 begin in base64."""
_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)', re.DOTALL)
_OPENING = {"{": "}", "[": "]", '"': '"'}


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


def scan_body(index: NoteIndex, body: Body) -> Scan:
    """The notes in a body, and how much of it could be looked at."""
    if not body.readable:
        return Scan("unscanned", body.reasons)
    return _scan(index, body.value, dict.fromkeys(body.reasons))


def scan_value(index: NoteIndex, value: Any) -> Scan:
    """Scan JSON that is already decoded: dicts, lists, strings, numbers, booleans, None."""
    return _scan(index, value, {})


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
            elif isinstance(value, dict | list | tuple | Torn):
                stack.append((level, _members(place, value)))
                break
        else:
            stack.pop()


def _members(place: _Place | None, value: Any) -> Iterator[tuple[_Place | None, Any, bool]]:
    if isinstance(value, Torn):
        for string in _STRING.finditer(value.text):
            yield place, _unescaped(string[1]), False
    elif isinstance(value, list):
        for position, member in enumerate(value):
            yield _Place(place, position), member, False
    else:
        for key, member in _pairs(value):
            here = _Place(place, key)
            yield here, key, True
            yield here, member, False


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """The keys and values of a JSON object; of a form, its names and texts."""
    if isinstance(value, RepeatedKeys):
        return value.pairs
    return value.items() if isinstance(value, dict) else value


def _json_inside(text: str, level: int, reasons: dict[str, None]) -> Any:
    """The JSON that a string is, decoded; None: it is none, or only a number or a word."""
    if text[:1] not in _OPENING and not text[:1].isspace():
        return None
    inner = text.strip()
    if len(inner) < 2 or _OPENING.get(inner[0]) != inner[-1]:
        return None
    try:
        value = decode_json(inner)
    except RecursionError:
        reasons[TOO_DEEP] = None
        value = Torn(inner)
    except ValueError:
        return None
    if level >= MOST_DECODINGS:
        reasons[TOO_DEEP] = None
        return None
    return value


def _unescaped(string: str) -> str:
    """The text of a JSON string literal, without its quotes; as it stands where an escape in it is broken."""
    try:
        text = decode_json(f'"{string}"')
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
        tokens.append("!" if token is None else f"/{token}" if isinstance(token, int) else key_pointer(token))
        place = place.parent
    return "".join(reversed(tokens))


def key_pointer(key: str) -> str:
    """One key as a part of a pointer. A key that is no name may be the text of a note, which no pointer shows."""
    if not _NAME.fullmatch(key):
        return f"/{NO_NAME}"
    return "/" + key.replace("~", "~0").replace("/", "~1")
