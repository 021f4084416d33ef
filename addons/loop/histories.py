"""A history as rows of the model's entries between those of others: each row is an answer as its client sees it.

Takes, for each message, item or content, what the model was told by it (`keys.before_of`); None: it is the model's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby


def befores(told: Sequence[str | None]) -> list[str]:
    """For each entry, what an answer is known by that comes after it: what the model was told last, and how often it was told that."""
    found: list[str] = []
    times: Counter[str] = Counter()
    for what in told:
        if what is None:
            found.append(found[-1] if found else "")
        else:
            times[what] += 1
            found.append(f"{what} {times[what]}")
    return found


def answers(told: Sequence[str | None]) -> Iterator[tuple[int, int]]:
    """The first and the last place of each answer."""
    for is_models, row in groupby(range(len(told)), lambda at: told[at] is None):
        if is_models:
            places = list(row)
            yield places[0], places[-1]
