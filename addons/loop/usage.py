"""What several answers cost together."""

from __future__ import annotations

from typing import Any

from addons.loop.events import decoded, json_text


def summed(first: Any, second: Any) -> Any:
    """Numbers are added, lists follow each other, objects go key by key; of anything else the later one stands."""
    if isinstance(first, dict) and isinstance(second, dict):
        return {**first, **{key: summed(first.get(key), value) for key, value in second.items()}}
    if isinstance(first, list) and isinstance(second, list):
        return first + second
    if _is_number(first) and _is_number(second):
        return first + second
    return first if second is None else second


def counted(text: str) -> Any:
    """Counts as an answer has them, from their JSON; None where they cannot be added up, since they are nested too deep."""
    value = decoded(text)
    try:
        json_text(summed(value, value))
    except RecursionError:
        return None
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
