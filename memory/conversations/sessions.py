"""Sessions: what a client says until it falls silent, or for so long. Pure."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_ID = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z-[a-z0-9]{4}", re.ASCII)
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"


@dataclass(frozen=True, slots=True)
class Limits:
    """When a session ends: after so long without a word, or when it has lasted so long."""

    inactivity: timedelta = timedelta(hours=3)
    longest: timedelta = timedelta(hours=8)


@dataclass(slots=True)
class Session:
    """The one that a client's turns go to."""

    id: str
    started: datetime
    active: datetime
    """When the last turn was written."""

    def is_over(self, now: datetime, limits: Limits) -> bool:
        return now - self.active > limits.inactivity or now - self.started > limits.longest


def new_id(started: datetime) -> str:
    """Readable, and sorts by time: `2026-11-30T041233Z-k3f9`."""
    return f"{started.astimezone(UTC):%Y-%m-%dT%H%M%SZ}-{''.join(secrets.choice(_LETTERS) for _ in range(4))}"


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None
