"""Gemini (https://ai.google.dev/api/generate-content): how its requests offer the tool and hold what was hidden."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from addons.loop.dialect import Offered, Passage, Past, Request
from addons.loop.events import json_text
from addons.loop.gemini_parts import call_of, calls, content, either, is_call_of, results, said
from addons.loop.gemini_weave import GeminiWeave
from addons.loop.histories import answers, befores
from addons.loop.keys import before_of, key_of
from addons.loop.places import Edit, Place, appended, edited, elements, is_object, members, opened, with_element
from addons.wire.shapes import items, member, objects
from memory.conversations.recall_tool import RecallTool
from memory.json_text import decode_value

_DECLARATIONS = ("functionDeclarations", "function_declarations")
_IN_A_FORM = ("responseSchema", "responseJsonSchema", "_responseJsonSchema", "responseFormat")
_KEPT_ELSEWHERE = ("cachedContent", "continuationToken")
"""What the provider keeps, tools among it, which must not be given then."""


class GeminiLoop:
    """The dialect. Left alone as well: a stream that is no event stream, the wrapper of Gemini CLI's host, an answer
    that the client begins itself, and structured output.
    """

    def offer(self, request: Request, tool: RecallTool, past: Past) -> Offered | None:
        path, _, query = request.path.partition("?")
        is_streamed = path.endswith(":streamGenerateContent")
        if not path.endswith(":generateContent") and not (is_streamed and parse_qs(query).get("alt") == ["sse"]):
            return None
        try:
            return _offer(request.text, tool, past, is_streamed=is_streamed)
        except (ValueError, RecursionError):
            return None

    def weave(self, offered: Offered, body: str, tool: RecallTool) -> GeminiWeave:
        return GeminiWeave(body, offered.before, tool.name)


def _offer(text: str, tool: RecallTool, past: Past, *, is_streamed: bool) -> Offered | None:
    found, values = opened(text)
    contents = values.get("contents")
    if (
        not isinstance(contents, list)
        or not contents
        or not all(map(_is_content, contents))
        or _is_models(contents[-1])
    ):
        return None
    if not _takes_tool(values, tool.name):
        return None
    told = [_told(one) for one in contents]
    history = list(_history(text, elements(text, found["contents"].start), contents, told, past, tool.name))
    declaration = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return Offered(
        edited(text, [*history, _addition(text, found, json_text(declaration))]),
        is_streamed=is_streamed,
        is_expanded=bool(history),
        before=befores(told)[-1],
    )


def _takes_tool(values: Mapping[str, Any], name: str) -> bool:
    """Whether a request lets the model call functions as it likes, and is answered once, in words."""
    calling = either(either(values, "toolConfig"), "functionCallingConfig")
    config = either(values, "generationConfig")
    tools = values.get("tools")
    return bool(
        either(calling, "mode") in (None, "AUTO", "MODE_UNSPECIFIED")
        and not either(calling, "allowedFunctionNames")
        and not either(calling, "streamFunctionCallArguments")
        and either(config, "responseMimeType") in (None, "text/plain")
        and all(either(config, key) is None for key in _IN_A_FORM)
        and either(config, "candidateCount") in (None, 1)
        and all(one == "TEXT" for one in items(either(config, "responseModalities")))
        and all(either(values, key) is None for key in _KEPT_ELSEWHERE)
        and (tools is None or (isinstance(tools, list) and all(_is_clients(one, name) for one in tools)))
    )


def _is_clients(tool: Any, name: str) -> bool:
    """Whether a tool holds functions of the client's and nothing else, none of that name."""
    if not is_object(tool):
        return False
    declared = [value for key, value in tool.items() if key in _DECLARATIONS]
    others = [value for key, value in tool.items() if key not in _DECLARATIONS]
    return bool(
        all(other is None for other in others)
        and all(isinstance(one, list) for one in declared)
        and all(isinstance(one, dict) and one.get("name") != name for each in declared for one in each)
    )


def _addition(text: str, found: Mapping[str, Place], declaration: str) -> Edit:
    """The function as the last one of the client's. Of several lists of functions models have seen the first one only
    (https://github.com/google-gemini/gemini-cli/pull/65), so a list of its own is for requests without any.
    """
    tools = found.get("tools")
    if tools is not None and tools.of(text) != "null":
        for tool in reversed(elements(text, tools.start)):
            inner = members(text, tool.start)
            if (key := next((key for key in _DECLARATIONS if key in inner), None)) is not None:
                return appended(text, inner[key], [declaration])
    return with_element(text, found, "tools", f'{{"functionDeclarations":[{declaration}]}}')


def _is_content(one: Any) -> bool:
    return is_object(one) and isinstance(one.get("parts"), list | None)


def _is_models(one: Any) -> bool:
    return bool(member(one, "role") == "model")


def _told(one: Any) -> str | None:
    return None if _is_models(one) else before_of(said(one.get("parts")), results(one.get("parts")))


def _history(
    text: str, places: Sequence[Place], contents: Sequence[Any], told: Sequence[str | None], past: Past, name: str
) -> Iterator[Edit]:
    """What really passed, in place of the answers that the client has seen of it: often one content for each chunk."""
    before = befores(told)
    for first, last in answers(told):
        parts = [part for one in contents[first : last + 1] for part in items(one.get("parts"))]
        key = key_of(before[first], said(parts), calls(parts))
        if key is None or (passage := past.passage(key)) is None:
            continue
        after = contents[last + 1]
        instead = list(passage.instead)
        if passage.results and results(after.get("parts")):
            yield from _spliced(text, places[last + 1], passage, name)
        elif passage.results:
            instead.append(content("user", passage.results))
        yield Edit(Place(places[first].start, places[last].end), ",".join(instead))


def _spliced(text: str, place: Place, passage: Passage, name: str) -> Iterator[Edit]:
    """Results among those of the client's functions, in the order of the calls."""
    parts = elements(text, members(text, place.start)["parts"].start)
    given = [part for part in parts if results([decode_value(text, part.start)[0]])]
    owed = list(passage.results)
    others = 0
    for part in objects(decode_value(passage.instead[-1], 0)[0]["parts"]):
        if not owed or call_of(part) is None:
            continue
        if not is_call_of(part, name):
            others += 1
        elif others < len(given):
            yield Edit(Place(given[others].start, given[others].start), f"{owed.pop(0)},")
    yield Edit(Place(given[-1].end, given[-1].end), "".join(f",{one}" for one in owed))
