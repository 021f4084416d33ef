"""What one request of a client and its answer said, as plain data: the same for every protocol."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True)
class Call:
    """The model calls a tool. `arguments` is JSON, or what the protocol has in its place; `id` may be empty."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool gave back; `id` is that of its call, empty where the protocol gives none."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message, without system prompts, images and files."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `Recorder.prepare` made of a request's messages, so that `record` has little left to do."""

    messages: tuple[Message, ...]
    digests: tuple[bytes, ...]
    places: tuple[str, ...]
    """Hashes of what is before each message and after the last, where nothing was before the first."""


@dataclass(frozen=True, slots=True)
class Said:
    """One request of a client and its answer."""

    key: str | None
    """The client's own conversation key, or that of the answer that this goes on from; None: the messages tell."""
    messages: tuple[Message, ...]
    """Those of the request, in order, without the system prompt."""
    answer: Message
    model: str
    at: datetime
    """When the request came, in UTC."""
    answered_at: datetime
    complete: bool
    """The answer came to its end."""
    continues: bool = False
    """The request holds only what is new: `previous` or `key` says to which conversation."""
    previous: str | None = None
    """The id of the answer that the request goes on from (`previous_response_id`): finds the place even where the
    conversation has no key of its own, or has branches.
    """
    answer_id: str | None = None
    """The provider's id of this answer, which a later request may name as its `previous`."""
    prepared: Prepared | None = None
    """Of `messages`; None: `record` prepares them itself, which takes some milliseconds for each megabyte."""
