"""Which conversation searches its memory by MCP, where a client says no more than who it is.

The model's answer that calls the tool is recorded before the client has the end of it, and so before the tool is called.
"""

from __future__ import annotations

import threading

from memory.conversations.said import Message

MOST_CONVERSATIONS = 20
"""Of one client that are waiting for the tool."""

type Conversation = tuple[str, int]
"""Session and number."""


class Asking:
    """The conversations whose last answer calls the recall tool. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking: dict[str, list[Conversation]] = {}

    def answered(self, client: str, conversation: Conversation, answer: Message, tool: str) -> None:
        """An answer was recorded, the last one of its conversation now. `tool` is the name of the recall tool."""
        # The name has that of the server before it, or stands in a program that the model wrote.
        calls = any(tool in call.name or tool in call.arguments for call in answer.calls)
        with self._lock:
            others = [one for one in self._asking.get(client, ()) if one != conversation]
            self._asking[client] = [*others, *([conversation] if calls else [])][-MOST_CONVERSATIONS:]

    def of(self, client: str) -> Conversation | None:
        """That which called it last; None: none did, or all have gone on since."""
        with self._lock:
            return next(reversed(self._asking.get(client, ())), None)
