"""Finding notes in request bodies, against a literal reading of the rule (goals: detection.md, "Cost").

Cold is a scanner that has seen nothing yet, on an index that has just been built. Reading the body is part of each time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory.exchange import Scan
from memory.index import MINIMUM_LINE_LENGTH, NoteIndex
from memory.scan import Scanner
from tests.bench.measure import Figure, megabytes_per_second, thread_seconds
from tests.bench.synthetic import Conversation, SyntheticNote, Writer, encoded
from tests.memory.reference import distinctive_lines, forms

BODY = 1_000_000
"""Bytes of the body that is scanned cold, and to which a conversation grows."""
TURN = 20_000
TURNS = 50
ROUNDS = 7
NOTES = 5_000
NOTES_IF_LARGE = 50_000


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    writer = Writer(seed)
    vault = writer.vault(NOTES_IF_LARGE if large else NOTES)
    conversation = writer.conversation(vault, BODY)
    before = len(conversation.messages)
    writer.add_turn(conversation, vault, TURN)
    known = [note.note() for note in vault]
    owners = distinctive_lines(known, MINIMUM_LINE_LENGTH)
    lines, quotes = NoteIndex.build(known), NoteIndex.build(known, quotes=True)

    size = f"{len(vault):,} notes"
    cold = conversation.body(before)
    for index, what, goals in ((lines, "lines and names", (45.0, 120.0)), (quotes, "quotes too", (25.0, 80.0))):
        _same_notes(_scan(Scanner(), index, cold), literal_scan(owners, cold), conversation, before)
        ours, literal, decoding = thread_seconds(
            lambda index=index: _scan(Scanner(), index, cold),
            lambda: literal_scan(owners, cold),
            lambda: json.loads(cold),
            rounds=ROUNDS,
        )
        yield Figure(
            f"cold scan of 1 MB, {what}, {size}",
            megabytes_per_second(len(cold), ours),
            "MB/s",
            *goals,
            baseline=f"the rule read literally, {megabytes_per_second(len(cold), literal):.1f} MB/s",
            ratio=literal / ours,
            note=f"json.loads alone: {megabytes_per_second(len(cold), decoding):.0f} MB/s",
        )
    yield _next_turn(quotes, owners, conversation, before)
    yield _whole_conversation(quotes, owners, conversation, before)
    yield from _memory(lines, quotes, vault)


def _next_turn(index: NoteIndex, owners: Mapping[str, set[str]], conversation: Conversation, before: int) -> Figure:
    """The body grows, and with it changes what Claude Code changes each turn."""
    first = as_claude_code(conversation, before, 1)
    following = as_claude_code(conversation, len(conversation.messages), 2)
    warm = [Scanner() for _ in range(ROUNDS)]
    for scanner in warm:
        _scan(scanner, index, first)
    ready = iter(warm)
    ours, literal = thread_seconds(
        lambda: _scan(next(ready), index, following), lambda: literal_scan(owners, following), rounds=ROUNDS
    )
    assert _scan(warm[0], index, following) == _scan(Scanner(), index, following)
    return Figure(
        f"next turn of 1 MB, {(len(following) - len(first)) / 1e3:.0f} kB new",
        ours * 1e3,
        "ms",
        2.0,
        0.3,
        baseline=f"the rule read literally, {literal * 1e3:.0f} ms",
        ratio=literal / ours,
        note="with quotes; Claude Code's moving parts move",
    )


def _whole_conversation(
    index: NoteIndex, owners: Mapping[str, set[str]], conversation: Conversation, messages: int
) -> Figure:
    bodies = [as_claude_code(conversation, max(1, messages * turn // TURNS), turn) for turn in range(1, TURNS + 1)]
    total = sum(map(len, bodies))

    def grow() -> Scan:
        scanner = Scanner()
        return [_scan(scanner, index, body) for body in bodies][-1]

    assert grow() == _scan(Scanner(), index, bodies[-1])
    ours, literal = thread_seconds(grow, lambda: literal_scan(owners, bodies[-1]), rounds=ROUNDS)
    literal *= total / len(bodies[-1])
    return Figure(
        f"{TURNS} turns growing to 1 MB, {total / 1e6:.0f} MB in all",
        megabytes_per_second(total, ours),
        "MB/s",
        400.0,
        2_000.0,
        baseline=f"the rule read literally, {megabytes_per_second(total, literal):.1f} MB/s (from the last turn)",
        ratio=literal / ours,
        note="with quotes; Claude Code's moving parts move",
    )


def _memory(lines: NoteIndex, quotes: NoteIndex, vault: Sequence[SyntheticNote]) -> Iterator[Figure]:
    distinctive = sum(lines.facts(note).distinctive for note in lines.notes)
    yield Figure(
        f"index, per distinctive line ({distinctive:,})",
        lines.line_bytes / distinctive,
        "bytes",
        20.0,
        12.0,
        baseline="a dict from int to int, 78 bytes (measured once)",
        ratio=78 * distinctive / lines.line_bytes,
        note="with what the next rescan takes over; names not counted",
    )
    assert quotes.quotes is not None
    yield Figure(
        f"index, per note for quotes ({quotes.quotes.grams / len(vault):.0f} grams)",
        quotes.quotes.nbytes / len(vault),
        "bytes",
        2_000.0,
        700.0,
        note="with what the next rescan takes over",
    )


def as_claude_code(conversation: Conversation, messages: int, request: int) -> bytes:
    """The request after its first `messages` messages: the first block of `system` is new in each, and the last message
    carries the cache mark that the one before it had.
    """
    head = json.loads(conversation.head + b"]}")
    billing = f"x-anthropic-billing-header: cc_version=2.1.228; cch={request * 7919 % 99_991:05x};"
    head["system"].insert(0, {"type": "text", "text": billing})
    *earlier, last = conversation.messages[:messages]
    message = json.loads(last)
    if isinstance(message["content"], str):
        message["content"] = [{"type": "text", "text": message["content"]}]
    message["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return encoded(head)[:-2] + b",".join([*earlier, encoded(message)]) + b"]}"


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


def _scan(scanner: Scanner, index: NoteIndex, body: bytes) -> Scan:
    return scanner.scan(index, scanner.read(body))


def _same_notes(scan: Scan, literal: Mapping[str, set[str]], conversation: Conversation, messages: int) -> None:
    """A scan that finds something else than the rule is not worth measuring."""
    ours = {sighting.note: sighting.matched for sighting in scan.sightings if sighting.grade == "line"}
    put_in = {f"vault/{path}" for carried in conversation.carried[:messages] for path in carried}
    assert ours == {note: len(lines) for note, lines in literal.items()}
    assert put_in <= ours.keys(), sorted(put_in - ours.keys())
