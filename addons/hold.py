"""Hold: a request waits until a person lets it go, blocks it or sends it to a target (dispatch.md, `hold`).

It is decided on in the dashboard, through the API, or in mitmweb, which shows it as paused: Resume there lets it go, and
Abort blocks it. Nothing is sent meanwhile, since its `request` hook is not over.

mitmproxy does not say what becomes of such a flow: that its client has left is kept back until the hook is over, and
who waits for a flow to be resumed is not told that it was killed. `HttpStream.handle_event` and `Flow.kill` are changed
for that while this addon runs: tests/addons/test_hold.py notices when they change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

from mitmproxy import ctx, http
from mitmproxy.flow import Error, Flow
from mitmproxy.hooks import UpdateHook
from mitmproxy.proxy.layers.http import HttpStream
from mitmproxy.proxy.layers.http._events import RequestProtocolError

from addons.annotate import annotate
from memory.exchange import Exchange
from memory.held import HeldRequests, Released

RESUMED = "_resume_event"
"""What `wait_for_resume` waits for."""


class Hold:
    """Puts flows on hold. `tell` writes a request down, with the decision that holds it, when its wait begins."""

    name = "mitmemory_hold"

    def __init__(self, held: HeldRequests, tell: Callable[[Exchange], None]) -> None:
        self._held = held
        self._tell = tell
        self._waiting: dict[str, tuple[http.HTTPFlow, Exchange]] = {}
        """By the flow's id."""
        self._left: WeakSet[http.HTTPFlow] = WeakSet()
        """Whose client has left before."""
        self._originals: list[tuple[type, str, Any]] = []

    async def __call__(self, flow: http.HTTPFlow, exchange: Exchange, seconds: float) -> Released:
        """Wait for a person, for at most `seconds`, or until the client leaves; mitmproxy itself sends nothing for one that has."""
        if flow in self._left:
            return Released("left")
        answer = self._held.begin(exchange, seconds)
        if answer.done():
            return answer.result()
        self._waiting[flow.id] = flow, exchange
        flow.intercept()
        loop = asyncio.get_running_loop()
        expiry = loop.call_later(seconds, self._held.decide, exchange.id, Released("expired"))
        resumed = loop.create_task(self._follow(flow, exchange), name="held in mitmweb")
        try:
            annotate(flow, exchange)
            self._tell(exchange)
            await ctx.master.addons.trigger_event(UpdateHook([flow]))
            return await answer
        finally:
            expiry.cancel()
            resumed.cancel()
            del self._waiting[flow.id]
            self._held.decide(exchange.id, Released("left"))  # the wait itself was cancelled
            flow.resume()

    def running(self) -> None:
        self._replace(HttpStream, "handle_event", self._notice_leaving(HttpStream.handle_event))
        self._replace(Flow, "kill", _tell_who_waits(Flow.kill))

    def done(self) -> None:
        """The suite ends: what waits goes nowhere."""
        while self._originals:
            setattr(*self._originals.pop())
        for flow, exchange in list(self._waiting.values()):
            if self._held.decide(exchange.id, Released("left")) and flow.killable:
                flow.kill()

    async def _follow(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        """What is done in mitmweb."""
        await flow.wait_for_resume()
        if not _is_killed(flow):
            self._held.decide(exchange.id, Released("released"))
        elif self._held.decide(exchange.id, Released("blocked")):
            # A client that is told why does not try again; one whose connection is cut does.
            flow.error, flow.live = None, True

    def _notice_leaving(self, original: Callable[..., Iterable[Any]]) -> Callable[..., Iterable[Any]]:
        def handle_event(stream: HttpStream, event: Any) -> Iterable[Any]:
            if isinstance(event, RequestProtocolError):
                self._client_left(stream.flow)
            return original(stream, event)

        return handle_event

    def _client_left(self, flow: http.HTTPFlow) -> None:
        self._left.add(flow)
        if flow.id in self._waiting:
            _, exchange = self._waiting[flow.id]
            self._held.decide(exchange.id, Released("left"))

    def _replace(self, owner: type, name: str, new: Any) -> None:
        self._originals.append((owner, name, getattr(owner, name)))
        setattr(owner, name, new)


def _tell_who_waits(original: Callable[[Flow], None]) -> Callable[[Flow], None]:
    def kill(flow: Flow) -> None:
        original(flow)
        if (resumed := getattr(flow, RESUMED)) is not None:
            resumed.set()

    return kill


def _is_killed(flow: Flow) -> bool:
    return flow.error is not None and flow.error.msg == Error.KILLED_MESSAGE
