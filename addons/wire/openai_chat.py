"""OpenAI Chat Completions: `POST …/chat/completions` under any prefix, as dozens of providers speak it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from addons.wire.facts import RequestFacts, first_of_role, text_of
from memory import exchange


@dataclass(frozen=True, slots=True)
class OpenAIChat:
    id: exchange.Protocol = "openai-chat"

    def claims(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:  # noqa: ARG002 - one shape for all
        messages = body.get("messages") if isinstance(body, dict) else None
        # No conversation: `prompt_cache_key` is often one constant for all of a program's chats.
        # Azure names the deployment in the path and may leave the model out.
        deployment = path.partition("/deployments/")[2].partition("/")[0]
        return RequestFacts(
            model=text_of(body, "model") or deployment,
            opening=first_of_role(messages),
        )
