"""The items of OpenAI Responses, in requests and in answers alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from addons.loop.events import decoded, json_text
from addons.wire.shapes import first_string, items, member, string


class Item(NamedTuple):
    """An item of an answer: its JSON as it came, and what it holds; None where that is no JSON of ours."""

    text: str
    value: Any


def item_of(text: str) -> Item:
    return Item(text, decoded(text))


def is_models(item: Any) -> bool:
    """Whether the model has made it: what it said, what it thought, a call."""
    kind = member(item, "type")
    return kind == "reasoning" or is_call(item) or (kind in (None, "message") and member(item, "role") == "assistant")


def is_call(item: Any) -> bool:
    return string(member(item, "type")).endswith("_call")


def is_call_of(item: Any, name: str) -> bool:
    """Whether it calls the function of that name; one in a namespace is another one."""
    return member(item, "type") == "function_call" and item.get("name") == name and item.get("namespace") is None


def call_id(item: Any) -> str:
    return first_string(item, "call_id", "id")


def said(item: Any) -> list[str]:
    """The texts of a message; empty for any other item."""
    content = member(item, "content")
    if member(item, "type") not in (None, "message"):
        return []
    return [content] if isinstance(content, str) else [first_string(part, "text", "refusal") for part in items(content)]


def as_item(text: str) -> str:
    """An input that is a string, as the message that it stands for. Both are JSON."""
    return f'{{"role":"user","content":{text}}}'


def result(call: str, text: str) -> str:
    return json_text({"type": "function_call_output", "call_id": call, "output": text})


def sendable(output: Sequence[Item], *, is_stored: bool) -> list[str]:
    """The items of an answer that may be sent back. Thinking without its content is only known to who has stored it."""
    return [one.text for one in output if is_stored or not _is_bare_thinking(one.value)]


def key_of_id(answer: str) -> str:
    """The key of an answer that is only named."""
    return f"id {answer}"


def _is_bare_thinking(item: Any) -> bool:
    return member(item, "type") == "reasoning" and not item.get("encrypted_content")
