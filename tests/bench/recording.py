"""Writing down a turn: what it costs the event loop, with a short and a long history, into a small and a large file.

The plain baseline is one append of the same text, with nothing known of what was there before.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory.conversations.recorder import Recorder
from memory.conversations.said import Call, Message, Result, Said
from memory.conversations.store import Store
from tests.bench.measure import Figure, milliseconds, settled_memory

TURNS = 200
WORDS = (
    "the",
    "note",
    "key",
    "harbour",
    "was",
    "and",
    "timer",
    "eggs",
    "sailing",
    "```",
    "# heading",
    "password",
    "of",
)
START = datetime(2026, 1, 1, tzinfo=UTC)


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    for what, messages, size in (
        ("one of the first 200 turns", 0, 0),
        ("a turn after 40 messages", 40, 0),
        ("a turn after 400 messages", 400, 0),
        ("a turn into a transcript of 5 MB", 40, 5_000_000),
    ):
        with tempfile.TemporaryDirectory() as folder:
            yield _recorded(Path(folder), random.Random(seed), what, messages, size)


def _recorded(folder: Path, chance: random.Random, what: str, messages: int, size: int) -> Figure:
    store = Store(folder)
    store.open()
    recorder = Recorder(store)
    history = [_message(chance, place) for place in range(messages)]
    first = _said(history, chance, 0)
    recorded = recorder.record("work", first)
    assert recorded is not None
    with recorded.path.open("a") as file:
        file.write("x" * 79 + "\n" if not size else ("x" * 79 + "\n") * (size // 80))
    history.append(first.answer)
    taken: list[float] = []
    prepared: list[float] = []
    plain: list[float] = []
    with settled_memory():
        for turn in range(1, TURNS):
            history[-1:] = [history[-1], Message("user", _text(chance, 60))]
            said = _said(history, chance, turn)
            start = time.thread_time()
            ready = recorder.prepare(said.messages)
            middle = time.thread_time()
            assert recorder.record("work", replace(said, prepared=ready)) is not None
            prepared.append(middle - start)
            taken.append(time.thread_time() - middle)
            start = time.thread_time()
            with (folder / "plain.md").open("a") as file:
                file.write(f"## User\n\n{history[-1].text}\n\n## Assistant\n\n{said.answer.text}\n\n")
            plain.append(time.thread_time() - start)
            history.append(said.answer)
    store.close()
    return Figure(
        what,
        milliseconds(taken),
        "ms",
        2,
        baseline=f"a plain append {milliseconds(plain):.2f} ms",
        ratio=milliseconds(plain) / milliseconds(taken),
        note=f"the slowest of {len(taken)}: {max(taken) * 1e3:.2f} ms; before, for its messages, {milliseconds(prepared):.2f} ms",
    )


def _said(history: list[Message], chance: random.Random, turn: int) -> Said:
    at = START + timedelta(seconds=turn)
    answer = Message("assistant", _text(chance, 600), (Call(f"call-{turn}", "Read", '{"file_path": "/notes/a.md"}'),))
    return Said(None, tuple(history), answer, "claude-sonnet-4", at, at, complete=True)


def _message(chance: random.Random, place: int) -> Message:
    if place % 2 == 0:
        return Message("user", _text(chance, 60), results=(Result("call", _text(chance, 800)),))
    return Message("assistant", _text(chance, 60))


def _text(chance: random.Random, words: int) -> str:
    return "\n".join(" ".join(chance.choices(WORDS, k=12)) for _ in range(words // 12))
