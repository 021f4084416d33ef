"""What a client is told when its request was sent to no model: an error in its provider's own format.

The status is 400 throughout: SDKs repeat 408, 409, 429 and 5xx by themselves, and show 401 and 403 as a sign-in that
failed (dispatch.md, `block`). An answer to a request that asks for a stream is the same plain JSON.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from memory.exchange import Protocol

STATUS = 400


class Refusal(NamedTuple):
    """An answer of the suite's own. `body` is JSON in UTF-8."""

    headers: dict[str, str]
    body: bytes
    status: int = STATUS


def refusal(protocol: Protocol, message: str) -> Refusal:
    """The answer that shows `message` to the person who uses a client of this protocol."""
    headers = {"Content-Type": "application/json"}
    if protocol == "bedrock":
        headers["x-amzn-ErrorType"] = "ValidationException"
    return Refusal(headers, json.dumps(_error(protocol, message), ensure_ascii=False).encode("utf-8", "replace"))


def _error(protocol: Protocol, message: str) -> dict[str, Any]:
    match protocol:
        case "anthropic":
            return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        case "gemini":
            return {"error": {"code": STATUS, "message": message, "status": "INVALID_ARGUMENT"}}
        case "ollama":
            return {"error": message}
        case "bedrock":
            return {"message": message}
        case "openai-chat" | "openai-responses" | "unknown":
            # Most of those whose format is not known have taken over OpenAI's.
            return {
                "error": {
                    "message": message,
                    "type": "invalid_request_error",
                    "param": None,
                    "code": "blocked_by_mitmemory",
                }
            }
