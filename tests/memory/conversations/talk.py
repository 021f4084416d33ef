"""A client that talks: each request with its answer, five seconds long, ten seconds after the one before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from memory.conversations.recorder import Recorded, Recorder
from memory.conversations.said import Call, Message, Result, Said
from memory.conversations.store import Store

START = datetime(2026, 11, 30, 4, 12, 33, tzinfo=UTC)
READ = Call("call-1", "Read", '{"file_path": "/notes/keys.md"}')


def user(text: str) -> Message:
    return Message("user", text)


def assistant(text: str = "", *calls: Call) -> Message:
    return Message("assistant", text, calls)


def tool(text: str, call: str = "call-1") -> Message:
    return Message("tool", results=(Result(call, text),))


class Talk:
    """Records in a directory, with a clock of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = START - timedelta(seconds=10)
        self.store = Store(self.directory)
        self.restart()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def restart(self) -> None:
        self.store.close()
        self.store = Store(self.directory)
        self.store.open()
        self.recorder = Recorder(self.store)

    def say(self, messages: list[Message], answer: Message, *, client: str = "work", **more: Any) -> Recorded | None:
        self.now += timedelta(seconds=10)
        made: dict[str, Any] = {
            "key": None,
            "messages": tuple(messages),
            "answer": answer,
            "model": "claude-sonnet-4",
            "at": self.now,
            "answered_at": self.now + timedelta(seconds=5),
            "complete": True,
        }
        return self.recorder.record(client, Said(**{**made, **more}))

    def place(self, messages: list[Message], answer: Message, **more: Any) -> tuple[int, int] | None:
        """(conversation, turn) that it was recorded as."""
        recorded = self.say(messages, answer, **more)
        return None if recorded is None else (recorded.conversation, recorded.turn)

    def transcript(self, client: str = "work") -> str:
        """The text of the one transcript that there is, without its frontmatter."""
        [path] = (self.directory / client / "sessions").iterdir()
        return path.read_text("utf-8").split("---\n\n", 1)[1]
