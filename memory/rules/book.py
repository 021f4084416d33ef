"""All rules together, prepared so that judging a request costs little however many there are.

A set of rules is an integer, bit n for rule n: what a note, a request or a sighting meets is looked up once for all
rules, and the first rule is the lowest bit of what is left.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from operator import or_
from typing import Literal, NamedTuple

from memory.exchange import Place, ScanState
from memory.notes import SHARES, Share
from memory.rules.conditions import SEEN, Comparison, Rule, Seen, Sighted, When, coverage_of, seen_as
from memory.rules.facts import Facts, NoteFacts
from memory.rules.globs import Lookup, name_glob, path_glob, tag_glob

type Unscanned = Literal["block", "allow"]

MOST_NOTES = 50_000
"""Notes whose rules are remembered."""
MOST_REQUESTS = 1_000
"""Requests whose rules are remembered, of those that differ in client, provider, model, destination or scan."""

SHARE_RULES = tuple(f"share: {share}" for share in SHARES)
"""What the rules are called that notes carry in their own frontmatter."""
UNSCANNED_RULE = "unscanned: block"
BY_A_PERSON = "blocked by a person"
"""Stands for the rule where a person who was asked did not let a request go."""
RESERVED = frozenset({*SHARE_RULES, UNSCANNED_RULE, BY_A_PERSON})
"""Names that no rule of the user's may have."""


class Facets(NamedTuple):
    """What rules may ask of a request."""

    client: str
    provider: str
    model: str
    to: Place
    scan: ScanState


class Found(NamedTuple):
    """Which rule judges what. `notes[n]` is the rule of the nth sighting, None where no rule matches."""

    notes: list[Rule | None]
    request: Rule | None


class RuleBook:
    """The rules in their order, immutable. Raises ValueError for a pattern that is none (`globs.py`).

    `unscanned` None is `block` once anything restricts what goes to the cloud, else `allow`. `local_targets` are where
    the notes may go that say `share: local`.
    """

    def __init__(
        self, rules: Sequence[Rule] = (), *, unscanned: Unscanned | None = None, local_targets: Sequence[str] = ()
    ) -> None:
        self.rules = tuple(rules)
        self.unscanned = unscanned
        self._restricts_cloud = any(rule.then != "allow" and rule.when.to != "local" for rule in self.rules)
        self.never, self.local, self.ask = (
            Rule(SHARE_RULES[0], When(), "block"),
            Rule(SHARE_RULES[1], When(to="cloud"), "redirect", tuple(local_targets)),
            Rule(SHARE_RULES[2], When(), "hold"),
        )
        self.not_scanned = Rule(UNSCANNED_RULE, When(scan=("unscanned",)), "block")
        self.all = (self.never, self.local, self.ask, *self.rules, self.not_scanned)
        self.position = {id(rule): number for number, rule in enumerate(self.all)}
        """`id` of a rule -> its place among all. (A rule's own hash is that of everything in it.)"""
        self._prepare([rule.when for rule in self.rules])
        self._of_note = lru_cache(MOST_NOTES)(self._note)
        self._of_request = lru_cache(MOST_REQUESTS)(self._request)

    def _prepare(self, conditions: Sequence[When]) -> None:
        self._source = Lookup([when.source for when in conditions], name_glob)
        self._folder = Lookup([when.folder for when in conditions], path_glob)
        self._ids = Lookup([when.note for when in conditions], path_glob)
        self._tags = Lookup([when.tags for when in conditions], tag_glob)
        self._client = Lookup([when.client for when in conditions], name_glob)
        self._provider = Lookup([when.provider for when in conditions], name_glob)
        self._model = Lookup([when.model for when in conditions], name_glob)
        self._to = Lookup([(when.to,) if when.to else () for when in conditions], name_glob)
        self._scan = Lookup([when.scan for when in conditions], name_glob)
        by = Lookup([when.by for when in conditions], name_glob)
        about_notes = _bits(when.is_about_notes for when in conditions)
        self._seen = {kind: by.rules(kind) & about_notes for kind in SEEN}
        self._about_requests = _bits(not when.is_about_notes for when in conditions)
        self._redacting = _bits(rule.then == "redact" for rule in self.rules)
        self._covering = _bits(when.coverage is not None for when in conditions)
        self._coverage = _Coverage([when.coverage for when in conditions])
        self._counting = _bits(when.notes is not None for when in conditions)
        self._counted = tuple((1 << number, when.notes) for number, when in enumerate(conditions) if when.notes)

    def restricts_cloud(self, facts: Facts) -> bool:
        """Whether a rule, or a note's frontmatter, keeps anything from cloud models: then nothing may pass there unseen."""
        return self._restricts_cloud or facts.any_share

    def blocks_unscanned(self, to: Place, facts: Facts, *, redirected: bool) -> bool:
        """Whether a request is blocked that could not be looked at, and that no rule with `scan` has judged.

        By default that is about the cloud. `unscanned: block` is about every request; where a rule has redirected one,
        what it may be is settled, and only a cloud is asked about again.
        """
        if self.unscanned == "allow":
            return False
        if to == "cloud":
            return self.unscanned == "block" or self.restricts_cloud(facts)
        return self.unscanned == "block" and not redirected

    @property
    def redacts(self) -> bool:
        """Whether any rule does. What notes say themselves (`share`) never leads to that."""
        return bool(self._redacting)

    def may_redact(self, note: NoteFacts) -> bool:
        """Whether a rule may withhold this note from some request: then all of its lines must be known."""
        return bool(self._redacting & self._of_note(note))

    def find(self, facets: Facets, sightings: Sequence[Sighted], facts: Facts) -> Found:
        """The first rule that each sighting meets, and the first that the request itself meets.

        KeyError: `facts` are not those of the notes that were seen.
        """
        request = self._of_request(facets)
        shared: dict[int, Rule | None] = {}
        met: list[int] = []
        """The rules of which a sighting meets every condition but `notes`."""
        for sighting in sightings:
            note = facts.of(sighting.note)
            kind = seen_as(sighting)
            if note.share is not None:
                shared[len(met)] = self._shared(note.share, facets.to, kind)
            rules = request & self._seen[kind] & self._of_note(note)
            if rules & self._covering:
                rules &= self._coverage.rules(coverage_of(sighting))
            met.append(rules)
        failed = self._failed(met)
        notes = [self._first(rules & ~failed) for rules in met]
        for number, own in shared.items():
            notes[number] = own or notes[number]
        return Found(notes, self._first(request & self._about_requests))

    def _failed(self, met: Sequence[int]) -> int:
        """The rules whose condition on the number of notes does not hold."""
        failed, every = 0, reduce(or_, met, 0)
        for rule, comparison in self._counted if every & self._counting else ():
            if every & rule and not comparison.holds(len([rules for rules in met if rules & rule])):
                failed |= rule
        return failed

    def _shared(self, share: Share, to: Place, kind: Seen) -> Rule | None:
        """What a note says in its frontmatter. To stand in a folder listing is not to be shared (detection.md)."""
        if kind == "listing":
            return None
        if share == "local":
            return self.local if to == "cloud" else None
        return self.never if share == "never" else self.ask

    def _first(self, rules: int) -> Rule | None:
        return self.rules[(rules & -rules).bit_length() - 1] if rules else None

    def _note(self, note: NoteFacts) -> int:
        return (
            self._source.rules(note.source)
            & self._folder.rules(note.folder)
            & self._ids.rules(note.id)
            & self._tags.rules(*note.tags)
        )

    def _request(self, facets: Facets) -> int:
        return (
            self._client.rules(facets.client)
            & self._provider.rules(facets.provider)
            & self._model.rules(facets.model)
            & self._to.rules(facets.to)
            & self._scan.rules(facets.scan)
        )


class _Coverage:
    """The conditions on coverage of all rules: which of them hold only changes at the numbers that they name."""

    def __init__(self, comparisons: Sequence[Comparison | None]) -> None:
        self._numbers = sorted({one.number for one in comparisons if one})
        bounds = [-1.0, *self._numbers, 101.0]
        points = [(low + high) / 2 for low, high in pairwise(bounds)]
        for number, at in enumerate(self._numbers):
            points.insert(2 * number + 1, at)
        self._rules = [_bits(one is None or one.holds(point) for one in comparisons) for point in points]

    def rules(self, coverage: float) -> int:
        """The rules whose condition this meets, and those without one."""
        return self._rules[bisect_left(self._numbers, coverage) + bisect_right(self._numbers, coverage)]


def _bits(values: Iterable[bool]) -> int:
    return sum(1 << number for number, value in enumerate(values) if value)
