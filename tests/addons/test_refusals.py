"""Each client reads the refusal as an error of its own provider, with a status that no SDK repeats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from addons.refusals import refusal
from memory.exchange import Protocol

SAID = "Blocked by the rule “private”: Tides"
OPENAI = {"error": {"message": SAID, "type": "invalid_request_error", "param": None, "code": "blocked_by_mitmemory"}}
BODIES: dict[Protocol, dict[str, Any]] = {
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": SAID}},
    "openai-chat": OPENAI,
    "openai-responses": OPENAI,
    "gemini": {"error": {"code": 400, "message": SAID, "status": "INVALID_ARGUMENT"}},
    "ollama": {"error": SAID},
    "bedrock": {"message": SAID},
    "unknown": OPENAI,
}


@pytest.mark.parametrize("protocol", BODIES)
def test_each_protocol_has_its_own_error(protocol: Protocol) -> None:
    answer = refusal(protocol, SAID)
    assert answer.status == 400
    assert json.loads(answer.body) == BODIES[protocol]
    assert SAID.encode() in answer.body
    expected = {"Content-Type": "application/json"}
    if protocol == "bedrock":
        expected["x-amzn-ErrorType"] = "ValidationException"
    assert answer.headers == expected


def test_half_a_surrogate_pair_in_a_title_does_no_harm() -> None:
    assert json.loads(refusal("ollama", "a \ud800 b").body) == {"error": "a ? b"}
