"""Finding notes in request bodies, against a literal reading of the rule (goals: detection.md, "Cost")."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from memory.body import read_body
from memory.exchange import Scan
from memory.index import MINIMUM_LINE_LENGTH, NoteIndex
from memory.scan import scan_body
from tests.bench.measure import Figure, megabytes_per_second, thread_seconds
from tests.bench.synthetic import Conversation, Writer
from tests.memory.reference import distinctive_lines, forms

BODY = 1_000_000
"""Bytes of the body that is scanned cold, and from which the next turn grows."""
TURN = 20_000
ROUNDS = 4
LITERAL_ROUNDS = 2
"""A literal reading takes half a second and more for each body."""


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    writer = Writer(seed)
    notes = writer.vault(50_000)
    small = notes[:5_000]
    conversation = writer.conversation(small, BODY)
    before = len(conversation.messages)
    writer.add_turn(conversation, small, TURN)
    cold, following = conversation.body(before), conversation.body()
    for vault, goals in ((small, (None, None)), (notes, (45.0, 120.0))):
        known = [note.note() for note in vault]
        index = NoteIndex.build(known)
        owners = distinctive_lines(known, MINIMUM_LINE_LENGTH)
        _same_notes(_scan(index, cold), literal_scan(owners, cold), conversation, before)
        ours, literal = _side_by_side(index, owners, cold)
        yield Figure(
            f"cold scan of 1 MB, {len(vault):,} notes",
            megabytes_per_second(len(cold), ours),
            "MB/s",
            *goals,
            baseline=f"the rule read literally, {megabytes_per_second(len(cold), literal):.1f} MB/s",
            ratio=literal / ours,
        )
    # The index of the 50,000 notes; the turns before have just been scanned.
    ours, literal = _side_by_side(index, owners, following)
    yield Figure(
        f"next turn of 1 MB, {(len(following) - len(cold)) / 1e3:.0f} kB new",
        ours * 1e3,
        "ms",
        2.0,
        0.3,
        baseline=f"the rule read literally, {literal * 1e3:.0f} ms",
        ratio=literal / ours,
    )


def literal_scan(owners: Mapping[str, set[str]], body: bytes) -> dict[str, set[str]]:
    """Note id -> its lines in a body: each line of each string, in each form that it may have had. No mentions."""
    found: dict[str, set[str]] = {}
    for text in _strings(json.loads(body)):
        for line in text.split("\n"):
            for form in forms(line):
                if form in owners:
                    for note in owners[form]:
                        found.setdefault(note, set()).add(form)
                    break
    return found


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from _strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from _strings(member)


def _scan(index: NoteIndex, body: bytes) -> Scan:
    return scan_body(index, read_body(body))


def _side_by_side(index: NoteIndex, owners: Mapping[str, set[str]], body: bytes) -> tuple[float, float]:
    """Seconds of (our scan, the literal one)."""
    ours, literal = thread_seconds(
        lambda: [_scan(index, body) for _ in range(ROUNDS)], lambda: literal_scan(owners, body), rounds=LITERAL_ROUNDS
    )
    return ours / ROUNDS, literal


def _same_notes(scan: Scan, literal: Mapping[str, set[str]], conversation: Conversation, messages: int) -> None:
    """A scan that finds something else than the rule is not worth measuring."""
    ours = {sighting.note: sighting.matched for sighting in scan.sightings if sighting.by == "content"}
    put_in = {f"vault/{path}" for carried in conversation.carried[:messages] for path in carried}
    assert ours == {note: len(lines) for note, lines in literal.items()}
    assert put_in <= ours.keys(), sorted(put_in - ours.keys())
