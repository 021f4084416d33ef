"""Decide: what becomes of a request under the user's rules (dispatch.md). In `annotate` mode everything goes its way.

Policy fails closed: where anything restricts what may be sent, a request that cannot be judged is not sent.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from typing import Protocol as Shape

from mitmproxy import ctx, http

from addons.faults import traced
from addons.flows import Flows
from addons.gateway import Failure, Otherwise
from addons.outgoing import LocatedTarget, Origin, locate
from addons.providers import ProviderTable
from addons.refusals import refusal
from addons.targets import TargetConfig
from addons.wire import wire_for
from memory.exchange import Decision, Exchange, Protocol, SentTo
from memory.note_library import NoteLibrary
from memory.note_map import NoteMap
from memory.rules import Judged, NotesFacts, RuleBook, judge

logger = logging.getLogger(__name__)

MOST_FAILURES = 20
MOST_TITLES = 5
"""Titles that a refusal names."""
FAULT = "a fault in mitmemory"
"""Stands for the rule where a request was blocked because it could not be judged."""
NOT_JUDGED = f"mitmemory blocked this request: it could not be judged ({FAULT}, see its log)"


class Redirect(Shape):
    """Leads a flow to the first of these targets that answers, and tells the record who received the body."""

    def __call__(
        self, flow: http.HTTPFlow, exchange: Exchange, targets: Sequence[LocatedTarget], otherwise: Otherwise
    ) -> None: ...


class Decide:
    """Judges each request once it is scanned: answers those that may not be sent, and leads others to a target.

    `rules` and `targets` (by name) may be replaced at any time: each request is judged by those of its moment. Rules None:
    nothing is judged.
    """

    def __init__(
        self,
        flows: Flows,
        providers: ProviderTable,
        library: NoteLibrary,
        rules: RuleBook | None,
        *,
        targets: Mapping[str, TargetConfig] | None = None,
        redirect: Redirect | None = None,
    ) -> None:
        self._flows = flows
        self._providers = providers
        self._library = library
        self.rules = rules
        self.targets = targets or {}
        self._redirect = redirect
        self._facts = NotesFacts({})
        self._facts_are_of: NoteMap | None = None
        self.failures: deque[str] = deque(maxlen=MOST_FAILURES)
        """The last faults of our own, for the status line."""

    async def request(self, flow: http.HTTPFlow) -> None:
        if self.rules is None or flow.response:
            return
        try:
            await self._decide(flow)
        except Exception as error:  # noqa: BLE001 - whatever it is, what may not be sent is not sent
            self._fail(error)
            if self._restricts():
                _refuse(flow, "unknown", NOT_JUDGED)

    async def _decide(self, flow: http.HTTPFlow) -> None:
        if self._providers.find(flow.request.host, flow.request.port) is None:
            return
        exchange = self._flows.of(flow)
        if exchange is not None:
            exchange.decision = self._judged(flow, exchange)
            if exchange.decision.action == "redirect":
                await self._lead_on(flow, exchange)
            if exchange.decision.action == "block":
                _refuse(flow, exchange.protocol, explanation(exchange))
        elif flow.request.raw_content and self._restricts():
            # Every request with a body is an exchange by now, unless the stage that makes it has failed.
            _refuse(flow, wire_for(flow.request.path).id, NOT_JUDGED)
        elif flow.request.headers.get("upgrade", "").lower() == "websocket" and self._restricts():
            # The client falls back to HTTPS, where every rule can be kept.
            flow.response = http.Response.make(
                HTTPStatus.UPGRADE_REQUIRED, "mitmemory: rules restrict what is sent here, use HTTPS"
            )

    async def _lead_on(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        """Lead a request to the targets that speak its protocol and may get it; without one it is judged once more."""
        # As it is now: later it will have been led away.
        judged, place, origin = self._judge_of(flow, exchange), exchange.to, self._origin(flow, exchange)
        located: list[LocatedTarget] = []
        for name in exchange.decision.targets:
            target = self.targets[name]
            if exchange.protocol in target.protocols:
                there = await locate(target, exchange.model)
                decision = judged(provider=name, model=there.model, to=there.to, target=name)
                if decision.action not in ("block", "hold"):
                    located.append(there)

        async def otherwise(failures: Sequence[Failure]) -> Origin | str:
            exchange.decision, exchange.to = judged(unreachable=True), place
            if exchange.decision.action == "block":
                return explanation(exchange, failures)
            return origin

        if located and self._redirect is not None:
            self._redirect(flow, exchange, located, otherwise)
        else:
            exchange.decision = judged(unreachable=True)

    def _origin(self, flow: http.HTTPFlow, exchange: Exchange) -> Origin:
        request = flow.request
        provider = self._providers.find(request.host, request.port)
        way = provider.connect_to if provider and provider.connect_to else None
        return Origin(
            way.scheme if way else request.scheme,
            way.host if way else request.host,
            way.port if way else request.port,
            SentTo(exchange.model, exchange.to, exchange.upstream),
        )

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        """A socket that was open before there were rules."""
        exchange = self._flows.of(flow)
        if self.rules is None or exchange is None or flow.websocket is None:
            return
        message = flow.websocket.messages[-1]
        if not message.from_client:
            return
        exchange.decision = self._judged(flow, exchange, unreachable=True)  # a socket can be led nowhere else
        if exchange.decision.action == "block":
            message.drop()
            told = refusal(exchange.protocol, explanation(exchange))
            ctx.master.commands.call("inject.websocket", flow, True, b'{"type":"error",' + told.body[1:], True)

    def _judged(self, flow: http.HTTPFlow, exchange: Exchange, **known: Any) -> Decision:
        try:
            return self._judge_of(flow, exchange)(**known)
        except Exception as error:  # noqa: BLE001 - as in `request`
            self._fail(error)
            return Decision("block", FAULT) if self._restricts() else Decision()

    def _fail(self, error: Exception) -> None:
        logger.error("A request could not be judged: %s", traced(error))
        self.failures.append(f"A request could not be judged: {type(error).__name__}")

    def _judge_of(self, flow: http.HTTPFlow, exchange: Exchange) -> Callable[..., Decision]:
        """Judges the request by the rules and notes of this moment, and by what becomes known of it later."""
        assert self.rules is not None
        request = Judged(
            client=exchange.client,
            provider=exchange.provider,
            model=exchange.model,
            to=exchange.to,
            scan=exchange.scan.state,
            # What cannot be done yet comes to what its rule says `otherwise`.
            signed=True,
            held="expired",
        )
        rules, facts, sightings = self.rules, self._facts_of(self._flows.notes_of(flow)), exchange.scan.sightings
        return lambda **known: judge(rules, replace(request, **known), sightings, facts)

    def _facts_of(self, notes: NoteMap | None) -> NotesFacts:
        """Those of the notes that the request was scanned for: a rescan may have replaced them since."""
        if notes is None:
            notes = self._library.snapshot.map
        if notes is not self._facts_are_of:
            self._facts, self._facts_are_of = NotesFacts(notes.notes), notes
        return self._facts

    def _restricts(self) -> bool:
        """Whether anything may be kept from being sent. If that cannot be told, it may."""
        rules = self.rules
        if rules is None:
            return False
        try:
            return (
                rules.unscanned == "block"
                or any(rule.then != "allow" for rule in rules.rules)
                or self._facts_of(None).any_share
            )
        except Exception as error:  # noqa: BLE001 - as in `_judged`
            logger.error("The rules could not be read: %s", traced(error))  # noqa: TRY400 - without its message
            return True


def explanation(exchange: Exchange, failures: Sequence[Failure] = ()) -> str:
    """What the person reads in the client: which rule, which notes, where they do not go, and what else was tried."""
    decision = exchange.decision
    kept = {note for part in decision.parts if part.action == "block" for note in part.notes}
    named = _named([sighting.title for sighting in exchange.scan.sightings if sighting.note in kept])
    where = f"{exchange.model or exchange.provider} ({exchange.to})"
    reasons = f" ({', '.join(exchange.scan.reasons)})" if exchange.scan.state != "complete" and not named else ""
    tried = "".join(f"; {one.target} {one.reason}" for one in failures)
    return f'mitmemory blocked this request: "{decision.rule}" keeps {named or "it"} from {where}{reasons}{tried}'


def _named(titles: Sequence[str]) -> str:
    shown = [f'"{title}"' for title in titles[:MOST_TITLES]]
    more = len(titles) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _refuse(flow: http.HTTPFlow, protocol: Protocol, message: str) -> None:
    told = refusal(protocol, message)
    flow.response = http.Response.make(told.status, told.body, told.headers)
