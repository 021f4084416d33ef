"""Exchanges as the suite makes them, for the tests of the activity log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memory.exchange import Evidence, Exchange, Scan, SentTo, Sighting, Usage

CLOUD = SentTo("claude-test", "cloud", "api.anthropic.com:443")
LOCAL = SentTo("llama-test", "local", "127.0.0.1:11434")


def sighting(note: str, title: str = "A title") -> Sighting:
    return Sighting(note, title, "content", "line", 1, 2, (Evidence("/messages/0/content", 1, "line"),))


def released(identifier: str, *, notes: tuple[str, ...] = (), **changes: Any) -> Exchange:
    """A body that a model got; the answer is not over."""
    made: dict[str, Any] = {
        "started_at": datetime(2026, 3, 4, tzinfo=UTC),
        "provider": "anthropic",
        "protocol": "anthropic",
        "model": "claude-test",
        "client": "claude-code",
        "conversation": "c0ffee",
        "to": "cloud",
        "upstream": "api.anthropic.com:443",
        "scan": Scan("complete", (), tuple(sighting(note) for note in notes)),
        "sent_to": [CLOUD],
        "request_bytes": 100,
    }
    return Exchange(identifier, **(made | changes))


def finished(identifier: str, **changes: Any) -> Exchange:
    over: dict[str, Any] = {
        "status": 200,
        "outcome": "answered",
        "finished_at": datetime(2026, 3, 4, 0, 0, 5, tzinfo=UTC),
        "usage": Usage(12, 34),
        "response_bytes": 200,
    }
    return released(identifier, **(over | changes))
