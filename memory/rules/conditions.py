"""What a rule says, as plain data: its conditions, and what is done when they hold (dispatch.md, "Targets and rules")."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, cast, get_args

from memory.exchange import Action, By, Grade, Place, ScanState

type Operator = Literal[">=", ">", "<=", "<", "="]
type Seen = Literal["content", "reference", "listing"]
type Otherwise = Literal["block", "allow"]

SEEN: tuple[Seen, ...] = get_args(Seen.__value__)
"""Together they are what `by: any` says."""
SCANS: tuple[ScanState, ...] = get_args(ScanState.__value__)

DEFAULT_PLACEHOLDER = "[withheld]"
DEFAULT_HOLD = 120.0
"""Seconds that a request waits for a person."""

_OPERATORS: dict[Operator, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "=": operator.eq,
}
_COMPARISON = re.compile(r"(?P<operator>[<>]=?|=)?\s*(?P<number>\d{1,9}(?:\.\d{1,9})?)\s*(?P<percent>%)?", re.ASCII)


class Comparison(NamedTuple):
    """`>=5`, or `>=50%`: the number is 50 then."""

    operator: Operator
    number: float

    def holds(self, value: float) -> bool:
        return _OPERATORS[self.operator](value, self.number)


@dataclass(frozen=True, slots=True)
class When:
    """The conditions of a rule, all of which must hold; one that is empty or None is none.

    Of several patterns, tags or words in one condition one must match. Patterns are as they were written (`globs.py`).
    `by`, `coverage` and those before them are about each note that was seen, `notes` is about how many of these there
    are, all others are about the request.
    """

    source: tuple[str, ...] = ()
    folder: tuple[str, ...] = ()
    """The source's name and the folder below it: `vault/Health/**`."""
    note: tuple[str, ...] = ()
    """Ids: `vault/Ledger.md`."""
    tags: tuple[str, ...] = ()
    by: tuple[Seen, ...] = ()
    coverage: Comparison | None = None
    """Percent of a note's distinctive lines that were there; 0 for a quote and for a name."""
    notes: Comparison | None = None
    client: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    to: Place | None = None
    scan: tuple[ScanState, ...] = ()

    @property
    def is_about_notes(self) -> bool:
        """Whether the rule judges the notes that were seen, each by itself, or else the request."""
        return bool(
            self.source
            or self.folder
            or self.note
            or self.tags
            or self.by
            or self.coverage is not None
            or self.notes is not None
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """`targets` are names, in the order in which they are tried; `hold_for` is in seconds.

    `otherwise`: what comes of `redirect` when no target takes the request, of `hold` when nobody has answered, of `redact`
    when the body must not be altered. `{title}` in the placeholder stands for the note's title.
    """

    name: str
    when: When
    then: Action
    targets: tuple[str, ...] = ()
    otherwise: Otherwise = "block"
    placeholder: str = DEFAULT_PLACEHOLDER
    hold_for: float = DEFAULT_HOLD


class Sighted(Protocol):
    """What rules read of a `Sighting`."""

    @property
    def note(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def by(self) -> By: ...

    @property
    def grade(self) -> Grade: ...

    @property
    def matched(self) -> int: ...

    @property
    def distinctive(self) -> int: ...


def seen_as(sighting: Sighted) -> Seen:
    """What `by` calls this sighting. A name in a folder listing is no reference (detection.md)."""
    if sighting.by == "content":
        return "content"
    return "listing" if sighting.grade == "listing" else "reference"


def coverage_of(sighting: Sighted) -> float:
    """Percent of the note's distinctive lines that were there."""
    return 100.0 * sighting.matched / sighting.distinctive if sighting.distinctive else 0.0


def parse_count(text: str) -> Comparison:
    """`>=5`. Raises ValueError, whose message goes on after the text: "is no number of notes"."""
    found = _COMPARISON.fullmatch(text.strip())
    if found is None or found["percent"] or "." in found["number"]:
        raise ValueError("is no number of notes")
    return _compared(found)


def parse_coverage(text: str) -> Comparison:
    """`>=50%`. Raises ValueError, whose message goes on after the text: "is no share of a note"."""
    found = _COMPARISON.fullmatch(text.strip())
    if found is None:
        raise ValueError("is no share of a note")
    if not found["percent"]:
        raise ValueError("has no % after the number")
    if float(found["number"]) > 100:
        raise ValueError("is more than all of a note, which is 100%")
    return _compared(found)


def parse_placeholder(text: str) -> str:
    """`[withheld: {title}]`. Raises ValueError, whose message goes on after the text."""
    if re.search(r"[{}]", text.replace("{title}", "")):
        raise ValueError("has braces that are not those of `{title}`")
    if not text.isprintable():
        raise ValueError("holds a character that cannot be printed")
    return text


def _compared(found: re.Match[str]) -> Comparison:
    if found["operator"] is None:
        raise ValueError("does not say whether that is the least or the most")
    return Comparison(cast("Operator", found["operator"]), float(found["number"]))
