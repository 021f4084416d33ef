"""A request body has a largest size; an answer has none.

mitmproxy's `body_size_limit` caps requests and answers alike, and a plain-HTTP request to a host that is none of our
business as well. Here it holds for requests to model providers only: the limit exists because a body is read whole
before it is judged. `HttpStream.check_body_size` is no public API: tests/addons/test_limits.py notices when it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from mitmproxy import http
from mitmproxy.proxy.layers.http import HttpStream, SendHttp
from mitmproxy.proxy.layers.http._events import ResponseProtocolError

from addons.headers import has


class Limits:
    """While it runs, mitmproxy's `body_size_limit` holds only for requests that `applies_to` accepts."""

    def __init__(self, applies_to: Callable[[http.Request], bool]) -> None:
        self._applies_to = applies_to
        self._original: Callable[..., Generator[Any, Any, bool]] | None = None

    def running(self) -> None:
        original = HttpStream.check_body_size
        applies_to = self._applies_to

        def check_body_size(stream: HttpStream, request: bool) -> Generator[Any, Any, bool]:
            if not request or _was_checked(stream) or not applies_to(stream.flow.request):
                return False
            return (yield from _in_our_words(original(stream, request)))

        self._original = original
        HttpStream.check_body_size = check_body_size  # type: ignore[method-assign,assignment]

    def done(self) -> None:
        if self._original is not None:
            HttpStream.check_body_size = self._original  # type: ignore[method-assign]
            self._original = None


def _was_checked(stream: HttpStream) -> bool:
    """Whether a body that arrives has said before how long it is: it can be no longer. It would be asked for each piece."""
    if not stream.request_body_buf:
        return False
    headers = stream.flow.request.headers
    return has(headers, "content-length") and not has(headers, "transfer-encoding")


def _in_our_words(commands: Generator[Any, Any, bool]) -> Generator[Any, Any, bool]:
    """The same commands, but the answer of 413 names the setting that a person can change."""
    reply = None
    while True:
        try:
            command = commands.send(reply)
        except StopIteration as end:
            return bool(end.value)
        if isinstance(command, SendHttp) and isinstance(command.event, ResponseProtocolError):
            command.event = replace(command.event, message="The request is larger than proxy.max_body in mitm.yaml.")
        reply = yield command
