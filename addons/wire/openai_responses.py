"""OpenAI Responses: `POST …/responses`; Codex speaks it too, to api.openai.com and to chatgpt.com."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from addons.wire.facts import RequestFacts, first_of_role, header, text_of
from memory import exchange


@dataclass(frozen=True, slots=True)
class OpenAIResponses:
    id: exchange.Protocol = "openai-responses"

    def claims(self, path: str) -> bool:
        return path.endswith(("/responses", "/responses/compact", "/responses/input_tokens"))

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:
        given = body.get("input") if isinstance(body, dict) else None
        conversation = (
            header(headers, "session-id", "session_id", "conversation_id")
            or text_of(body, "prompt_cache_key")
            or text_of(body, "conversation")
            or text_of(body, "conversation", "id")
        )
        return RequestFacts(
            model=text_of(body, "model") or "",
            conversation=conversation,
            opening=given if isinstance(given, str) else first_of_role(given),
            side_request=not path.endswith("/responses"),
        )
