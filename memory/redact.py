"""Withholding notes from the body of a request: their lines and quotes are replaced, and every other byte stays.

    redacted = redact(index, data, decision.redactions, content_type)
    if not redacted.complete:                # then what the rule says `otherwise` is done
        redacted.reasons

Rules: dispatch.md, "redact". Prompt caches are prefix-exact, so nothing is written anew but what is replaced. A row keeps
its line break, the white space around it, and what a reading tool put before the line (`12→`); where a quote reaches
over a row, all of the row goes. The same body, index and redactions give the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from memory.body import read_body
from memory.exchange import Redaction, Scan
from memory.index import NoteIndex
from memory.redact_search import Withheld, find_withheld
from memory.redact_structure import Structure
from memory.redact_texts import BodyTexts, Replacement, Text
from memory.scan import Scanner, scan_body

SIGNED = "signed by the provider"
STILL_THERE = "still there"
NOT_KNOWN = "not all lines are known"
UNREADABLE = "not readable"

_NEUTRAL = "[withheld]"
"""A placeholder that says nothing of any note."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A body after redacting. Unless it is `complete`, it must not be sent: `reasons` say why.

    - `signed by the provider`: a line stands in a block that may not be altered, and there it still is;
    - `still there`: a scan finds one of the notes by content;
    - `not all lines are known`: the index was not told that one of the notes is reachable, or does not know it;
    - `not readable`: the body is no text.
    """

    data: bytes
    complete: bool
    reasons: tuple[str, ...]
    withheld: Mapping[str, int]
    """Note id -> how many of its lines have been replaced; notes of which none was are not in it."""
    left: Scan
    """What is in `data`: that much is sent."""


def redact(
    index: NoteIndex,
    data: bytes,
    redactions: Sequence[Redaction],
    content_type: str = "application/json",
    scanner: Scanner | None = None,
) -> Redacted:
    """A body, whose Content-Encoding is undone, without the text of some notes. It never raises, whatever the body is.

    `index` is the one that the body was scanned with. With `scanner`, what it remembers of the body is not scanned again.
    """
    placeholders = {one.note: one.placeholder for one in reversed(redactions)}
    wanted = dict.fromkeys(one.note for one in redactions)
    known = [note for note in wanted if note in index.notes]
    reasons: dict[str, None] = {}
    if any(note not in index.every_line for note in wanted):
        reasons[NOT_KNOWN] = None
    body = BodyTexts.of(data, content_type)
    parts: list[Withheld] = []
    structure = _Structures(body)
    scanned = scanner.cache.results(index.generation) if scanner else None
    for part in find_withheld(index, known, body.texts, structure.group_of, scanned):
        if structure.is_signed(part.text):
            reasons[SIGNED] = None
        else:
            parts.append(part)

    def scan(redacted: bytes) -> Scan:
        if scanner is not None:
            return scanner.scan(index, scanner.read(redacted, content_type))
        return scan_body(index, read_body(redacted, content_type))

    redacted = _spliced(body, parts, [placeholders[note] for note in known])
    left = scan(redacted)
    if _has_any(left, wanted):
        # A placeholder may name the note by its title, which is a line of it as well: that has been allowed.
        by_placeholder = any(placeholders[note] != _NEUTRAL for note in known)
        if not by_placeholder or _has_any(scan(_spliced(body, parts, [_NEUTRAL] * len(known))), wanted):
            reasons[STILL_THERE] = None
    if left.state == "unscanned" and wanted:
        reasons[UNREADABLE] = None
    counts = Counter(known[part.note] for part in parts)
    return Redacted(redacted, not reasons, tuple(reasons), MappingProxyType(dict(counts)), left)


class _Structures:
    """The structure of a body, made when something in it is to be withheld."""

    def __init__(self, body: BodyTexts) -> None:
        self._json = body.base.text if body.base and body.is_json else None

    @cached_property
    def _structure(self) -> Structure:
        return Structure({}, []) if self._json is None else Structure.of(self._json)

    def group_of(self, text: Text) -> int:
        return self._structure.arrays.get(text.outermost, text.outermost)

    def is_signed(self, text: Text) -> bool:
        return self._structure.is_signed(text.outermost)


def _spliced(body: BodyTexts, parts: Sequence[Withheld], placeholders: Sequence[str]) -> bytes:
    return body.spliced((part.text, Replacement(part.start, part.end, placeholders[part.note])) for part in parts)


def _has_any(scan: Scan, notes: Collection[str]) -> bool:
    return any(sighting.by == "content" and sighting.note in notes for sighting in scan.sightings)
