"""Anthropic Messages (https://docs.claude.com/en/api/messages): how its requests offer the tool and hold what was hidden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from addons.loop.anthropic_weave import AnthropicWeave
from addons.loop.dialect import Offered, Passage, Past, Request
from addons.loop.events import json_text
from addons.loop.message_lists import Told, keys_of, open_request
from addons.loop.places import Edit, Place, edited, elements, is_object, members, with_element
from addons.wire.shapes import member, objects, string
from memory.conversations.recall_tool import RecallTool
from memory.json_text import decode_value

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
    request = open_request(text, _is_message)
    if request is None or not _takes_tool(request.values, tool.name):
        return None
    found, values, messages = request
    *keys, before = keys_of(messages, _said, _calls, _told)
    passages = list(_passages(messages, keys, past))
    history = _expansions(text, elements(text, found["messages"].start), messages, passages) if passages else ()
    offer = {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
    return Offered(
        edited(text, [*history, with_element(text, found, "tools", json_text(offer))]),
        is_streamed=values.get("stream") is True,
        is_expanded=bool(passages),
        before=before or "",
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
    if not is_object(tool) or tool.get("name") == name:
        return False
    kind = tool.get("type")
    return kind in (None, "custom") or string(kind).startswith(_RUN_BY_CLIENTS)


def _is_message(message: Any) -> bool:
    return (
        is_object(message) and isinstance(message.get("role"), str) and isinstance(message.get("content"), str | list)
    )


def _told(message: Any) -> Told | None:
    results = (
        string(one.get("tool_use_id")) for one in objects(message["content"]) if one.get("type") == "tool_result"
    )
    return Told(_said(message), results) if message["role"] == "user" else None


def _passages(
    messages: Sequence[Any], keys: Sequence[str | None], past: Past
) -> Iterator[tuple[int, Passage, int | None]]:
    """The places of answers of which something is hidden, and those of what results of theirs go to."""
    for at, key in enumerate(keys):
        if key is None or (passage := past.passage(key)) is None:
            continue
        after = next((n for n in range(at + 1, len(messages)) if messages[n]["role"] in ("user", "assistant")), None)
        if not passage.results:
            yield at, passage, None
        elif after is not None and messages[after]["role"] == "user":
            yield at, passage, after


def _expansions(
    text: str, places: Sequence[Place], messages: Sequence[Any], passages: Iterable[tuple[int, Passage, int | None]]
) -> Iterator[Edit]:
    """What really passed, in place of the answers that the client has seen of it."""
    for at, passage, after in passages:
        yield _replaced(places[at], messages[at]["content"], passage)
        if after is not None:
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


def _calls(message: Any) -> list[str]:
    return [string(block.get("id")) for block in objects(message["content"]) if block.get("type") == "tool_use"]


def _said(message: Any) -> list[str]:
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [string(block.get("text")) for block in objects(content) if block.get("type") == "text"]
