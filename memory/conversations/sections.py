"""What stands around a line of a client's file: the turn of a transcript, or the section of any other markdown.

Pure. What a search finds is a piece of a file; a person, or a model, wants the question with its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath

from memory.conversations.transcript import Called, Part, Piece, Returned, Transcript, Turn

SUMMARY = re.compile(r"-summary(-\d+)?$")

_HEADING = re.compile(r"^(#{1,6})\s+(.+)$")
_OURS = re.compile(
    r"(?:User|Assistant) \((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC(?:, [^\s,()]+)?, conversation (\d{1,9}), turn (\d{1,9})"
)
_BEGINNING = re.compile(r"Conversation \d{1,9} \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC(?:, continued)?\)$")
_PARTS = re.compile(r"^(?:# Conversation \d|## (?:User|Assistant) \().*$", re.MULTILINE)
_SESSION_START = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)(\d\d)(\d\d)Z")


@dataclass(frozen=True, slots=True)
class Section:
    """Part of a file. `key` tells two sections of one file apart; `conversation` and `at` are None where none is told."""

    key: tuple[int, ...]
    heading: str
    text: str
    conversation: int | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """What the heading of a transcript's part says."""

    at: datetime
    conversation: int
    turn: int


def label(heading: str) -> Label | None:
    """`heading` without its `##`. None: it is not a heading of ours."""
    match = _OURS.match(heading)
    if match is None:
        return None
    try:
        at = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    except ValueError:  # written by hand: no such day
        return None
    return Label(at, int(match[2]), int(match[3]))


def without_heading(piece: str) -> str:
    """A piece of a transcript without the heading of ours that it begins with: it says nothing of what was said."""
    first, _, rest = piece.partition("\n")
    match = _HEADING.match(first)
    return rest.lstrip("\n") if match and label(match[2]) else piece


def says_nothing(heading: str, piece: str) -> bool:
    """A piece of a transcript that nobody said: its frontmatter, or where a conversation begins."""
    return bool(_BEGINNING.match(heading)) or (not heading and piece.startswith("---\n"))


def session_of(source: str) -> str:
    """The session that a file under `sessions/` belongs to: its name, without what marks a summary."""
    return SUMMARY.sub("", PurePath(source).stem)


def session_started(session: str) -> datetime | None:
    """When the session began, as its id says (`2026-11-30T041233Z-k3f9`); None: it is not an id of ours."""
    match = _SESSION_START.match(session)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def parts_of(content: str, said: Label) -> str:
    """The parts of one turn, out of a whole transcript: to read one turn of a long session costs little."""
    ours = f", conversation {said.conversation}, turn {said.turn}"
    parts = []
    at = content.find(ours)
    while at >= 0:
        start, end = content.rfind("\n", 0, at) + 1, at + len(ours)
        if content.startswith((")", ","), end) and _PARTS.match(content, start):
            following = _PARTS.search(content, end)
            end = following.start() if following else len(content)
            parts.append(content[start:end])
        at = content.find(ours, end)
    return "".join(parts)


def section_at(content: str, transcript: Transcript, line: int) -> Section:
    """The turn that line `line` (1 is the first) of `content` belongs to, else the markdown section around it."""
    for conversation in transcript.conversations:
        for turn in conversation.turns:
            if any(span.first_line <= line <= span.last_line for span in turn.spans):
                return _turn_section(content, conversation.number, turn)
    return _markdown_section(content.split("\n"), line)


def _turn_section(content: str, conversation: int, turn: Turn) -> Section:
    lines = content.split("\n")
    heading = lines[turn.spans[0].first_line - 1].lstrip("# ")
    return Section(
        key=(conversation, turn.number),
        heading=heading,
        text="\n\n".join(said for part in turn.parts if (said := _said(part))),
        conversation=conversation,
        at=turn.started,
    )


def _said(part: Part) -> str:
    text = "\n\n".join(_written(part.pieces))
    return text and f"{'User' if part.model is None else 'Assistant'}: {text}"


def _written(pieces: Sequence[Piece]) -> Iterator[str]:
    for piece in pieces:
        match piece:
            case Called(name, arguments):
                yield f"(called {name}: {arguments})"
            case Returned(_, beginning):
                yield f"(result: {beginning})"
            case text if text.strip():
                yield text.strip("\n")


def _markdown_section(lines: Sequence[str], line: int) -> Section:
    """From the heading above to the next one of the same or a higher level, as memsearch's `expand` has it."""
    at = min(max(line, 1), len(lines)) - 1
    start, level, heading = 0, 0, ""
    for index in range(at, -1, -1):
        if match := _HEADING.match(lines[index]):
            start, level, heading = index, len(match[1]), match[2].strip()
            break
    end = next(
        (
            index
            for index in range(at + 1, len(lines))
            if (match := _HEADING.match(lines[index])) and (not level or len(match[1]) <= level)
        ),
        len(lines),
    )
    body = lines[start + 1 : end] if heading else lines[start:end]
    return Section(key=(start,), heading=heading, text="\n".join(body).strip())
