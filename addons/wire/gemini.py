"""Gemini: `…/models/MODEL:generateContent` and `:streamGenerateContent`, and Gemini CLI's `v1internal` wrapper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from addons.wire.answer import Answer, AnswerParts, ToolCall
from addons.wire.assembly import Calls, Room, Text
from addons.wire.chat_messages import request_content
from addons.wire.content import Message, RequestContent, ToolResult
from addons.wire.facts import RequestFacts, canonical, first_of_role, header, text_of
from addons.wire.shapes import clean, error_of, first_string, items, joined, json_text, member, objects, string, tokens
from memory import exchange

_METHODS = (":generateContent", ":streamGenerateContent", ":countTokens")


@dataclass(frozen=True, slots=True)
class Gemini:
    id: exchange.Protocol = "gemini"

    def claims(self, path: str) -> bool:
        return path.endswith(_METHODS)

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:
        named = path.rpartition("/models/")[2].partition(":")[0] if "/models/" in path else ""
        inner = _request(body)
        contents, conversation = member(inner, "contents"), text_of(inner, "session_id")
        return RequestFacts(
            model=named or (text_of(body, "model") or text_of(inner, "model") or "").removeprefix("models/"),
            conversation=conversation,
            opening=None if conversation else first_of_role(contents) or _roleless(contents),
            side_request=path.endswith(":countTokens") or _gemini_cli_aside(path, headers),
        )

    def content(self, path: str, body: Any) -> RequestContent:  # noqa: ARG002 - one shape for all
        inner = _request(body)
        system = _text(_parts(_either(inner, "systemInstruction", "system_instruction")))
        contents = member(inner, "contents")
        each = [contents] if isinstance(contents, dict | str) else items(contents)
        return request_content([system], _messages(each), _tool_names(member(inner, "tools")))

    def answer(self) -> AnswerParts:
        return GeminiParts()


class GeminiParts:
    """The first candidate of an answer. Each event of a stream is an answer of its own, with more of the text.

    Usage is as the provider counts, the last count being the valid one: `input` holds what was read from the cache;
    `output` is what was written and what was thought, which the provider counts apart.
    """

    def __init__(self) -> None:
        room = Room()
        self._text = Text(room)
        self._thinking = Text(room)
        self._calls = Calls(room)
        self._usage = exchange.Usage()
        self._stop_reason: str | None = None
        self._error: str | None = None
        self._model = ""
        self._id: str | None = None

    def add(self, event: Any) -> None:
        """One event; Gemini CLI's host wraps it: `{"response": …}`."""
        if member(event, "candidates") is None:
            self._error = self._error or error_of(event)
        response = member(event, "response") or event
        self._model = self._model or text_of(response, "modelVersion") or ""
        self._id = self._id or text_of(response, "responseId") or text_of(event, "traceId")
        self._count(member(response, "usageMetadata"))
        feedback = member(response, "promptFeedback")
        if blocked := text_of(feedback, "blockReason"):
            self._stop_reason = blocked
            self._error = self._error or text_of(feedback, "blockReasonMessage")
        candidate = next((one for one in objects(member(response, "candidates")) if not one.get("index")), None)
        for part in objects(member(candidate, "content", "parts")):
            (self._thinking if part.get("thought") is True else self._text).add(part.get("text"))
            if isinstance(call := part.get("functionCall"), dict):
                self._call(call)
        self._stop_reason = text_of(candidate, "finishReason") or self._stop_reason

    def whole(self, body: Any) -> None:
        """One answer; errors of streams come in an array."""
        for one in [body] if isinstance(body, dict) else items(body):
            self.add(one)

    @property
    def done(self) -> bool:
        return self._stop_reason is not None or self._error is not None

    def answer(self) -> Answer:
        return Answer(
            text=str(self._text),
            thinking=str(self._thinking),
            tool_calls=self._calls.done(),
            usage=self._usage,
            stop_reason=self._stop_reason,
            error=self._error,
            model=self._model,
            id=self._id,
            complete=self.done and self._error is None,
        )

    def _call(self, said: dict[str, Any]) -> None:
        if name := first_string(said, "name"):
            call = self._calls.begin()
            call.identify(said.get("id"))
            call.add(name, said.get("args") or {})

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        said = [tokens(usage.get(key)) for key in ("candidatesTokenCount", "thoughtsTokenCount")]
        counted = [count for count in said if count is not None]
        self._usage = exchange.Usage(
            input=tokens(usage.get("promptTokenCount")),
            output=sum(counted) if counted else None,
            cache_read=tokens(usage.get("cachedContentTokenCount")),
        )


def _request(body: Any) -> Any:
    """The request itself.

    The Code Assist host wraps it: `{"model", "project", "request": {"contents": …}}`; `:countTokens` may hold one too.
    """
    wrapped = (member(body, key) for key in ("request", "generateContentRequest"))
    return next((inner for inner in wrapped if isinstance(inner, dict)), body)


def _gemini_cli_aside(path: str, headers: Mapping[str, str]) -> bool:
    """Whether Gemini CLI asks for something else than a turn, which it always streams.

    Without a stream it chooses a model, asks who speaks next, looks for loops, summarises, corrects an edit.
    """
    return path.endswith(":generateContent") and (header(headers, "user-agent") or "").startswith("GeminiCLI")


def _roleless(contents: Any) -> str | None:
    """A single question may be sent as one content without a role."""
    first = next(iter(items(contents)), None)
    return canonical(first) if isinstance(first, dict) and "role" not in first else None


def _messages(contents: Any) -> Iterator[Message]:
    for content in contents:
        parts = _parts(content)
        text, calls, results = _text(parts), tuple(_calls(parts)), tuple(_results(parts))
        match string(member(content, "role")):
            case "model":
                yield Message("assistant", text, calls)
            case "system":
                yield Message("system", text)
            case "user" | "function" | "":
                yield Message("tool" if results and not text else "user", text, (), results)


def _parts(content: Any) -> list[dict[str, Any]]:
    """The parts of a content, which may also be a single part or a bare text."""
    if isinstance(content, str):
        return [{"text": content}]
    parts = member(content, "parts")
    if isinstance(parts, dict):
        return [parts]
    return list(objects(parts)) or ([content] if isinstance(content, dict) else list(objects(content)))


def _text(parts: list[dict[str, Any]]) -> str:
    return joined(string(part.get("text")) for part in parts if part.get("thought") is not True)


def _calls(parts: list[dict[str, Any]]) -> Iterator[ToolCall]:
    for part in parts:
        call = _either(part, "functionCall", "function_call")
        if name := first_string(call, "name"):
            yield ToolCall(clean(first_string(call, "id")), clean(name), clean(json_text(member(call, "args") or {})))


def _results(parts: list[dict[str, Any]]) -> Iterator[ToolResult]:
    """What functions gave back. Most clients put one text into an object, under a key of their own."""
    for part in parts:
        given = _either(part, "functionResponse", "function_response")
        if isinstance(given, dict):
            response = given.get("response")
            values = list(response.values()) if isinstance(response, dict) else []
            result = values[0] if len(values) == 1 and isinstance(values[0], str) else response
            yield ToolResult(clean(first_string(given, "id")), clean(json_text(result)))


def _tool_names(tools: Any) -> Iterator[str]:
    """The declared functions, and the provider's own tools by their keys (`googleSearch`)."""
    for tool in [tools] if isinstance(tools, dict) else objects(tools):
        for key, value in tool.items():
            if key in ("functionDeclarations", "function_declarations"):
                yield from (first_string(one, "name") for one in objects(value))
            elif isinstance(value, dict):
                yield key


def _either(value: Any, *names: str) -> Any:
    """A member that some clients write in camel case and some in snake case."""
    return next((one for name in names if (one := member(value, name)) is not None), None)
