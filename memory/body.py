"""The body of a request, read once for all who look at it: the wire formats, and the scan for notes.

Reading never raises. What of a body could not be read is said in its reasons (docs/detection.md), and as much of a
broken body as can be read is.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from memory.forms import is_form, read_form
from memory.json_text import Torn, decode_json
from memory.slices import Sliced, slice_object
from memory.spans import KnownSpans

ATTACHMENT = "attachment"
TOO_DEEP = "nested too deep"
NOT_JSON = "not JSON"
NOT_UTF8 = "not UTF-8"
NOT_TEXT = "not text"


@dataclass(frozen=True, slots=True)
class Body:
    """What a body holds: decoded JSON, `Sliced` JSON, a form's (name, text) pairs, plain text, `Torn` JSON, or None
    for nothing. `reasons` says why that is not all of it.
    """

    value: Any
    reasons: tuple[str, ...] = ()
    readable: bool = True
    size: int = 0
    """Bytes that were read."""

    @property
    def json(self) -> Any:
        """The decoded JSON; None where the body is none. Of a sliced body this decodes all of it."""
        if isinstance(self.value, Sliced):
            return self.value.decoded()
        return self.value if isinstance(self.value, dict | list) else None

    @property
    def outline(self) -> Any:
        """As `json`, but the arrays of a sliced body are sequences that decode what they are asked for."""
        return self.value.outline() if isinstance(self.value, Sliced) else self.json


def read_body(data: bytes, content_type: str = "application/json", known: KnownSpans | None = None) -> Body:
    """Read a body whose Content-Encoding is undone. `content_type` matters for multipart and form bodies only.

    With `known`, JSON is cut into elements, and those that it knows are not decoded before they are asked for.
    """
    start = data.lstrip()[:1]
    size = len(data)
    if not start:
        return Body(None, size=size)
    if is_form(content_type) and start not in (b"{", b"["):
        form = read_form(data, content_type)
        left_out = (ATTACHMENT,) if form.left_out else ()
        return Body(form.fields, (f"{NOT_JSON}: {form.kind}", *left_out), size=size)
    encoding = json.detect_encoding(data)
    if known is not None and encoding == "utf-8":
        # What cannot be cut is told more exactly by decoding the whole.
        with suppress(ValueError, RecursionError):
            return Body(slice_object(data, known), size=size)
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
