"""OpenAI Chat Completions (https://platform.openai.com/docs/api-reference/chat), as dozens of servers speak it: how its
requests offer the tool and hold what was hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from addons.loop.chat_weave import ChatWeave
from addons.loop.dialect import Offered, Past, Request
from addons.loop.events import json_text
from addons.loop.keys import before_of, key_of
from addons.loop.places import Edit, Place, edited, elements, members, with_element
from addons.wire.chat_messages import texts
from addons.wire.shapes import member, objects, string
from memory.conversations.recall_tool import RecallTool
from memory.json_text import RepeatedKeys, decode_value

_NOT_BESIDE = ("functions", "function_call", "web_search_options", "prediction", "audio")
"""What a request may hold that goes with no tool: the older calls, searches of the provider's own, answers that are no text."""


class ChatLoop:
    """The dialect. Left alone as well: an answer that the client begins itself, and structured output."""

    def offer(self, request: Request, tool: RecallTool, past: Past) -> Offered | None:
        if not request.path.partition("?")[0].endswith("/chat/completions"):
            return None
        try:
            return _offer(request.text, tool, past)
        except (ValueError, RecursionError):
            return None

    def weave(self, offered: Offered, body: str, tool: RecallTool) -> ChatWeave:
        return ChatWeave(body, offered.before, tool.name)


def _offer(text: str, tool: RecallTool, past: Past) -> Offered | None:
    found = members(text)
    values = {key: decode_value(text, place.start)[0] for key, place in found.items() if key != "messages"}
    if not _takes_tool(values, tool.name) or "messages" not in found:
        return None
    places = elements(text, found["messages"].start)
    messages = [decode_value(text, place.start)[0] for place in places]
    if not messages or not all(map(_is_message, messages)) or messages[-1]["role"] == "assistant":
        return None
    history = list(_expansions(places, messages, past))
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    offer = with_element(text, found, "tools", json_text({"type": "function", "function": function}))
    return Offered(
        edited(text, [*history, offer]),
        is_streamed=values.get("stream") is True,
        is_expanded=bool(history),
        without_tool=None if values.get("tools") else edited(text, history),  # a model may know no tools at all
        before=_before(messages, len(messages)),
    )


def _takes_tool(values: dict[str, Any], name: str) -> bool:
    """Whether a request lets the model call tools as it likes, for one answer of text, and all of them are the client's."""
    if values.get("n") not in (None, 1) or values.get("stream") not in (None, True, False):
        return False
    if values.get("tool_choice") not in (None, "auto") or values.get("parallel_tool_calls") not in (None, True):
        return False
    if any(values.get(key) is not None for key in _NOT_BESIDE):
        return False
    if values.get("response_format") is not None and member(values["response_format"], "type") != "text":
        return False
    if values.get("modalities") not in (None, ["text"]):
        return False
    tools = values.get("tools")
    return tools is None or (isinstance(tools, list) and all(_is_clients(one, name) for one in tools))


def _is_clients(tool: Any, name: str) -> bool:
    kind = member(tool, "type")
    if kind not in ("function", "custom") or isinstance(tool, RepeatedKeys):
        return False
    said = tool.get(kind)
    return isinstance(said, dict) and not isinstance(said, RepeatedKeys) and said.get("name") != name


def _is_message(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and not isinstance(message, RepeatedKeys)
        and isinstance(message.get("role"), str)
        and isinstance(message.get("content"), str | list | None)
        and isinstance(message.get("tool_calls"), list | None)
    )


def _expansions(places: Sequence[Place], messages: Sequence[Any], past: Past) -> Iterator[Edit]:
    """What really passed, in place of the answers that the client has seen of it."""
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            key = _key(_before(messages, at), message)
            passage = past.passage(key) if key is not None else None
            if passage is not None:
                yield Edit(places[at], ",".join(passage.instead))


def _key(before: str, message: Any) -> str | None:
    calls = [string(call.get("id")) for call in objects(message.get("tool_calls"))]
    return key_of(before, [*texts(message.get("content")), string(message.get("refusal"))], calls)


def _before(messages: Sequence[Any], end: int) -> str:
    """Of the last message of the user's, or of a tool, before a place, and the answer before that."""
    asked = next((at for at in reversed(range(end)) if messages[at]["role"] in ("user", "tool")), 0)
    question: Any = messages[asked] if end else {}
    earlier: Any = next((one for one in reversed(messages[:asked]) if one["role"] == "assistant"), {})
    said = () if question.get("role") == "tool" else texts(question.get("content"))
    return before_of(said, [string(question.get("tool_call_id"))], _key("", earlier))
