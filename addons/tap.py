"""Tap: lets every answer stream through as it comes, and counts it on the way.

An exception in mitmproxy's stream callable would kill the connection, so the callable does nothing that can fail.
"""

from __future__ import annotations

from mitmproxy import http

from addons.flows import Flows


class Tap:
    """Streams the answers of all flows, requests to models or not, to the byte and without waiting."""

    def __init__(self, flows: Flows) -> None:
        self._flows = flows

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        if flow.response is None or flow.response.status_code == 101 or not flow.server_conn.timestamp_tcp_setup:
            return  # an upgrade, or an answer of our own
        exchange = self._flows.of(flow)
        if exchange is None:
            flow.response.stream = True
            return

        def count(chunk: bytes) -> bytes:
            exchange.response_bytes += len(chunk)
            return chunk

        flow.response.stream = count
