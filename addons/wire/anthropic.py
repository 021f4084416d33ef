"""Anthropic Messages: `POST /v1/messages`, and `/v1/messages/count_tokens`, which is scanned but never a turn."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from addons.wire.answer import Answer, AnswerParts, ToolCall
from addons.wire.assembly import Calls, Room, Text
from addons.wire.chat_messages import request_content, texts
from addons.wire.claude_code import asks_aside
from addons.wire.content import Message, RequestContent, Role, ToolResult
from addons.wire.facts import RequestFacts, first_of_role, header, text_of
from addons.wire.shapes import clean, error_of, first_string, joined, json_text, member, objects, string, tokens
from memory import exchange

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}


@dataclass(frozen=True, slots=True)
class AnthropicMessages:
    id: exchange.Protocol = "anthropic"

    def claims(self, path: str) -> bool:
        return path.endswith(("/v1/messages", "/v1/messages/count_tokens"))

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:
        conversation = header(headers, "x-claude-code-session-id") or _session_of(text_of(body, "metadata", "user_id"))
        return RequestFacts(
            model=text_of(body, "model") or "",
            conversation=conversation,
            opening=None if conversation else first_of_role(member(body, "messages")),
            side_request=path.endswith("/count_tokens") or asks_aside(headers, body),
        )

    def content(self, path: str, body: Any) -> RequestContent:  # noqa: ARG002 - one shape for all
        return request_content(
            texts(member(body, "system")),
            _messages(member(body, "messages")),
            [first_string(tool, "name") for tool in objects(member(body, "tools"))],
        )

    def answer(self) -> AnswerParts:
        return AnthropicAnswer()


class AnthropicAnswer:
    """The events of a stream (https://docs.claude.com/en/docs/build-with-claude/streaming), or one message.

    The texts of all blocks are one, since citations cut sentences into several blocks. What was thought is a line for
    each block. Calls of the provider's own tools and of MCP servers are tool calls too; their results are left out.
    """

    def __init__(self) -> None:
        room = Room()
        self._text = Text(room)
        self._thoughts = Thoughts(room)
        self._calls = Calls(room)
        self._given: dict[int, Any] = {}
        """Arguments that came with the beginning of a call: they stand if none follow."""
        self._usage = exchange.Usage()
        self._stop_reason: str | None = None
        self._error: str | None = None
        self._model = ""
        self._id: str | None = None
        self._complete = False

    @property
    def done(self) -> bool:
        return self._complete or self._error is not None

    def add(self, event: Any) -> None:
        match member(event, "type"):
            case "content_block_delta":
                self._delta(event.get("index"), event.get("delta"))
            case "content_block_start":
                self._begin(event.get("index"), event.get("content_block"))
            case "content_block_stop":
                self._end(event.get("index"))
            case "message_start":
                self._begin_message(event.get("message"))
            case "message_delta":
                self._stop_reason = text_of(event, "delta", "stop_reason") or self._stop_reason
                self._count(event.get("usage"))
            case "message_stop":
                self._complete = True
            case "error":
                self._error = error_of(event) or "error"

    def whole(self, body: Any) -> None:
        if not isinstance(body, dict):
            return
        if "content" not in body:
            self._error = error_of(body) or first_string(body, "message") or None
        self._begin_message(body)
        for index, block in enumerate(objects(body.get("content"))):
            self._begin(index, block)
            self._end(index)
        self._complete = self._error is None

    def answer(self) -> Answer:
        return Answer(
            text=str(self._text),
            thinking=str(self._thoughts),
            tool_calls=self._calls.done(),
            usage=self._usage,
            stop_reason=self._stop_reason,
            error=self._error,
            model=self._model,
            id=self._id,
            complete=self._complete and self._error is None,
        )

    def _begin_message(self, message: Any) -> None:
        self._model = text_of(message, "model") or ""
        self._id = text_of(message, "id")
        self._stop_reason = text_of(message, "stop_reason")
        self._count(member(message, "usage"))

    def _begin(self, index: Any, block: Any) -> None:
        """A block as it begins in a stream, mostly empty, or a whole one. Redacted thinking has nothing to show."""
        match member(block, "type"):
            case "text":
                self._text.add(block.get("text"))
            case "thinking":
                self._thoughts.add(index, block.get("thinking"))
            case "fallback":  # another model goes on with the answer
                self._model = text_of(block, "to", "model") or self._model
            case str(kind) if kind.endswith("tool_use") and isinstance(index, int):
                call = self._calls.begin(index)
                call.identify(block.get("id"))
                call.add(block.get("name"), None)
                self._given[index] = block.get("input")

    def _delta(self, index: Any, delta: Any) -> None:
        match member(delta, "type"):
            case "text_delta":
                self._text.add(delta.get("text"))
            case "thinking_delta":
                self._thoughts.add(index, delta.get("thinking"))
            case "input_json_delta" if isinstance(index, int) and (call := self._calls.get(index)):
                call.arguments.add(delta.get("partial_json"))

    def _end(self, index: Any) -> None:
        if isinstance(index, int) and index in self._given:
            given, call = self._given.pop(index), self._calls.get(index)
            if call is not None and not str(call.arguments):
                call.add(None, given)

    def _count(self, usage: Any) -> None:
        """Later counts are totals too and stand instead of earlier ones; what is not said again stays."""
        before = self._usage
        self._usage = exchange.Usage(
            input=_count(usage, "input_tokens", before.input),
            output=_count(usage, "output_tokens", before.output),
            cache_read=_count(usage, "cache_read_input_tokens", before.cache_read),
            cache_write=_count(usage, "cache_creation_input_tokens", before.cache_write),
        )


class Thoughts:
    """What was thought: a line for each block that has a text."""

    def __init__(self, room: Room) -> None:
        self._text = Text(room)
        self._block: tuple[Any] | None = None
        """The block that was last added to."""

    def add(self, block: Any, piece: Any) -> None:
        if not string(piece):
            return
        if self._block not in (None, (block,)):
            self._text.add("\n")
        self._block = (block,)
        self._text.add(piece)

    def __str__(self) -> str:
        return str(self._text)


def _count(usage: Any, key: str, before: int | None) -> int | None:
    count = tokens(member(usage, key))
    return before if count is None else count


def _messages(messages: Any) -> Iterator[Message]:
    """A message of role `system` may stand in the middle. Tools that the provider runs answer in the assistant's."""
    for one in objects(messages):
        role, content = _ROLES.get(string(one.get("role"))), one.get("content")
        if role is not None:
            yield Message(role, joined(texts(content)), tuple(_calls(content)), tuple(_results(content)))


def _calls(content: Any) -> Iterator[ToolCall]:
    for block in objects(content):
        if string(block.get("type")).endswith("tool_use"):
            arguments = clean(json_text(block.get("input")))
            yield ToolCall(clean(string(block.get("id"))), clean(string(block.get("name"))), arguments)


def _results(content: Any) -> Iterator[ToolResult]:
    for block in objects(content):
        if string(block.get("type")).endswith("tool_result"):
            yield ToolResult(clean(string(block.get("tool_use_id"))), joined(texts(block.get("content"))))


def _session_of(user_id: str | None) -> str | None:
    """Claude Code's session in `metadata.user_id`: a JSON document in a string, formerly `user_…_session_UUID`."""
    if user_id is None:
        return None
    try:
        return text_of(json.loads(user_id), "session_id")
    except (ValueError, RecursionError):
        return user_id.rpartition("_session_")[2] if "_session_" in user_id else None
