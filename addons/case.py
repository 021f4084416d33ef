"""A request and all that it is judged by: rules, notes and targets of the moment when it came.

It is judged again whenever something has become known (`memory/rules/judging.py`), and then under these same rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from addons.outgoing import LocatedTarget
from addons.targets import TargetConfig
from memory.exchange import Decision, Redaction, RulePart, Scan
from memory.redact import Redacted
from memory.rules import both
from memory.rules.book import BY_A_PERSON

type Judge = Callable[..., Decision]
"""Judges by what is known: the fields of `memory.rules.Judged`, as far as they differ from the request as it came."""


class Settled(NamedTuple):
    """What is done with a request, and what is sent if it is sent (None: the body as it came)."""

    decision: Decision
    body: bytes | None = None
    left: Scan | None = None
    """What is found in `body`."""


@dataclass(slots=True)
class Case:
    """One request. `withhold` gives its body without some notes; None: the body must not be altered."""

    judge: Judge
    withhold: Callable[[Sequence[Redaction]], Awaitable[Redacted | None]]
    targets: Mapping[str, TargetConfig]
    held: Literal["released", "expired"] | None = None
    """What a person said when they were asked; None: nobody was."""

    def judged(self, **known: object) -> Decision:
        return self.judge(held=self.held, **known) if self.held else self.judge(**known)

    def unreachable(self, **known: object) -> Decision:
        """Where it can be led nowhere else."""
        return self.judged(unreachable=True, **known)

    def led_to(self, there: LocatedTarget) -> Judge:
        """Judges the request as one that goes to a target, by its own destination as well. Nobody is asked once more."""
        known = {"provider": there.target.name, "model": there.model, "to": there.to, "target": there.target.name}

        def judged(**more: object) -> Decision:
            first = self.judged(**more)
            return both(first, self.judge(**{**known, "held": self.held or "expired", **more}))

        return judged

    async def settled(self, judge: Judge) -> Settled:
        """The decision of `judge`, and the body without what it withholds.

        Where not all of that can be withheld, none of it is sent: then each rule's `otherwise` counts.
        """
        decision = judge()
        if decision.action == "block" or not decision.redactions:
            return Settled(decision)
        redacted = await self.withhold(decision.redactions)
        if redacted is not None and redacted.complete:
            return Settled(decision, redacted.data, redacted.left)
        return Settled(judge(signed=True))


def by_a_person(decision: Decision) -> Decision:
    """A request that was on hold, and that a person did not let go."""
    notes = dict.fromkeys(note for part in decision.parts if part.action == "hold" for note in part.notes)
    part = RulePart(BY_A_PERSON, "block", tuple(notes))
    return Decision("block", BY_A_PERSON, (*decision.parts, part))


def led_by_a_person(held: Decision, then: Decision, target: str) -> Decision:
    """A request that was on hold, and that a person sends to a target; `then` is what is decided about it there."""
    if then.action == "block":
        return then
    return replace(then, action="redirect", rule=held.rule, targets=(target,))


def kept(held: Decision) -> Decision:
    """A request that was on hold, and that goes nowhere since the target that a person chose has not answered."""
    parts = tuple(replace(part, action="block") if part.action == "hold" else part for part in held.parts)
    return Decision("block", held.rule, parts)
