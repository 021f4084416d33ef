"""Which of Claude Code's requests are told apart from turns."""

from __future__ import annotations

from typing import Any

import pytest

from addons.wire import wire_for
from addons.wire.claude_code import asks_aside

CLI = {"user-agent": "claude-cli/2.1.197 (external, sdk-cli)"}
SCHEMA = {"type": "json_schema", "schema": {"properties": {"title": {"type": "string"}}}}
TOOLS = [{"name": "Read"}]


@pytest.mark.parametrize(
    ("headers", "body", "aside"),
    [
        (CLI, {"max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]}, True),
        ({}, {"max_tokens": 1.0}, True),
        ({}, {"max_tokens": 2}, False),
        (CLI, {"output_config": {"format": SCHEMA}}, True),
        (CLI, {"output_config": {"format": SCHEMA}, "tools": []}, True),
        (CLI, {"output_format": SCHEMA}, True),
        (CLI, {"output_config": {"format": SCHEMA}, "tools": TOOLS}, False),
        ({"user-agent": "anthropic-sdk-python/2.14"}, {"output_config": {"format": SCHEMA}}, False),
        ({}, {"output_config": {"format": SCHEMA}}, False),
        (CLI, {"system": [{"type": "text", "text": 'A new topic? JSON with "isNewTopic" and "title".'}]}, True),
        (CLI, {"system": "Answer with isNewTopic."}, True),
        (CLI, {"system": "Answer with isNewTopic.", "tools": TOOLS}, False),
        (CLI, {"system": "You help with code."}, False),
        (CLI | {"x-claude-code-request-class": "main"}, {}, False),
        (CLI | {"x-claude-code-request-class": "subagent"}, {}, False),
        (CLI | {"x-claude-code-request-class": "auxiliary"}, {"tools": TOOLS}, True),
        (CLI | {"x-claude-code-request-class": "compaction"}, {"tools": TOOLS}, True),
        (CLI | {"x-claude-code-request-class": "side_reply"}, {"tools": TOOLS}, True),
        (CLI, None, False),
        (CLI, [], False),
        (CLI, {"output_config": [], "output_format": "json", "system": 3, "tools": 4}, False),
    ],
)
def test_side_requests(headers: dict[str, str], body: Any, aside: bool) -> None:
    assert asks_aside(headers, body) is aside


def test_they_are_side_requests_of_the_protocol() -> None:
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        assert wire_for(path).read(path, {}, {"max_tokens": 1}).side_request
    assert not wire_for("/v1/messages").read("/v1/messages", CLI, {"max_tokens": 100}).side_request
