"""Withhold: the body of a request without the notes that rules keep from it (dispatch.md, "redact").

What is sent instead is not encoded, whatever the client's Content-Encoding was: the encoded bytes would be others anyway,
every provider takes plain ones, and it costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mitmproxy import http

from addons.encodings import decode
from memory.exchange import Redaction
from memory.index import NoteIndex
from memory.redact import Redacted, redact
from memory.scan import Scanner

INLINE_BYTES = 4 * 1024
"""Bodies above this are worked on in a thread: each kB takes up to half a millisecond."""

_CHECKSUMS = frozenset({"content-digest", "content-md5", "digest", "repr-digest", "signature", "x-amz-content-sha256"})
"""Headers that say what the body is: RFC 9530 and 3230, RFC 1864, RFC 9421, and those of AWS."""
_AWS_SIGNED = "aws4-"
_AWS_CHECKSUM = "x-amz-checksum-"


def is_signed(headers: http.Headers, path: str) -> bool:
    """Whether a signature or a checksum covers the body, which would not hold for another one (Bedrock with SigV4)."""
    names = [name.lower() for name in headers]
    return (
        headers.get("authorization", "").lower().startswith(_AWS_SIGNED)
        or any(name in _CHECKSUMS or name.startswith(_AWS_CHECKSUM) for name in names)
        or "x-amz-signature=" in path.partition("?")[2].lower()
    )


class Withhold:
    """Withholds notes from bodies that `scanner` has scanned; `largest_body` is the most bytes one may decode to."""

    def __init__(self, scanner: Scanner, *, largest_body: int) -> None:
        self._scanner = scanner
        self._largest_body = largest_body

    async def __call__(
        self, raw: bytes, headers: http.Headers, index: NoteIndex, redactions: Sequence[Redaction]
    ) -> Redacted:
        """A body, encoded as its headers say, without these notes. `index` is the one that it was scanned with.

        Raises EncodingError for a body that its Content-Encoding does not describe: no note was seen in such a one.
        """
        encoding, content_type = headers.get("content-encoding", ""), headers.get("content-type", "")
        told = raw, encoding, content_type, index, redactions
        if len(raw) <= INLINE_BYTES and not encoding:
            return self._redacted(*told)
        return await asyncio.to_thread(self._redacted, *told)

    def _redacted(
        self, raw: bytes, encoding: str, content_type: str, index: NoteIndex, redactions: Sequence[Redaction]
    ) -> Redacted:
        return redact(index, decode(raw, encoding, self._largest_body), redactions, content_type, self._scanner)


def send_instead(request: http.Request, body: bytes) -> None:
    """Give a request another body, which is not encoded. Its other headers stay as they are."""
    request.headers.pop("content-encoding", None)
    request.content = body  # which says its length, unless it is chunked
