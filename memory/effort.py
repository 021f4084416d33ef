"""How much work may be spent on one body."""

from __future__ import annotations

MOST_EFFORT = 1_000_000
"""What the names in one body may cost, in about a microsecond each: some 30,000 names, or 1,000,000 that are none."""


class Effort:
    """How much work may still be spent on one body, mostly on names: one that is made of names would take minutes."""

    def __init__(self, most: int = MOST_EFFORT) -> None:
        self._left = most

    @property
    def is_spent(self) -> bool:
        """Whether something was not looked at for it."""
        return self._left < 0

    def spend(self, units: int) -> bool:
        """Whether there is enough left."""
        if self._left >= 0:
            self._left -= units
        return self._left >= 0
