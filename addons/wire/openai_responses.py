"""OpenAI Responses: `POST …/responses`; Codex speaks it too, to api.openai.com and to chatgpt.com.

Over a WebSocket, each message of the client that asks for an answer is `{"type": "response.create", …}` with the same
members as a request, or with the request under `response`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from addons.wire.answer import AnswerParts
from addons.wire.chat_messages import ROLES, request_content, texts
from addons.wire.content import Message, RequestContent, ToolResult
from addons.wire.facts import RequestFacts, first_of_role, header, text_of
from addons.wire.responses_answer import ResponsesParts, call_of, is_call
from addons.wire.shapes import clean, first_string, items, joined, member, objects, string
from memory import exchange

_TURN_METADATA = "x-codex-turn-metadata"
_SIDE_THREADS = ("thread_title", "memory_consolidation")


@dataclass(frozen=True, slots=True)
class OpenAIResponses:
    id: exchange.Protocol = "openai-responses"

    def claims(self, path: str) -> bool:
        return path.endswith(("/responses", "/responses/compact", "/responses/input_tokens"))

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:
        body = _request(body)
        given = member(body, "input")
        kept = text_of(body, "conversation") or text_of(body, "conversation", "id")
        previous = text_of(body, "previous_response_id")
        conversation = (
            header(headers, "session-id", "session_id", "conversation_id") or text_of(body, "prompt_cache_key") or kept
        )
        return RequestFacts(
            model=text_of(body, "model") or "",
            conversation=conversation,
            opening=None if conversation else text_of(given) or first_of_role(given),
            previous=previous,
            continues=previous is not None or kept is not None,
            side_request=not path.endswith("/responses") or _codex_aside(headers, body),
        )

    def content(self, path: str, body: Any) -> RequestContent:  # noqa: ARG002 - one shape for all
        body = _request(body)
        given = member(body, "input")
        given = given if isinstance(given, str) else list(items(given))  # it is read twice, and may not be decoded yet
        messages = iter((Message("user", clean(given)),)) if isinstance(given, str) else _messages(given)
        offered = [member(body, "tools")] + [one.get("tools") for one in objects(given) if "tools" in one]
        names = [name for tools in offered for name in _names(tools)]
        return request_content([string(member(body, "instructions"))], messages, names)

    def answer(self) -> AnswerParts:
        return ResponsesParts()


def _request(body: Any) -> Any:
    inner = member(body, "response")
    return inner if isinstance(inner, dict) and member(body, "type") == "response.create" else body


def _codex_aside(headers: Mapping[str, str], body: Any) -> bool:
    """Whether Codex asks for something else than a turn: warming up (`generate: false`), compacting, naming a chat.

    It says so in JSON in a header; over a WebSocket in `client_metadata`, while the header there is that of the upgrade,
    which is the same for all of its messages.
    """
    if member(body, "generate") is False:
        return True
    said = text_of(body, "client_metadata", _TURN_METADATA) or header(headers, _TURN_METADATA)
    try:
        metadata = json.loads(said) if said else None
    except (ValueError, RecursionError):
        return False
    return (text_of(metadata, "request_kind") or "turn") != "turn" or (
        text_of(metadata, "thread_source") in _SIDE_THREADS
    )


def _messages(given: Any) -> Iterator[Message]:
    """Each item of the input that says something, as a message of its own."""
    for item in objects(given):
        kind = string(item.get("type")) or "message"
        role = ROLES.get(string(item.get("role")))
        if kind == "message" and role is not None:
            yield Message(role, joined(texts(item.get("content"))))
        elif is_call(kind):
            # A call that the provider ran itself (`mcp_call`) holds its result.
            output = joined(_output(item.get("output")))
            call = call_of(item)
            yield Message("assistant", "", (call,), (ToolResult(call.id, output),) if output else ())
        elif kind.endswith("_output"):
            result = ToolResult(clean(first_string(item, "call_id", "id")), joined(_output(item.get("output"))))
            yield Message("tool", tool_results=(result,))


def _output(output: Any) -> Iterator[str]:
    """What a tool gave back: a string, parts of text, or what a shell printed."""
    yield from texts(output)
    for part in objects(output):
        yield string(part.get("stdout"))
        yield string(part.get("stderr"))


def _names(tools: Any) -> Iterator[str]:
    """The names of tools; those in a namespace one by one; of a tool without a name what it is, or the MCP server."""
    for offered in objects(tools):
        for tool in objects(offered.get("tools")) if items(offered.get("tools")) else (offered,):
            yield first_string(tool, "name", "server_label", "type")
