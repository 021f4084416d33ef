r"""Text as it stands in a transcript: it cannot pass for a heading, a comment or a line of ours, and reads back exactly.

Pure. A backslash goes before what would be read as structure, which markdown shows as the text it was:

- `#` that begins a line: a heading to whoever reads by lines, also within code fences;
- `===` or `---` below a line of text, which would make a heading of it;
- the two beginnings of our own lines (`> Called `, `> Result `); and `<!--` anywhere is `<\!--`.

Characters that end lines in some programs, control characters and halves of surrogate pairs are written as `&#13;`. A
text that has such an escape already gets one more backslash. `\r\n` stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

CLOSED = "<!-- closed -->"
"""Below a code fence that the text left open and that was closed for it. No text has a comment: `<!--` is escaped."""

_BREAKS = "\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_CONTROL = re.compile(rf"(\\*)(\r(?!\n)|[\x00-\x08\x0e-\x1b\x1f\x7f\ud800-\udfff{_BREAKS}]|&#(\d{{1,5}});)")
_ENTITY = re.compile(r"(\\*)&#(\d{1,5});")
_LINE = re.compile(r"^( {0,3})(\\*)(?:(#|> Called |> Result )|(?:=+|-+)[ \t]*\r?$)", re.MULTILINE)
_ESCAPED_LINE = re.compile(r"^( {0,3})\\(?=\\*(?:#|> Called |> Result |(?:=+|-+)[ \t]*\r?$))", re.MULTILINE)
_COMMENT = re.compile(r"<(?=\\*!--)")
_ESCAPED_COMMENT = re.compile(r"<\\(?=\\*!--)")
_FENCE = re.compile(r"^[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:(`{3,})[^`\n]*|(~{3,}).*)$", re.MULTILINE)


def escape(text: str) -> str:
    """The text for a transcript, without a line's end after it; a code fence that it leaves open is closed."""
    text = escape_inline(_escaped_lines(text))
    fence = open_fence(text)
    return f"{text}\n{fence}\n{CLOSED}" if fence else text


def unescape(text: str) -> str:
    """What `escape` was given."""
    if text.endswith(f"\n{CLOSED}"):
        text = text[: -len(CLOSED) - 1].rpartition("\n")[0]
    return _ESCAPED_LINE.sub(r"\1", unescape_inline(text))


def escape_inline(text: str) -> str:
    """A text without a line's end, for a place within a line."""
    if "&#" in text or not text.replace("\n", "").replace("\t", "").isprintable():
        text = _CONTROL.sub(_control, text)
    return _COMMENT.sub(r"<\\", text)


def unescape_inline(text: str) -> str:
    """What `escape_inline` was given."""
    return _ENTITY.sub(_character, _ESCAPED_COMMENT.sub("<", text))


def open_fence(text: str) -> str | None:
    """The fence that would close the code block which is open at the end; None where none is (CommonMark 4.5)."""
    if "```" not in text and "~~~" not in text:
        return None
    fence: str | None = None
    for match in _at_lines(_FENCE, text):
        marks = match[1] or match[2]
        if fence is None:
            fence = marks
        elif marks.startswith(fence) and not match[0].strip().strip(marks[0]):
            fence = None
    return fence


def _at_lines(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Where lines begin as it says: to look there only is quicker than to have each place looked at."""
    start = 0
    while True:
        if (match := pattern.match(text, start)) is not None:
            yield match
        start = text.find("\n", start) + 1
        if not start:
            return


def _escaped_lines(text: str) -> str:
    kept: list[str] = []
    at = 0
    for match in _at_lines(_LINE, text):
        kept += [text[at : match.start()], _line(match)]
        at = match.end()
    return "".join((*kept, text[at:])) if kept else text


def _is_ours(digits: str) -> bool:
    return str(int(digits)) == digits and _CONTROL.fullmatch(chr(int(digits))) is not None


def _control(match: re.Match[str]) -> str:
    backslashes, found, digits = match.groups()
    if digits is None:
        return f"{backslashes * 2}&#{ord(found)};"
    return f"{backslashes * 2}\\{found}" if _is_ours(digits) else match[0]


def _character(match: re.Match[str]) -> str:
    backslashes, digits = match.groups()
    if not _is_ours(digits):
        return match[0]
    kept = "\\" * (len(backslashes) // 2)
    return kept + (f"&#{digits};" if len(backslashes) % 2 else chr(int(digits)))


def _line(match: re.Match[str]) -> str:
    """A rule, or a line below nothing, is no heading: it stays as it is unless it looks escaped."""
    indentation, backslashes, mark = match.groups()
    if mark is None and not backslashes:
        before = match.string.rfind("\n", 0, max(match.start() - 1, 0)) + 1
        if not match.string[before : max(match.start() - 1, 0)].strip():
            return match[0]
    return f"{indentation}\\{match[0][len(indentation) :]}"
