"""Ollama's own API: `POST /api/chat` and `/api/generate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from addons.wire.answer import Answer, AnswerParts
from addons.wire.assembly import Calls, Room, Text
from addons.wire.chat_messages import chat_messages, request_content, tool_names
from addons.wire.content import Message, RequestContent
from addons.wire.facts import RequestFacts, first_of_role, text_of
from addons.wire.shapes import clean, error_of, first_string, member, objects, string, tokens
from memory import exchange


@dataclass(frozen=True, slots=True)
class Ollama:
    id: exchange.Protocol = "ollama"

    def claims(self, path: str) -> bool:
        return path.endswith(("/api/chat", "/api/generate"))

    def read(self, path: str, headers: Mapping[str, str], body: Any) -> RequestFacts:  # noqa: ARG002 - all in the body
        return RequestFacts(
            model=text_of(body, "model") or "",
            opening=first_of_role(member(body, "messages")) or text_of(body, "prompt"),
        )

    def content(self, path: str, body: Any) -> RequestContent:  # noqa: ARG002 - the keys of both differ
        messages = list(chat_messages(member(body, "messages")))
        if prompt := string(member(body, "prompt")):
            messages.append(Message("user", clean(prompt)))
        return request_content([string(member(body, "system"))], messages, tool_names(member(body, "tools")))

    def answer(self) -> AnswerParts:
        return OllamaParts()


class OllamaParts:
    """Each line of a stream holds a piece of the message, the last one `done` and the counts. One document has it all.

    Usage is as Ollama counts: `input` holds what was read from the cache. Old versions leave it out when all was cached.
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
        self._over = False

    def add(self, event: Any) -> None:
        self._error = self._error or error_of(event)
        self._model = text_of(event, "model") or self._model
        self._text.add(member(event, "response"))
        self._thinking.add(member(event, "thinking"))
        self._text.add(member(event, "message", "content"))
        self._thinking.add(member(event, "message", "thinking"))
        for said in objects(member(event, "message", "tool_calls")):
            if name := first_string(member(said, "function"), "name"):
                call = self._calls.begin()
                call.identify(said.get("id"))
                call.add(name, member(said, "function", "arguments") or {})
        if member(event, "done") is True:
            self._over = True
            self._stop_reason = text_of(event, "done_reason")
            self._usage = exchange.Usage(
                input=tokens(member(event, "prompt_eval_count")),
                output=tokens(member(event, "eval_count")),
                cache_read=tokens(member(event, "prompt_eval_cached_count")),
            )

    def whole(self, body: Any) -> None:
        self.add(body)

    @property
    def done(self) -> bool:
        return self._over or self._error is not None

    def answer(self) -> Answer:
        return Answer(
            text=str(self._text),
            thinking=str(self._thinking),
            tool_calls=self._calls.done(),
            usage=self._usage,
            stop_reason=self._stop_reason,
            error=self._error,
            model=self._model,
            complete=self._over and self._error is None,
        )
