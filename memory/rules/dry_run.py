"""What rules would have done with requests that were recorded, with the notes' tags of today (dispatch.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from memory.exchange import Action, By, Grade, Place, ScanState
from memory.rules.book import MOST_REQUESTS, RuleBook
from memory.rules.facts import Facts, NoteFacts, facts_of_id
from memory.rules.judging import Judged, judge

MOST_EXAMPLES = 5
MOST_DECISIONS = 20_000
"""Decisions remembered: agents send the same notes again with every turn."""


@dataclass(slots=True)
class RuleHits:
    """`hits` counts the requests that the rule judged, or notes in them; `examples` are ids of the first of these."""

    name: str
    action: Action
    hits: int
    examples: list[str]

    def add(self, entry: str) -> None:
        self.hits += 1
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(entry)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "action": self.action, "hits": self.hits, "examples": list(self.examples)}


@dataclass(frozen=True, slots=True)
class DryRun:
    """`rules`: every rule in its order, and what notes say themselves where that hit. `actions`: requests by action."""

    tested: int
    actions: Mapping[Action, int]
    rules: tuple[RuleHits, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "tested": self.tested,
            "actions": dict(self.actions),
            "rules": [rule.to_json() for rule in self.rules],
        }


def dry_run(rules: RuleBook, entries: Iterable[Mapping[str, Any]], facts: Facts) -> DryRun:
    """Judge recorded requests (`Exchange.to_json`) anew, each as it came in: before any redirect, by nobody released.

    Of a note that is gone its id is all that is known: its source and its folder, no tags.
    """
    known = _WithGoneNotes(facts)
    hits = {rule.name: RuleHits(rule.name, rule.then, 0, []) for rule in rules.all}
    actions: Counter[Action] = Counter()
    requests = lru_cache(MOST_REQUESTS)(Judged)

    @lru_cache(MOST_DECISIONS)
    def judged(facets: tuple[str, str, str, Place, ScanState], *seen: _Seen) -> tuple[Action, tuple[RuleHits, ...]]:
        decision = judge(rules, requests(*facets), seen, known)
        return decision.action, tuple([hits[name] for name in dict.fromkeys(part.rule for part in decision.parts)])

    for entry in entries:
        action, hit = judged(_facets(entry), *map(_seen, entry["notes"]))
        actions[action] += 1
        for rule in hit:
            rule.add(entry["id"])
    own = {rule.name for rule in rules.rules}
    return DryRun(actions.total(), dict(actions), tuple(one for one in hits.values() if one.hits or one.name in own))


def _facets(entry: Mapping[str, Any]) -> tuple[str, str, str, Place, ScanState]:
    to: Place | None = entry.get("askedTo")
    if to is None:  # earlier versions only said where the body went: what was led elsewhere was mostly for a cloud
        to = "cloud" if entry["decision"]["action"] == "redirect" else entry["to"]
    return entry["client"], entry["provider"], entry["model"], to, entry["scan"]["state"]


class _Seen(NamedTuple):
    """A sighting as the activity has it."""

    note: str
    title: str
    by: By
    grade: Grade
    matched: int
    distinctive: int


def _seen(note: Mapping[str, Any]) -> _Seen:
    return _Seen(note["id"], note["title"], note["by"], note["grade"], note["matched"], note["distinctive"])


class _WithGoneNotes:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[str, NoteFacts] = {}
        self.any_share = facts.any_share

    def of(self, note_id: str) -> NoteFacts:
        known = self._known.get(note_id)
        if known is None:
            try:
                known = self._facts.of(note_id)
            except KeyError:
                known = facts_of_id(note_id)
            self._known[note_id] = known
        return known
