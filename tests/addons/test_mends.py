"""What is mended in mitmproxy, in its own layers and without a process. Pins the parts that are no public API: a test
that begins to pass without the mend says that it can go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from h2.connection import ConnectionInputs, ConnectionState, H2ConnectionStateMachine
from mitmproxy import http, options
from mitmproxy.connection import ConnectionState as Socket
from mitmproxy.proxy.commands import SendData
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.events import DataReceived, HookCompleted, Start
from mitmproxy.proxy.layers.http import HttpStream, SendHttp, _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    RequestTrailers,
    ResponseData,
    ResponseHeaders,
)
from mitmproxy.proxy.layers.http._hooks import HttpResponseHeadersHook
from mitmproxy.proxy.layers.http._http1 import Http1Client, Http1Server
from mitmproxy.proxy.layers.http._http2 import Http2Client
from mitmproxy.proxy.server import ConnectionHandler
from mitmproxy.test import tflow

from addons.mends import Mends
from addons.one_piece import LARGEST

ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ntide\r\n0\r\n\r\n"
OUTCOME = ["ResponseHeaders 200", "ResponseData tide", "ResponseEndOfMessage"]
LENGTH = (b"Content-Length", b"10")
HEAD = b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n"
TWO = [RequestData(1, b"tide"), RequestData(1, b" chart")]


@pytest.fixture
def mends() -> Iterator[Mends]:
    running = Mends()
    running.running()
    yield running
    running.done()


def client() -> Http1Client:
    """mitmproxy's side of a connection to a server, once it has asked."""
    settings = options.Options()
    settings.add_option("proxy_debug", bool, False, "")
    context = Context(tflow.tclient_conn(), settings)
    context.server = tflow.tserver_conn()
    context.server.state = Socket.OPEN
    made = Http1Client(context)
    list(made.handle_event(Start()))
    asked = http.Request.make("GET", "http://tide.example/")
    list(made.handle_event(RequestHeaders(1, asked, end_stream=True)))
    list(made.handle_event(RequestEndOfMessage(1)))
    return made


def read(data: bytes, size: int) -> list[str]:
    """What mitmproxy understands of an answer that comes in pieces of `size` bytes."""
    reading, seen = client(), []
    for start in range(0, len(data), size):
        commands = reading.handle_event(DataReceived(reading.conn, data[start : start + size]))
        seen += [_shown(command.event) for command in commands if isinstance(command, ReceiveHttp)]
    return seen


def _shown(event: Any) -> str:
    more = getattr(event, "data", b"").decode() or str(getattr(getattr(event, "response", None), "status_code", ""))
    return f"{type(event).__name__} {more}".strip()


@pytest.mark.usefixtures("mends")
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    "data",
    [
        ANSWER,
        ANSWER[:-2] + b"X-Tide: high\r\nX-Moon: full\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + ANSWER,
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\nHTTP/1.1 102 \r\n\r\n" + ANSWER,
        b"HTTP/1.1 100 Continue\n\n" + ANSWER,
    ],
)
def test_such_an_answer_is_read_as_any_other(data: bytes, size: int) -> None:
    assert "".join(read(data, size)).replace("ResponseData ", "") == "".join(OUTCOME).replace("ResponseData ", "")


@pytest.mark.usefixtures("mends")
def test_an_upgrade_is_an_answer() -> None:
    assert read(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: tide\r\n\r\n", 1000)[0] == "ResponseHeaders 101"


@pytest.mark.usefixtures("mends")
def test_no_trailers_are_sent_in_http1() -> None:
    assert list(client().send(RequestTrailers(1, http.Headers()))) == []


def sent(*events: Any, stream: bool = False, header: tuple[bytes, bytes] = LENGTH) -> list[list[bytes]]:
    """What is sent for the head of a request and for each of these events."""
    asking = client()
    asking.stream_id = None
    asked = http.Request.make("POST", "http://tide.example/")
    asked.headers = http.Headers([header])
    asked.stream = stream
    each = [RequestHeaders(1, asked, end_stream=False), *events]
    return [[command.data for command in asking.send(one) if isinstance(command, SendData)] for one in each]


@pytest.mark.usefixtures("mends")
def test_head_and_body_of_a_request_are_sent_in_one_piece() -> None:
    assert sent(*TWO) == [[], [HEAD + b"tide"], [b" chart"]]
    chunked = sent(*TWO, header=(b"Transfer-Encoding", b"chunked"))
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert chunked == [[], [head + b"4\r\ntide\r\n"], [b"6\r\n chart\r\n"]]


@pytest.mark.usefixtures("mends")
def test_a_head_goes_out_by_itself_where_its_body_is_large_or_missing_or_streamed() -> None:
    large = b"x" * (LARGEST + 1)
    assert sent(RequestData(1, large[:-1])) == [[], [HEAD + large[:-1]]]
    assert sent(RequestData(1, large)) == [[], [HEAD, large]]
    assert sent(RequestData(1, b""), *TWO) == [[], [HEAD], [b"tide"], [b" chart"]]
    assert sent(RequestEndOfMessage(1)) == [[], [HEAD]]
    assert sent(RequestTrailers(1, http.Headers()), RequestEndOfMessage(1)) == [[], [HEAD], []]
    assert sent(*TWO, stream=True) == [[HEAD], [b"tide"], [b" chart"]]


def answered(*pieces: bytes, together: int) -> list[list[bytes]]:
    """What a client is sent for an answer that streams, for each of its events; so many come while addons look at its head."""
    context = client().context
    for name in ("body_size_limit", "stream_large_bodies"):
        context.options.add_option(name, str | None, None, "")
    for name in ("store_streamed_bodies", "validate_inbound_headers"):
        context.options.add_option(name, bool, False, "")
    server, stream = Http1Server(context), HttpStream(context, 1)
    stream.flow, answer = tflow.tflow(), http.Response.make()
    answer.headers = http.Headers([LENGTH])
    stream.server_state = stream.state_wait_for_response_headers
    said: list[list[bytes]] = []

    def give(event: Any) -> Any:
        said.append([])
        asked = None
        for command in stream.handle_event(event):
            if isinstance(command, SendHttp):
                said[-1] += [one.data for one in server.send(command.event) if isinstance(one, SendData)]
            elif isinstance(command, HttpResponseHeadersHook):
                asked = command
        return asked

    hook = give(ResponseHeaders(1, answer, end_stream=False))
    answer.stream = True
    for piece in pieces[:together]:
        give(ResponseData(1, piece))
    give(HookCompleted(hook, None))
    for piece in pieces[together:]:
        give(ResponseData(1, piece))
    return said[1 + together :]


ANSWERED = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


@pytest.mark.usefixtures("mends")
def test_head_and_body_of_an_answer_are_sent_in_one_piece_where_both_have_come() -> None:
    assert answered(b"tide", b" chart", together=0) == [[ANSWERED], [b"tide"], [b" chart"]]
    assert answered(b"tide", b" chart", together=1) == [[ANSWERED + b"tide"], [b" chart"]]
    assert answered(b"tide", b" chart", together=2) == [[ANSWERED + b"tide", b" chart"]]


def test_without_the_mends_it_is_as_bad_as_they_say() -> None:
    with pytest.raises(NotImplementedError):
        read(ANSWER[:-2] + b"X-Tide: high\r\n\r\n", 1000)
    assert read(b"HTTP/1.1 100 Continue\r\n\r\n" + ANSWER, 1000)[:2] == ["ResponseHeaders 100", "ResponseEndOfMessage"]
    with pytest.raises(AssertionError):
        list(client().send(RequestTrailers(1, http.Headers())))
    assert sent(*TWO) == [[HEAD], [b"tide"], [b" chart"]]
    assert answered(b"tide", together=1) == [[ANSWERED, b"tide"]]
    machine = H2ConnectionStateMachine()
    machine.state = ConnectionState.CLIENT_OPEN
    machine.process_input(ConnectionInputs.RECV_GOAWAY)
    assert machine.state is ConnectionState.CLOSED


def test_everything_is_put_back() -> None:
    replaced = [
        (_http1, "ChunkedReader"),
        (Http1Client, "send"),
        (Http1Server, "send"),
        (HttpStream, "start_response_stream"),
        (Http1Client, "read_headers"),
        (ConnectionHandler, "__init__"),
        (H2ConnectionStateMachine, "_transitions"),
        (Http2Client, "handle_h2_event"),
        (Http2Client, "close_connection"),
    ]
    before = [getattr(owner, name) for owner, name in replaced]
    running = Mends()
    running.running()
    assert not any(getattr(owner, name) is old for (owner, name), old in zip(replaced, before, strict=True))
    running.done()
    assert [getattr(owner, name) for owner, name in replaced] == before
