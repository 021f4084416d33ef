"""Which conversation searches its memory by MCP, where a client says no more than who it is.

The model's answer that calls the tool is recorded before the client has the end of it, and so before the tool is called.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from memory.conversations.said import Message

MOST_CONVERSATIONS = 20
"""Of one client that are waiting for tools."""

type Conversation = tuple[str, int]
"""Session and number."""


class Asking:
    """The conversations whose last answer calls tools. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, OrderedDict[Conversation, str]] = {}

    def answered(self, client: str, conversation: Conversation, answer: Message) -> None:
        """An answer was recorded, the last one of its conversation now."""
        with self._lock:
            waiting = self._calls.setdefault(client, OrderedDict())
            waiting.pop(conversation, None)
            if answer.calls:
                # The name has that of the server before it, or stands in a program that the model wrote.
                waiting[conversation] = "\n".join(f"{call.name} {call.arguments}" for call in answer.calls)
                if len(waiting) > MOST_CONVERSATIONS:
                    waiting.popitem(last=False)

    def of(self, client: str, tool: str) -> Conversation | None:
        """That which called a tool of this name last; None: none did, or all have gone on since."""
        with self._lock:
            waiting = self._calls.get(client, OrderedDict[Conversation, str]())
            return next((one for one, calls in reversed(waiting.items()) if tool in calls), None)
