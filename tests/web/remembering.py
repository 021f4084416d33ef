"""Conversations as the suite keeps them, over a real store and a real index."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory.conversations.compaction import Compactor
from memory.conversations.engine import Engine, EngineSettings
from memory.conversations.memories import Memories
from memory.conversations.recorder import Recorded, Recorder
from memory.conversations.said import Call, Message, Said
from memory.conversations.store import Store
from memory.conversations.summarising import Progress

NOON = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
KEY = ("Where did I put the spare key?", "It hangs behind the clock in the hall.")
TAP = ("The tap in the kitchen drips.", "Mr Novak comes on Friday to replace the cartridge.")
CAKE = ("What shall we bake for Ida?", "A lemon cake with poppy seed, three tiers.")


@dataclass
class Remembering:
    """`clients` says whose memory is on."""

    directory: Path
    store: Store
    engine: Engine
    recorder: Recorder
    memories: Memories | None
    compactor: Compactor | None
    clients: dict[str, bool] = field(default_factory=lambda: {"client": True, "other": True, "off": False})
    trouble: str | None = None
    summariser: dict[str, Any] | None = None

    def is_on(self, client: str) -> bool | None:
        return self.clients.get(client)

    def say(self, client: str, *turns: tuple[str, str], at: datetime = NOON, calls: tuple[Call, ...] = ()) -> Recorded:
        """A conversation of these turns, a minute apart; where the last was written. `calls` are in each answer."""
        messages: list[Message] = []
        for number, (question, answer) in enumerate(turns):
            begun = at + timedelta(minutes=number)
            messages.append(Message("user", question))
            said = Said(
                None,
                tuple(messages),
                Message("assistant", answer, calls),
                "tide-1",
                begun,
                begun + timedelta(seconds=5),
                complete=True,
            )
            recorded = self.recorder.record(client, said)
            assert recorded
            messages.append(said.answer)
        return recorded


async def in_short(turns: Sequence[str], progress: Progress) -> str:
    """Stands in for the model that summarises."""
    return f"{len(turns)} turns, in short."


@asynccontextmanager
async def remembering(directory: Path, settings: EngineSettings | None = None) -> AsyncIterator[Remembering]:
    store = Store(directory)
    store.open()
    store.configure(["client", "other", "off"])
    engine = Engine(store.folder_of, settings or EngineSettings())
    memories = Memories(store, engine)
    recorder = Recorder(store)
    recorder.on_recorded.append(engine.changed)
    compactor = Compactor(store, engine, in_short)
    try:
        yield Remembering(directory, store, engine, recorder, memories, compactor)
    finally:
        await compactor.aclose()
        await memories.aclose()
        store.close()
