"""The decision on one request: each note's verdict, the request's own, and the strictest of all (dispatch.md).

`judge` is asked again whenever something has become known: that no target answered, that a person let the request go,
where it has been redirected to. It then gives what follows under the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Literal, NamedTuple

from memory.exchange import Action, Decision, Place, Redaction, RulePart, ScanState
from memory.rules.book import Facets, RuleBook
from memory.rules.conditions import Rule, Sighted
from memory.rules.facts import Facts

STRICTNESS: tuple[Action, ...] = ("allow", "redact", "redirect", "hold", "block")
"""From the least to the strictest."""
_STRICTNESS = {action: number for number, action in enumerate(STRICTNESS)}
_REDACT, _REDIRECT, _HOLD, _BLOCK = (_STRICTNESS[action] for action in STRICTNESS[1:])


@dataclass(frozen=True, slots=True)
class Judged:
    """A request as rules see it. `client` is a slug, `provider` a name, `model` as the request names it."""

    client: str
    provider: str
    model: str
    to: Place
    scan: ScanState = "complete"
    signed: bool = False
    """The body must not be altered: `redact` becomes what its rule says `otherwise`."""
    target: str | None = None
    """The target that it has been redirected to; all the rest is about that destination then. It is redirected no more."""
    unreachable: bool = False
    """No target speaks its protocol, or none has answered: `redirect` becomes what its rule says `otherwise`."""
    held: Literal["released", "expired"] | None = None
    """A person let it go: `hold` is `allow`. Or nobody answered in time: it becomes what its rule says `otherwise`."""


class _Verdict(NamedTuple):
    """What one rule asks for, of one note (None: of the request)."""

    position: int
    """That of the rule among all."""
    strictness: int
    """That of the action, which is what the rule comes to in this case."""
    rule: Rule
    sighting: Sighted | None


def judge(rules: RuleBook, request: Judged, sightings: Sequence[Sighted], facts: Facts) -> Decision:
    """What is done with a request. Whoever calls it sends nothing to a cloud when it raises.

    KeyError: a sighting is of a note that `facts` do not know: they are not those of the scan.
    """
    found = rules.find(
        Facets(request.client, request.provider, request.model, request.to, request.scan), sightings, facts
    )
    verdicts = [
        _verdict(rules, rule, request, sighting)
        for sighting, rule in zip(sightings, found.notes, strict=True)
        if rule is not None
    ]
    if found.request is not None:
        verdicts.append(_verdict(rules, found.request, request, None))
    if (
        request.scan == "unscanned"
        and not (found.request and found.request.when.scan)
        and rules.blocks_unscanned(request.to, facts, redirected=request.target is not None)
    ):
        verdicts.append(_verdict(rules, rules.not_scanned, request, None))
    return _decided(_settled(verdicts)) if verdicts else Decision()


def both(first: Decision, second: Decision) -> Decision:
    """The decision on a request that was judged twice, as before and after a redirect: the stricter of the two.

    What the first withholds stays withheld, and the rules of both are named, each with the strictest that it asked for
    of the same notes.
    """
    stricter = max(first, second, key=lambda decision: _STRICTNESS[decision.action])
    redactions = {one.note: one for one in (*second.redactions, *first.redactions)}
    return replace(
        stricter,
        parts=tuple(_strictest(dict.fromkeys((*first.parts, *second.parts)))),
        redactions=() if stricter.action == "block" else tuple(redactions[note] for note in sorted(redactions)),
    )


def _strictest(parts: Iterable[RulePart]) -> Iterator[RulePart]:
    """Without what a rule says more mildly elsewhere: one that redirects is content at its target."""
    every = [(part, _STRICTNESS[part.action], {*part.notes}) for part in parts]
    for part, strictness, notes in every:
        if not any(part.rule == one.rule and strictness < more and notes <= of for one, more, of in every):
            yield part


def _verdict(rules: RuleBook, rule: Rule, request: Judged, sighting: Sighted | None) -> _Verdict:
    action = _action(rules, rule, request, sighting)
    return _Verdict(rules.position[id(rule)], _STRICTNESS[action], rule, sighting)


def _action(rules: RuleBook, rule: Rule, request: Judged, sighting: Sighted | None) -> Action:
    """What a rule comes to in this case."""
    match rule.then:
        case "redirect" if request.target is not None:
            # `share: local` asks only about a cloud: a target that is one after all (an Ollama that passes it on) is none.
            is_there = request.target in rule.targets and rule is not rules.local
            return "allow" if is_there else rule.otherwise
        case "redirect" if request.unreachable:
            return rule.otherwise
        case "hold" if request.held is not None:
            return "allow" if request.held == "released" else rule.otherwise
        case "redact" if sighting is None or sighting.by != "content":
            return "allow"  # a name is not altered, so there is nothing to withhold
        case "redact" if request.signed:
            return rule.otherwise
        case _:
            return rule.then


def _settled(verdicts: list[_Verdict]) -> list[_Verdict]:
    """In the order of the rules, milder actions first.

    No note is sent where its own rule would not send it: without a target that all of them name, none takes the request.
    """
    if any(one.strictness == _REDIRECT for one in verdicts) and not _common_targets(verdicts):
        verdicts = [
            one._replace(strictness=_STRICTNESS[one.rule.otherwise]) if one.strictness == _REDIRECT else one
            for one in verdicts
        ]
    return sorted(verdicts, key=itemgetter(0, 1))


def _common_targets(verdicts: Sequence[_Verdict]) -> tuple[str, ...]:
    """The targets that every rule that redirects names, in the order of the first."""
    redirecting = sorted((one for one in verdicts if one.strictness == _REDIRECT), key=itemgetter(0))
    ways = list(dict.fromkeys(one.rule.targets for one in redirecting))
    return tuple(target for target in ways[0] if all(target in way for way in ways[1:])) if ways else ()


def _decided(verdicts: Sequence[_Verdict]) -> Decision:
    strictest = max([one.strictness for one in verdicts])
    is_sent = strictest != _BLOCK
    return Decision(
        STRICTNESS[strictest],
        next(one.rule.name for one in verdicts if one.strictness == strictest),
        tuple(_parts(verdicts)),
        tuple(_redactions(verdicts)) if is_sent else (),
        _common_targets(verdicts) if is_sent else (),
        min([one.rule.hold_for for one in verdicts if one.strictness == _HOLD], default=None) if is_sent else None,
    )


def _parts(verdicts: Sequence[_Verdict]) -> Iterator[RulePart]:
    for (_, strictness), of in groupby(verdicts, itemgetter(0, 1)):
        every = list(of)
        notes = tuple([one.sighting.note for one in every if one.sighting])
        yield RulePart(every[0].rule.name, STRICTNESS[strictness], notes)


def _redactions(verdicts: Sequence[_Verdict]) -> Iterator[Redaction]:
    for one in verdicts:
        if one.strictness == _REDACT and one.sighting:
            placeholder = one.rule.placeholder.replace("{title}", one.sighting.title)
            yield Redaction(one.sighting.note, placeholder)
