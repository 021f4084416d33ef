"""Server-sent events cut out of a stream, each with its bytes as they came, so that it can be passed on to the byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Never

MOST_EVENT = 32 * 1024 * 1024
"""Bytes of one event that are held."""

MOST_DEPTH = 200
"""How deep the JSON of an event may be nested."""

DONE = "[DONE]"
"""The data of the event that some streams end with."""

# Atomic, so that a CRLF never counts as two ends of a line.
_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE_END = re.compile(r"\r\n|\n|\r")
_LONGEST_END = 4


class TooLongError(ValueError):
    """An event is longer than `MOST_EVENT`."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event, or comments. `raw` are its bytes with the blank line; `data` is None where it has none."""

    raw: bytes
    name: str | None
    data: str | None


class EventSplitter:
    """Cuts a stream that comes in pieces."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._looked_at = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that are whole by now. Raises TooLongError."""
        self._held += data
        start = 0
        while end := _END.search(self._held, max(start, self._looked_at)):
            # A lone CR at the end of what there is may be the first half of the line's end.
            if end.end() == len(self._held) and self._held.endswith(b"\r"):
                break
            raw = bytes(self._held[start : end.end()])
            start = self._looked_at = end.end()
            yield event_of(raw)
        del self._held[:start]
        self._looked_at = max(len(self._held) - _LONGEST_END, 0)
        if len(self._held) > MOST_EVENT:
            raise TooLongError

    def rest(self) -> bytes:
        """What has come since the last whole event; it is given up."""
        rest, self._held, self._looked_at = bytes(self._held), bytearray(), 0
        return rest


def event_of(raw: bytes) -> Event:
    """Its name and its data (https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation)."""
    name, data = None, []
    for line in _LINE_END.split(raw.decode("utf-8", "replace").removeprefix("\ufeff")):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return Event(raw, name, "\n".join(data) if data else None)


def is_whole(event: Event) -> bool:
    """Whether nothing is missing of an event but, perhaps, its blank line."""
    return event.data == DONE or decoded(event.data) is not None


def event_bytes(data: str, name: str | None = None) -> bytes:
    """An event of one line of data."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data}\n\n".encode("utf-8", "surrogatepass")


def json_bytes(value: Any, name: str | None = None) -> bytes:
    """An event whose data is JSON."""
    return event_bytes(json_text(value), name)


def json_text(value: Any) -> str:
    """JSON in ASCII, the same for the same value: halves of surrogate pairs, which streams may cut, find together again."""
    return json.dumps(value, separators=(",", ":"))


def decoded(text: str | None) -> Any:
    """The JSON value; None where it is none, NaN included, is nested too deep, or holds a number of thousands of digits."""
    try:
        value = None if text is None else _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return None if text is None or (text.count("[") + text.count("{") > MOST_DEPTH and _is_deep(value)) else value


def _is_deep(value: Any) -> bool:
    """Whether it is nested deeper than `MOST_DEPTH`, so that whoever walks through it might not come back."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _refuse(constant: str) -> Never:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(parse_constant=_refuse)
