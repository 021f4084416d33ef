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


def decode_bytes(data: bytes) -> Any:
    """`decode_json` of UTF-8, several times as fast for what nearly every client writes. Raises ValueError and RecursionError.

    That is what is to the byte as orjson would write it: then no key stands twice, of which orjson keeps the last alone.
    """
    try:
        value = orjson.loads(data)
        if orjson.dumps(value) == data:
            return value
    except (ValueError, TypeError):  # half of a surrogate pair, NaN, control characters; nested deeper than it writes
        pass
    return decode_json(data.decode("utf-8", "surrogatepass"))
