"""The exchanges that are under way: the one place where a flow's state lives while it passes through the suite."""

from __future__ import annotations

from mitmproxy import http

from memory.body import Body
from memory.exchange import Exchange


class Flows:
    """The exchange of each flow that is a request to a model, until it has been answered or has failed."""

    def __init__(self) -> None:
        self._exchanges: dict[str, Exchange] = {}
        self._bodies: dict[str, Body] = {}

    def begin(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        self._exchanges[flow.id] = exchange

    def of(self, flow: http.HTTPFlow) -> Exchange | None:
        """None: not a request to a model, or finished."""
        return self._exchanges.get(flow.id)

    def hand_on(self, flow: http.HTTPFlow, body: Body) -> None:
        """Keep a body that was read until the stage that scans it takes it, so that it is decoded once."""
        self._bodies[flow.id] = body

    def take_body(self, flow: http.HTTPFlow) -> Body | None:
        return self._bodies.pop(flow.id, None)

    def end(self, flow: http.HTTPFlow) -> Exchange | None:
        """The exchange, for the last time; None if it has ended before, so that finishing twice does nothing."""
        self._bodies.pop(flow.id, None)
        return self._exchanges.pop(flow.id, None)
