"""Inspector: the flows that mitmweb remembers are bounded, since agents resend whole conversations with every request."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from mitmproxy import ctx, http
from mitmproxy.addons.view import View
from mitmproxy.websocket import WebSocketData

from addons.providers import ProviderTable

SETTLE_SECONDS = 1.0
"""A flow is still alive while its last hook runs; removing it from the view then would kill it."""

ANSWER_BYTES = 8 * 1024 * 1024
"""A longer answer is not shown."""
SOCKET_BYTES = 4 * 1024 * 1024
"""So much an open WebSocket remembers of its messages."""


class Inspector:
    """Keeps the last `keep_flows` flows to providers, together at most `keep_bytes`, and nothing of other hosts."""

    def __init__(self, providers: ProviderTable, *, keep_flows: int, keep_bytes: int) -> None:
        self._providers = providers
        self._keep_flows = keep_flows
        self._keep_bytes = keep_bytes
        self._kept: deque[tuple[http.HTTPFlow, int]] = deque()
        self._bytes = 0
        self._answers: dict[str, bytearray] = {}
        """As much as has come of each answer that is under way, as it came over the wire; together at most `keep_bytes`."""
        self._open_bytes = 0
        self._sockets: dict[str, int] = {}
        """Bytes of the messages that each open WebSocket remembers."""

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Keep a copy for the inspector, which would show an answer that streamed through as missing."""
        if flow.response is None or not callable(flow.response.stream) or _view() is None:
            return
        pass_on = flow.response.stream
        self._answers.setdefault(flow.id, bytearray())

        def keep(chunk: bytes) -> bytes | Iterable[bytes]:
            if (kept := self._answers.get(flow.id)) is not None:
                kept.extend(chunk)
                self._open_bytes += len(chunk)
                if len(kept) > ANSWER_BYTES or self._open_bytes > self._keep_bytes:
                    self._take_answer(flow)
            return pass_on(chunk)

        flow.response.stream = keep

    def response(self, flow: http.HTTPFlow) -> None:
        if flow.websocket is None:
            self._show_answer(flow)
            self._finished(flow)

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        """Forget old messages: mitmproxy keeps them for as long as the connection stands, which may be days."""
        if flow.websocket is None:
            return
        size = self._sockets.get(flow.id, 0) + len(flow.websocket.messages[-1].content)
        if size > SOCKET_BYTES:
            size = 0
            # Not here: other addons are still to see the latest.
            asyncio.get_running_loop().call_soon(_forget_all_but_the_latest, flow.websocket)
        self._sockets[flow.id] = size

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        self._sockets.pop(flow.id, None)
        self._finished(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        if flow.websocket is None:
            self._show_answer(flow)
            self._finished(flow)

    def _show_answer(self, flow: http.HTTPFlow) -> None:
        """For the inspector only: the client has it all by now, or has gone."""
        kept = self._take_answer(flow)
        if kept is not None and flow.response is not None:
            flow.response.data.content = bytes(kept)

    def _take_answer(self, flow: http.HTTPFlow) -> bytearray | None:
        kept = self._answers.pop(flow.id, None)
        self._open_bytes -= len(kept or b"")
        return kept

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


def _forget_all_but_the_latest(socket: WebSocketData) -> None:
    del socket.messages[:-1]


def _size(flow: http.HTTPFlow) -> int:
    bodies = [flow.request.raw_content, flow.response.raw_content if flow.response else None]
    messages = flow.websocket.messages if flow.websocket else []
    return sum(len(body or b"") for body in bodies) + sum(len(message.content) for message in messages)
