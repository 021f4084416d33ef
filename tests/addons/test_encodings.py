import gzip
import zlib

import brotli
import pytest
import zstandard

from addons.encodings import EncodingError, decode

TEXT = b"The tide chart ships before the Friday demo.\n" * 1000
LIMIT = 100_000
RAW_DEFLATE = zlib.compress(TEXT)[2:-4]


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("", TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT)),
        ("x-gzip", gzip.compress(TEXT)),
        ("gzip", gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:])),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", RAW_DEFLATE),
        ("br", brotli.compress(TEXT)),
        ("ZSTD", zstandard.compress(TEXT)),
        ("zstd", zstandard.compress(TEXT[:100]) + zstandard.compress(TEXT[100:])),
        ("gzip, br", brotli.compress(gzip.compress(TEXT))),
    ],
)
def test_a_body_is_decoded(encoding: str, body: bytes) -> None:
    assert decode(body, encoding, LIMIT) == TEXT


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", TEXT),
        ("gzip", gzip.compress(TEXT)[:-9]),
        ("deflate", b"\xff" * 20),
        ("br", brotli.compress(TEXT)[:-3]),
        ("zstd", TEXT),
        ("zstd", zstandard.compress(TEXT)[:-3]),
    ],
)
def test_a_lying_or_cut_encoding_is_named(encoding: str, body: bytes) -> None:
    with pytest.raises(EncodingError, match=f"^the body is not {encoding}, as its Content-Encoding says$"):
        decode(body, encoding, LIMIT)


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", brotli.compress), ("zstd", zstandard.compress)],
)
def test_a_bomb_is_stopped_at_the_limit(encoding: str, compress: object) -> None:
    body = compress(bytes(5_000_000))  # type: ignore[operator]
    with pytest.raises(EncodingError, match=r"^the body decodes to more than 100000 bytes$"):
        decode(body, encoding, LIMIT)


def test_an_unknown_encoding_is_named() -> None:
    with pytest.raises(EncodingError, match=r"^the Content-Encoding 'lzma' is not known$"):
        decode(TEXT, "lzma", LIMIT)
