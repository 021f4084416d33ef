"""Reading note files: what their bytes and their names are as text."""

from __future__ import annotations

import codecs
import os


def decode(content: bytes) -> tuple[str, str | None]:
    """(text, what was wrong with it). UTF-8 with or without BOM; UTF-16 with one, as Windows' Notepad writes it."""
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "UTF-16" if is_utf16 else "UTF-8-sig"
    try:
        return content.decode(encoding), None
    except UnicodeDecodeError:
        # Lines with a replaced character are not recognised in a request; the others are.
        problem = f"not valid {'UTF-16' if is_utf16 else 'UTF-8'}; what cannot be read is replaced"
        return content.decode(encoding, "replace"), problem


def readable(path: str) -> str:
    """A path as text: bytes in it that are no UTF-8 are replaced, since JSON and terminals cannot carry them."""
    return os.fsencode(path).decode("utf-8", "replace")
