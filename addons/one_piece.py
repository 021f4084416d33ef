"""One piece: the head of a message goes out together with the beginning of its body, where that is there already.

mitmproxy writes each by itself: two TLS records and two packets, and twice the way through all its layers, which is a tenth
of what it does for a small request and its answer; who reads it wakes up for a head it can do nothing with.

`HttpStream.start_response_stream` and the queue of what came during a hook are no public API: tests/addons/test_mends.py
notices when they change.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from mitmproxy.proxy.commands import SendData
from mitmproxy.proxy.layers.http import HttpStream, SendHttp
from mitmproxy.proxy.layers.http._events import RequestData, RequestHeaders, ResponseData, ResponseHeaders
from mitmproxy.proxy.layers.http._http1 import Http1Client, Http1Server

type Steps = Generator[Any, Any, None]
type Send = Callable[[Any, Any], Steps]
"""That of one side of a connection in HTTP/1, which is given the parts of a message one by one."""

LARGEST = 64 * 1024
"""Bytes of a piece of a body. To put a head before a larger one costs more than it saves."""
QUEUE = "_paused_event_queue"
_HEAD = "_mitmemory_head"
"""Where a connection keeps the head that has yet to go out."""


class HeadBeforeData(ResponseHeaders):
    """The head of an answer whose body has begun: the next event is of it."""


def in_one_piece(original: Send) -> Send:
    """`send` of either side that keeps a head, where the body follows at once, until it is given the next event."""

    def send(side: Http1Client | Http1Server, event: Any) -> Steps:
        steps = original(side, event)
        if isinstance(event, HeadBeforeData) or _is_before_data(event):
            [side.__dict__[_HEAD]] = [command.data for command in steps]
            return
        head = side.__dict__.pop(_HEAD, b"")
        if head and isinstance(event, RequestData | ResponseData) and 0 < len(event.data) <= LARGEST:
            command = next(steps)
            command.data = head + command.data
            yield command
        elif head:
            yield SendData(side.conn, head)
        yield from steps

    return send


def telling_what_follows(original: Callable[[HttpStream], Steps]) -> Callable[[HttpStream], Steps]:
    """`start_response_stream` that says of a head whether more of the answer came while addons looked at it."""

    def start_response_stream(stream: HttpStream) -> Steps:
        came = getattr(stream, QUEUE)
        is_followed = bool(came) and isinstance(came[0], ResponseData)
        for command in original(stream):
            if is_followed and isinstance(command, SendHttp) and isinstance(command.event, ResponseHeaders):
                command.event = HeadBeforeData(stream.stream_id, command.event.response, end_stream=False)
            yield command

    return start_response_stream


def _is_before_data(event: Any) -> bool:
    """Whether it is the head of a request that is sent whole: a body that is streamed may take its time."""
    return isinstance(event, RequestHeaders) and not event.end_stream and not event.request.stream
