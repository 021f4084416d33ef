"""OpenAI Chat Completions: `POST …/chat/completions` under any prefix, as dozens of providers speak it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from addons.wire.answer import Answer, AnswerParts
from addons.wire.assembly import Call, Calls, Room, Text
from addons.wire.chat_messages import chat_messages, request_content, texts, tool_names
from addons.wire.content import RequestContent
from addons.wire.facts import RequestFacts, first_of_role, text_of
from addons.wire.shapes import error_of, first_string, items, member, tokens
from memory import exchange


@dataclass(frozen=True, slots=True)
class OpenAIChat:
    id: exchange.Protocol = "openai-chat"

    def claims(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:  # noqa: ARG002 - one shape for all
        # No conversation: `prompt_cache_key` is often one constant for all of a program's chats.
        # Azure names the deployment in the path and may leave the model out.
        deployment = path.partition("/deployments/")[2].partition("/")[0]
        return RequestFacts(
            model=text_of(body, "model") or deployment,
            opening=first_of_role(member(body, "messages")),
        )

    def content(self, path: str, body: Any) -> RequestContent:  # noqa: ARG002
        names = [*tool_names(member(body, "tools")), *tool_names(member(body, "functions"))]
        return request_content((), chat_messages(member(body, "messages")), names)

    def answer(self) -> AnswerParts:
        return ChatParts()


class ChatParts:
    """The first choice of a chat completion; where several were asked for (`n`), the others are left out.

    Usage is as the provider counts: here, `input` holds what was read from the cache and `output` the thinking.
    A refusal is text. Thinking is what DeepSeek, OpenRouter, vLLM and others add to the protocol, and Mistral's parts.
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
        self._over = False

    def add(self, event: Any) -> None:
        self._take(event, "delta", "message")

    def whole(self, body: Any) -> None:
        self._over |= self._take(body, "message", "delta")

    @property
    def done(self) -> bool:
        return self._over or self._stop_reason is not None or self._error is not None

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

    def _take(self, event: Any, *messages: str) -> bool:
        """Whether there was a message in it. Azure's first event has no choice and an empty model."""
        if not isinstance(event, dict):
            return False
        if event.get("error") or "choices" not in event:
            self._error = self._error or error_of(event)
        self._model = self._model or text_of(event, "model") or ""
        self._id = self._id or text_of(event, "id")
        self._count(event.get("usage") or member(event, "x_groq", "usage"))
        choice = next(
            (one for one in items(event.get("choices")) if isinstance(one, dict) and not one.get("index")), None
        )
        if choice is None:
            return False
        if choice.get("error"):
            self._error = self._error or error_of(choice)
        self._stop_reason = text_of(choice, "finish_reason") or self._stop_reason
        message = next((one for key in messages if isinstance(one := choice.get(key), dict)), None)
        if message is None:
            return False
        self._say(message.get("content"))
        self._text.add(message.get("refusal"))
        # Some servers send the same thinking under both names.
        self._thinking.add(first_string(message, "reasoning_content", "reasoning"))
        for call in items(message.get("tool_calls")):
            self._call(call)
        if isinstance(old := message.get("function_call"), dict):
            call = self._calls.get("function_call") or self._calls.begin("function_call")
            call.add(old.get("name"), old.get("arguments"))
        return True

    def _say(self, content: Any) -> None:
        self._text.add(content)
        for part in items(content):
            if member(part, "type") == "thinking":
                for thought in texts(member(part, "thinking")):
                    self._thinking.add(thought)
            else:
                for text in texts([part]):
                    self._text.add(text)

    def _call(self, piece: Any) -> None:
        said = member(piece, "function") or member(piece, "custom")
        if not isinstance(said, dict):
            return
        call = self._begun(piece, said)
        call.identify(member(piece, "id"))
        call.add(said.get("name"), said.get("arguments") or said.get("input"))

    def _begun(self, piece: dict[str, Any], said: dict[str, Any]) -> Call:
        """The call that a piece belongs to.

        By its index; but some servers give every call the index 0, and some give none: then a new id begins a new call,
        and so does a name where there are no ids.
        """
        index, call_id = piece.get("index"), first_string(piece, "id")
        if isinstance(index, int):
            call = self._calls.get(index)
            if call is None or (call_id and call.id and call_id != call.id):
                call = self._calls.begin(index)
            return call
        if call_id:
            return self._calls.get(call_id) or self._calls.begin(call_id)
        if first_string(said, "name") or self._calls.last is None:
            return self._calls.begin()
        return self._calls.last

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        cached = tokens(member(usage, "prompt_tokens_details", "cached_tokens"))
        self._usage = exchange.Usage(
            input=tokens(usage.get("prompt_tokens")),
            output=tokens(usage.get("completion_tokens")),
            cache_read=tokens(usage.get("prompt_cache_hit_tokens")) if cached is None else cached,  # DeepSeek's name
            cache_write=tokens(member(usage, "prompt_tokens_details", "cache_write_tokens")),
        )
