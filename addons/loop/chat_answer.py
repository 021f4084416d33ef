"""The message of a chat completion, put together again as a later request has to hold it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from addons.loop.dialect import Ask
from addons.loop.events import decoded, json_text
from addons.wire.chat_messages import texts
from addons.wire.shapes import first_string, items, member, objects, string
from addons.wire.shapes import json_text as as_text

_GIVEN_UP = ("length", "content_filter", "error")
"""Why an answer may stop with calls in it that are not meant to be run, or not whole."""
_NOT_SAID_AGAIN = ("role", "content", "tool_calls", "function_call", "annotations", "audio")


class Call:
    """A call of a tool that grows. `is_hidden` None: the beginning of a name may become that of the recall tool."""

    def __init__(self, index: Any) -> None:
        self.index = index if type(index) is int else None
        self.id = ""
        self.is_hidden: bool | None = None
        self._name: list[str] = []
        self._arguments: list[str] = []
        self._more: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return "".join(self._name)

    @property
    def arguments(self) -> str:
        """JSON as the model wrote it; it may be none."""
        return "".join(self._arguments) or "{}"

    def add(self, piece: dict[str, Any], tool: str) -> None:
        """More of it. Some servers repeat the name in every piece."""
        said = said_to(piece)
        self.id = self.id or string(piece.get("id"))
        if (name := string(said.get("name"))) and name != self.name:
            self._name.append(name)
        self._arguments.append(as_text(said.get("arguments")))
        self._more |= {key: one for key, one in piece.items() if key not in ("index", "id", "function")}
        if self.is_hidden is None and (self.name == tool or not tool.startswith(self.name)):
            self.is_hidden = self.name == tool and "function" in piece

    def value(self) -> dict[str, Any]:
        arguments = self.arguments if isinstance(decoded(self.arguments), dict) else "{}"
        return {
            "type": "function",
            **self._more,
            "id": self.id,
            "function": {"name": self.name, "arguments": arguments},
        }


@dataclass(slots=True)
class ChatAnswer:
    """The answer to one request, as far as it has come."""

    calls: list[Call] = field(default_factory=list)
    said: list[Any] = field(default_factory=list)
    """Pieces of its content, in their order: strings, or parts of other servers' own."""
    more: dict[str, list[Any]] = field(default_factory=dict)
    """What other servers add to a message and want back, such as what was thought."""
    usage: Any = None
    stop_reason: str | None = None

    def add(self, message: dict[str, Any], tool: str) -> list[Call]:
        """Take a message, or a piece of one. Gives the calls that its pieces of calls belong to."""
        content = message.get("content")
        self.said += [content] if isinstance(content, str) else items(content)
        for key, value in message.items():
            if key not in _NOT_SAID_AGAIN and value not in (None, "", []):
                self.more.setdefault(key, []).append(value)
        calls = []
        for piece in objects(message.get("tool_calls")):
            call = self._call(piece)
            call.add(piece, tool)
            calls.append(call)
        return calls

    def decide(self, names: Iterator[str]) -> None:
        """The answer is over: what has only begun to be called like the tool is none of its calls; each ask has an id."""
        seen = set()
        for call in self.calls:
            call.is_hidden = bool(call.is_hidden)
            if call.is_hidden and (not call.id or call.id in seen):
                call.id = next(names)
            seen.add(call.id)

    @property
    def hidden(self) -> list[Call]:
        return [call for call in self.calls if call.is_hidden]

    @property
    def shown(self) -> list[Call]:
        return [call for call in self.calls if not call.is_hidden]

    @property
    def texts(self) -> list[str]:
        return [*texts(self.said), *texts(self.more.get("refusal"))]

    def asks(self) -> tuple[Ask, ...]:
        if self.stop_reason in _GIVEN_UP:
            return ()
        return tuple(Ask(call.id, call.arguments) for call in self.hidden)

    def content(self) -> Any:
        """A string, or parts where one came; None: nothing was said."""
        if all(isinstance(one, str) for one in self.said):
            return "".join(self.said) or None
        parts: list[Any] = []
        for one in self.said:
            if not isinstance(one, str):
                parts.append(one)
            elif parts and isinstance(parts[-1], str):
                parts[-1] += one
            else:
                parts.append(one)
        return [as_part(one) if isinstance(one, str) else one for one in parts]

    def message(self, answered: Collection[str]) -> str | None:
        """The hidden message; a call without a result has no place in it. None: nothing is left."""
        calls = [call.value() for call in self.calls if not call.is_hidden or call.id in answered]
        content = self.content()
        if not calls and content is None:
            return None
        more = {key: grown(values) for key, values in self.more.items()}
        return json_text({"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {}), **more})

    def index(self, call: Call) -> int | None:
        """Of a call for the client: without the hidden ones before it."""
        if call.index is None:
            return None
        return call.index - sum(1 for one in self.hidden if one.index is not None and one.index < call.index)

    def _call(self, piece: dict[str, Any]) -> Call:
        """The call that a piece belongs to, found as `wire.openai_chat` does: indices may all be 0, or be missing."""
        index, call_id = piece.get("index"), first_string(piece, "id")
        if type(index) is int:
            known = next((one for one in reversed(self.calls) if one.index == index), None)
            if known is not None and call_id and known.id and call_id != known.id:
                known = None
        elif call_id:
            known = next((one for one in reversed(self.calls) if one.id == call_id), None)
        else:
            known = self.calls[-1] if self.calls and not first_string(said_to(piece), "name") else None
        if known is None:
            known = Call(index)
            self.calls.append(known)
        return known


def said_to(piece: dict[str, Any]) -> dict[str, Any]:
    """What a piece of a call says of the function, or of a tool that takes free text."""
    said = member(piece, "function") or member(piece, "custom")
    return said if isinstance(said, dict) else {}


def as_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def grown(values: list[Any], between: str = "") -> Any:
    """A text or a list that came in pieces; of anything else the last."""
    if all(isinstance(one, str) for one in values):
        return between.join(values)
    if all(isinstance(one, list) for one in values):
        return [one for piece in values for one in piece]
    return values[-1]
