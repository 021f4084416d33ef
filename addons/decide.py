"""Decide: what becomes of a request under the user's rules (dispatch.md). In `annotate` mode everything goes its way.

Policy fails closed: where anything restricts what may be sent, a request that cannot be judged is not sent.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Protocol as Shape

from mitmproxy import ctx, http

from addons.case import Case, Judge, by_a_person
from addons.explanation import explanation
from addons.faults import traced
from addons.flows import Flows
from addons.gateway import Failure
from addons.lead import Dial, Lead, Redirect, settle
from addons.providers import ProviderTable
from addons.refusals import Refusal, refusal
from addons.targets import TargetConfig
from addons.wire import wire_for
from addons.withhold import Withhold, is_signed, send_instead
from memory.exchange import Decision, Exchange, Protocol, Redaction
from memory.held import Released
from memory.note_library import NoteLibrary
from memory.note_map import NoteMap
from memory.redact import Redacted
from memory.rules import Judged, NotesFacts, RuleBook, judge

logger = logging.getLogger(__name__)

MOST_FAILURES = 20
FAULT = "a fault in mitmemory"
"""Stands for the rule where a request was blocked because it could not be judged."""
CLIENT_LEFT = "mitmemory sent this request to nobody: its client has left"
NOT_JUDGED = f"mitmemory blocked this request: it could not be judged ({FAULT}, see its log)"


class Hold(Shape):
    """Keeps a request until a person answers, for so many seconds at most, or until its client leaves."""

    async def __call__(self, flow: http.HTTPFlow, exchange: Exchange, seconds: float) -> Released: ...


class Decide:
    """Judges each request once it is scanned: answers those that may not be sent, leads others to a target, and withholds
    from the rest what must not be in them.

    `rules` and `targets` (by name) may be replaced at any time: each request is judged by those of its moment. Rules None:
    nothing is judged. Without `withhold` nothing can be withheld, without `hold` nobody can be asked: then what a rule
    says `otherwise` counts.
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
        withhold: Withhold | None = None,
        hold: Hold | None = None,
        dial: Dial = lambda _host, _port: None,
    ) -> None:
        self._flows = flows
        self._providers = providers
        self._library = library
        self.rules = rules
        self.targets = targets or {}
        self._lead = Lead(providers, redirect, dial)
        self._withhold = withhold
        self._hold = hold
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
            failures: Sequence[Failure] = ()
            try:
                failures = await self._follow(flow, exchange, self._case_of(flow, exchange))
            except Exception as error:  # noqa: BLE001 - as in `request`
                self._give_up(exchange, error)
            if exchange.decision.action == "block":
                _refuse(flow, exchange.protocol, explanation(exchange, failures))
        elif flow.request.raw_content and self._restricts():
            # Every request with a body is an exchange by now, unless the stage that makes it has failed.
            _refuse(flow, wire_for(flow.request.path).id, NOT_JUDGED)
        elif flow.request.headers.get("upgrade", "").lower() == "websocket" and self._restricts():
            # The client falls back to HTTPS, where every rule can be kept.
            flow.response = http.Response.make(
                HTTPStatus.UPGRADE_REQUIRED, "mitmemory: rules restrict what is sent here, use HTTPS"
            )

    async def _follow(self, flow: http.HTTPFlow, exchange: Exchange, case: Case) -> Sequence[Failure]:
        """Do what the decision on a request says, but for answering one that is blocked.

        What is returned are the targets that were chosen in vain.
        """
        exchange.decision = case.judged()
        if exchange.decision.action == "hold":
            released = await self._ask(flow, exchange)
            match released.answer:
                case "left":
                    _refuse(flow, exchange.protocol, CLIENT_LEFT)
                    return ()
                case "blocked":
                    exchange.decision = by_a_person(exchange.decision)
                    return ()
                case "redirected":
                    case.held = "released"
                    return await self._lead.as_told(flow, exchange, case, released.target or "")
                case "released" | "expired":
                    case.held = released.answer
                    exchange.decision = case.judged()
        if exchange.decision.action == "redirect":
            failures = await self._lead.on(flow, exchange, case)
            if failures is None:
                return ()
            await self._send(flow, exchange, case, case.unreachable)
            return failures
        if exchange.decision.redactions:
            await self._send(flow, exchange, case, case.judged)
        return ()

    async def _send(self, flow: http.HTTPFlow, exchange: Exchange, case: Case, judge: Judge) -> None:
        """Let a request go its way, without what must not be in it."""
        settled = await case.settled(judge)
        settle(exchange, settled)
        if settled.body is not None:
            send_instead(flow.request, settled.body)

    async def _ask(self, flow: http.HTTPFlow, exchange: Exchange) -> Released:
        seconds = exchange.decision.hold_for
        if self._hold is None or seconds is None:
            return Released("expired")
        return await self._hold(flow, exchange, seconds)

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        """A socket that was open before there were rules."""
        if self.rules is None or flow.websocket is None:
            return
        message = flow.websocket.messages[-1]
        if not message.from_client:
            return
        told: Refusal | None = None
        try:
            told = self._decide_message(flow)
        except Exception as error:  # noqa: BLE001 - as in `request`
            self._fail(error)
            if self._restricts():
                told = refusal("unknown", NOT_JUDGED)
        if told is not None:
            message.drop()
            ctx.master.commands.call("inject.websocket", flow, True, b'{"type":"error",' + told.body[1:], True)

    def _decide_message(self, flow: http.HTTPFlow) -> Refusal | None:
        """What the client is told instead of a message being sent."""
        if self._providers.find(flow.request.host, flow.request.port) is None:
            return None
        exchange = self._flows.of(flow)
        if exchange is None or exchange.status is not None:
            # The stage that makes an exchange of each message has failed: this is none, or that of an earlier one.
            return refusal(wire_for(flow.request.path).id, NOT_JUDGED) if self._restricts() else None
        try:
            # A message can neither be led elsewhere, nor wait, nor be altered.
            exchange.decision = self._case_of(flow, exchange).judge(unreachable=True, held="expired", signed=True)
        except Exception as error:  # noqa: BLE001 - as in `request`
            self._give_up(exchange, error)
        return refusal(exchange.protocol, explanation(exchange)) if exchange.decision.action == "block" else None

    def _give_up(self, exchange: Exchange, error: Exception) -> None:
        self._fail(error)
        # The rules that judged it may have been replaced since, as while it was on hold.
        restricts = exchange.decision.action != "allow" or self._restricts()
        exchange.decision = Decision("block", FAULT) if restricts else Decision()

    def _fail(self, error: Exception) -> None:
        logger.error("A request could not be judged: %s", traced(error))
        self.failures.append(f"A request could not be judged: {type(error).__name__}")

    def _case_of(self, flow: http.HTTPFlow, exchange: Exchange) -> Case:
        """The request, to be judged by the rules and notes of this moment."""
        rules, notes = self.rules, self._flows.notes_of(flow)
        assert rules is not None
        request = Judged(
            client=exchange.client,
            provider=exchange.provider,
            model=exchange.model,
            to=exchange.to,
            scan=exchange.scan.state,
        )
        facts, sightings = self._facts_of(notes.map if notes else None), exchange.scan.sightings
        # As it came: later it may have been led away.
        raw, headers, path = flow.request.raw_content, flow.request.headers, flow.request.path

        async def withhold(redactions: Sequence[Redaction]) -> Redacted | None:
            if is_signed(headers, path) or raw is None or notes is None or self._withhold is None:
                return None
            return await self._withhold(raw, headers, notes.index, redactions)

        return Case(
            lambda **known: judge(rules, replace(request, **known) if known else request, sightings, facts),
            withhold,
            dict(self.targets),
        )

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
        except Exception as error:  # noqa: BLE001 - as in `request`
            logger.error("The rules could not be read: %s", traced(error))  # noqa: TRY400 - without its message
            return True


def _refuse(flow: http.HTTPFlow, protocol: Protocol, message: str) -> None:
    told = refusal(protocol, message)
    flow.response = http.Response.make(told.status, told.body, told.headers)
