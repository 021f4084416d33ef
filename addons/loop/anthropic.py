"""Anthropic Messages (https://docs.claude.com/en/api/messages): how its requests offer the tool and hold what was hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from addons.loop.anthropic_weave import AnthropicWeave
from addons.loop.dialect import Offered, Passage, Past, Request
from addons.loop.events import json_text
from addons.loop.keys import before_of, key_of
from addons.loop.places import Edit, Place, edited, elements, members, with_element
from addons.wire.shapes import member, objects, string
from memory.conversations.recall_tool import RecallTool
from memory.json_text import RepeatedKeys, decode_value

_RUN_BY_CLIENTS = ("bash_", "text_editor_", "computer_", "memory_")
"""What the types of tools begin with that clients run, though their schema is the provider's."""
_UNMARKED = ("thinking", "redacted_thinking")
"""Blocks that take no `cache_control`."""


class AnthropicLoop:
    """The dialect. Left alone as well: an answer that the client begins itself, and structured output."""

    def offer(self, request: Request, tool: RecallTool, past: Past) -> Offered | None:
        if not request.path.partition("?")[0].endswith("/v1/messages"):
            return None
        try:
            return _offer(request.text, tool, past)
        except (ValueError, RecursionError):
            return None

    def weave(self, offered: Offered, body: str, tool: RecallTool) -> AnthropicWeave:
        return AnthropicWeave(body, offered.before, tool.name)


def _offer(text: str, tool: RecallTool, past: Past) -> Offered | None:
    found = members(text)
    values = {key: decode_value(text, place.start)[0] for key, place in found.items() if key != "messages"}
    if not _takes_tool(values, tool.name) or "messages" not in found:
        return None
    places = elements(text, found["messages"].start)
    messages = [decode_value(text, place.start)[0] for place in places]
    if not messages or not all(map(_is_message, messages)) or messages[-1]["role"] == "assistant":
        return None
    history = list(_expansions(text, places, messages, past))
    offer = {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
    return Offered(
        edited(text, [*history, with_element(text, found, "tools", json_text(offer))]),
        is_streamed=values.get("stream") is True,
        is_expanded=bool(history),
        before=_before(messages, len(messages)),
    )


def _takes_tool(values: dict[str, Any], name: str) -> bool:
    """Whether a request lets the model call tools as it likes, and all of them are run by the client."""
    choice, tools = values.get("tool_choice"), values.get("tools")
    if choice is not None and (member(choice, "type") != "auto" or choice.get("disable_parallel_tool_use")):
        return False
    if values.get("mcp_servers") or values.get("stream") not in (None, True, False):
        return False
    if values.get("output_format") is not None or member(values.get("output_config"), "format") is not None:
        return False
    return tools is None or (isinstance(tools, list) and all(_is_clients(one, name) for one in tools))


def _is_clients(tool: Any, name: str) -> bool:
    if not isinstance(tool, dict) or isinstance(tool, RepeatedKeys) or tool.get("name") == name:
        return False
    kind = tool.get("type")
    return kind in (None, "custom") or string(kind).startswith(_RUN_BY_CLIENTS)


def _is_message(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and not isinstance(message, RepeatedKeys)
        and isinstance(message.get("role"), str)
        and isinstance(message.get("content"), str | list)
    )


def _expansions(text: str, places: Sequence[Place], messages: Sequence[Any], past: Past) -> Iterator[Edit]:
    """What really passed, in place of the answers that the client has seen of it."""
    for at, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        content = message["content"]
        key = key_of(_before(messages, at), _said(content), _calls(content))
        if key is None or (passage := past.passage(key)) is None:
            continue
        after = next((n for n in range(at + 1, len(messages)) if messages[n]["role"] in ("user", "assistant")), None)
        if not passage.results:
            yield _replaced(places[at], content, passage)
        elif after is not None and messages[after]["role"] == "user":
            yield _replaced(places[at], content, passage)
            yield _spliced(text, places[after], passage.results)


def _replaced(place: Place, content: Any, passage: Passage) -> Edit:
    """The hidden messages; a mark of the client's for the cache goes to their last block."""
    *others, last = passage.instead
    marks = [block["cache_control"] for block in objects(content) if block.get("cache_control") is not None]
    if marks:
        blocks = elements(last, members(last)["content"].start)
        end = blocks[-1]
        if member(decode_value(last, end.start)[0], "type") not in _UNMARKED:
            mark = f',"cache_control":{json_text(marks[-1])}'
            last = edited(last, [Edit(Place(end.end - 1, end.end - 1), mark)])
    return Edit(place, ",".join([*others, last]))


def _spliced(text: str, place: Place, results: Sequence[str]) -> Edit:
    """Results at the beginning of a message of the user's."""
    content = members(text, place.start)["content"]
    first = ",".join(results)
    if text[content.start] == '"':
        said = content.of(text)
        return Edit(content, f"[{first}]" if said == '""' else f'[{first},{{"type":"text","text":{said}}}]')
    comma = "," if elements(text, content.start) else ""
    return Edit(Place(content.start + 1, content.start + 1), first + comma)


def _before(messages: Sequence[Any], end: int) -> str:
    """Of the last message of the user's before a place, and the answer before that."""
    asked = next((at for at in reversed(range(end)) if messages[at]["role"] == "user"), 0)
    question = messages[asked]["content"] if end else ()
    earlier = next((one["content"] for one in reversed(messages[:asked]) if one["role"] == "assistant"), ())
    results = [string(block.get("tool_use_id")) for block in objects(question) if block.get("type") == "tool_result"]
    return before_of(_said(question), results, key_of("", _said(earlier), _calls(earlier)))


def _calls(content: Any) -> list[str]:
    return [string(block.get("id")) for block in objects(content) if block.get("type") == "tool_use"]


def _said(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [string(block.get("text")) for block in objects(content) if block.get("type") == "text"]
