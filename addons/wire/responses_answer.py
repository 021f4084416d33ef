"""The answer of OpenAI Responses: one document, a stream of events, or messages of a WebSocket."""

from __future__ import annotations

from typing import Any

from addons.wire.answer import Answer, ToolCall
from addons.wire.assembly import Room, Text
from addons.wire.facts import text_of
from addons.wire.shapes import clean, error_of, first_string, items, json_text, member, objects, string, tokens
from memory import exchange

_ARGUMENTS = ("arguments", "input", "action", "actions", "operation", "queries", "code")
_ITEM = 100
"""Characters that an item counts for beside its own: items without a text would otherwise have no end."""

_TEXT, _SUMMARY, _REASONING, _CALL = "text", "summary", "reasoning", "call"

_PIECES = {
    "response.output_text": (_TEXT, "content_index", "text"),
    "response.refusal": (_TEXT, "content_index", "refusal"),
    "response.reasoning_summary_text": (_SUMMARY, "summary_index", "text"),
    "response.reasoning_text": (_REASONING, "content_index", "text"),
    "response.function_call_arguments": (_CALL, "", "arguments"),
    "response.mcp_call_arguments": (_CALL, "", "arguments"),
    "response.custom_tool_call_input": (_CALL, "", "input"),
    "response.code_interpreter_call_code": (_CALL, "", "code"),
}
"""Events whose name ends in `.delta` and `.done`: which text they belong to, its place in it, where `done` has it."""

_OVER = ("completed", "incomplete", "failed", "cancelled")
_ENDS = tuple([f"response.{status}" for status in _OVER])


def is_call(kind: str) -> bool:
    """Whether an item of this type is a call of a tool: the client's, or one that the provider runs itself."""
    return kind.endswith("_call") or kind == "mcp_approval_request"


def call_of(item: dict[str, Any]) -> ToolCall:
    """The call that an item is. Tools of the provider's own have no name but the item's type (`web_search_call`)."""
    arguments = next((item[key] for key in _ARGUMENTS if item.get(key) is not None), "")
    name = first_string(item, "name") or string(item.get("type")).removesuffix("_call")
    return ToolCall(clean(first_string(item, "call_id", "id")), clean(name), clean(json_text(arguments)))


class _Item:
    """One item of the output as it grows."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._call: ToolCall | None = None
        self._texts: dict[tuple[str, int], Text] = {}

    def text(self, kind: str, index: Any = 0) -> Text:
        """The text at a place of the item: its content, its summary, its thinking, its arguments."""
        key = kind, index if isinstance(index, int) else 0
        if key not in self._texts and self._room.left:
            self._room.left -= 1  # or texts of no text would have no end
            self._texts[key] = Text(self._room)
        return self._texts.get(key) or Text(Room(0))

    def take(self, item: dict[str, Any]) -> None:
        """The item as the provider gives it, begun or finished; what it does not name stays as it came."""
        kind = string(item.get("type"))
        if is_call(kind):
            call = call_of(item)
            self._call = ToolCall(self._room.fit(call.id), self._room.fit(call.name), "")
            if call.arguments:
                self.text(_CALL).replace(call.arguments)
        for key, place in (("content", _REASONING if kind == "reasoning" else _TEXT), ("summary", _SUMMARY)):
            for index, part in enumerate(items(item.get(key))):
                if said := first_string(part, "text", "refusal"):
                    self.text(place, index).replace(said)

    def said(self, kind: str) -> list[str]:
        return [str(text) for (one, _), text in sorted(self._texts.items()) if one == kind]

    @property
    def call(self) -> ToolCall | None:
        return self._call and ToolCall(self._call.id, self._call.name, "".join(self.said(_CALL)))


class ResponsesParts:
    """An answer of the Responses API, also the one after it on a WebSocket: `response.created` begins anew.

    The `response` object that ends a stream is the truth and takes the place of what was put together, except where it
    names no output, as that of chatgpt.com does. Usage is as the provider counts: `input` holds what was read from the
    cache, `output` the thinking.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._room = Room()
        self._items: dict[int | str, _Item] = {}
        self._usage = exchange.Usage()
        self._stop_reason: str | None = None
        self._error: str | None = None
        self._model = ""
        self._id: str | None = None
        self._status = ""

    def add(self, event: Any) -> None:
        kind = string(member(event, "type"))
        if kind == "response.created":
            self._begin()
        response = member(event, "response")
        if kind in _ENDS:
            self._status = self._stop_reason = kind.removeprefix("response.")
        if isinstance(response, dict):
            self._respond(response)
        if kind == "error":
            self._error = error_of(event) or error_of({"error": event})
        elif kind.startswith("response.output_item."):
            if isinstance(item := event.get("item"), dict):
                self._item(event).take(item)
        elif not kind:
            self._error = self._error or error_of(event)
        else:
            name, _, step = kind.rpartition(".")
            if place := _PIECES.get(name):
                text = self._item(event).text(place[0], event.get(place[1]))
                if step == "delta":
                    text.add(event.get("delta"))
                elif step == "done":
                    text.replace(event.get(place[2]))

    def whole(self, body: Any) -> None:
        self._error = error_of(body)
        if isinstance(body, dict):
            self._respond(body)
            if items(body.get("output")) and not self._status:
                self._status = "completed"  # what compacting gives has no status

    @property
    def done(self) -> bool:
        return self._error is not None or self._status in _OVER

    def answer(self) -> Answer:
        each = [self._items[key] for key in sorted(self._items, key=lambda key: key if isinstance(key, int) else 0)]
        return Answer(
            text="".join([text for item in each for text in item.said(_TEXT)]),
            thinking="\n".join(
                [text for item in each for kind in (_SUMMARY, _REASONING) for text in item.said(kind) if text]
            ),
            tool_calls=tuple([item.call for item in each if item.call]),
            usage=self._usage,
            stop_reason=self._stop_reason,
            error=self._error,
            model=self._model,
            id=self._id,
            complete=self._error is None and self._status in ("completed", "incomplete"),
        )

    def _respond(self, response: dict[str, Any]) -> None:
        self._id = text_of(response, "id") or self._id
        self._model = text_of(response, "model") or self._model
        self._status = text_of(response, "status") or self._status
        self._error = self._error or error_of({"error": response.get("error")})
        if self._status in _OVER:
            self._stop_reason = text_of(response, "incomplete_details", "reason") or self._status
        if isinstance(usage := response.get("usage"), dict):
            self._usage = exchange.Usage(
                input=tokens(usage.get("input_tokens")),
                output=tokens(usage.get("output_tokens")),
                cache_read=tokens(member(usage, "input_tokens_details", "cached_tokens")),
                cache_write=tokens(member(usage, "input_tokens_details", "cache_write_tokens")),
            )
        if output := list(objects(response.get("output"))):
            self._room = Room()
            self._items = {}
            for index, item in enumerate(output):
                self._item({"output_index": index}).take(item)

    def _item(self, event: dict[str, Any]) -> _Item:
        """The item that an event is about. Where there is no room for one more, it is kept nowhere."""
        index = event.get("output_index")
        key = index if isinstance(index, int) else first_string(event, "item_id")
        item = self._items.get(key) or _Item(self._room)
        if key not in self._items and self._room.left >= _ITEM:
            self._room.left -= _ITEM
            self._items[key] = item
        return item
