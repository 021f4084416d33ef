"""What a request says to the model, as plain data: the same for every protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from addons.wire.answer import ToolCall

type Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back. `id` is that of its call, empty where the protocol gives none."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message. Its texts are joined by newlines; images and files are left out."""

    role: Role
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestContent:
    """System prompt, messages in their order, and the names of the tools that the model may call."""

    system: str = ""
    messages: tuple[Message, ...] = ()
    tools: tuple[str, ...] = ()

    @property
    def last_user(self) -> Message | None:
        """The last message that a person wrote: tools answer in the user's role too, and are none."""
        return next((one for one in reversed(self.messages) if one.role == "user" and one.text), None)
