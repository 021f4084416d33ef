"""The blocks of an answer of Anthropic Messages, put together again as a later request has to hold them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from addons.loop.dialect import Ask
from addons.loop.events import Event, decoded, json_text
from addons.loop.places import elements, members
from addons.wire.shapes import items, member, string

_GIVEN_UP = ("max_tokens", "model_context_window_exceeded", "refusal", "pause_turn")
"""Why an answer may stop with calls in it that are not meant to be run, or not whole."""


class Block:
    """A block of an answer: as it began, with its deltas, or whole as JSON text."""

    def __init__(self, value: dict[str, Any], text: str | None = None) -> None:
        self._value = value
        self._text = text
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    @property
    def type(self) -> str:
        return string(self._value.get("type"))

    @property
    def id(self) -> str:
        return string(self._value.get("id"))

    @property
    def said(self) -> str:
        """Its text; empty where it is of another type."""
        return self._joined("text") if self.type == "text" else ""

    @property
    def is_empty(self) -> bool:
        """A text of white space, which answers may hold and requests may not."""
        return self.type == "text" and not self.said.strip()

    @property
    def arguments(self) -> str:
        """The JSON of a call's arguments, as the model wrote it; it may be none."""
        written = "".join(self._pieces.get("partial_json", ()))
        return written if written.strip() else json_text(self._value.get("input") or {})

    def is_call_of(self, name: str) -> bool:
        return self.type == "tool_use" and self._value.get("name") == name and bool(self.id)

    def add(self, delta: Any) -> None:
        match member(delta, "type"):
            case "text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta":
                for key in ("text", "thinking", "signature", "partial_json"):
                    if isinstance(delta.get(key), str):
                        self._pieces.setdefault(key, []).append(delta[key])
            case "citations_delta":
                self._citations.append(delta.get("citation"))
            case str():
                self._value |= {key: value for key, value in delta.items() if key != "type"}

    def json(self) -> str:
        """As it has to stand in a request."""
        if self._text is not None:
            return self._text
        value = dict(self._value)
        for key in self._pieces:
            if key != "partial_json":
                value[key] = self._joined(key)
        if self._citations:
            value["citations"] = [*items(value.get("citations")), *self._citations]
        written = {key: json_text(one) for key, one in value.items()}
        if self.type.endswith("tool_use"):
            written["input"] = self.arguments if isinstance(decoded(self.arguments), dict) else "{}"
        return "{" + ",".join(f"{json_text(key)}:{one}" for key, one in written.items()) + "}"

    def _joined(self, key: str) -> str:
        return string(self._value.get(key)) + "".join(self._pieces.get(key, ()))


@dataclass(slots=True)
class Answer:
    """The answer to one request, as far as it has come."""

    blocks: list[Block] = field(default_factory=list)
    hidden: set[Block] = field(default_factory=set)
    by_index: dict[int, tuple[Block, int]] = field(default_factory=dict)
    """The index of a block that goes on -> it, and its index for the client."""
    held: list[tuple[Event, Any]] = field(default_factory=list)
    """The last events, from the stop reason on."""
    usage: Any = None
    stop_reason: Any = None

    def add(self, block: Block, tool: str) -> None:
        self.blocks.append(block)
        if block.is_call_of(tool):
            self.hidden.add(block)

    def read(self, document: str, tool: str) -> None:
        """Take an answer that is one document. Raises ValueError and RecursionError."""
        found = members(document)
        values = {key: decoded(place.of(document)) for key, place in found.items()}
        blocks = values.get("content")
        if values.get("type") != "message" or not isinstance(blocks, list):
            raise ValueError("no message")
        if not all(isinstance(block, dict) for block in blocks):
            raise ValueError("a block is no object")
        for block, place in zip(blocks, elements(document, found["content"].start), strict=True):
            self.add(Block(block, place.of(document)), tool)
        self.usage, self.stop_reason = values.get("usage"), values.get("stop_reason")

    @property
    def shown(self) -> list[Block]:
        return [block for block in self.blocks if block not in self.hidden]

    @property
    def calls_others(self) -> bool:
        return any(block.type == "tool_use" for block in self.shown)

    def asks(self) -> tuple[Ask, ...]:
        if self.stop_reason in _GIVEN_UP:
            return ()
        return tuple(Ask(block.id, block.arguments) for block in self.blocks if block in self.hidden)

    def message(self, answered: Collection[str]) -> str | None:
        """The hidden message; a call without a result has no place in it. None: nothing is left."""
        kept = [b for b in self.blocks if not b.is_empty and (b not in self.hidden or b.id in answered)]
        return f'{{"role":"assistant","content":[{",".join(b.json() for b in kept)}]}}' if kept else None
