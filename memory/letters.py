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

_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_LOWER = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
_NO_LETTERS = {
    kept: bytes(byte for byte in range(128) if byte not in _LETTERS and byte not in kept) for kept in (b"\0", b"\0\n")
}

# However many backslashes there are, each is looked at once: a run begins where there is none before it.
_ESCAPED_SPACES = re.compile(rb"(?<!\\)\\++[nrt]")
_ESCAPES = re.compile(rb"(?:(?<!\\)\\++u[0-9a-fA-F]{4})++")
_CODE_UNITS = re.compile(rb"u(....)")
_AMPERSANDS = re.compile(rb"&(?:amp;)++")
_SIGN_ENTITIES = re.compile(rb"&(?:lt|gt|quot|apos|nbsp|#39|#x27);")
_ENTITY = re.compile(rb"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,9});")
_ADDRESS = re.compile(rb"https?://[!#-&*-;=?-Z^_a-z~]+")
_LINK = re.compile(rb"\[\[[^\[\]\0]{1,200}\]\]")
_ARROW = "→".encode()
# U+2000 to U+2FFF; in what is left U+0080 to U+00BF, and what is white space or has no width: U+1680, U+3000, U+FE0F,
# U+FEFF. One pattern each, as one for all of them is five times slower where most text is ASCII.
_COMMON_SIGNS = re.compile(rb"\xe2[\x80-\xbf]{2}")
_OTHER_SIGNS = re.compile(rb"\xc2[\x80-\xbf]|\xe1\x9a\x80|\xe3\x80\x80|\xef\xb8\x8f|\xef\xbb\xbf")
# First bytes of the characters that NFC may change, and the two marks of Japanese.
_MAY_NOT_BE_NFC = (b"\xcc", b"\xcd", b"\xe0", b"\xe1", b"\xef", b"\xf0", b"\xe3\x82\x99", b"\xe3\x82\x9a")


def letters(text: bytes, *, rows: bool = False) -> bytes:
    """The letters of a text in UTF-8. NUL stays; `rows` also keeps each line feed, and with them the text's rows."""
    if b"://" in text:
        text = _ADDRESS.sub(b"", text)
    if b"[[" in text:
        text = _LINK.sub(b"", text)
    if b"\\" in text:
        text = _ESCAPED_SPACES.sub(b"", text)
        if b"\\u" in text:
            text = _ESCAPES.sub(_unescaped, text)
    if b"&" in text:
        text = _SIGN_ENTITIES.sub(b"", _AMPERSANDS.sub(b"&", text))
        text = _ENTITY.sub(_character, text)
    if not text.isascii():
        text = _without_signs(text)
    return text.translate(_LOWER, _NO_LETTERS[b"\0\n" if rows else b"\0"])


def encoded(text: str) -> bytes:
    """A string's UTF-8. Half of a surrogate pair is kept: JavaScript clients send one when they cut an emoji in two."""
    return text.encode("utf-8", "surrogatepass")


def _without_signs(text: bytes) -> bytes:
    if _ARROW in text:  # one in each line of a numbered file: faster than by the pattern
        text = text.replace(_ARROW, b"")
    if b"\xe2" in text:
        text = _COMMON_SIGNS.sub(b"", text)
    if text.isascii():
        return text
    if any(mark in text for mark in _MAY_NOT_BE_NFC):
        text = encoded(unicodedata.normalize("NFC", text.decode("utf-8", "surrogatepass")))
    return _OTHER_SIGNS.sub(b"", text)


def _unescaped(escapes: re.Match[bytes]) -> bytes:
    units = b"".join(bytes.fromhex(unit.decode()) for unit in _CODE_UNITS.findall(escapes[0]))
    return _in_place(units.decode("utf-16-be", "surrogatepass"))


def _character(entity: re.Match[bytes]) -> bytes:
    return _in_place(html.unescape(entity[0].decode()))


def _in_place(characters: str) -> bytes:
    """What was written as an escape begins no row and ends no text."""
    return encoded(characters.replace("\n", "").replace("\0", ""))
