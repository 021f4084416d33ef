"""OpenAI Responses (https://developers.openai.com/api/docs/api-reference/responses): how its requests offer the tool and hold what was hidden.

What came before may stand in the request, or be named by the id of the answer it goes on from; both are brought to what really passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from addons.loop.dialect import Offered, Passage, Past, Request
from addons.loop.events import json_text
from addons.loop.histories import answers, befores
from addons.loop.keys import before_of, key_of
from addons.loop.places import Edit, Place, edited, elements, is_object, opened, with_element
from addons.loop.responses_items import as_item, call_id, is_call, is_models, key_of_id, said
from addons.loop.responses_weave import ResponsesWeave
from addons.wire.shapes import member, objects, string
from memory.conversations.recall_tool import RecallTool

_RUN_BY_CLIENTS = ("function", "custom", "local_shell", "apply_patch", "namespace")
_KEPT_ELSEWHERE = ("conversation", "prompt")
"""A conversation or a prompt that the provider keeps: what is in it, tools too, is not to be seen here."""


class OpenAIResponsesLoop:
    """The dialect. Left alone as well: an answer that the client begins itself, and structured output."""

    def offer(self, request: Request, tool: RecallTool, past: Past) -> Offered | None:
        if not request.path.partition("?")[0].endswith("/responses"):
            return None
        try:
            return _offer(request.text, tool, past)
        except (ValueError, RecursionError):
            return None

    def weave(self, offered: Offered, body: str, tool: RecallTool) -> ResponsesWeave:
        return ResponsesWeave(body, offered.before, tool.name)


def _offer(text: str, tool: RecallTool, past: Past) -> Offered | None:
    found, values = opened(text)
    given = values.get("input")
    if not given or not (isinstance(given, str) or (isinstance(given, list) and all(map(is_object, given)))):
        return None
    entries = [given] if isinstance(given, str) else given
    if is_models(entries[-1]):
        return None
    carried = [one for entry in objects(entries) if "tools" in entry for one in _tools(entry["tools"])]
    if not _lets_call(values) or not all(
        _is_clients(one, tool.name) for one in [*_tools(values.get("tools")), *carried]
    ):
        return None
    told = [_told(entry) for entry in entries]
    history = list(_history(text, found, values, told, past))
    addition = with_element(text, found, "tools", json_text(_function(tool)))
    return Offered(
        edited(text, [*history, addition]),
        is_streamed=values.get("stream") is True,
        is_expanded=any(
            edit.place.start >= found["input"].start and edit.place.end <= found["input"].end for edit in history
        ),
        # Codex offers its tools in an item; whether a provider takes others beside them is for the provider to say.
        without_tool=edited(text, history) if carried and values.get("tools") is None else None,
        before=befores(told)[-1],
    )


def _function(tool: RecallTool) -> dict[str, Any]:
    """Not strict, which is the default: arguments may be left out."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "strict": False,
    }


def _lets_call(values: Mapping[str, Any]) -> bool:
    """Whether a request lets the model call tools as it likes, and is answered at once, in words."""
    return (
        values.get("tool_choice") in (None, "auto")
        # Codex asks for one call at a time. Calls of the tool are not seen, so what is seen is what was asked for.
        and values.get("parallel_tool_calls") in (None, True, False)
        and values.get("background") in (None, False)
        and values.get("stream") in (None, True, False)
        and values.get("generate") in (None, True)
        and isinstance(values.get("previous_response_id"), str | None)
        and member(values.get("text"), "format", "type") in (None, "text")
        and all(values.get(key) is None for key in _KEPT_ELSEWHERE)
    )


def _tools(tools: Any) -> Iterator[Any]:
    """Tools, those of a namespace after it."""
    if tools is not None and not isinstance(tools, list):
        raise ValueError("tools that are no array")
    for one in tools or ():
        yield one
        if member(one, "type") == "namespace":
            yield from _tools(one.get("tools"))


def _is_clients(tool: Any, name: str) -> bool:
    """Whether a client runs a tool, under another name."""
    if not is_object(tool) or tool.get("name") == name:
        return False
    # Tools are looked for where they are kept: by the provider, or by the client.
    return tool.get("type") in _RUN_BY_CLIENTS or (tool.get("type"), tool.get("execution")) == ("tool_search", "client")


def _told(entry: Any) -> str | None:
    if is_models(entry):
        return None
    texts = [entry] if isinstance(entry, str) else said(entry)
    return before_of(texts, () if texts else (string(member(entry, "type")), call_id(entry)))


def _history(
    text: str, found: Mapping[str, Place], values: Mapping[str, Any], told: Sequence[str | None], past: Past
) -> Iterator[Edit]:
    """What really passed, in place of the answers that the client has seen of it."""
    given = values["input"]
    previous = values.get("previous_response_id")
    passage = past.passage(key_of_id(previous)) if previous else None
    owed = passage.results if passage else ()
    if passage and passage.goes_on_from and passage.goes_on_from != previous:
        yield Edit(found["previous_response_id"], json_text(passage.goes_on_from))
    place = found["input"]
    if isinstance(given, str):
        if owed:
            yield Edit(place, f"[{','.join([*owed, as_item(place.of(text))])}]")
        return
    places = elements(text, place.start)
    if owed:
        yield Edit(Place(places[0].start, places[0].start), "".join(f"{one}," for one in owed))
    before = befores(told)
    for first, last in answers(told):
        answer = given[first : last + 1]
        texts = [one for item in answer for one in said(item)]
        key = key_of(before[first], texts, [call_id(item) for item in answer if is_call(item)])
        if key is not None and (passage := past.passage(key)) is not None:
            yield Edit(Place(places[first].start, places[last].end), _all(passage))


def _all(passage: Passage) -> str:
    return ",".join([*passage.instead, *passage.results])
