"""The wire formats: one file per protocol.

Each says whether a request is its own and reads from it what the suite needs. They are pure: bytes and plain JSON in,
plain data out, no flow and no proxy. The first that claims a request has it; what none claims is still scanned, as
protocol `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from addons.wire.answer import AnswerParts
from addons.wire.anthropic import AnthropicMessages
from addons.wire.bedrock import Bedrock
from addons.wire.content import RequestContent
from addons.wire.facts import RequestFacts, text_of
from addons.wire.gemini import Gemini
from addons.wire.ollama import Ollama
from addons.wire.openai_chat import OpenAIChat
from addons.wire.openai_responses import OpenAIResponses
from memory import exchange

__all__ = ["WIRES", "RequestFacts", "Wire", "asks_for_answer", "bare_path", "lane_of", "wire_for"]


class Wire(Protocol):
    """One wire format."""

    @property
    def id(self) -> exchange.Protocol: ...

    def claims(self, path: str) -> bool:
        """Whether a request to this path speaks this protocol. Here and in `read` it is a `bare_path`."""

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:
        """What a request says of itself. `headers` are by names in lower case. `body` is decoded JSON of any shape: a wrong
        shape gives empty facts.
        """

    def content(self, path: str, body: Any) -> RequestContent:
        """What a request says to the model. A wrong shape gives empty content."""

    def answer(self) -> AnswerParts | None:
        """Puts an answer together; None: its shape is not known."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything else that is sent to a provider's host. Nothing is known of its shape but a usual `model` key."""

    id: exchange.Protocol = "unknown"

    def claims(self, path: str) -> bool:  # noqa: ARG002 - it is the last resort
        return True

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:  # noqa: ARG002
        return RequestFacts(model=text_of(body, "model") or "")

    def content(self, path: str, body: Any) -> RequestContent:  # noqa: ARG002
        return RequestContent()

    def answer(self) -> AnswerParts | None:
        return None


WIRES: tuple[Wire, ...] = (
    AnthropicMessages(),
    OpenAIChat(),
    OpenAIResponses(),
    Gemini(),
    Ollama(),
    Bedrock(),
    Unknown(),
)


def wire_for(path: str) -> Wire:
    """The protocol that a request to `path` speaks; the query is no part of the question."""
    path = bare_path(path)
    return next(wire for wire in WIRES if wire.claims(path))


def asks_for_answer(protocol: exchange.Protocol, message: Any) -> bool:
    """Whether a client's message on a WebSocket is a turn, which the model answers. Only Responses are known there."""
    return protocol == "openai-responses" and text_of(message, "type") == "response.create"


def lane_of(message: Any) -> str | None:
    """Which of several conversations on one WebSocket a message is about: both sides name it where there are several."""
    return text_of(message, "stream_id")


def bare_path(path: str) -> str:
    """A path without its query and without a final slash, as `claims` and `read` take it."""
    return path.partition("?")[0].rstrip("/")
