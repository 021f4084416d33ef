"""Amazon Bedrock: `POST /model/ID/converse`, `/converse-stream`, `/invoke`, `/invoke-with-response-stream`.

Converse is one protocol for all models. The body of an invocation is the model's own: Anthropic's is read, of others
only the model is known. `/model/ID/count-tokens` is scanned but never a turn.
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_Operations_Amazon_Bedrock_Runtime.html
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from addons.wire.answer import Answer, AnswerParts, ToolCall
from addons.wire.anthropic import AnthropicAnswer, AnthropicMessages, Thoughts
from addons.wire.assembly import Calls, Room, Text
from addons.wire.chat_messages import request_content
from addons.wire.content import Message, RequestContent, Role, ToolResult
from addons.wire.facts import RequestFacts, first_of_role, text_of
from addons.wire.shapes import clean, error_of, first_string, items, joined, json_text, member, objects, string, tokens
from memory import exchange

# The id may be an ARN, whose slash is mostly, but not by every client, sent as %2F.
_PATH = re.compile(r"/model/(.+)/(converse|converse-stream|invoke|invoke-with-response-stream|count-tokens)$")
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}


@dataclass(frozen=True, slots=True)
class Bedrock:
    id: exchange.Protocol = "bedrock"

    def claims(self, path: str) -> bool:
        return _PATH.search(path) is not None

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:
        model, operation = _model_and_operation(path)
        if operation.startswith("invoke"):
            facts = AnthropicMessages().read(path, headers, body if _is_anthropic(body) else None)
            return replace(facts, model=model)
        body = _conversation(operation, body)
        return RequestFacts(
            model=model,
            opening=first_of_role(_without_cache_points(member(body, "messages"))),
            side_request=operation == "count-tokens",
        )

    def content(self, path: str, body: Any) -> RequestContent:
        operation = _model_and_operation(path)[1]
        if operation.startswith("invoke"):
            return AnthropicMessages().content(path, body if _is_anthropic(body) else None)
        body = _conversation(operation, body)
        return request_content(
            _texts(member(body, "system")),
            _messages(member(body, "messages")),
            [first_string(member(tool, "toolSpec"), "name") for tool in objects(member(body, "toolConfig", "tools"))],
        )

    def answer(self) -> AnswerParts:
        return BedrockAnswer()


class BedrockAnswer:
    """A stream's messages as `streams` hands them on (text headers, and `payload`), or one document.

    What an Anthropic model answers to an invocation is Anthropic's: as a document, or event by event, each in base64.
    """

    def __init__(self) -> None:
        self._converse = _ConverseAnswer()
        self._anthropic: AnthropicAnswer | None = None
        self._error: str | None = None

    @property
    def done(self) -> bool:
        return self._error is not None or self._parts.done

    def add(self, event: Any) -> None:
        payload = member(event, "payload")
        match member(event, ":message-type"):
            case "exception":
                self._error = first_string(payload, "message", "Message") or first_string(event, ":exception-type")
            case "error":
                self._error = first_string(event, ":error-message", ":error-code")
            case _ if member(event, ":event-type") == "chunk":
                self._invoked().add(_decoded(member(payload, "bytes")))
            case _:
                self._converse.add(string(member(event, ":event-type")), payload)
        if self._error is not None:
            self._error = clean(self._error) or "error"

    def whole(self, body: Any) -> None:
        if member(body, "type") == "message":
            self._invoked().whole(body)
        elif isinstance(member(body, "output", "message"), dict):
            self._converse.whole(body)
        elif text := first_string(body, "message", "Message") or error_of(body):
            self._error = clean(text)
        elif isinstance(body, dict):  # of a model whose answers are not read
            self._converse.done = True

    def answer(self) -> Answer:
        answer = self._parts.answer()
        return answer if self._error is None else replace(answer, error=self._error, complete=False)

    @property
    def _parts(self) -> AnthropicAnswer | _ConverseAnswer:
        return self._anthropic or self._converse

    def _invoked(self) -> AnthropicAnswer:
        self._anthropic = self._anthropic or AnthropicAnswer()
        return self._anthropic


class _ConverseAnswer:
    """Blocks have a number; only those of tools are announced. Usage comes after the end of the message."""

    def __init__(self) -> None:
        room = Room()
        self._text = Text(room)
        self._thoughts = Thoughts(room)
        self._calls = Calls(room)
        self._usage = exchange.Usage()
        self._stop_reason: str | None = None
        self._model = ""
        self.done = False

    def add(self, kind: str, payload: Any) -> None:
        index = member(payload, "contentBlockIndex")
        match kind:
            case "contentBlockDelta":
                self._piece(index, member(payload, "delta"))
            case "contentBlockStart" if isinstance(tool := member(payload, "start", "toolUse"), dict):
                self._begin_tool(index, tool)
            case "contentBlockStop":
                self._end_tool(index, {})
            case "messageStop":
                self._end(payload)
            case "metadata":
                self._count(payload)

    def whole(self, body: dict[str, Any]) -> None:
        for index, block in enumerate(objects(member(body, "output", "message", "content"))):
            tool = block.get("toolUse")
            if isinstance(tool, dict):
                self._begin_tool(index, tool)
                self._end_tool(index, tool.get("input"))
            else:
                thought = member(block, "reasoningContent", "reasoningText")
                self._piece(index, {**block, "reasoningContent": thought})
        self._end(body)
        self._count(body)

    def answer(self) -> Answer:
        return Answer(
            text=str(self._text),
            thinking=str(self._thoughts),
            tool_calls=self._calls.done(),
            usage=self._usage,
            stop_reason=self._stop_reason,
            model=self._model,
            complete=self.done,
        )

    def _piece(self, index: Any, piece: Any) -> None:
        self._text.add(member(piece, "text"))
        self._thoughts.add(index, member(piece, "reasoningContent", "text"))
        if isinstance(index, int) and (call := self._calls.get(index)):
            call.arguments.add(member(piece, "toolUse", "input"))

    def _begin_tool(self, index: Any, tool: dict[str, Any]) -> None:
        call = self._calls.begin(index if isinstance(index, int) else None)
        call.identify(tool.get("toolUseId"))
        call.add(tool.get("name"), None)

    def _end_tool(self, index: Any, given: Any) -> None:
        call = self._calls.get(index) if isinstance(index, int) else None
        if call is not None and not str(call.arguments):
            call.add(None, given)

    def _end(self, body: Any) -> None:
        self._stop_reason = text_of(body, "stopReason")
        self.done = True

    def _count(self, body: Any) -> None:
        usage = member(body, "usage")
        self._usage = exchange.Usage(
            input=tokens(member(usage, "inputTokens")),
            output=tokens(member(usage, "outputTokens")),
            cache_read=tokens(member(usage, "cacheReadInputTokens")),
            cache_write=tokens(member(usage, "cacheWriteInputTokens")),
        )
        # A prompt router says which of its models it chose.
        self._model = text_of(body, "trace", "promptRouter", "invokedModelId") or ""


def _model_and_operation(path: str) -> tuple[str, str]:
    found = _PATH.search(path)
    return (unquote(found[1], errors="replace"), found[2]) if found else ("", "")


def _is_anthropic(body: Any) -> bool:
    """It must say its version (https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html)."""
    return isinstance(member(body, "anthropic_version"), str)


def _conversation(operation: str, body: Any) -> Any:
    return member(body, "input", "converse") if operation == "count-tokens" else body


def _decoded(data: Any) -> Any:
    """The JSON that is in base64; None where there is none."""
    try:
        return json.loads(base64.b64decode(data).decode("utf-8", "replace"))
    except (TypeError, ValueError, RecursionError):
        return None


def _without_cache_points(messages: Any) -> list[dict[str, Any]]:
    """The first message of a person, since cache points move on from turn to turn."""
    first = next((one for one in objects(messages) if one.get("role") == "user"), {})
    return [
        {**first, "content": [block for block in items(first.get("content")) if member(block, "cachePoint") is None]}
    ]


def _messages(messages: Any) -> Iterator[Message]:
    for one in objects(messages):
        if (role := _ROLES.get(string(one.get("role")))) is not None:
            content = one.get("content")
            yield Message(role, joined(_texts(content)), tuple(_calls(content)), tuple(_results(content)))


def _texts(content: Any) -> Iterator[str]:
    """`{"text"}`, `{"guardContent": {"text": {"text"}}}`, and in a tool's result also `{"json"}`."""
    for block in objects(content):
        yield first_string(block, "text") or first_string(member(block, "guardContent", "text"), "text")
        yield json_text(block.get("json"))


def _calls(content: Any) -> Iterator[ToolCall]:
    for block in objects(content):
        if isinstance(tool := block.get("toolUse"), dict):
            arguments = clean(json_text(tool.get("input")))
            yield ToolCall(clean(string(tool.get("toolUseId"))), clean(string(tool.get("name"))), arguments)


def _results(content: Any) -> Iterator[ToolResult]:
    for block in objects(content):
        if isinstance(result := block.get("toolResult"), dict):
            yield ToolResult(clean(string(result.get("toolUseId"))), joined(_texts(result.get("content"))))
