"""Mends: what mitmproxy 12.3 makes of a few answers that are no fault, so that no client waits for ever.

- Trailers after a chunked answer, and those of HTTP/2 on their way to HTTP/1.1, end in an exception. Here they are left
  out, as a proxy may (RFC 9112, 7.1.2).
- An interim answer of HTTP/1.1 (100, 103) is taken for the answer. Here it is left out, as mitmproxy does in HTTP/2.
- A server that says in HTTP/2 that it takes no further requests (GOAWAY, as many do after some thousand) has all its
  answers cut off. Here those that are under way are finished, and the next request has a new connection.
- Requests that wait until the server takes more of them wait for ever once its connection is lost. Here they fail.
- A client that speaks HTTP/2 to a server of HTTP/1.1 gets five answers at a time, and its sixth request waits for one of
  them to end. Here as many as the client may have streams.
- A server's reset is called one by the client.
- Head and body go out one after the other, which costs time (`one_piece.py`).
- A compressed message on a WebSocket may become as large as it likes. Here the connection is closed beyond 64 MiB.

None of it is public API: tests/addons/test_mends.py notices when it changes.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from h2.connection import ConnectionInputs, H2ConnectionStateMachine
from h2.connection import ConnectionState as Http2State
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, Event
from h2.stream import StreamState
from h11 import EndOfMessage
from h11._readers import ChunkedReader
from mitmproxy.connection import ConnectionState
from mitmproxy.proxy import events
from mitmproxy.proxy.layers.http import HttpStream, _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import ErrorCode, RequestTrailers, ResponseProtocolError, ResponseTrailers
from mitmproxy.proxy.layers.http._http1 import Http1Client, Http1Server
from mitmproxy.proxy.layers.http._http2 import Http2Client
from mitmproxy.proxy.server import ConnectionHandler
from wsproto import extensions
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import CloseReason, FrameDecoder, FrameProtocol

from addons.one_piece import in_one_piece, telling_what_follows

type Steps[T] = Generator[Any, Any, T]

TRANSITIONS = "_transitions"
MOST_CONNECTIONS = 100
"""To one server, for one client's connection: mitmproxy lets a client have so many streams of HTTP/2."""
MOST_MESSAGE = 64 * 1024 * 1024
"""Bytes of one message on a WebSocket, decompressed."""
GONE = "the server takes no further requests on this connection"

_INTERIM = re.compile(rb"HTTP/1\.\d 1(?!01)\d\d[^\n]*\n(?:[^\r\n][^\n]*\n)*\r?\n")


class Mends:
    """Replaces parts of mitmproxy while it runs."""

    name = "mitmemory_mends"

    def __init__(self) -> None:
        self._originals: list[tuple[object, str, Any]] = []

    def running(self) -> None:
        self._replace(_http1, "ChunkedReader", WithoutTrailers)
        for side in (Http1Client, Http1Server):
            self._replace(side, "send", in_one_piece(_send_no_trailers(side.send)))
        self._replace(HttpStream, "start_response_stream", telling_what_follows(HttpStream.start_response_stream))
        self._replace(Http1Client, "read_headers", _skip_interim_answers(Http1Client.read_headers))
        self._replace(ConnectionHandler, "__init__", _dial_more(ConnectionHandler.__init__))
        # To h2 a connection is closed by GOAWAY, and what still comes on it an error.
        stays_open = {(Http2State.CLIENT_OPEN, ConnectionInputs.RECV_GOAWAY): (None, Http2State.CLIENT_OPEN)}
        transitions: dict[Any, Any] = getattr(H2ConnectionStateMachine, TRANSITIONS)
        self._replace(H2ConnectionStateMachine, TRANSITIONS, transitions | stays_open)
        self._replace(Http2Client, "handle_h2_event", _let_it_finish(Http2Client.handle_h2_event))
        self._replace(Http2Client, "close_connection", _tell_those_who_wait(Http2Client.close_connection))

        self._replace(extensions, "PerMessageDeflate", BoundedDeflate)

    def done(self) -> None:
        while self._originals:
            setattr(*self._originals.pop())

    def _replace(self, owner: Any, name: str, new: Any) -> None:
        self._originals.append((owner, name, getattr(owner, name)))
        setattr(owner, name, new)


class BoundedDeflate(PerMessageDeflate):
    """Refuses a message that becomes larger than `MOST_MESSAGE`."""

    _inbound_bytes = 0

    def frame_inbound_payload_data(
        self,
        proto: FrameDecoder | FrameProtocol,  # noqa: ARG002 - the interface is not ours
        data: bytes,
    ) -> bytes | CloseReason:
        if not self._inbound_compressed or not self._inbound_is_compressible or self._decompressor is None:
            return data
        try:
            decoded = self._decompressor.decompress(bytes(data), MOST_MESSAGE - self._inbound_bytes + 1)
        except zlib.error:
            return CloseReason.INVALID_FRAME_PAYLOAD_DATA
        self._inbound_bytes += len(decoded)
        return CloseReason.MESSAGE_TOO_BIG if self._inbound_bytes > MOST_MESSAGE else decoded

    def frame_inbound_complete(self, proto: FrameDecoder | FrameProtocol, fin: bool) -> bytes | CloseReason | None:
        if fin:
            self._inbound_bytes = 0
        return super().frame_inbound_complete(proto, fin)


class WithoutTrailers(ChunkedReader):
    """Reads a chunked body, and its trailers not."""

    def __call__(self, buf: Any) -> Any:
        event = super().__call__(buf)
        return EndOfMessage() if isinstance(event, EndOfMessage) else event


def _send_no_trailers(original: Callable[..., Steps[None]]) -> Callable[..., Steps[None]]:
    def send(side: Http1Client | Http1Server, event: Any) -> Steps[None]:
        if not isinstance(event, RequestTrailers | ResponseTrailers):
            yield from original(side, event)

    return send


def _skip_interim_answers(original: Callable[..., Steps[None]]) -> Callable[..., Steps[None]]:
    def read_headers(client: Http1Client, event: events.ConnectionEvent) -> Steps[None]:
        if client.request and isinstance(event, events.DataReceived):
            while found := _INTERIM.match(bytes(client.buf)):
                client.buf.maybe_extract_at_most(found.end())
        yield from original(client, event)

    return read_headers


def _dial_more(original: Callable[..., None]) -> Callable[..., None]:
    def init(handler: ConnectionHandler, *args: Any, **more: Any) -> None:
        original(handler, *args, **more)
        handler.max_conns = defaultdict(lambda: asyncio.Semaphore(MOST_CONNECTIONS))

    return init


def _let_it_finish(original: Callable[..., Steps[bool]]) -> Callable[..., Steps[bool]]:
    def handle_h2_event(client: Http2Client, event: Event) -> Steps[bool]:
        if isinstance(event, ConnectionTerminated) and event.error_code == ErrorCodes.NO_ERROR:
            yield from _take_leave(client, event.last_stream_id or 0)
            stop = False
        else:
            stop = yield from _by_server(original(client, event))
        if not stop and _is_leaving(client) and not client.streams:
            yield from client.close_connection(GONE)
            return True
        return stop

    return handle_h2_event


def _take_leave(client: Http2Client, last: int) -> Steps[None]:
    """Keep what the server still answers. mitmproxy takes no connection for a new request that cannot be written to."""
    client.conn.state &= ~ConnectionState.CAN_WRITE
    for stream in list(client.streams):
        if stream > last or client.h2_conn.streams[stream].state_machine.state is StreamState.OPEN:
            client.streams.pop(stream)  # not taken, or its request is not wholly sent and never will be
            yield _failed(stream, GONE)
    yield from _fail_those_who_wait(client, GONE)


def _is_leaving(client: Http2Client) -> bool:
    return client.conn.state is ConnectionState.CAN_READ


def _by_server(steps: Steps[bool]) -> Steps[bool]:
    """The same commands; mitmproxy has the words "reset by client" for both sides."""
    while True:
        try:
            command = next(steps)
        except StopIteration as end:
            return bool(end.value)
        if isinstance(command, ReceiveHttp) and isinstance(command.event, ResponseProtocolError):
            command.event = replace(command.event, message=command.event.message.replace("by client", "by server"))
        yield command


def _tell_those_who_wait(original: Callable[..., Steps[None]]) -> Callable[..., Steps[None]]:
    def close_connection(client: Http2Client, message: str) -> Steps[None]:
        yield from original(client, message)
        yield from _fail_those_who_wait(client, message)

    return close_connection


def _fail_those_who_wait(client: Http2Client, message: str) -> Steps[None]:
    """Fail the requests for which the server had no stream free. They have no number of its own yet."""
    while client.stream_queue:
        theirs, _ = client.stream_queue.popitem()
        client.their_stream_id[-theirs] = theirs
        yield _failed(-theirs, message)


def _failed(stream: int, message: str) -> ReceiveHttp:
    return ReceiveHttp(ResponseProtocolError(stream, message, ErrorCode.GENERIC_SERVER_ERROR))
