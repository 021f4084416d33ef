"""OpenAI Chat Completions (https://platform.openai.com/docs/api-reference/chat), as dozens of servers speak it: how its
requests offer the tool and hold what was hidden.
"""

from __future__ import annotations

from typing import Any

from addons.loop.chat_weave import ChatWeave
from addons.loop.dialect import Offered, Past, Request
from addons.loop.events import json_text
from addons.loop.message_lists import Told, keys_of, open_request
from addons.loop.places import Edit, edited, elements, is_object, with_element
from addons.wire.chat_messages import texts
from addons.wire.shapes import member, objects, string
from memory.conversations.recall_tool import RecallTool

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
    request = open_request(text, _is_message)
    if request is None or not _takes_tool(request.values, tool.name):
        return None
    found, values, messages = request
    *keys, before = keys_of(messages, _said, _calls, _told)
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
    if kind not in ("function", "custom") or not is_object(tool):
        return False
    said = tool.get(kind)
    return is_object(said) and said.get("name") != name


def _is_message(message: Any) -> bool:
    return (
        is_object(message)
        and isinstance(message.get("role"), str)
        and isinstance(message.get("content"), str | list | None)
        and isinstance(message.get("tool_calls"), list | None)
    )


def _told(message: Any) -> Told | None:
    if message["role"] == "user":
        return Told(_said(message))
    return Told(results=[string(message.get("tool_call_id"))]) if message["role"] == "tool" else None


def _said(message: Any) -> list[str]:
    return [*texts(message.get("content")), string(message.get("refusal"))]


def _calls(message: Any) -> list[str]:
    return [string(call.get("id")) for call in objects(message.get("tool_calls"))]
