"""Released: tells when the connection to a model stands and the body of a request goes out on it.

mitmproxy has no hook there: `request` comes before the connection is made, or an open one is used again, and
`responseheaders` may come minutes after the body. What is written down only then would be forgotten by a crash in between.

It is not public API: tests/addons/test_released.py notices when it changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import Any

from mitmproxy import http
from mitmproxy.proxy.layers.http import HttpStream

from addons.faults import traced
from addons.gateway import PROOF_HEADER
from addons.headers import has

logger = logging.getLogger(__name__)

STEP = "make_server_connection"

type Steps = Generator[Any, Any, bool]


class Released:
    """Calls `tell` with a flow right before its body is sent. A connection that does not come about is never told.

    Of what is led to the gateway the gateway itself says who receives it.
    """

    name = "mitmemory_released"

    def __init__(self, tell: Callable[[http.HTTPFlow], None]) -> None:
        self._tell = tell
        self._original: Callable[[HttpStream], Steps] | None = None

    def running(self) -> None:
        self._original = original = getattr(HttpStream, STEP)
        tell = self._told

        def make_server_connection(stream: HttpStream) -> Steps:
            stands: bool = yield from original(stream)
            if stands:
                tell(stream.flow)
            return stands

        setattr(HttpStream, STEP, make_server_connection)

    def done(self) -> None:
        if self._original is not None:
            setattr(HttpStream, STEP, self._original)
            self._original = None

    def _told(self, flow: http.HTTPFlow) -> None:
        if has(flow.request.headers, PROOF_HEADER):
            return
        try:
            self._tell(flow)
        except Exception as error:  # noqa: BLE001 - mitmproxy would leave the client waiting for ever
            logger.error("A request that is sent could not be recorded: %s", traced(error))  # noqa: TRY400 - without its message
