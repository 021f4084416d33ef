"""Strings that hold no text: attachments in base64, and encrypted blobs. They are known by their shape."""

from __future__ import annotations

import re

from memory.body import ATTACHMENT

BLOB = "encoded or encrypted data"

BLOB_LENGTH = 4096
"""Characters of base64 that are skipped. Fewer are looked through all the same."""
SHORTEST_BLOB = 128
"""Characters that a string has at least which is, or has, a blob worth a word."""

_BASE64_BEGINS = re.compile(r"[A-Za-z0-9+/_-]{60}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{60,}+(?:\r?\n[A-Za-z0-9+/_-]++)*+={0,2}\s*")
_IN_DATA_URL = ";base64,"
_DATA_URL = re.compile(_IN_DATA_URL + r"[A-Za-z0-9+/_-]{60}")
_PAYLOAD = re.compile(_IN_DATA_URL + rf"[A-Za-z0-9+/_%-]{{{BLOB_LENGTH},}}+=*")
_MAGIC = ("iVBOR", "/9j/", "R0lGOD", "UklGR", "JVBERi", "UEsDB", "SUkq", "AAAA", "T2dnU", "SUQz")
"""How PNG, JPEG, GIF, WebP or WAV, PDF, ZIP or Office, TIFF, MP4, Ogg and MP3 begin in base64."""


def beside_blobs(text: str) -> tuple[str, str | None]:
    """What of a string is worth looking at, and why that is not all that it says; None: it is."""
    if _IN_DATA_URL in text and _DATA_URL.search(text):
        return _PAYLOAD.sub(_IN_DATA_URL, text), ATTACHMENT
    if _BASE64_BEGINS.match(text) and _BASE64.fullmatch(text):
        return text if len(text) < BLOB_LENGTH else "", ATTACHMENT if text.startswith(_MAGIC) else BLOB
    return text, None
