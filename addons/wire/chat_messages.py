"""Messages with a role and a content, as OpenAI Chat has them and many have taken over, Ollama among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from addons.wire.answer import ToolCall
from addons.wire.content import Message, RequestContent, Role, ToolResult
from addons.wire.shapes import clean, first_string, items, joined, json_text, member, objects, string

ROLES: dict[Any, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def request_content(system: Iterable[str], messages: Iterable[Message], tools: Iterable[str]) -> RequestContent:
    """The content of a request. System messages that stand before all others belong to the system prompt."""
    prompt = list(system)
    rest: list[Message] = []
    for message in messages:
        if message.role == "system" and not rest:
            prompt.append(message.text)
        else:
            rest.append(message)
    return RequestContent(joined(prompt), tuple(rest), tuple(dict.fromkeys(clean(name) for name in tools if name)))


def chat_messages(messages: Any) -> Iterator[Message]:
    """The messages of a request; those of an unknown role are left out."""
    for one in objects(messages):
        role = ROLES.get(string(one.get("role")))
        text = joined(texts(one.get("content")))
        if role == "tool":
            yield Message("tool", tool_results=(ToolResult(clean(string(one.get("tool_call_id"))), text),))
        elif role == "assistant":
            yield Message("assistant", text or clean(string(one.get("refusal"))), tuple(_tool_calls(one)))
        elif role is not None:
            yield Message(role, text)


def texts(content: Any) -> Iterator[str]:
    """The texts of a content: a string, or a list of parts. Thinking, images and files are no text."""
    if isinstance(content, str):
        yield content
    for part in items(content):
        yield part if isinstance(part, str) else first_string(part, "text", "refusal")


def tool_names(tools: Any) -> Iterator[str]:
    """The names of the tools on offer, whether it stands in the tool or a level deeper (`{"function": {"name"}}`)."""
    for tool in objects(tools):
        yield string(tool.get("name") or member(tool, "function", "name") or member(tool, "custom", "name"))


def _tool_calls(message: dict[str, Any]) -> Iterator[ToolCall]:
    old = [{"function": message.get("function_call")}]
    for call in objects(message.get("tool_calls") or old):
        said = member(call, "function") or member(call, "custom")
        if name := first_string(said, "name"):
            arguments = json_text(member(said, "arguments") or member(said, "input"))
            yield ToolCall(clean(string(call.get("id"))), clean(name), clean(arguments))
