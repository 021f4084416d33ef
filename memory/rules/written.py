"""Rules as mitm.yaml writes them, in plain JSON types: what the API gives, and takes for a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memory.rules.conditions import DEFAULT_HOLD, DEFAULT_PLACEHOLDER, SEEN, Comparison, Rule, When


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """`{name, when, then}` and of `targets`, `otherwise`, `placeholder` and `hold_for` those that say something."""
    written: dict[str, Any] = {"name": rule.name, "when": when_to_json(rule.when), "then": rule.then}
    if rule.then == "redirect":
        written["targets"] = list(rule.targets)
    if rule.then in ("redirect", "hold", "redact"):
        written["otherwise"] = rule.otherwise
    if rule.then == "redact" and rule.placeholder != DEFAULT_PLACEHOLDER:
        written["placeholder"] = rule.placeholder
    if rule.then == "hold" and rule.hold_for != DEFAULT_HOLD:
        written["hold_for"] = _plain(rule.hold_for)
    return written


def when_to_json(when: When) -> dict[str, Any]:
    """The conditions that there are, in the order of dispatch.md: one value by itself, several as a list."""
    written = {
        "source": _several(when.source),
        "folder": _several(when.folder),
        "note": _several(when.note),
        "tags": _several(when.tags),
        "by": "any" if when.by == SEEN else _several(when.by),
        "coverage": f"{_comparison(when.coverage)}%" if when.coverage else None,
        "notes": _comparison(when.notes) if when.notes else None,
        "client": _several(when.client),
        "provider": _several(when.provider),
        "model": _several(when.model),
        "to": when.to,
        "scan": _several(when.scan),
    }
    return {name: value for name, value in written.items() if value is not None}


def _several(values: Sequence[str]) -> str | list[str] | None:
    if not values:
        return None
    return values[0] if len(values) == 1 else list(values)


def _comparison(comparison: Comparison) -> str:
    return f"{comparison.operator}{_plain(comparison.number)}"


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number
