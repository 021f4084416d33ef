"""Lead: takes a request to the user's own targets, each of which gets what the rules let it have (dispatch.md, "redirect")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol as Shape

from mitmproxy import http

from addons.case import Case, Judge, Settled, kept, led_by_a_person
from addons.explanation import explanation
from addons.gateway import BodyFor, Failure, Otherwise
from addons.outgoing import LocatedTarget, Origin, UnsuitableError, locate
from addons.providers import ProviderTable
from memory.exchange import Decision, Exchange, SentTo

type Dial = Callable[[str, int], tuple[str, int] | None]


class Redirect(Shape):
    """Leads a flow to the first of these targets that answers, and tells the record who received the body."""

    def __call__(
        self,
        flow: http.HTTPFlow,
        exchange: Exchange,
        targets: Sequence[LocatedTarget],
        otherwise: Otherwise,
        body_for: BodyFor,
    ) -> None: ...


class Lead:
    """Leads requests to targets. Where there is no `redirect`, none can be led anywhere.

    `dial` says for host and port of a provider where to connect to instead; None: as it stands.
    """

    def __init__(self, providers: ProviderTable, redirect: Redirect | None, dial: Dial) -> None:
        self._providers = providers
        self._redirect = redirect
        self._dial = dial

    async def on(self, flow: http.HTTPFlow, exchange: Exchange, case: Case) -> Sequence[Failure] | None:
        """Lead a request to the targets of its rules."""
        # As it is now: later it will have been led away.
        place, origin = exchange.to, origin_of(flow, exchange, self._providers, self._dial)

        async def otherwise(failures: Sequence[Failure]) -> Origin | str:
            settled = await case.settled(case.unreachable)
            exchange.to = place
            settle(exchange, settled)
            if settled.decision.action == "block":
                return explanation(exchange, failures)
            return replace(origin, body=settled.body)

        return await self._lead(flow, exchange, case, exchange.decision.targets, case.led_to, otherwise)

    async def as_told(self, flow: http.HTTPFlow, exchange: Exchange, case: Case, target: str) -> Sequence[Failure]:
        """Lead a request where a person wants it; if it cannot go there, it goes nowhere."""
        held, place = exchange.decision, exchange.to

        def led_to(there: LocatedTarget) -> Judge:
            judged = case.led_to(there)
            return lambda **known: led_by_a_person(held, judged(**known), target)

        async def nowhere(failures: Sequence[Failure]) -> str:
            exchange.decision, exchange.left, exchange.to = kept(held), None, place
            return explanation(exchange, failures)

        failures = await self._lead(flow, exchange, case, (target,), led_to, nowhere)
        if failures is None:
            return ()
        exchange.decision = kept(held)
        return failures

    async def _lead(
        self,
        flow: http.HTTPFlow,
        exchange: Exchange,
        case: Case,
        names: Sequence[str],
        led_to: Callable[[LocatedTarget], Judge],
        otherwise: Otherwise,
    ) -> Sequence[Failure] | None:
        """Lead a request to those of the targets that speak its protocol and may get it. None: it has been led there."""
        located: list[LocatedTarget] = []
        decisions: list[Decision] = []
        failures: list[Failure] = []
        for name in names:
            target = case.targets.get(name)
            if target is None or exchange.protocol not in target.protocols:
                failures.append(Failure(name, f"does not speak {exchange.protocol}" if target else "is no target"))
                continue
            there = await locate(target, exchange.model)
            decision = led_to(there)()
            if decision.action == "block":
                failures.append(Failure(name, _forbidden(decision)))
                continue
            located.append(there)
            decisions.append(decision)

        async def body_for(there: LocatedTarget) -> bytes | None:
            settled = await case.settled(led_to(there))
            if settled.decision.action == "block":
                raise UnsuitableError(_forbidden(settled.decision))
            settle(exchange, settled)
            return settled.body

        if not located or self._redirect is None:
            return failures
        self._redirect(flow, exchange, located, otherwise, body_for)
        exchange.decision = decisions[0]
        return None


def origin_of(flow: http.HTTPFlow, exchange: Exchange, providers: ProviderTable, dial: Dial) -> Origin:
    """The provider that a request is for, as long as it has not been led elsewhere."""
    request = flow.request
    provider = providers.find(request.host, request.port)
    host, port = dial(request.host, request.port) or (request.host, request.port)
    return Origin(
        provider.connect_to.scheme if provider and provider.connect_to else request.scheme,
        request.host,
        port,
        SentTo(exchange.model, exchange.to, exchange.upstream),
        dialled=host,
        host_header=request.host_header,
    )


def settle(exchange: Exchange, settled: Settled) -> None:
    """Write down what is done with a request, and what of it is sent."""
    exchange.decision, exchange.left = settled.decision, settled.left


def _forbidden(decision: Decision) -> str:
    return f'may not have it ("{decision.rule}")'
