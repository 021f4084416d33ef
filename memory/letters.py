r"""The letters of a text and nothing else: what stays the same when a text is numbered, quoted, re-wrapped or escaped.

`letters` gives bytes: ASCII letters in lower case, and the UTF-8 of every other letter as it is. White space, digits,
punctuation, list marks and emphasis are gone, and so is what differs between two copies of a text: `\n`, `\u00e9` and
other escapes of JSON in a string (however often escaped), HTML entities, accents in two characters instead of one
(NFC), typographic quotes, dashes and arrows (U+2000 to U+2FFF), the signs of Latin-1 (U+0080 to U+00BF).
"""

from __future__ import annotations

import html
import re
import unicodedata

import numpy as np

from memory import native

_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_LOWER = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
_NO_LETTERS = {
    kept: bytes(byte for byte in range(128) if byte not in _LETTERS and byte not in kept) for kept in (b"\0", b"\0\n")
}

# However many backslashes there are, each is looked at once; a pattern that begins with one is searched for fast.
_BACKSLASHES = re.compile(rb"\\\\*+(?:[nrt]|(u)|)")
_ESCAPES = re.compile(rb"(?:\\u[0-9a-fA-F]{4})++")
_CODE_UNITS = re.compile(rb"u(....)")
_AMPERSANDS = re.compile(rb"&(?:amp;)++")
_SIGN_ENTITIES = re.compile(rb"&(?:lt|gt|quot|apos|nbsp|#39|#x27);")
_ENTITY = re.compile(rb"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,9});")
_ADDRESS = re.compile(rb"https?://[!#-&*-;=?-Z^_a-z~]+")
_LINK = re.compile(rb"\[\[[^\[\]\0]{1,200}\]\]")
_ARROW = "→".encode()
# Letters of text that has no others beyond ASCII than U+2000 to U+2FFF: they are all signs.
_NO_ASCII_LETTERS = {kept: bytes((*none, *range(0x80, 0x100))) for kept, none in _NO_LETTERS.items()}
# U+2000 to U+2FFF; in what is left U+0080 to U+00BF, and what is white space or has no width: U+1680, U+3000, U+FE0F,
# U+FEFF. One by one, as one pattern for all of them is many times slower where most text is ASCII.
_COMMON_SIGNS = re.compile(rb"\xe2[\x80-\xbf]{2}")
_LATIN_SIGNS = re.compile(rb"\xc2[\x80-\xbf]")
_RARE_SIGNS = tuple(sign.encode() for sign in "\u1680\u3000\ufe0f\ufeff")
# First bytes of the characters that NFC may change, and the two marks of Japanese.
_MAY_NOT_BE_NFC = (b"\xcc", b"\xcd", b"\xe0", b"\xe1", b"\xef", b"\xf0")
# So many marks on one letter are in no language, and normalising them takes time by the square of their number.
_MANY_SIGNS = re.compile(r"[^\w\n\0]{30,}")
_JAPANESE_MARKS = (b"\xe3\x82\x99", b"\xe3\x82\x9a")


def letters(text: bytes, *, rows: bool = False) -> bytes:
    """The letters of a text in UTF-8. NUL stays; `rows` also keeps each line feed: there are as many rows as before."""
    if native.BUILT and (found := native.letters(text, rows)) is not None:
        return found
    return letters_with_python(text, rows=rows)


def letters_with_python(text: bytes, *, rows: bool = False) -> bytes:
    """As `letters`: where nothing was built, and where characters are made others."""
    if _comes_twice(b"/", text):
        text = _ADDRESS.sub(b"", text)
    if _comes_twice(b"[", text):
        text = _LINK.sub(_row_ends if rows else b"", text)
    if b"\\" in text:
        text = _BACKSLASHES.sub(_last_if_escape, text)
        if b"\\u" in text:
            text = _ESCAPES.sub(_unescaped, text)
    if b"&" in text:
        text = _SIGN_ENTITIES.sub(b"", _AMPERSANDS.sub(b"&", text))
        text = _ENTITY.sub(_character, text)
    kept = b"\0\n" if rows else b"\0"
    if _has_signs_only(text):
        return text.translate(_LOWER, _NO_ASCII_LETTERS[kept])
    return _without_signs(text).translate(_LOWER, _NO_LETTERS[kept])


def encoded(text: str) -> bytes:
    """A string's UTF-8. Half of a surrogate pair is kept: JavaScript clients send one when they cut an emoji in two."""
    return text.encode("utf-8", "surrogatepass")


def _last_if_escape(backslashes: re.Match[bytes]) -> bytes:
    return b"\\u" if backslashes[1] else b""


def _row_ends(link: re.Match[bytes]) -> bytes:
    return b"\n" * link[0].count(b"\n")


def _comes_twice(byte: bytes, text: bytes) -> bool:
    """Whether a byte comes twice in a row. To search for the two takes many times as long where one of them is common."""
    there = np.frombuffer(text, np.uint8) == ord(byte)
    return bool((there[1:] & there[:-1]).any())


def _has_signs_only(text: bytes) -> bool:
    """Whether all that is beyond ASCII is U+2000 to U+2FFF, by the first bytes of the characters."""
    if text.isascii():
        return True
    data = np.frombuffer(text, np.uint8)
    return not ((data >= 0xC0) & (data != 0xE2)).any()


def _without_signs(text: bytes) -> bytes:
    if _ARROW in text:  # one in each line of a numbered file: faster than by the pattern
        text = text.replace(_ARROW, b"")
    if b"\xe2" in text:
        text = _COMMON_SIGNS.sub(b"", text)
    if any(first in text for first in _MAY_NOT_BE_NFC) or (
        b"\xe3\x82" in text and any(mark in text for mark in _JAPANESE_MARKS)
    ):
        marked = _MANY_SIGNS.sub(_without_marks, text.decode("utf-8", "surrogatepass"))
        text = encoded(unicodedata.normalize("NFC", marked))
    if b"\xc2" in text:
        text = _LATIN_SIGNS.sub(b"", text)
    for sign in _RARE_SIGNS:
        text = text.replace(sign, b"")
    return text


def _without_marks(signs: re.Match[str]) -> str:
    return "".join(sign for sign in signs[0] if not unicodedata.combining(sign))


def _unescaped(escapes: re.Match[bytes]) -> bytes:
    units = b"".join(bytes.fromhex(unit.decode()) for unit in _CODE_UNITS.findall(escapes[0]))
    return _in_place(units.decode("utf-16-be", "surrogatepass"))


def _character(entity: re.Match[bytes]) -> bytes:
    return _in_place(html.unescape(entity[0].decode()))


def _in_place(characters: str) -> bytes:
    """What was written as an escape begins no row and ends no text."""
    return encoded(characters.replace("\n", "").replace("\0", ""))
