"""Contents of Gemini and their parts, in requests and in answers alike. Clients write some names in snake case."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from addons.loop.events import json_text
from addons.loop.places import Edit, Place, elements, members
from addons.wire.shapes import member, objects, string
from memory.json_text import decode_value


def either(value: Any, camel: str) -> Any:
    """A member under its name in camel case, or in snake case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in camel)
    return next((one for name in (camel, snake) if (one := member(value, name)) is not None), None)


def call_of(part: Any) -> Any:
    return either(part, "functionCall")


def is_call_of(part: Any, name: str) -> bool:
    return bool(member(call_of(part), "name") == name)


def said(parts: Any) -> list[str]:
    """Their texts, without thoughts."""
    return [string(part.get("text")) for part in objects(parts) if part.get("thought") is not True]


def calls(parts: Any) -> list[str]:
    """What their calls are known by: most have no id, and some clients make one up."""
    found = [call for part in objects(parts) if (call := call_of(part)) is not None]
    return [f"{string(member(call, 'name'))} {_canonical(member(call, 'args') or {})}" for call in found]


def results(parts: Any) -> list[str]:
    """What their results of functions are known by."""
    found = [given for part in objects(parts) if (given := either(part, "functionResponse")) is not None]
    return [f"{string(member(one, 'name'))} {_canonical(member(one, 'response'))}" for one in found]


def result(call: Any, name: str, text: str) -> str:
    """The part that answers a call. It has an id if the call has one."""
    named = {"id": given} if isinstance(given := member(call, "id"), str) else {}
    return json_text({"functionResponse": {**named, "name": name, "response": {"output": text}}})


def content(role: str, parts: Sequence[str]) -> str:
    return f'{{"role":"{role}","parts":[{",".join(parts)}]}}'


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an answer: its JSON as it came, and its value, numbers as floats as in requests."""

    text: str
    value: Any

    @property
    def arguments(self) -> str:
        """Of the call that it is, as the model wrote them."""
        try:
            call = members(self.text, members(self.text)["functionCall"].start)
            return call["args"].of(self.text)
        except (ValueError, KeyError, RecursionError):
            return "{}"

    @property
    def is_empty(self) -> bool:
        """A text of nothing, which answers may hold and requests may not."""
        return isinstance(self.value, dict) and self.value.keys() == {"text"} and not self.value["text"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A whole answer, or a piece of a stream: where the values of its first candidate stand."""

    text: str
    top: dict[str, Place]
    candidate: dict[str, Place] = field(default_factory=dict)
    content: dict[str, Place] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()

    def value(self, key: str) -> Any:
        """Of the answer."""
        return self._decoded(self.top, key)

    @property
    def finish_reason(self) -> Any:
        return self._decoded(self.candidate, "finishReason")

    @property
    def is_last(self) -> bool:
        """Whether it says that the answer is over, well or badly."""
        blocked = member(self.value("promptFeedback"), "blockReason")
        return bool(self.finish_reason or blocked or self.value("error"))

    def with_parts(self, parts: Sequence[Part]) -> list[Edit]:
        """A text of nothing stands where nothing is left: a content without parts makes clients forget the whole turn."""
        if list(parts) == list(self.parts) or not self.candidate:
            return []
        array = f"[{','.join(part.text for part in parts) or _NOTHING}]"
        if "parts" in self.content:
            return [Edit(self.content["parts"], array)]
        if "content" in self.candidate:
            return [Edit(self.candidate["content"], f'{{"parts":{array},"role":"model"}}')]
        at = max(self.candidate.values()).end
        return [Edit(Place(at, at), f',"content":{{"parts":{array},"role":"model"}}')]

    def _decoded(self, found: dict[str, Place], key: str) -> Any:
        return decode_value(self.text, found[key].start)[0] if key in found else None


def read_chunk(text: str) -> Chunk:
    """Raises ValueError and RecursionError where it is no answer."""
    top = members(text)
    if "candidates" not in top or not (each := elements(text, top["candidates"].start)):
        return Chunk(text, top)
    candidate = members(text, each[0].start)
    inner = members(text, candidate["content"].start) if "content" in candidate else {}
    if "parts" not in inner:
        return Chunk(text, top, candidate, inner)
    places = elements(text, inner["parts"].start)
    parts = [Part(place.of(text), decode_value(text, place.start)[0]) for place in places]
    return Chunk(text, top, candidate, inner, tuple(parts))


def _canonical(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return ""


_NOTHING = '{"text":""}'
