"""What stands before the end of a name in a text, and where in it a name may begin (`docs/detection.md`)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Scripts that put no space between words: a Latin name may begin or end right beside them."""
_MAY_BEGIN_AFTER = re.compile(rf"[^\w\-.~%+$]|(?<=[{IDEOGRAPH}])(?=[0-9A-Za-z])")
_MAY_BEGIN_AFTER_ASCII = re.compile(r"[^0-9A-Za-z_\-.~%+$]")
"""The same where all is ASCII, several times as fast."""
_GOES_ON_ASCII = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-.~%+$")
"""What that one does not match: for a single character there is no need of a pattern."""
_URL_ENDS = re.compile(r"[\s\"'<>`|)\]}]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,40}$")
_SEPARATORS = re.compile(r"\\+/?")
_HARD_STOPS = '\n\r\t"\0'


class Window(NamedTuple):
    """The end of a text up to some place, with `/` for every separator. `whole`: nothing of its line is cut off."""

    text: str
    whole: bool
    is_unquoted: bool = False

    @classmethod
    def before(cls, text: str, end: int, reach: int) -> Window:
        start = max(0, end - reach)
        begin = start
        for stop in _HARD_STOPS:  # each looks no further back than the one before it
            if (at := text.rfind(stop, begin, end)) >= 0:
                begin = at + 1
        return cls(plain_path(text[begin:end]), begin == 0 or text[begin - 1] in _HARD_STOPS)

    def unquoted(self) -> Window:
        return Window(unicodedata.normalize("NFC", unquote(self.text)), self.whole, is_unquoted=True)

    def beginnings(self, first: int, lengths: Sequence[int] | None = None) -> Iterator[int]:
        """Where a name may begin, ascending, from `first` on; and at the very beginning, where that is the line's.

        With `lengths`, which descend, only where one of these is left.
        """
        text = self.text
        if lengths is None or not text.isascii():
            if self.whole:
                yield 0
            pattern = _MAY_BEGIN_AFTER_ASCII if text.isascii() else _MAY_BEGIN_AFTER
            for match in pattern.finditer(text, first):
                yield match.end()
            return
        for length in lengths:
            start = len(text) - length
            if (start == 0 and self.whole) or (start > 0 and text[start - 1] not in _GOES_ON_ASCII):
                yield start


def plain_path(text: str) -> str:
    r"""Composed, with `/` for every separator: `C:\v`, and `C:\\v` as JSON in a string has it; a shell's `\ ` is a
    space.
    """
    if "\\" in text:
        text = _SEPARATORS.sub("/", text.replace("\\ ", " "))
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def may_begin_at(text: str, at: int, begins_here: bool) -> bool:
    """Whether a name may begin at a place; `begins_here`: at the beginning of the text."""
    if at == 0:
        return begins_here
    return text[at - 1] != "/" and _MAY_BEGIN_AFTER.match(text, at - 1) is not None


def in_foreign_url(before: str) -> bool:
    """Whether the end of a text is inside a URL whose scheme is not `file:`."""
    at = before.rfind("://")
    if at < 0 or _URL_ENDS.search(before, at + 3):
        return False
    scheme = _SCHEME.search(before, 0, at)
    return scheme is None or scheme[0].lower() != "file"
