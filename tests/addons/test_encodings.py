import contextlib
import gzip
import time
import tracemalloc
import zlib
from typing import Any

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from addons.encodings import Decoder, EncodingError, decode

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


SIZES = (1, 7, 1000, 2**30)
BODIES = pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("", TEXT),
        ("identity", TEXT),
        ("Identity, ", TEXT),
        ("gzip", gzip.compress(TEXT)),
        ("x-gzip", gzip.compress(TEXT[:100]) + gzip.compress(b"") + gzip.compress(TEXT[100:])),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", RAW_DEFLATE),
        ("br", brotli.compress(TEXT)),
        ("zstd", zstandard.compress(TEXT)),
        ("zstd", zstandard.compress(TEXT[:100]) + zstandard.compress(b"") + zstandard.compress(TEXT[100:])),
        ("gzip, br", brotli.compress(gzip.compress(TEXT))),
        ("br,gzip , zstd", zstandard.compress(gzip.compress(brotli.compress(TEXT)))),
    ],
)


def decoded(decoder: Decoder, body: bytes, size: int) -> bytes:
    return b"".join(decoder.feed(body[start : start + size]) for start in range(0, len(body), size))


@pytest.mark.parametrize("size", SIZES)
@BODIES
def test_a_body_is_decoded_as_it_comes(encoding: str, body: bytes, size: int) -> None:
    decoder = Decoder(encoding, len(TEXT))
    assert decoded(decoder, body, size) == TEXT
    decoder.check_end()


@pytest.mark.parametrize(
    ("encoding", "compressor"),
    [
        ("gzip", zlib.compressobj(wbits=31)),
        ("deflate", zlib.compressobj()),
        ("deflate", zlib.compressobj(wbits=-15)),
        ("br", brotli.Compressor()),
        ("zstd", zstandard.ZstdCompressor().compressobj()),
    ],
)
def test_what_has_come_is_given_at_once(encoding: str, compressor: Any) -> None:
    decoder = Decoder(encoding, 100)
    compress = compressor.process if encoding == "br" else compressor.compress
    flush = {"br": (), "zstd": (zstandard.COMPRESSOBJ_FLUSH_BLOCK,)}.get(encoding, (zlib.Z_SYNC_FLUSH,))
    for event in (b"data: 1\n\n", b"data: 2\n\n"):
        assert decoder.feed(compress(event) + compressor.flush(*flush)) == event


@BODIES
def test_a_cut_body_is_told_at_its_end(encoding: str, body: bytes) -> None:
    decoder = Decoder(encoding, len(TEXT))
    decoder.feed(body[:-1])
    if body is TEXT:
        decoder.check_end()
    else:
        with pytest.raises(EncodingError, match=r"^the body is not \S+, as its Content-Encoding says$"):
            decoder.check_end()


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate", "br", "zstd", "gzip, br"])
def test_nothing_at_all_is_an_empty_body(encoding: str) -> None:
    assert decode(b"", encoding, LIMIT) == b""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", TEXT),
        ("gzip", gzip.compress(TEXT) + b"more"),
        ("gzip", gzip.compress(TEXT)[:-2] + b"??"),
        ("deflate", b"\xff" * 20),
        ("deflate", zlib.compress(TEXT) + b"more"),
        ("br", TEXT),
        ("br", brotli.compress(TEXT) + b"more"),
        ("zstd", TEXT),
        ("zstd", zstandard.compress(TEXT) + b"more"),
        ("gzip, br", gzip.compress(TEXT)),
    ],
)
def test_a_lying_encoding_is_named_wherever_the_body_is_cut(encoding: str, body: bytes, size: int) -> None:
    with pytest.raises(EncodingError, match=r"^the body is not \S+, as its Content-Encoding says$"):
        decoded(Decoder(encoding, LIMIT), body, size)


@pytest.mark.parametrize("encoding", ["lzma", "gzip, lzma", "lzma, gzip"])
def test_an_unknown_encoding_is_told_with_the_first_bytes(encoding: str) -> None:
    decoder = Decoder(encoding, LIMIT)
    with pytest.raises(EncodingError, match=r"^the Content-Encoding 'lzma' is not known$"):
        decoder.feed(gzip.compress(TEXT))


def test_so_many_encodings_and_no_more() -> None:
    body = TEXT
    for _ in range(5):
        body = gzip.compress(body)
    assert decode(body, "gzip, gzip, gzip, gzip, gzip, identity", LIMIT) == TEXT
    with pytest.raises(EncodingError, match=r"^the body has more than 5 encodings$"):
        decode(gzip.compress(body), ", ".join(["gzip"] * 6), LIMIT)


@pytest.mark.parametrize("size", SIZES)
@BODIES
def test_a_body_of_the_limit_is_decoded_and_one_byte_more_is_not(encoding: str, body: bytes, size: int) -> None:
    decoder = Decoder(encoding, len(TEXT) - 1)
    with pytest.raises(EncodingError, match=r"^the body decodes to more than 44999 bytes$"):
        decoded(decoder, body, size)


@pytest.mark.parametrize(
    ("encoding", "bomb"),
    [
        ("gzip", gzip.compress(bytes(60_000_000), 1)),
        ("gzip", gzip.compress(bytes(1_000_000)) * 200),
        ("deflate", zlib.compress(bytes(60_000_000), 1)),
        ("br", brotli.compress(bytes(60_000_000), quality=1)),
        ("zstd", zstandard.compress(bytes(60_000_000))),
        ("zstd", zstandard.compress(bytes(1_000_000)) * 200),
        ("gzip, gzip", gzip.compress(gzip.compress(bytes(60_000_000), 1))),
    ],
    ids=["gzip", "gzip-members", "deflate", "br", "zstd", "zstd-frames", "gzip-gzip"],
)
def test_a_bomb_takes_no_more_memory_than_the_limit_allows(encoding: str, bomb: bytes) -> None:
    decoder = Decoder(encoding, 1_000_000)
    tracemalloc.start()
    with pytest.raises(EncodingError, match=r"^the body decodes to more than 1000000 bytes$"):
        decoder.feed(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25_000_000


def test_many_empty_members_take_linear_time() -> None:
    member = gzip.compress(b"")

    def seconds(members: int) -> float:
        body = member * members
        begun = time.thread_time()
        assert decode(body, "gzip", LIMIT) == b""
        return time.thread_time() - begun

    small = min(seconds(10_000) for _ in range(3))
    # Ten times, were the machine quiet; a hundred, were it quadratic.
    assert any(seconds(100_000) < 40 * small for _ in range(3))


@given(st.binary(max_size=100), st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, br", "x"]), st.integers(1, 9))
def test_any_bytes_are_decoded_or_refused(body: bytes, encoding: str, size: int) -> None:
    with contextlib.suppress(EncodingError):
        decoded(Decoder(encoding, 1000), body, size)
