"""Transcripts for tests of the search: one session a call, each turn a question with its answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory.conversations.transcript import Part, conversation_heading, frontmatter, render

NOON = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
SESSION = "2026-11-30T120000Z-aaaa"

KEY = ("Where did I put the spare key?", "It hangs behind the clock in the hall.")
TAP = ("The tap in the kitchen drips.", "Mr Novak comes on Friday to replace the cartridge.")
CAKE = ("What shall we bake for Ida?", "A lemon cake with poppy seed, three tiers.")


def turn(conversation: int, number: int, at: datetime, said: tuple[str, str]) -> str:
    question, answer = said
    return render(Part(conversation, number, at, (question,))) + render(
        Part(conversation, number, at + timedelta(seconds=5), (answer,), "model-1")
    )


def write(
    folder: Path, *conversations: Sequence[tuple[str, str]], session: str = SESSION, start: datetime = NOON
) -> Path:
    """Make `sessions/{session}.md`; conversations an hour apart, turns a minute."""
    (folder / "sessions").mkdir(parents=True, exist_ok=True)
    parts = [frontmatter("someone", session, start)]
    for number, turns in enumerate(conversations, 1):
        begun = start + timedelta(hours=number - 1)
        parts.append(conversation_heading(number, begun))
        parts += [
            turn(number, count, begun + timedelta(minutes=count - 1), said) for count, said in enumerate(turns, 1)
        ]
    path = folder / "sessions" / f"{session}.md"
    path.write_text("".join(parts), encoding="utf-8")
    return path
