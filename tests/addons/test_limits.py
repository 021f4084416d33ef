"""mitmproxy's size limit, held to the requests that are read whole. Pins the part of mitmproxy that is no public API."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mitmproxy import http, options
from mitmproxy.net.http.http1.read import expected_http_body_size
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import HttpStream
from mitmproxy.proxy.layers.http._hooks import HttpErrorHook
from mitmproxy.test import tflow

from addons.limits import Limits
from tests.addons.parts import MESSAGES, flow_to

OTHER = "http://files.example/upload"


@pytest.fixture
def limits() -> Iterator[Limits]:
    running = Limits(lambda request: request.host == "api.anthropic.com")
    running.running()
    yield running
    running.done()


def stream_of(flow: http.HTTPFlow, limit: str = "1k") -> HttpStream:
    """mitmproxy's own stream, about to read a body."""
    stream = HttpStream(Context(tflow.tclient_conn(), options.Options()), 1)
    stream.context.options.add_option("body_size_limit", str | None, limit, "")
    stream.context.options.add_option("stream_large_bodies", str | None, None, "")
    stream.flow = flow
    return stream


def is_refused(stream: HttpStream, *, request: bool) -> tuple[bool, bool]:
    """(processing stops, an error is told)"""
    commands: list[Any] = []
    steps = stream.check_body_size(request)
    while True:
        try:
            commands.append(next(steps))
        except StopIteration as end:
            return end.value, any(isinstance(command, HttpErrorHook) for command in commands)


def test_the_method_that_is_replaced_is_still_there_and_takes_the_same() -> None:
    assert str(inspect.signature(HttpStream.check_body_size)).startswith("(self, request: bool)")
    assert inspect.isgeneratorfunction(HttpStream.check_body_size)
    calls = inspect.getsource(HttpStream)
    assert calls.count("yield from self.check_body_size(True)") == 2
    assert calls.count("yield from self.check_body_size(False)") == 2


@pytest.mark.parametrize(("size", "refused"), [(1024, False), (1025, True)])
def test_a_request_to_a_model_is_limited(limits: Limits, size: int, refused: bool) -> None:
    flow = flow_to(MESSAGES, b"x" * size)
    assert expected_http_body_size(flow.request) == size
    assert is_refused(stream_of(flow), request=True) == (refused, refused)
    if refused:
        assert flow.error
        assert "body_size_limit" in flow.error.msg  # what addons/scan.py looks for


def test_a_chunked_request_to_a_model_is_limited_while_it_arrives(limits: Limits) -> None:
    stream = stream_of(flow_to(MESSAGES, headers={"Transfer-Encoding": "chunked"}))
    stream.request_body_buf += b"x" * 1024
    assert is_refused(stream, request=True) == (False, False)
    stream.request_body_buf += b"x"
    assert is_refused(stream, request=True) == (True, True)


def test_a_body_that_said_its_length_is_looked_at_once(limits: Limits) -> None:
    flow = flow_to(MESSAGES, b"x" * 1024)
    stream = stream_of(flow)
    assert is_refused(stream, request=True) == (False, False)
    stream.request_body_buf += b"x" * 1025  # more than it said, which mitmproxy's parsers let through nowhere
    assert is_refused(stream, request=True) == (False, False)
    flow.request.headers["Transfer-Encoding"] = "chunked"  # which counts then
    assert is_refused(stream, request=True) == (True, True)


def test_an_answer_is_never_limited(limits: Limits) -> None:
    for url in (MESSAGES, OTHER):
        flow = flow_to(url, status=200)
        assert flow.response
        flow.response.content = b"x" * 5000
        assert is_refused(stream_of(flow), request=False) == (False, False)


def test_a_request_to_another_host_is_not_limited(limits: Limits) -> None:
    assert is_refused(stream_of(flow_to(OTHER, b"x" * 5000)), request=True) == (False, False)


def test_the_method_is_put_back_in_the_end() -> None:
    before: Callable[..., Any] = HttpStream.check_body_size
    limits = Limits(lambda _: False)
    limits.running()
    assert HttpStream.check_body_size is not before
    limits.done()
    assert HttpStream.check_body_size is before
    limits.done()
    assert HttpStream.check_body_size is before
    assert is_refused(stream_of(flow_to(OTHER, b"x" * 5000)), request=True) == (True, True)


def test_what_never_ran_changes_nothing() -> None:
    before = HttpStream.check_body_size
    Limits(lambda _: False).done()
    assert HttpStream.check_body_size is before
