"""The body of a request, read once for all who look at it: the wire formats, and the scan for notes.

Reading never raises. What of a body could not be read is said in its reasons (docs/detection.md), and as much of a
broken body as can be read is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from memory.forms import is_form, read_form

ATTACHMENT = "attachment"
TOO_DEEP = "nested too deep"
NOT_JSON = "not JSON"
NOT_UTF8 = "not UTF-8"
NOT_TEXT = "not text"


@dataclass(frozen=True, slots=True)
class Torn:
    """JSON that cannot be decoded as a whole; its strings can, one by one, without their places."""

    text: str


class RepeatedKeys(dict[str, Any]):
    """A JSON object that names a key twice. Which one a server reads is its choice, so `pairs` has them all."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


@dataclass(frozen=True, slots=True)
class Body:
    """What a body holds: decoded JSON, a form's (name, text) pairs, plain text, `Torn` JSON, or None for nothing.

    `reasons` says why that is not all of it.
    """

    value: Any
    reasons: tuple[str, ...] = ()
    readable: bool = True
    size: int = 0
    """Bytes that were read."""

    @property
    def json(self) -> Any:
        """The decoded JSON; None where the body is none."""
        return self.value if isinstance(self.value, dict | list) else None


def read_body(data: bytes, content_type: str = "application/json") -> Body:
    """Read a body whose Content-Encoding is undone. `content_type` matters for multipart and form bodies only."""
    start = data.lstrip()[:1]
    size = len(data)
    if not start:
        return Body(None, size=size)
    if is_form(content_type) and start not in (b"{", b"["):
        form = read_form(data, content_type)
        left_out = (ATTACHMENT,) if form.left_out else ()
        return Body(form.fields, (f"{NOT_JSON}: {form.kind}", *left_out), size=size)
    encoding = json.detect_encoding(data)
    reasons: tuple[str, ...] = ()
    try:
        text = data.decode(encoding, "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        reasons = (NOT_UTF8,)
    try:
        return Body(decode_json(text), reasons, size=size)
    except (ValueError, RecursionError) as error:
        looks_like_json = text.lstrip()[:1] in ("{", "[")
        if not looks_like_json and (reasons or "\0" in text or not encoding.startswith("utf-8")):
            return unreadable(NOT_TEXT)
        reasons = (*reasons, TOO_DEEP if isinstance(error, RecursionError) else NOT_JSON)
        return Body(Torn(text) if looks_like_json else text, reasons, size=size)


def unreadable(reason: str) -> Body:
    """A body of which nothing can be read."""
    return Body(None, (reason,), readable=False)


def decode_json(text: str) -> Any:
    """JSON as lists, dicts (`RepeatedKeys` where a key stands twice) and scalars.

    Lenient where it costs nothing: NaN, and control characters in strings. Raises ValueError and RecursionError.
    """
    return _DECODER.decode(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else RepeatedKeys(pairs)


# Nobody looks at the numbers of a body; as floats they may have any number of digits.
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=float, strict=False)
