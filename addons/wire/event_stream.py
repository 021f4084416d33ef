"""Amazon's binary event stream (`application/vnd.amazon.eventstream`), in which Bedrock streams.

A message is: total length, length of the headers, CRC of these two; headers; payload; CRC of all before it. Numbers
are big-endian, both CRCs are those of zlib. A header is: length and bytes of its name, type, value
(https://docs.aws.amazon.com/transcribe/latest/dg/streaming-setting-up.html, "Event stream encoding").
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

type HeaderValue = bool | int | bytes | str | datetime | UUID

_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_NUMBERS = {2: struct.Struct(">b"), 3: struct.Struct(">h"), 4: struct.Struct(">i"), 5: struct.Struct(">q")}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventStreamError(ValueError):
    """The bytes are no event stream: a CRC, a length or a header is wrong. `str()` says which."""


@dataclass(frozen=True, slots=True)
class EventMessage:
    """One message of the stream."""

    headers: dict[str, HeaderValue]
    payload: bytes


class EventStreamDecoder:
    """Takes the stream in pieces cut anywhere. `limit` is the length in bytes of the longest message to be taken."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._length = 0

    def feed(self, data: bytes) -> Iterator[EventMessage]:
        """The messages that `data` completes. It must be run to its end.

        Raises:
            EventStreamError: after the messages before the fault. The stream cannot be taken up again.

        """
        self._data += data
        while True:
            if not self._length and len(self._data) >= _PRELUDE.size:
                self._length = self._checked_length()
            if not self._length or len(self._data) < self._length:
                return
            raw = bytes(self._data[: self._length])
            del self._data[: self._length]
            self._length = 0
            yield _message(raw)

    def _checked_length(self) -> int:
        """The length of the message that begins here; its own CRC tells that it may be waited for."""
        length, headers, crc = _PRELUDE.unpack_from(self._data)
        if zlib.crc32(self._data[:8]) != crc:
            raise EventStreamError("the CRC of a message's lengths is wrong")
        if length < _PRELUDE.size + headers + _CRC.size:
            raise EventStreamError("a message is shorter than its headers")
        if length > self._limit:
            raise EventStreamError(f"a message is longer than {self._limit} bytes")
        return int(length)


def _message(raw: bytes) -> EventMessage:
    if zlib.crc32(raw[: -_CRC.size]) != _CRC.unpack(raw[-_CRC.size :])[0]:
        raise EventStreamError("the CRC of a message is wrong")
    _, headers_length, _ = _PRELUDE.unpack_from(raw)
    payload = _PRELUDE.size + headers_length
    try:
        headers = dict(_headers(raw[_PRELUDE.size : payload]))
    except (struct.error, ValueError, OverflowError) as error:
        raise EventStreamError("the headers of a message cannot be read") from error
    return EventMessage(headers, raw[payload : -_CRC.size])


def _headers(data: bytes) -> Iterator[tuple[str, HeaderValue]]:
    at = 0
    while at < len(data):
        name, at = _sized(data, at + 1, data[at])
        (kind,), at = struct.unpack_from("B", data, at), at + 1
        value: HeaderValue
        match kind:
            case 0 | 1:
                value = kind == 0
            case 2 | 3 | 4 | 5:
                (value,) = _NUMBERS[kind].unpack_from(data, at)
                at += _NUMBERS[kind].size
            case 6 | 7:
                (length,) = struct.unpack_from(">H", data, at)
                value, at = _sized(data, at + 2, length)
                value = value.decode() if kind == 7 else value
            case 8:
                (milliseconds,) = _NUMBERS[5].unpack_from(data, at)
                value, at = _EPOCH + timedelta(milliseconds=milliseconds), at + 8
            case 9:
                value, at = _sized(data, at, 16)
                value = UUID(bytes=value)
            case _:
                raise ValueError(kind)
        yield name.decode(), value


def _sized(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    """`length` bytes from `at` on, and where they end."""
    end = at + length
    if end > len(data):
        raise ValueError(end)
    return data[at:end], end
