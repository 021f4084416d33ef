"""Strings that are encoded: attachments in base64, which are looked into where they are text, and encrypted blobs. They are
known by their shape, since every provider says in another way what an attachment is.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from memory.body import ATTACHMENT
from memory.walk import strings_of

BLOB = "encoded or encrypted data"

BLOB_LENGTH = 4096
"""Characters of base64 that are skipped. Fewer are looked through all the same."""
SHORTEST_BLOB = 128
"""Characters that a string has at least which is, or has, a blob worth a word."""

_HEAD = 60
_BASE64_BEGINS = re.compile(rf"[A-Za-z0-9+/_-]{{{_HEAD}}}")
_BASE64 = re.compile(rf"[A-Za-z0-9+/_-]{{{_HEAD},}}+(?:\r?\n[A-Za-z0-9+/_-]++)*+={{0,2}}\s*")
_IN_DATA_URL = ";base64,"
_DATA_URL = re.compile(_IN_DATA_URL + rf"[A-Za-z0-9+/_%-]{{{_HEAD},}}+=*")
_NO_DIGIT = re.compile(r"[^A-Za-z0-9+/_-]")
_MORE_LINES = re.compile(r"(?:\r?\n[A-Za-z0-9+/_-]++(?![^\s=\"')>]))++=*")
_LONGEST_LINE = 76
"""Characters of base64 in one line, where it is cut into lines (RFC 2045)."""
_MAGIC = ("iVBOR", "/9j/", "R0lGOD", "UklGR", "JVBERi", "UEsDB", "SUkq", "AAAA", "T2dnU", "SUQz")
"""How PNG, JPEG, GIF, WebP or WAV, PDF, ZIP or Office, TIFF, MP4, Ogg and MP3 begin in base64."""
_NO_TEXT = bytes([*range(9), *range(14, 32)])
"""Every tenth byte is one of these, where bytes are any."""


def beside_blobs(text: str) -> tuple[str, str | None]:
    """What of a string is worth looking at, and why that is not all that it says; None: it is.

    What attachments say that are text stands below the string itself.
    """
    reasons: dict[str, None] = {}
    if _IN_DATA_URL in text and (urls := list(_DATA_URL.finditer(text))):
        texts = [_without_payloads(text, urls)]
        for url in urls:
            start, end = url.start() + len(_IN_DATA_URL), url.end()
            if end - start <= _LONGEST_LINE and (more := _MORE_LINES.match(text, end)):
                end = more.end()
            texts += _texts_in(text, start, end, ATTACHMENT, reasons)
    elif _BASE64_BEGINS.match(text) and _BASE64.fullmatch(text):
        texts = [text if len(text) < BLOB_LENGTH else ""]
        texts += _texts_in(text, 0, len(text), ATTACHMENT if text.startswith(_MAGIC) else BLOB, reasons)
    else:
        return text, None
    return "\n".join(filter(None, texts)), next(iter(reasons), None)


def without_blobs(text: str) -> str:
    """A string without what is encoded in it and long: its rows are those of the string."""
    if _IN_DATA_URL in text:
        return _without_payloads(text, _DATA_URL.finditer(text))
    if len(text) >= BLOB_LENGTH and _BASE64_BEGINS.match(text) and _BASE64.fullmatch(text):
        return ""
    return text


def _without_payloads(text: str, urls: Iterable[re.Match[str]]) -> str:
    kept: list[str] = []
    begin = 0
    for url in urls:
        start, end = url.span()
        if end - start >= len(_IN_DATA_URL) + BLOB_LENGTH:
            kept.append(text[begin : start + len(_IN_DATA_URL)])
            begin = end
    return "".join([*kept, text[begin:]])


def _texts_in(text: str, start: int, end: int, reason: str, reasons: dict[str, None]) -> Iterator[str]:
    """What the base64 from `start` to `end` says, as a string with this text would: what is in its JSON, and encoded."""
    decoded = _text_of(text[start:end]) if _begins_as_text(text[start : start + _HEAD]) else None
    if decoded is None:
        reasons[reason] = None
        return
    strings = strings_of(decoded, reasons)
    yield from map(without_blobs, strings.holding)  # the blobs in them are in their strings
    for one in strings.texts:
        shown, why = beside_blobs(one) if len(one) >= SHORTEST_BLOB else (one, None)
        yield shown
        if why:
            reasons[why] = None


def _begins_as_text(head: str) -> bool:
    """Whether the first characters of base64, which may be percent-encoded, can be those of a text."""
    digits = _NO_DIGIT.sub("", unquote(head))
    whole = len(digits) // 4 * 4  # an escape that is cut may leave one too many, which stands for no control character
    return not digits.startswith(_MAGIC) and _may_be_text(_bytes_of(digits[:whole]))


def _text_of(payload: str) -> str | None:
    """What base64 says; None: it is no text in UTF-8."""
    digits = unquote(payload).rstrip("= \r\n")
    if "=" in digits:  # the decoder would stop there
        return None
    try:
        data = _bytes_of(digits)
        return data.decode("utf-8-sig") if _may_be_text(data) else None
    except ValueError:
        return None


def _bytes_of(digits: str) -> bytes:
    """Padding too much does no harm, and line breaks do not count. Raises ValueError."""
    return binascii.a2b_base64(digits.replace("-", "+").replace("_", "/") + "==")


def _may_be_text(data: bytes) -> bool:
    return len(data.translate(None, _NO_TEXT)) == len(data)
