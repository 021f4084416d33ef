"""JSON as clients send it: read leniently, and without losing a key that stands twice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Torn:
    """JSON that cannot be decoded as a whole; its strings can, one by one, without their places."""

    text: str


class RepeatedKeys(dict[str, Any]):
    """A JSON object that names a key twice. Which one a server reads is its choice, so `pairs` has them all."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def decode_json(text: str) -> Any:
    """JSON as lists, dicts (`RepeatedKeys` where a key stands twice) and scalars.

    Lenient where it costs nothing: NaN, and control characters in strings. Raises ValueError and RecursionError.
    """
    return _DECODER.decode(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else RepeatedKeys(pairs)


_MOST_DIGITS = 20
"""Of a number of 64 bits, its sign included."""


def _number(digits: str) -> int | float:
    """An integer, as orjson has it: where it has more than 64 bits, a float, which may have any number of digits."""
    if len(digits) > _MOST_DIGITS:
        return float(digits)
    number = int(digits)
    return number if -1 << 63 <= number < 1 << 64 else float(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_number, strict=False)
decode_value = _DECODER.raw_decode
"""(the JSON value that begins at a place of a text, where it ends). Raises as `decode_json` does."""

_CLOSING = b'}]"'
_BEHIND = (b",", b"]", b"}", b"")
"""What may stand behind a value: a number goes on until one of these."""


def decode_bytes(data: bytes) -> Any:
    """`decode_json` of UTF-8. Raises ValueError and RecursionError."""
    guess = guess_json(data)
    if end_of(guess, data, 0) == len(data):
        return guess
    return decode_json(data.decode("utf-8", "surrogatepass"))


def guess_json(data: bytes) -> Any:
    """JSON in UTF-8 as orjson reads it, several times as fast: of keys that stand twice only the last is there.

    None where orjson does not read it: half of a surrogate pair, NaN, control characters, deep nesting.
    """
    try:
        return orjson.loads(data)
    except ValueError:
        return None


def end_of(guess: Any, data: bytes, at: int) -> int | None:
    """Where a value ends that begins at a byte of some JSON, if it is what `guess_json` made of it; None: it may not be.

    It is where it stands there to the byte as orjson, and nearly every client, would write it: then it has no key twice.
    """
    try:
        text = orjson.dumps(guess)
    except TypeError:  # it reads what is nested deeper than it writes
        return None
    end = at + len(text)
    if not data.startswith(text, at) or (text[-1] not in _CLOSING and data[end : end + 1] not in _BEHIND):
        return None
    return end
