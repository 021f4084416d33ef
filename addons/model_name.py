"""Another model's name put into the body of a request. Every other byte stays as it was."""

from __future__ import annotations

import json
import re

from memory.json_text import decode_value

_WHITE = re.compile(r"[ \t\n\r]*")


def with_model(body: bytes, model: str) -> bytes:
    """A JSON object in UTF-8 with `model` as the value of its key `model`, wherever and however often it has that key.

    A body without the key gets it as the first. Raises ValueError if the body is no JSON object.
    """
    text = body.decode("utf-8", "surrogatepass")
    name = json.dumps(model)
    at = _after_white(text, 1 if text.startswith("\ufeff") else 0)
    _expect(text, at, "{")
    first = at + 1
    parts: list[str] = []
    copied = 0
    at = _after_white(text, first)
    is_empty = text[at : at + 1] == "}"
    while not is_empty:
        key, at = _value(text, at)
        at = _after_white(text, at)
        _expect(text, at, ":")
        start = _after_white(text, at + 1)
        _, end = _value(text, start)
        if key == "model":
            parts += text[copied:start], name
            copied = end
        at = _after_white(text, end)
        if text[at : at + 1] == "}":
            break
        _expect(text, at, ",")
        at = _after_white(text, at + 1)
    if _after_white(text, at + 1) != len(text):
        raise ValueError("there is more after the JSON object")
    if not parts:
        parts, copied = [text[:first], '"model": ', name, "" if is_empty else ", "], first
    return "".join([*parts, text[copied:]]).encode("utf-8", "surrogatepass")


def _after_white(text: str, at: int) -> int:
    found = _WHITE.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, character: str) -> None:
    if text[at : at + 1] != character:
        raise ValueError(f"there is no {character} where a JSON object has one")


def _value(text: str, start: int) -> tuple[object, int]:
    try:
        return decode_value(text, start)
    except RecursionError:
        raise ValueError("the JSON is nested too deep") from None
