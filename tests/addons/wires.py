"""What the tests of the wire formats share: answers as bytes, read in chunks of every size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from addons.wire.answer import Answer, AnswerParts
from addons.wire.streams import AnswerReader

SIZES = (1, 7, 1000, 10**9)
"""Bytes of a chunk; the last is the whole."""

EVENTS = "text/event-stream; charset=utf-8"


def sse(events: Iterable[Any], *, named: bool = False, done: bool = False) -> bytes:
    """Server-sent events; `named` by their type, as Responses are, and with the mark at the end that Chat has."""
    lines: list[str] = []
    for event in events:
        if named:
            lines.append(f"event: {event['type']}")
        lines += [f"data: {json.dumps(event, ensure_ascii=False)}", ""]
    if done:
        lines += ["data: [DONE]", ""]
    return ("\n".join(lines) + "\n").encode()


def chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def read_answer(parts: AnswerParts, data: bytes, content_type: str, size: int) -> Answer:
    reader = AnswerReader(parts, content_type)
    for chunk in chunks(data, size):
        reader.feed(chunk)
    return reader.close()


def added(parts: AnswerParts, *events: Any) -> Answer:
    """What the parts make of decoded events."""
    for event in events:
        parts.add(event)
    return parts.answer()


def said_whole(parts: AnswerParts, body: Any) -> Answer:
    parts.whole(body)
    return parts.answer()
