"""Answers as they arrive, encoded and cut anywhere; and Amazon's event stream written out."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any

from addons.encodings import Decoder
from addons.wire.answer import Answer, AnswerParts
from addons.wire.streams import AnswerReader
from tests.addons.playback import ENCODERS
from tests.addons.wires import chunks

FRAMES = "application/vnd.amazon.eventstream"


def read_encoded(parts: AnswerParts, data: bytes, content_type: str, size: int, encoding: str) -> Answer:
    """What becomes of an answer that arrives in an encoding and in chunks of `size` bytes."""
    decoder, reader = Decoder(encoding, 2**26), AnswerReader(parts, content_type)
    for chunk in chunks(ENCODERS[encoding](data), size):
        reader.feed(decoder.feed(chunk))
    decoder.check_end()
    return reader.close()


def text_headers(headers: dict[str, str]) -> bytes:
    """Headers of a message, all of them texts."""
    return b"".join(
        struct.pack(">B", len(name)) + name.encode() + b"\x07" + struct.pack(">H", len(value.encode())) + value.encode()
        for name, value in headers.items()
    )


def frame(headers: bytes, payload: bytes) -> bytes:
    """One message of Amazon's event stream."""
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    prelude += struct.pack(">I", zlib.crc32(prelude))
    message = prelude + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def event_frame(name: str, payload: Any) -> bytes:
    """One event as Bedrock streams it."""
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return frame(text_headers(headers), json.dumps(payload, ensure_ascii=False).encode())


def event_frames(events: Iterable[tuple[str, Any]]) -> bytes:
    return b"".join(event_frame(name, payload) for name, payload in events)
