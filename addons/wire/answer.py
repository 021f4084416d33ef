"""What a model answered, as plain data: the same for every protocol, streamed or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from memory.exchange import Usage

MOST_TEXT = 4 * 1024 * 1024
"""Characters of an answer that are kept, thinking and arguments of tools included; what is beyond is left out."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants to be run. `id` is empty where the protocol gives none."""

    id: str
    name: str
    arguments: str
    """JSON as the model wrote it; where the answer was cut off, so is this. Free text for Codex's custom tools."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The assistant's message, or as much of it as came."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    stop_reason: str | None = None
    """In the provider's own word."""
    error: str | None = None
    """The provider's message, where it answered with an error or broke off with one."""
    model: str = ""
    """The model as the answer names it, which may be more precise than what was asked for."""
    id: str | None = None
    """The provider's id of the answer: a later request may go on from it (`previous_response_id`)."""
    complete: bool = False
    """The answer came to its end."""
    cut: bool = False
    """A stream that was over before the answer said so."""


class AnswerParts(Protocol):
    """What one protocol makes of an answer, piece by piece. A piece of another shape than expected is passed over."""

    def add(self, event: Any) -> None:
        """One event of a stream, or one message of a WebSocket: decoded JSON."""

    def whole(self, body: Any) -> None:
        """An answer that is one JSON document."""

    @property
    def done(self) -> bool:
        """Whether the answer has said that it is over, well or badly: on a WebSocket nothing else does."""

    def answer(self) -> Answer:
        """What has come so far."""
