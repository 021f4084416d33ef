"""Inspector: the flows that mitmweb remembers are bounded, since agents resend whole conversations with every request."""

from __future__ import annotations

import asyncio
from collections import deque

from mitmproxy import ctx, http
from mitmproxy.addons.view import View

from addons.providers import ProviderTable

SETTLE_SECONDS = 1.0
"""A flow is still alive while its last hook runs; removing it from the view then would kill it."""


class Inspector:
    """Keeps the last `keep_flows` flows to providers, together at most `keep_bytes`, and nothing of other hosts."""

    def __init__(self, providers: ProviderTable, *, keep_flows: int, keep_bytes: int) -> None:
        self._providers = providers
        self._keep_flows = keep_flows
        self._keep_bytes = keep_bytes
        self._kept: deque[tuple[http.HTTPFlow, int]] = deque()
        self._bytes = 0

    def response(self, flow: http.HTTPFlow) -> None:
        if flow.websocket is None:
            self._finished(flow)

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        self._finished(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        if flow.websocket is None:
            self._finished(flow)

    def _finished(self, flow: http.HTTPFlow) -> None:
        if _view() is not None:
            self._settle_later(flow)

    def _settle_later(self, flow: http.HTTPFlow) -> None:
        asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._settle, flow)

    def _settle(self, flow: http.HTTPFlow) -> None:
        view = _view()
        if view is None:
            return
        if flow.live:  # the person holds it in the inspector
            self._settle_later(flow)
            return
        if self._providers.find(flow.request.host, flow.request.port) is None:
            view.remove([flow])
            return
        size = _size(flow)
        self._kept.append((flow, size))
        self._bytes += size
        while len(self._kept) > self._keep_flows or self._bytes > self._keep_bytes:
            oldest, size = self._kept.popleft()
            self._bytes -= size
            view.remove([oldest])


def _view() -> View | None:
    """The flow list of mitmweb and mitmproxy; mitmdump has none."""
    view = ctx.master.addons.get("view")
    return view if isinstance(view, View) else None


def _size(flow: http.HTTPFlow) -> int:
    bodies = [flow.request.raw_content, flow.response.raw_content if flow.response else None]
    messages = flow.websocket.messages if flow.websocket else []
    return sum(len(body or b"") for body in bodies) + sum(len(message.content) for message in messages)
