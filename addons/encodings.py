"""Content-Encoding undone within a bound, since a body of a few kB may decode to gigabytes."""

from __future__ import annotations

import zlib

import brotli
import zstandard

_ZSTD_STEP = 1024
"""Bytes given to the zstd decoder at once."""


class EncodingError(ValueError):
    """A body that its Content-Encoding header does not describe, or that is too large when decoded. `str()` says which."""


def decode(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its encodings (`gzip, br`: undone from the last to the first), at most `limit` bytes long.

    Raises:
        EncodingError: unknown encoding, not decodable, or longer than `limit`.

    """
    for name in reversed([part.strip().lower() for part in encoding.split(",")]):
        try:
            body = _decode_one(body, name, limit)
        except (zlib.error, brotli.error, zstandard.ZstdError, EOFError) as error:
            raise EncodingError(f"the body is not {name}, as its Content-Encoding says") from error
        if len(body) > limit:
            raise EncodingError(f"the body decodes to more than {limit} bytes")
    return body


def _decode_one(body: bytes, name: str, limit: int) -> bytes:
    match name:
        case "" | "identity":
            return body
        case "gzip" | "x-gzip":
            return _inflate(body, 16 + zlib.MAX_WBITS, limit)
        case "deflate":
            try:
                return _inflate(body, zlib.MAX_WBITS, limit)
            except zlib.error:  # some senders mean the raw stream, without zlib's header
                return _inflate(body, -zlib.MAX_WBITS, limit)
        case "br":
            decoder = brotli.Decompressor()
            decoded = bytes(decoder.process(body, output_buffer_limit=limit + 1))
            if len(decoded) <= limit and not decoder.is_finished():
                raise EOFError
            return decoded
        case "zstd":
            return _unzstd(body, limit)
        case _:
            raise EncodingError(f"the Content-Encoding {name!r} is not known")


def _inflate(body: bytes, window: int, limit: int) -> bytes:
    decoded = b""
    while body and len(decoded) <= limit:  # gzip members may follow each other
        decoder = zlib.decompressobj(window)
        decoded += decoder.decompress(body, limit + 1 - len(decoded))
        if len(decoded) > limit:
            break
        if not decoder.eof:
            raise EOFError
        body = decoder.unused_data
    return decoded


def _unzstd(body: bytes, limit: int) -> bytes:
    decoded = bytearray()
    decoder = zstandard.ZstdDecompressor().decompressobj()
    # There is no bound on what one call gives, so it gets little at a time: a block of 128 kB may take four bytes.
    for start in range(0, len(body), _ZSTD_STEP):
        step = body[start : start + _ZSTD_STEP]
        while step:
            if decoder.eof:  # frames may follow each other
                decoder = zstandard.ZstdDecompressor().decompressobj()
            decoded += decoder.decompress(step)
            step = decoder.unused_data if decoder.eof else b""
        if len(decoded) > limit:
            return bytes(decoded)
    if not decoder.eof:
        raise EOFError
    return bytes(decoded)
