"""Content-Encoding undone within a bound, since a body of a few kB may decode to gigabytes."""

from __future__ import annotations

import zlib
from typing import Protocol

import brotli
import zstandard

_INFLATE_STEP = 64 * 1024
"""Bytes given to zlib at once: after each gzip member it copies what is left, and a member may take 20 bytes."""
_ZSTD_STEP = 256
"""Bytes given to zstd at once. There is no bound on what one call gives, and a block of 128 kB may take four bytes."""
_MOST_ENCODINGS = 5
"""One after the other on one body; two is rare already."""


class EncodingError(ValueError):
    """A body that its Content-Encoding header does not describe, or that is too large when decoded. `str()` says which."""


def decode(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its encodings (`gzip, br`: undone from the last to the first), at most `limit` bytes long.

    Raises:
        EncodingError: unknown encoding, not decodable, cut off, or longer than `limit`.

    """
    decoder = Decoder(encoding, limit)
    decoded = decoder.feed(body)
    decoder.check_end()
    return decoded


class Decoder:
    """Undoes the encodings of a body that comes in pieces, cut anywhere.

    Args:
        encoding: the Content-Encoding header, empty where there is none. An unknown one is told by `feed`.
        limit: the most bytes that the whole body may have, and that any step on the way to it may have.

    """

    def __init__(self, encoding: str, limit: int) -> None:
        names = [part.strip().lower() for part in encoding.split(",")]
        self._layers = [_Layer(name, limit) for name in reversed(names) if name not in {"", "identity"}]
        self._plain = _Layer("identity", limit)

    def feed(self, data: bytes) -> bytes:
        """What `data` adds to the decoded body. After an error the decoder is of no more use.

        Raises:
            EncodingError: unknown encoding, not decodable, or longer than `limit` in all.

        """
        if len(self._layers) > _MOST_ENCODINGS:
            raise EncodingError(f"the body has more than {_MOST_ENCODINGS} encodings")
        for layer in self._layers:
            data = layer.feed(data)
        return data if self._layers else self._plain.feed(data)

    def check_end(self) -> None:
        """Raise an EncodingError if the body is cut off here."""
        for layer in self._layers:
            layer.check_end()


class _Layer:
    """One encoding, and how much has come out of it."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._room = limit
        self._codec = _codec(name)

    def feed(self, data: bytes) -> bytes:
        if self._codec is None:
            raise EncodingError(f"the Content-Encoding {self._name!r} is not known")
        try:
            data = self._codec.feed(data, self._room)
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            raise self._lie() from error
        self._room -= len(data)
        if self._room < 0:
            raise EncodingError(f"the body decodes to more than {self._limit} bytes")
        return data

    def check_end(self) -> None:
        if self._codec is not None and self._codec.cut_off:
            raise self._lie()

    def _lie(self) -> EncodingError:
        return EncodingError(f"the body is not {self._name}, as its Content-Encoding says")


class _Codec(Protocol):
    def feed(self, data: bytes, room: int) -> bytes:
        """What `data` decodes to. Once it is more than `room` bytes the rest need not be decoded."""

    @property
    def cut_off(self) -> bool:
        """Whether something has begun and not ended."""


def _codec(name: str) -> _Codec | None:
    match name:
        case "identity":
            return _Identity()
        case "gzip" | "x-gzip":
            return _Gzip()
        case "deflate":
            return _Deflate()
        case "br":
            return _Brotli()
        case "zstd":
            return _Zstd()
        case _:
            return None


class _Identity:
    cut_off = False

    def feed(self, data: bytes, room: int) -> bytes:  # noqa: ARG002 - it is there already
        return data


class _Gzip:
    """Members may follow each other."""

    def __init__(self) -> None:
        self._member: zlib._Decompress | None = None

    @property
    def cut_off(self) -> bool:
        return self._member is not None

    def feed(self, data: bytes, room: int) -> bytes:
        decoded = bytearray()
        for start in range(0, len(data), _INFLATE_STEP):
            step = data[start : start + _INFLATE_STEP]
            while step and len(decoded) <= room:
                member = self._member or zlib.decompressobj(16 + zlib.MAX_WBITS)
                decoded += member.decompress(step, room + 1 - len(decoded))
                self._member, step = (None, member.unused_data) if member.eof else (member, b"")
        return bytes(decoded)


class _Deflate:
    """Meant is zlib's format, but some senders leave out its header of two bytes (RFC 9110, 8.4.1.2)."""

    def __init__(self) -> None:
        self._header = b""
        self._stream: zlib._Decompress | None = None

    @property
    def cut_off(self) -> bool:
        return bool(self._header) and (self._stream is None or not self._stream.eof)

    def feed(self, data: bytes, room: int) -> bytes:
        if self._stream is None:
            data = self._header = self._header + data
            if len(data) < 2:
                return b""
            has_header = data[0] & 15 == zlib.DEFLATED and int.from_bytes(data[:2]) % 31 == 0
            self._stream = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
        decoded = self._stream.decompress(data, room + 1)
        if self._stream.unused_data:
            raise zlib.error("there is more after the end")
        return decoded


class _Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._begun = False

    @property
    def cut_off(self) -> bool:
        return self._begun and not self._stream.is_finished()

    def feed(self, data: bytes, room: int) -> bytes:
        if not data:
            return b""
        self._begun = True
        return bytes(self._stream.process(data, output_buffer_limit=room + 1))


class _Zstd:
    """Frames may follow each other."""

    def __init__(self) -> None:
        self._frame: zstandard.ZstdDecompressionObj | None = None

    @property
    def cut_off(self) -> bool:
        return self._frame is not None

    def feed(self, data: bytes, room: int) -> bytes:
        decoded = bytearray()
        for start in range(0, len(data), _ZSTD_STEP):
            step = data[start : start + _ZSTD_STEP]
            while step:
                frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
                decoded += frame.decompress(step)
                self._frame, step = (None, frame.unused_data) if frame.eof else (frame, b"")
            if len(decoded) > room:
                break
        return bytes(decoded)
