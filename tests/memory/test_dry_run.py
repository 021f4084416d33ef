"""What rules would have done with recorded requests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memory.exchange import Decision, Exchange, Place, Scan
from memory.notes import Note
from memory.rules import NotesFacts, Rule, RuleBook, When, dry_run
from memory.rules.conditions import Comparison
from tests.memory.rule_cases import CaseFacts, sighting_of


def entry(number: int, *seen: str, to: Place = "cloud", **fields: Any) -> dict[str, Any]:
    exchange = Exchange(
        id=f"{number:04}",
        started_at=datetime(2026, 3, 4, tzinfo=UTC),
        provider="anthropic",
        protocol="anthropic",
        model="claude-sonnet-4",
        client="claude-code",
        conversation=None,
        to=to,
        upstream="api.anthropic.com:443",
        scan=Scan("complete", (), tuple(sighting_of(one) for one in seen)),
    )
    return exchange.to_json() | fields


def test_each_rule_with_its_hits_and_the_first_five_requests_that_it_judged() -> None:
    rules = RuleBook(
        [
            Rule("strip", When(note=("vault/A.md",)), "redact"),
            Rule("many", When(notes=Comparison(">=2"[:2], 2)), "hold"),
            Rule("idle", When(tags=("nowhere",)), "block"),
            Rule("codex", When(client=("codex",)), "block"),
        ]
    )
    entries = [entry(number, "vault/A.md content") for number in range(7)]
    entries += [entry(7, "vault/B.md content", "vault/C.md reference"), entry(8), entry(9, client="codex")]

    assert dry_run(rules, iter(entries), CaseFacts()).to_json() == {
        "tested": 10,
        "actions": {"redact": 7, "hold": 1, "allow": 1, "block": 1},
        "rules": [
            {"name": "strip", "action": "redact", "hits": 7, "examples": ["0000", "0001", "0002", "0003", "0004"]},
            {"name": "many", "action": "hold", "hits": 1, "examples": ["0007"]},
            {"name": "idle", "action": "block", "hits": 0, "examples": []},
            {"name": "codex", "action": "block", "hits": 1, "examples": ["0009"]},
        ],
    }


def test_a_rule_is_hit_once_by_a_request_and_also_where_a_stricter_one_decides() -> None:
    rules = RuleBook([Rule("strip", When(by=("content",)), "redact"), Rule("no names", When(), "block")])
    found = dry_run(rules, [entry(1, "vault/A.md content", "vault/B.md content")], CaseFacts())
    assert found.actions == {"block": 1}
    assert [(one.name, one.hits) for one in found.rules] == [("strip", 1), ("no names", 1)]


def test_the_tags_are_those_of_today_and_of_a_note_that_is_gone_its_folder_is_known() -> None:
    today = Note("vault/A.md", "vault", "A.md", "A", "", (), ("private",), (), 1)
    rules = RuleBook(
        [Rule("private", When(tags=("private",)), "block"), Rule("x", When(folder=("vault/x/**",)), "hold")]
    )
    entries = [entry(1, "vault/A.md content"), entry(2, "vault/x/Gone.md content"), entry(3, "vault/Gone.md content")]
    assert dry_run(rules, entries, NotesFacts({today.id: today})).actions == {"block": 1, "hold": 1, "allow": 1}


def test_what_notes_say_themselves_is_listed_where_it_hits() -> None:
    facts = CaseFacts({"vault/A.md": {"share": "never"}})
    unlooked = entry(2, scan={"state": "unscanned", "reasons": ["off"]})
    assert dry_run(RuleBook(), [entry(1, "vault/A.md content"), unlooked], facts).to_json()["rules"] == [
        {"name": "share: never", "action": "block", "hits": 1, "examples": ["0001"]},
        {"name": "unscanned: block", "action": "block", "hits": 1, "examples": ["0002"]},
    ]


def test_requests_are_judged_as_they_came_in() -> None:
    led = {"decision": Decision("redirect", "home").to_json(), "to": "local"}
    entries = [
        entry(1, **led, askedTo="cloud"),
        entry(2, **led, askedTo="local"),
        entry(3, decision=led["decision"], to="cloud", askedTo="local"),
        entry(4, to="local", askedTo="local"),
        entry(5, **led),  # an earlier version did not say it
        entry(6, to="local"),
        entry(7, to="cloud"),
    ]
    for one in entries[4:]:
        del one["askedTo"]
    rules = RuleBook([Rule("home", When(to="cloud"), "redirect", ("ollama",))])
    found = dry_run(rules, entries, CaseFacts())
    assert (found.actions, found.rules[0].examples) == ({"redirect": 3, "allow": 4}, ["0001", "0005", "0007"])


def test_no_requests() -> None:
    assert dry_run(RuleBook(), [], CaseFacts()).to_json() == {"tested": 0, "actions": {}, "rules": []}
