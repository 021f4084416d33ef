"""What the tests of recording share: a recorder that writes nowhere, and requests of a client that has a memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from memory.conversations.said import Message, Prepared, Said


@dataclass
class Notebook:
    """A recorder. `fault` is raised instead of recording."""

    said: list[tuple[str, Said]] = field(default_factory=list)
    prepared: int = 0
    fault: Exception | None = None

    def prepare(self, messages: Sequence[Message]) -> Prepared:
        self.prepared += 1
        return Prepared(tuple(messages), (), ())

    def record(self, client: str, said: Said) -> None:
        if self.fault is not None:
            raise self.fault
        assert said.prepared == Prepared(said.messages, (), ())
        self.said.append((client, replace(said, prepared=None)))

    @property
    def answers(self) -> list[tuple[str, bool]]:
        return [(said.answer.text, said.complete) for _, said in self.said]
