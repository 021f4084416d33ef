"""The shape of an exchange as the API gives it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from memory.exchange import (
    MOST_EVIDENCE,
    Decision,
    Evidence,
    Exchange,
    RulePart,
    Scan,
    SentTo,
    Sighting,
    Usage,
    timestamp,
)

STARTED = datetime(2026, 3, 4, 5, 6, 7, 89999, tzinfo=UTC)


def fresh() -> Exchange:
    return Exchange("01", STARTED, "anthropic", "anthropic", "m", "codex", None, "cloud", "api.anthropic.com:443")


def test_an_exchange_that_has_just_begun() -> None:
    assert fresh().to_json() == {
        "id": "01",
        "startedAt": "2026-03-04T05:06:07.089Z",
        "finishedAt": None,
        "client": "codex",
        "conversation": None,
        "provider": "anthropic",
        "protocol": "anthropic",
        "model": "m",
        "to": "cloud",
        "askedTo": "cloud",
        "sentTo": [],
        "notes": [],
        "decision": {"action": "allow", "rule": None, "rules": []},
        "scan": {"state": "unscanned", "reasons": ["not yet scanned"]},
        "usage": {"input": None, "output": None, "cacheRead": None, "cacheWrite": None},
        "recalls": {"searches": 0, "memories": 0},
        "bytes": {"request": 0, "response": 0},
        "status": None,
        "outcome": None,
        "sideRequest": False,
    }


def test_an_exchange_that_is_over() -> None:
    exchange = fresh()
    exchange.conversation, exchange.side_request = "tulip", True
    exchange.scan = Scan(
        "partial",
        ("attachment",),
        (Sighting("vault/A.md", "A", "content", "quote", 1, 3, (Evidence("/a!/b", 1, "quote"),), resent=True),),
    )
    exchange.decision = Decision("redirect", "home", (RulePart("home", "redirect", ("vault/A.md",)),))
    exchange.sent_to.append(SentTo("qwen3:8b", "local", "127.0.0.1:11434"))
    exchange.usage = Usage(1, 2, 3, 4)
    exchange.recalls = exchange.recalls.plus(1, 0).plus(2, 5)
    exchange.request_bytes, exchange.response_bytes = 5, 6
    exchange.status, exchange.outcome, exchange.finished_at = 200, "answered", STARTED + timedelta(seconds=1)
    entry = exchange.to_json()
    assert entry["notes"] == [
        {
            "id": "vault/A.md",
            "title": "A",
            "by": "content",
            "grade": "quote",
            "matched": 1,
            "distinctive": 3,
            "resent": True,
            "evidence": [{"pointer": "/a!/b", "lines": 1, "grade": "quote"}],
        }
    ]
    del entry["notes"]
    assert entry == {
        "id": "01",
        "startedAt": "2026-03-04T05:06:07.089Z",
        "finishedAt": "2026-03-04T05:06:08.089Z",
        "client": "codex",
        "conversation": "tulip",
        "provider": "anthropic",
        "protocol": "anthropic",
        "model": "m",
        "to": "cloud",
        "askedTo": "cloud",
        "sentTo": [{"model": "qwen3:8b", "to": "local", "upstream": "127.0.0.1:11434"}],
        "decision": {
            "action": "redirect",
            "rule": "home",
            "rules": [{"name": "home", "action": "redirect", "notes": ["vault/A.md"]}],
        },
        "scan": {"state": "partial", "reasons": ["attachment"]},
        "usage": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4},
        "recalls": {"searches": 3, "memories": 5},
        "bytes": {"request": 5, "response": 6},
        "status": 200,
        "outcome": "answered",
        "sideRequest": True,
    }
    assert json.loads(json.dumps(entry)) == entry


def test_at_most_fifty_pieces_of_evidence_are_shown() -> None:
    evidence = tuple(Evidence(f"/{number}", 1, "line") for number in range(80))
    shown = Sighting("vault/A.md", "A", "content", "line", 80, 80, evidence).to_json()["evidence"]
    assert MOST_EVIDENCE == 50
    assert [one["pointer"] for one in shown] == [f"/{number}" for number in range(50)]


def test_notes_are_put_into_json_once_for_each_scan() -> None:
    exchange = fresh()
    exchange.scan = Scan("complete", (), (Sighting("vault/A.md", "A", "content", "line", 1, 2),))
    first = exchange.to_json()
    exchange.outcome = "answered"
    second = exchange.to_json()
    assert first["notes"] is second["notes"]
    assert (first["outcome"], second["outcome"]) == (None, "answered")
    exchange.scan = Scan("partial", (), (Sighting("vault/B.md", "B", "reference", "reference", 0, 2),))
    assert [note["id"] for note in exchange.to_json()["notes"]] == ["vault/B.md"]
    assert [note["id"] for note in first["notes"]] == ["vault/A.md"]


def test_two_exchanges_share_nothing() -> None:
    first, second = fresh(), fresh()
    first.sent_to.append(SentTo("m", "cloud", "h:1"))
    assert second.sent_to == []


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 3, 4, tzinfo=UTC), "2026-03-04T00:00:00.000Z"),
        (datetime(2026, 3, 4, 5, 6, 7, 89999, tzinfo=UTC), "2026-03-04T05:06:07.089Z"),
        (datetime(2026, 3, 4, 1, 30, tzinfo=timezone(timedelta(hours=2))), "2026-03-03T23:30:00.000Z"),
    ],
)
def test_times_are_utc_with_milliseconds(moment: datetime, text: str) -> None:
    assert timestamp(moment) == text
