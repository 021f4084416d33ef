"""The gateway: sends a request to the first target that answers, and streams what it says.

mitmproxy cannot ask another server when one refuses. So a request that is led elsewhere goes to this small server on
loopback, in the same process, whose answer mitmproxy then streams as that of any other server (dispatch.md, "redirect").
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from aiohttp import web

from addons.attempt import Answer, AttemptError, OnSent, attempt
from addons.faults import traced
from addons.guard import is_this_machine
from addons.outgoing import (
    LocatedTarget,
    ModelRequest,
    Origin,
    Outgoing,
    UnsuitableError,
    outgoing_to_origin,
    outgoing_to_target,
)
from addons.passing import add_nothing, pass_on, told
from addons.refusals import refusal
from addons.sessions import KeptAddresses, KeptSessions, Tls
from addons.tickets import TICKET_SECONDS, Tickets
from addons.trust import Trust
from web.server import ServerLog

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
PROOF_HEADER = "x-mitmemory-proof"
SHUTDOWN_TIMEOUT = 1.0
"""Seconds that requests under way get at the end, twice: to end by themselves, and once cancelled."""
ORIGIN_CONNECT_TIMEOUT = 30.0
LONGEST_HEADER = 1 << 20
"""Bytes. What the proxy has let pass is not refused here."""


class Failure(NamedTuple):
    """A target that gave no answer, and why: a phrase that goes on after its name."""

    target: str
    reason: str


type Otherwise = Callable[[tuple[Failure, ...]], Awaitable[Origin | str]]
"""Asked when no target has answered: the provider itself, or what the client is told instead."""
type BodyFor = Callable[[LocatedTarget], Awaitable[bytes | None]]
"""Asked when it is a target's turn: what it gets, not encoded; None: the body as it came. Raises UnsuitableError: nothing."""
type Begin = Callable[[Outgoing, OnSent], AbstractAsyncContextManager[Answer]]
"""Makes an attempt, as `attempt.attempt` does, where the request it was made for went."""


class Answering(Protocol):
    """Answers a request in a way of its own."""

    async def __call__(
        self, request: web.Request, outgoing: Outgoing, begin: Begin, on_sent: OnSent
    ) -> web.StreamResponse:
        """Raises AttemptError as long as the client has been told nothing: then it is the next one's turn."""


class Door(NamedTuple):
    """Where in the gateway a request is expected: by plain HTTP, with the proof as the value of `PROOF_HEADER`."""

    host: str
    port: int
    path: str
    proof: str


@dataclass(frozen=True, slots=True)
class _Expected:
    request: ModelRequest
    targets: tuple[LocatedTarget, ...]
    on_sent: OnSent
    otherwise: Otherwise | None
    body_for: BodyFor | None
    answering: Answering | None


class Gateway:
    """The server. Starts once, stops once; stopping what does not run does nothing.

    Args:
        own_ports: ports of this machine to which nobody is led, read anew each time. The gateway adds its own.
        proxy_ports: those where the proxy listens, asked for anew each time.
        trust: whose certificates are accepted.
        largest_body: the most bytes a body may decode to when a model's name is put into it.
        environ: where the targets' keys are.

    """

    def __init__(
        self,
        *,
        own_ports: set[int],
        proxy_ports: Callable[[], Iterable[int]],
        trust: Trust,
        largest_body: int,
        environ: Mapping[str, str] = os.environ,
        ticket_seconds: float = TICKET_SECONDS,
    ) -> None:
        self._own_ports = own_ports
        self._proxy_ports = proxy_ports
        self._trust = trust
        self._largest_body = largest_body
        self._environ = environ
        self._tickets: Tickets[_Expected] = Tickets(seconds=ticket_seconds)
        self._kept = KeptSessions()
        self._addresses = KeptAddresses()
        self._runner: web.AppRunner | None = None
        self.port: int | None = None
        """None: it does not listen."""

    async def start(self) -> None:
        """Listen on a free port of loopback. Raises OSError where there is none."""
        application = web.Application()
        application.router.add_route("*", "/{token:.*}", self._serve)
        application.on_response_prepare.append(add_nothing)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=ServerLog(logging.getLogger(__name__)),
            shutdown_timeout=SHUTDOWN_TIMEOUT,
            handler_cancellation=True,
            # What comes in by the door is not used, and one that is not what its encoding says would end in a 500.
            auto_decompress=False,
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
            max_headers=1000,
        )
        await self._runner.setup()
        listening = socket.create_server((HOST, 0))
        self.port = listening.getsockname()[1]
        self._own_ports.add(self.port)
        await web.SockSite(self._runner, listening).start()

    async def stop(self) -> None:
        """End what is under way, a moment later at most, and close the port."""
        runner, self._runner, self.port = self._runner, None, None
        self._tickets.clear()
        if runner is not None:
            await runner.cleanup()
        await self._kept.close()

    def open(
        self,
        request: ModelRequest,
        targets: Sequence[LocatedTarget],
        *,
        on_sent: OnSent,
        otherwise: Otherwise | None = None,
        body_for: BodyFor | None = None,
        answering: Answering | None = None,
    ) -> Door:
        """Expect a request, once and within seconds. What is then sent is `request`, whatever body comes in by the door.

        The targets are tried in their order, those that do not speak the protocol left out. Each gets what `body_for` says
        (None: all of it). `on_sent` is called for each
        that receives the body, right before it does; a fault in it ends the request unsent. `otherwise` None: a refusal
        that names the targets and what was wrong with them. `answering` None: the answer is passed on as it comes; else it is asked,
        and connections to the provider are kept for the next request. Raises RuntimeError if the gateway does not listen.
        """
        if self.port is None:
            raise RuntimeError("the gateway does not listen")
        ticket = self._tickets.issue(_Expected(request, tuple(targets), on_sent, otherwise, body_for, answering))
        return Door(HOST, self.port, f"/{ticket.token}", ticket.proof)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        token = request.match_info["token"]
        if not self._tickets.is_proven(token, request.headers.get(PROOF_HEADER, "")):
            return web.Response(status=403)
        expected = self._tickets.redeem(token)
        if expected is None:
            return web.Response(status=404)
        async for _ in request.content.iter_any():
            pass  # the body is at hand already, as it was judged
        try:
            return await self._answer(request, expected)
        except Exception as error:  # noqa: BLE001 - it must end as an answer that no SDK repeats, and never as a body sent
            logger.error("A request could not be led to a target: %s", traced(error))  # noqa: TRY400 - without its message
            return told(
                refusal(
                    expected.request.protocol,
                    f"mitmemory could not send this request on, because of a fault of its own ({type(error).__name__})",
                )
            )

    async def _answer(self, request: web.Request, expected: _Expected) -> web.StreamResponse:
        failures: list[Failure] = []
        for located in expected.targets:
            try:
                body = await expected.body_for(located) if expected.body_for else None
                outgoing = await outgoing_to_target(
                    expected.request.with_body(body), located, environ=self._environ, largest_body=self._largest_body
                )
                return await self._try(request, outgoing, expected)
            except (UnsuitableError, AttemptError) as error:
                logger.warning("Target %s %s", located.target.name, error)
                failures.append(Failure(located.target.name, str(error)))
        then = await (expected.otherwise or _say_why)(tuple(failures))
        if isinstance(then, str):
            return told(refusal(expected.request.protocol, then))
        dialled = then.dialled or then.host, then.port
        if expected.answering is not None and not then.addresses:
            # A look-up may take longer than all the rest, and straight through the proxy there is none for each request.
            then = replace(then, addresses=await self._addresses.of(*dialled))
        outgoing = await outgoing_to_origin(expected.request, then, connect_timeout=ORIGIN_CONNECT_TIMEOUT)
        try:
            return await self._try(request, outgoing, expected)
        except AttemptError as error:
            self._addresses.forget(*dialled)
            # As through the proxy alone: the client may try again.
            answer = refusal(expected.request.protocol, f"{then.host} {error}")
            return told(answer._replace(status=502))

    async def _try(self, request: web.Request, outgoing: Outgoing, expected: _Expected) -> web.StreamResponse:
        self._refuse_loop(outgoing)
        tls, on_sent = self._tls(outgoing), expected.on_sent
        if expected.answering is None:
            async with attempt(outgoing, tls, on_sent=on_sent) as answer:
                return await pass_on(answer, request)
        # A target must not count as one that received the body when it was only a dead connection that did.
        kept = self._kept if outgoing.last else None

        def begin(sent: Outgoing, on_sent: OnSent) -> AbstractAsyncContextManager[Answer]:
            return attempt(sent, tls, on_sent=on_sent, kept=kept)

        return await expected.answering(request, outgoing, begin, on_sent)

    def _refuse_loop(self, outgoing: Outgoing) -> None:
        """Raise AttemptError if this leads to the suite itself: its proxy, its pages, or this gateway."""
        ports = {*self._own_ports, *self._proxy_ports()}
        if outgoing.url.port in ports and any(is_this_machine(address) for address in outgoing.addresses):
            raise AttemptError("is mitmemory itself")

    def _tls(self, outgoing: Outgoing) -> Tls:
        if outgoing.url.scheme != "https":
            return True
        try:
            return self._trust.context()
        except OSError as error:
            raise AttemptError(f"cannot be verified: ssl_verify_upstream_trusted_ca ({error.strerror})") from error


async def _say_why(failures: tuple[Failure, ...]) -> str:
    tried = "; ".join(f"{one.target} {one.reason}" for one in failures) or "there is none"
    return f"mitmemory sent this request to no model, because no target could take it: {tried}"
