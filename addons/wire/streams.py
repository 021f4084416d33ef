"""An answer's bytes cut into the pieces that a protocol understands, whatever the framing and wherever they are cut.

Server-sent events, lines of JSON, one JSON document, Gemini's array of documents, and the binary event stream of
Amazon. The first bytes decide between them, since content types are missing or lie; where several fit, the content
type does. Every byte is looked at a fixed number of times, and no more than one event is held.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from addons.wire.answer import Answer, AnswerParts
from addons.wire.event_stream import EventStreamDecoder, EventStreamError

MOST_EVENT = 32 * 1024 * 1024
"""Bytes of one event that are held. A longer one ends the reading, and the answer is not complete."""

_STEP = 64 * 1024
"""Bytes looked at in one go: a chunk of nothing but line ends would otherwise become a list of as many lines."""

_BOM = b"\xef\xbb\xbf"
_BEFORE = re.compile(rb"\A(?:\s++|\xef\xbb\xbf)++")
_LINES_OF_JSON = ("ndjson", "jsonl", "json-lines")

# Up to the next bracket, whole strings passed over, or to the quote of a string that is cut off.
_UP_TO_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_INSIDE_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)

_DECODER = json.JSONDecoder()


class AnswerReader:
    """Reads one answer. Nothing that a server sends makes it raise.

    Args:
        parts: what a protocol makes of the pieces. An event that is no JSON is passed over.
        content_type: the header as it came; empty where there was none.

    """

    def __init__(self, parts: AnswerParts, content_type: str) -> None:
        self._parts = parts
        self._content_type = content_type.lower()
        self._start = b""
        self._framing: _Framing | None = None
        self._broken = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes: without their Content-Encoding, and cut anywhere."""
        if self._framing is None:
            data = self._begin(data)
        if self._framing is None or self._broken:
            return
        try:
            for start in range(0, len(data), _STEP):
                self._framing.feed(data[start : start + _STEP])
        except (_TooLongError, EventStreamError):
            self._broken = True

    def close(self) -> Answer:
        """The answer as far as it came. A last event without its end is taken where it is whole all the same."""
        if self._framing is not None and not self._broken:
            self._framing.end()
        answer = self._parts.answer()
        if self._broken:
            return replace(answer, complete=False)
        # Of an answer that was not understood nobody can tell whether it was over.
        is_cut = self._is_stream() and not self._parts.done and answer != Answer()
        return replace(answer, cut=True) if is_cut else answer

    def _is_stream(self) -> bool:
        """Whether it says itself where it ends. What is no JSON may be anything, an HTML page too."""
        if isinstance(self._framing, _ServerSentEvents):
            return "event-stream" in self._content_type
        return isinstance(self._framing, _JsonLines | _Frames)

    def _begin(self, data: bytes) -> bytes:
        """Choose the framing once the first byte is there that is no white space; gives what there is from it on.

        Some servers send blank lines while the model thinks, before a JSON document too.
        """
        start = _BEFORE.sub(b"", self._start + data, count=1)
        if _BOM.startswith(start):
            self._start = start
        else:
            self._framing = self._framing_of(start[0])
        return start

    def _framing_of(self, first: int) -> _Framing:
        if first == ord("{") and any(name in self._content_type for name in _LINES_OF_JSON):
            return _JsonLines(self._parts)
        if first in b"{[":
            return _JsonValues(self._parts)
        if first <= MOST_EVENT >> 24:  # a message begins with its length in four bytes, and no text with such a byte
            return _Frames(self._parts)
        return _ServerSentEvents(self._parts)


class _TooLongError(ValueError):
    """An event is longer than `MOST_EVENT`."""


class _Framing(Protocol):
    def feed(self, data: bytes) -> None:
        """Take at most `_STEP` bytes, not empty."""

    def end(self) -> None:
        """There are no more bytes. It may be said twice."""


class _Lines:
    """Lines that end in LF, CRLF or a lone CR, cut anywhere, also between CR and LF."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._cut = bytearray()
        self._after_cr = False

    def feed(self, data: bytes) -> None:
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r")
        lines = data.splitlines()
        rest = b"" if data.endswith((b"\n", b"\r")) or not lines else lines.pop()
        if lines and self._cut:
            lines[0] = self._joined(lines[0])
        for line in lines:
            self._take(line)
        if rest:
            self._cut += rest
            _check(len(self._cut))

    def end(self) -> None:
        if self._cut:
            self._take(self._joined(b""))

    def _joined(self, last: bytes) -> bytes:
        self._cut += last
        line = bytes(self._cut)
        self._cut.clear()
        _check(len(line))
        return line


class _ServerSentEvents:
    """`text/event-stream` of the HTML standard. Only `data` counts: providers say in it what the event is."""

    def __init__(self, parts: AnswerParts) -> None:
        self._parts = parts
        self._lines = _Lines(self._line)
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._lines.feed(data)

    def end(self) -> None:
        self._lines.end()
        self._line(b"")

    def _line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data += line[5:]  # a space may follow, and a line end joins two lines: both are nothing to JSON
            self._data += b"\n"
            _check(len(self._data))
        elif not line and self._data:
            _add(self._parts, self._data)
            self._data.clear()


class _JsonLines:
    """One JSON document a line, as Ollama streams."""

    def __init__(self, parts: AnswerParts) -> None:
        self._parts = parts
        self._lines = _Lines(self._line)

    def feed(self, data: bytes) -> None:
        self._lines.feed(data)

    def end(self) -> None:
        self._lines.end()

    def _line(self, line: bytes) -> None:
        _add(self._parts, line)


class _JsonValues:
    """One JSON document; or several, one after the other or as elements of an array (Gemini without `alt=sse`).

    Each is handed on when its last bracket is there. A single one outside an array is the whole answer.
    """

    def __init__(self, parts: AnswerParts) -> None:
        self._parts = parts
        self._value = bytearray()
        self._depth = 0
        self._in_string = False
        self._after_backslash = False
        self._in_array = False
        self._first: bytes | None = None
        self._several = False

    def feed(self, data: bytes) -> None:
        at = begin = 0
        while at < len(data):
            if self._in_string:
                at = self._string_end(data, at)
                continue
            at = _end(_UP_TO_BRACKET, data, at)
            if at == len(data):
                break
            at += 1
            match data[at - 1]:
                case 0x22:  # a quote, whose string goes on beyond the data
                    self._in_string = True
                case 0x5B if not self._depth and not self._in_array:  # [
                    self._in_array = self._several = True
                case 0x5B | 0x7B:  # [ {
                    if not self._depth:
                        begin = at - 1
                    self._depth += 1
                case _ if self._depth:  # ] }
                    self._depth -= 1
                    if not self._depth:
                        self._value += data[begin:at]
                        self._complete()
                case _:
                    self._in_array = False
        if self._depth:
            self._value += data[begin:]
            _check(len(self._value))

    def end(self) -> None:
        if self._first is not None:
            self._parts.whole(_json(self._first))
            self._first = None

    def _string_end(self, data: bytes, at: int) -> int:
        """Where the string that began in earlier data ends, or the end of the data."""
        if self._after_backslash:
            self._after_backslash = False
            at += 1
        at = _end(_INSIDE_STRING, data, at)
        if at < len(data):
            self._in_string = data[at] != 0x22
            self._after_backslash = self._in_string
            at += 1
        return at

    def _complete(self) -> None:
        _check(len(self._value))
        value = bytes(self._value)
        self._value.clear()
        if self._several:
            _add(self._parts, value)
        elif self._first is None:
            self._first = value
        else:
            _add(self._parts, self._first)
            _add(self._parts, value)
            self._first, self._several = None, True


class _Frames:
    """Amazon's event stream. Each message is handed on as its text headers (`:event-type`) with `payload` beside."""

    def __init__(self, parts: AnswerParts) -> None:
        self._parts = parts
        self._decoder = EventStreamDecoder(MOST_EVENT)

    def feed(self, data: bytes) -> None:
        for message in self._decoder.feed(data):
            texts = {name: value for name, value in message.headers.items() if isinstance(value, str)}
            self._parts.add({**texts, "payload": _json(message.payload)})

    def end(self) -> None:
        """A cut message is nothing."""


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    """Where what the pattern matches from `at` on ends; it may match nothing."""
    found = pattern.match(data, at)
    assert found is not None
    return found.end()


def _check(length: int) -> None:
    if length > MOST_EVENT:
        raise _TooLongError


def _add(parts: AnswerParts, data: bytes | bytearray) -> None:
    event = _json(data)
    if event is not None:
        parts.add(event)


def _json(data: bytes | bytearray) -> Any:
    """The decoded JSON; None where it is none, is nested too deep, or holds a number of thousands of digits."""
    text = data.decode("utf-8", "replace").strip()
    try:
        value, end = _DECODER.raw_decode(text)  # half the time of `json.loads` for a small event
    except (ValueError, RecursionError):
        return None
    return value if end == len(text) else None
