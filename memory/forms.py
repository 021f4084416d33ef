"""The text parts of multipart and form bodies: what a client uploads beside or instead of JSON.

Formats: RFC 7578 (multipart/form-data), WHATWG URL (application/x-www-form-urlencoded).
"""

from __future__ import annotations

from collections.abc import Iterator
from email.message import Message
from email.parser import BytesHeaderParser
from typing import NamedTuple
from urllib.parse import parse_qsl

_URLENCODED = "application/x-www-form-urlencoded"
_NAME_AT_MOST = 200


class Form(NamedTuple):
    """`fields` are (name, text) in the body's order; `left_out`: a part was no text, or the body could not be split."""

    kind: str
    fields: tuple[tuple[str, str], ...]
    left_out: bool


def is_form(content_type: str) -> bool:
    kind = _kind(content_type)
    return kind == _URLENCODED or kind.startswith("multipart/")


def read_form(body: bytes, content_type: str) -> Form:
    """Never raises: what cannot be read is left out, and said so. A part that is UTF-8 counts as text, whatever it
    is labelled: clients send notes as `application/octet-stream`.
    """
    if _kind(content_type) == _URLENCODED:
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
        return Form("form", tuple(pairs), left_out=False)
    fields: list[tuple[str, str]] = []
    parts = list(_parts(body, content_type))
    left_out = len(parts) < 2
    for number, (head, start, end) in enumerate(parts, -1):
        text = _text(body[start:end])
        if text is None:
            left_out = True
        elif number >= 0:
            fields.append((_field_name(_headers(head.lstrip(b"\r\n"))) or str(number), text))
        elif text.strip():
            fields.append(("preamble", text))
    return Form("multipart", tuple(fields), left_out)


def part_contents(body: bytes, content_type: str) -> Iterator[tuple[int, int]]:
    """Where in a multipart body the contents of its text parts begin and end."""
    return ((start, end) for _, start, end in _parts(body, content_type) if _text(body[start:end]))


def _parts(body: bytes, content_type: str) -> Iterator[tuple[bytes, int, int]]:
    """The head of each part, and where its content begins and ends; before them, what is in front of the first one.

    What no server should read is looked at all the same: that, all of a body that cannot be split, and a part that has no
    empty line, as where lines end in a bare line feed.
    """
    delimiter = _delimiter(content_type)
    whole = b"\r\n" + body
    first, *parts = whole.split(delimiter) if delimiter else [whole]
    end = len(first) - 2
    yield b"", 0, max(0, end)
    for part in parts:
        start = end + len(delimiter)
        end = start + len(part)
        head, separator, _ = part.partition(b"\r\n\r\n")
        yield (head, start + len(head) + len(separator), end) if separator else (b"", start, end)


def _delimiter(content_type: str) -> bytes:
    """What stands between the parts of a multipart body; nothing where its type does not say it."""
    boundary = _headers(b"Content-Type: " + " ".join(content_type.split()).encode("utf-8", "replace")).get_boundary()
    return b"\r\n--" + boundary.encode("utf-8", "replace") if boundary else b""


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _headers(head: bytes) -> Message:
    return BytesHeaderParser().parsebytes(head + b"\r\n\r\n")


def _field_name(headers: Message) -> str:
    name = headers.get_param("name", "", header="content-disposition")
    return name[:_NAME_AT_MOST] if isinstance(name, str) else ""


def _text(content: bytes) -> str | None:
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None
