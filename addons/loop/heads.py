"""What the heads of requests and answers say of their bodies; and where they say nothing, what these begin with."""

from __future__ import annotations

from dataclasses import replace

from addons.attempt import Answer
from addons.outgoing import Outgoing

_KINDS = {"text/event-stream": True, "application/json": False}
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""What a line of an event stream begins with (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream)."""
_BLANK = b"\xef\xbb\xbf \t\r\n"


def unencoded(outgoing: Outgoing) -> Outgoing:
    """The same request, its answer asked for as it is read."""
    headers = tuple(one for one in outgoing.headers if one[0].lower() != "accept-encoding")
    return replace(outgoing, headers=(*headers, ("Accept-Encoding", "identity")))


def encoding_of(answer: Answer) -> str:
    """Empty: it is not encoded."""
    return _header(answer, "content-encoding")


def is_stream(answer: Answer) -> bool | None:
    """Whether the answer to a request for a stream is one of events; some servers stream nothing, and send one JSON document.

    None: it is neither.
    """
    if kind := _header(answer, "content-type"):
        return _KINDS.get(kind.partition(";")[0].strip().lower())
    begins = answer.first.lstrip(_BLANK)
    if begins.startswith(_FIELDS):
        return True
    return False if begins.startswith(b"{") else None


def _header(answer: Answer, name: str) -> str:
    return ",".join(value for key, value in answer.headers if key.lower() == name)
