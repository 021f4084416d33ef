"""Judging requests by rules, against asking every rule in turn (goals: dispatch.md and its issue)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from memory.exchange import Sighting
from memory.rules import Facts, Judged, NoteFacts, Rule, RuleBook, When, dry_run, judge
from memory.rules.conditions import Comparison
from memory.rules.facts import facts_of_id
from tests.bench.measure import Figure, milliseconds, thread_seconds
from tests.memory.rule_cases import literal_judge

RULES = 100
NOTES = 5_000
SIGHTINGS = 20
RECORDED = 100_000
NOTES_EACH = 6
"""Most notes of a recorded request."""
FOLDERS = 60
TAGS = 40
REQUEST = Judged("claude-code", "anthropic", "claude-sonnet-4", "cloud")
JUDGED_AT_ONCE = 50
"""Requests of one round: one takes too little to be timed by itself."""
ROUNDS = 15


class _Facts:
    any_share = False

    def __init__(self, notes: Sequence[NoteFacts]) -> None:
        self.of = {note.id: note for note in notes}.__getitem__


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    chance = random.Random(seed)
    notes = [_note(number, chance) for number in range(NOTES)]
    facts = _Facts(notes)
    rules = [_rule(number, chance) for number in range(RULES)]
    book = RuleBook(rules)
    bodies = [[_sighting(note, chance) for note in chance.sample(notes, SIGHTINGS)] for _ in range(JUDGED_AT_ONCE)]
    for seen in bodies:
        assert judge(book, REQUEST, seen, facts).action == literal_judge(rules, REQUEST, seen, facts)

    ours, literal = thread_seconds(
        lambda: [judge(book, REQUEST, seen, facts) for seen in bodies],
        lambda: [literal_judge(rules, REQUEST, seen, facts) for seen in bodies],
        rounds=ROUNDS,
    )
    yield Figure(
        f"judging a request, {RULES} rules, {SIGHTINGS} notes seen",
        milliseconds([ours / JUDGED_AT_ONCE]),
        "ms",
        0.2,
        baseline=f"every rule in turn, {milliseconds([literal / JUDGED_AT_ONCE]):.2f} ms",
        ratio=literal / ours,
    )
    [first] = thread_seconds(lambda: judge(RuleBook(rules), REQUEST, bodies[0], facts), rounds=ROUNDS)
    yield Figure(
        "the first request after the rules changed", milliseconds([first]), "ms", note="with preparing the rules"
    )
    yield _dry_run(book, rules, facts, notes, chance)


def rules_and_facts(seed: int) -> tuple[RuleBook, Facts]:
    """The rules of this area, and notes that are not those of another: of them their places are known."""
    chance = random.Random(seed)
    return RuleBook([_rule(number, chance) for number in range(RULES)]), _Facts(())


def _dry_run(
    book: RuleBook, rules: Sequence[Rule], facts: _Facts, notes: Sequence[NoteFacts], chance: random.Random
) -> Figure:
    recorded = [_entry(number, notes, chance) for number in range(RECORDED)]
    few = recorded[: RECORDED // 50]
    [ours] = thread_seconds(lambda: dry_run(book, recorded, facts), rounds=1)
    [literal] = thread_seconds(
        lambda: [literal_judge(rules, REQUEST, _sightings(entry), facts) for entry in few], rounds=1
    )
    literal *= RECORDED / len(few)
    return Figure(
        f"dry run over {RECORDED:,} recorded requests, {RULES} rules",
        ours,
        "s",
        5.0,
        baseline=f"every rule in turn, {literal:.1f} s",
        ratio=literal / ours,
        note="in memory; from the file it is a figure of the activity",
    )


def _note(number: int, chance: random.Random) -> NoteFacts:
    plain = facts_of_id(f"vault/area{chance.randrange(FOLDERS)}/sub{number % 3}/note{number}.md")
    tags = tuple(f"tag{chance.randrange(TAGS)}/part" for _ in range(chance.randrange(4)))
    return NoteFacts(plain.id, plain.source, plain.folder, tags)


def _rule(number: int, chance: random.Random) -> Rule:
    """Each kind of condition in turn, few of which are met: a decision has to go down the whole list."""
    area = f"area{number % FOLDERS}"
    when = (
        When(note=(f"vault/{area}/*/note{number}*.md",), to="cloud"),
        When(tags=(f"tag{number}",), to="cloud"),
        When(folder=(f"vault/{area}/sub{number % 3}",), by=("content",), coverage=Comparison(">=", 50 + number % 50)),
        When(source=("vault", "mcp-memory"), folder=(f"vault/{area}*/*",), notes=Comparison(">=", 5)),
        When(client=("codex", f"client{number}*"), model=("gpt-*",)),
        When(note=(f"*/*/*/*{number}?.md",), provider=("open*",)),
    )[number % 6]
    then = chance.choice(("allow", "redact", "block", "hold") if when.is_about_notes else ("allow", "block", "hold"))
    return Rule(f"rule {number}", when, then)


def _sighting(note: NoteFacts, chance: random.Random) -> Sighting:
    if chance.random() < 0.3:
        return Sighting(note.id, note.id, "reference", "reference", 0, 10)
    return Sighting(note.id, note.id, "content", "line", chance.randrange(11), 10)


def _entry(number: int, notes: Sequence[NoteFacts], chance: random.Random) -> dict[str, Any]:
    seen = [_sighting(note, chance) for note in chance.sample(notes, chance.randrange(NOTES_EACH + 1))]
    return {
        "id": f"{number:08}",
        "client": REQUEST.client,
        "provider": REQUEST.provider,
        "model": REQUEST.model,
        "to": REQUEST.to,
        "scan": {"state": REQUEST.scan},
        "decision": {"action": "allow"},
        "notes": [
            {
                "id": one.note,
                "title": one.title,
                "by": one.by,
                "grade": one.grade,
                "matched": one.matched,
                "distinctive": one.distinctive,
            }
            for one in seen
        ],
    }


def _sightings(entry: dict[str, Any]) -> list[Sighting]:
    return [
        Sighting(note["id"], note["title"], note["by"], note["grade"], note["matched"], note["distinctive"])
        for note in entry["notes"]
    ]
