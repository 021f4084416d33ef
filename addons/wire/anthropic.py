"""Anthropic Messages: `POST /v1/messages`, and `/v1/messages/count_tokens`, which is scanned but never a turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from addons.wire.facts import RequestFacts, first_of_role, header, text_of
from memory import exchange


@dataclass(frozen=True, slots=True)
class AnthropicMessages:
    id: exchange.Protocol = "anthropic"

    def claims(self, path: str) -> bool:
        return path.endswith(("/v1/messages", "/v1/messages/count_tokens"))

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:
        messages = body.get("messages") if isinstance(body, dict) else None
        return RequestFacts(
            model=text_of(body, "model") or "",
            conversation=header(headers, "x-claude-code-session-id")
            or _session_of(text_of(body, "metadata", "user_id")),
            opening=first_of_role(messages),
            side_request=path.endswith("/count_tokens"),
        )


def _session_of(user_id: str | None) -> str | None:
    """Claude Code's session in `metadata.user_id`: a JSON document in a string, formerly `user_…_session_UUID`."""
    if user_id is None:
        return None
    try:
        return text_of(json.loads(user_id), "session_id")
    except (ValueError, RecursionError):
        return user_id.rpartition("_session_")[2] if "_session_" in user_id else None
