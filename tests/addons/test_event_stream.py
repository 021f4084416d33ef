"""Amazon's event stream, on messages whose bytes are written out here."""

from __future__ import annotations

import struct
import zlib
from datetime import UTC, datetime
from uuid import UUID

import pytest

from addons.wire.event_stream import EventMessage, EventStreamDecoder, EventStreamError
from tests.addons.answers import frame, text_headers
from tests.addons.wires import SIZES

TWO = frame(text_headers({":event-type": "chunk"}), b'{"a":1}') + frame(b"", b"")


def decoded(data: bytes, size: int = 2**30, limit: int = 1000) -> list[EventMessage]:
    decoder = EventStreamDecoder(limit)
    return [one for start in range(0, len(data), size) for one in decoder.feed(data[start : start + size])]


def test_a_message_is_read_from_its_bytes() -> None:
    headers = b"\x01k\x07\x00\x01v"
    prelude = b"\x00\x00\x00\x18\x00\x00\x00\x06"
    message = prelude + zlib.crc32(prelude).to_bytes(4) + headers + b"{}"
    message += zlib.crc32(message).to_bytes(4)
    assert decoded(message) == [EventMessage({"k": "v"}, b"{}")]


@pytest.mark.parametrize("size", SIZES)
def test_messages_may_be_cut_anywhere(size: int) -> None:
    assert decoded(TWO, size) == [EventMessage({":event-type": "chunk"}, b'{"a":1}'), EventMessage({}, b"")]


def test_a_message_comes_as_soon_as_it_is_whole() -> None:
    decoder = EventStreamDecoder(1000)
    first = len(TWO) - 16
    assert list(decoder.feed(TWO[: first - 1])) == []
    assert [one.payload for one in decoder.feed(TWO[first - 1 : first + 3])] == [b'{"a":1}']


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (0, b"", True),
        (1, b"", False),
        (2, b"\xfe", -2),
        (3, b"\xff\xfe", -2),
        (4, b"\xff\xff\xff\xfe", -2),
        (5, b"\x00\x00\x00\x01\x00\x00\x00\x00", 2**32),
        (6, b"\x00\x02\x00\xff", b"\x00\xff"),
        (7, b"\x00\x04M\xc3\xb6w", "Möw"),
        (8, struct.pack(">q", 1_772_600_827_089), datetime(2026, 3, 4, 5, 7, 7, 89000, tzinfo=UTC)),
        (9, bytes(range(16)), UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")),
    ],
)
def test_a_header_has_one_of_ten_types(kind: int, raw: bytes, value: object) -> None:
    (message,) = decoded(frame(b"\x04name" + bytes([kind]) + raw + text_headers({"last": "one"}), b""))
    assert message.headers == {"name": value, "last": "one"}
    assert type(message.headers["name"]) is type(value)


@pytest.mark.parametrize(
    ("at", "says"),
    [
        (3, "the CRC of a message's lengths is wrong"),
        (9, "the CRC of a message's lengths is wrong"),
        (14, "the CRC of a message is wrong"),
        (40, "the CRC of a message is wrong"),
    ],
)
@pytest.mark.parametrize("size", SIZES)
def test_a_flipped_bit_ends_the_stream_after_what_came_before(at: int, says: str, size: int) -> None:
    broken = bytearray(TWO)
    broken[at] ^= 1
    data = frame(b"", b"before") + broken
    decoder, payloads = EventStreamDecoder(1000), []

    def read() -> None:
        for start in range(0, len(data), size):
            for message in decoder.feed(data[start : start + size]):
                payloads.append(message.payload)  # noqa: PERF401 - what came before the error must be kept

    with pytest.raises(EventStreamError, match=f"^{says}$"):
        read()
    assert payloads == [b"before"]


@pytest.mark.parametrize(
    ("headers", "payload", "says"),
    [
        (b"\x04name\x0a", b"", "the headers of a message cannot be read"),  # no such type
        (b"\x04name", b"", "the headers of a message cannot be read"),
        (b"\x09name\x00", b"", "the headers of a message cannot be read"),
        (b"\x04name\x07\x00\x09short", b"", "the headers of a message cannot be read"),
        (b"\x04name\x05\x00", b"", "the headers of a message cannot be read"),
        (b"\x04name\x09\x00", b"", "the headers of a message cannot be read"),
        (b"\x04name\x07\x00\x01\xff", b"", "the headers of a message cannot be read"),  # no UTF-8
        (b"\x04name\x08" + b"\x7f" * 8, b"", "the headers of a message cannot be read"),  # after the year 9999
        (b"", bytes(985), "a message is longer than 1000 bytes"),
    ],
)
def test_what_cannot_be_read_is_said(headers: bytes, payload: bytes, says: str) -> None:
    with pytest.raises(EventStreamError, match=f"^{says}$"):
        decoded(frame(headers, payload))


def test_a_message_shorter_than_its_headers_is_refused() -> None:
    prelude = struct.pack(">II", 20, 5)
    with pytest.raises(EventStreamError, match=r"^a message is shorter than its headers$"):
        decoded(prelude + struct.pack(">I", zlib.crc32(prelude)))


def test_a_long_message_is_refused_before_it_is_there() -> None:
    assert decoded(frame(b"", bytes(984))) == [EventMessage({}, bytes(984))]
    with pytest.raises(EventStreamError, match="longer"):
        decoded(frame(b"", bytes(2000))[:12])
