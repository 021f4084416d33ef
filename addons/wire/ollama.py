"""Ollama's own API: `POST /api/chat` and `/api/generate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from addons.wire.facts import RequestFacts, first_of_role, text_of
from memory import exchange


@dataclass(frozen=True, slots=True)
class Ollama:
    id: exchange.Protocol = "ollama"

    def claims(self, path: str) -> bool:
        return path.endswith(("/api/chat", "/api/generate"))

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:  # noqa: ARG002 - all in the body
        messages = body.get("messages") if isinstance(body, dict) else None
        return RequestFacts(
            model=text_of(body, "model") or "", opening=first_of_role(messages) or text_of(body, "prompt")
        )
