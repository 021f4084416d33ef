"""What the person reads in the client when a request was blocked: which rule, which notes, and where they do not go."""

from __future__ import annotations

from collections.abc import Sequence

from addons.gateway import Failure
from memory.exchange import Exchange
from memory.rules.book import BY_A_PERSON

MOST_TITLES = 5
"""Titles that a refusal names."""


def explanation(exchange: Exchange, failures: Sequence[Failure] = ()) -> str:
    """Of an exchange that is blocked; `failures` are the targets that were tried before."""
    decision = exchange.decision
    kept = {note for part in decision.parts if part.action == "block" for note in part.notes}
    named = _named([sighting.title for sighting in exchange.scan.sightings if sighting.note in kept])
    where = f"{exchange.model or exchange.provider} ({exchange.to})"
    reasons = f" ({', '.join(exchange.scan.reasons)})" if exchange.scan.state != "complete" and not named else ""
    tried = "".join(f"; {one.target} {one.reason}" for one in failures)
    who = "a person who was asked" if decision.rule == BY_A_PERSON else f'"{decision.rule}"'
    return f"mitmemory blocked this request: {who} keeps {named or 'it'} from {where}{reasons}{tried}"


def _named(titles: Sequence[str]) -> str:
    shown = [f'"{title}"' for title in titles[:MOST_TITLES]]
    more = len(titles) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
