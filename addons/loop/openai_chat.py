"""OpenAI Chat Completions (https://platform.openai.com/docs/api-reference/chat), as dozens of servers speak it: how its
requests offer the tool and hold what was hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from addons.loop.chat_weave import ChatWeave
from addons.loop.dialect import Offered, Past, Request
from addons.loop.events import json_text
from addons.loop.keys import before_of, placed, print_of
from addons.loop.places import Edit, edited, elements, opened, with_element
from addons.wire.chat_messages import texts
from addons.wire.shapes import member, objects, string
from memory.conversations.recall_tool import RecallTool
from memory.json_text import RepeatedKeys

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
    found, values = opened(text)
    messages = values.get("messages")
    if not _takes_tool(values, tool.name) or not isinstance(messages, list) or not all(map(_is_message, messages)):
        return None
    if not messages or messages[-1]["role"] == "assistant":
        return None
    *keys, before = _keys(messages)
    passages = {at: passage for at, key in enumerate(keys) if key and (passage := past.passage(key))}
    places = elements(text, found["messages"].start) if passages else []
    history = [Edit(places[at], ",".join(passage.instead)) for at, passage in passages.items()]
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    offer = with_element(text, found, "tools", json_text({"type": "function", "function": function}))
    return Offered(
        edited(text, [*history, offer]),
        is_streamed=values.get("stream") is True,
        is_expanded=bool(history),
        without_tool=None if values.get("tools") else edited(text, history),  # a model may know no tools at all
        before=before or "",
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


def _keys(messages: Sequence[Any]) -> Iterator[str | None]:
    """The key of each message that is an answer; at last what the answer to come is known by: the last message of the user's or
    of a tool, and the answer before that.
    """
    before, earlier = before_of((), ()), None
    for message in messages:
        if message["role"] == "assistant":
            earlier = print_of(_said(message), _calls(message))
            yield earlier and placed(before, earlier)
            continue
        if message["role"] == "user":
            before = before_of(_said(message), (), earlier)
        elif message["role"] == "tool":
            before = before_of((), [string(message.get("tool_call_id"))], earlier)
        yield None
    yield before


def _said(message: Any) -> list[str]:
    return [*texts(message.get("content")), string(message.get("refusal"))]


def _calls(message: Any) -> list[str]:
    return [string(call.get("id")) for call in objects(message.get("tool_calls"))]
