"""Gemini: `…/models/MODEL:generateContent` and `:streamGenerateContent`, and Gemini CLI's `v1internal` wrapper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from addons.wire.facts import RequestFacts, canonical, first_of_role, text_of
from memory import exchange

_METHODS = (":generateContent", ":streamGenerateContent", ":countTokens")


@dataclass(frozen=True, slots=True)
class Gemini:
    id: exchange.Protocol = "gemini"

    def claims(self, path: str) -> bool:
        return path.endswith(_METHODS)

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:  # noqa: ARG002 - it sends none
        named = path.rpartition("/models/")[2].partition(":")[0] if "/models/" in path else ""
        # The Code Assist host wraps the same request: {"model", "project", "request": {"contents": …}}.
        inner = body.get("request") if isinstance(body, dict) and isinstance(body.get("request"), dict) else body
        contents = inner.get("contents") if isinstance(inner, dict) else None
        return RequestFacts(
            model=named or (text_of(body, "model") or "").removeprefix("models/"),
            conversation=text_of(inner, "session_id"),
            opening=first_of_role(contents) or _roleless(contents),
            side_request=path.endswith(":countTokens"),
        )


def _roleless(contents: Any) -> str | None:
    """A single question may be sent as one content without a role."""
    if isinstance(contents, Sequence) and not isinstance(contents, str) and contents:
        first = contents[0]
        if isinstance(first, dict) and "role" not in first:
            return canonical(first)
    return None
