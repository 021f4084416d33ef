"""JSON as clients send it: read leniently, and without losing a key that stands twice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


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


# Nobody looks at the numbers of a body; as floats they may have any number of digits. A faster decoder (orjson) would
# tell nothing of a key that stands twice, and would reject half a surrogate pair, NaN and control characters.
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=float, strict=False)
decode_value = _DECODER.raw_decode
"""(the JSON value that begins at a place of a text, where it ends). Raises as `decode_json` does."""
