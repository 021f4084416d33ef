"""Which protocols the loop speaks."""

from __future__ import annotations

from addons.loop.anthropic import AnthropicLoop
from addons.loop.dialect import Dialect
from addons.loop.gemini import GeminiLoop
from addons.loop.openai_chat import ChatLoop
from addons.loop.openai_responses import OpenAIResponsesLoop
from memory.exchange import Protocol

_DIALECTS: dict[Protocol, Dialect] = {
    "anthropic": AnthropicLoop(),
    "openai-chat": ChatLoop(),
    "openai-responses": OpenAIResponsesLoop(),
    "gemini": GeminiLoop(),
}


def dialect_for(protocol: Protocol) -> Dialect | None:
    return _DIALECTS.get(protocol)
