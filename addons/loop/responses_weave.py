"""Several answers of OpenAI Responses made one (https://developers.openai.com/api/docs/guides/streaming-responses)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from addons.loop.dialect import Ask, BrokenAnswerError, Hop, Passage
from addons.loop.events import Event, decoded, event_bytes, json_bytes, json_text
from addons.loop.keys import key_of
from addons.loop.places import Edit, edited, members
from addons.loop.responses_answer import Answer, Response
from addons.loop.responses_items import Item, as_item, call_id, is_call, is_call_of, key_of_id, result, said, sendable
from addons.loop.usage import counted, summed
from addons.loop.weaving import NOT_RUN, Hearing, gone_on
from addons.wire.shapes import member, string

_BEGINNINGS = ("response.created", "response.queued", "response.in_progress")
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error")
_OF_THE_FIRST = ("id", "created_at", "previous_response_id")


class ResponsesWeave:
    """One answer made of several (`dialect.Weave`)."""

    def __init__(self, body: str, before: str, tool: str) -> None:
        self._body = body
        self._before = before
        self._tool = tool
        self._answer = Answer()
        self._hearing = Hearing()
        self._passed: list[str] = []
        """The items of earlier answers and the results between them."""
        self._shown: list[Item] = []
        """The items of earlier answers that the client sees."""
        self._usage: Any = None
        self._first = Response()
        """That of the first answer, once there is a later one."""
        self._next = 0
        """The place of a later answer's first item, for the client."""
        self._last_number = -1
        self._passages: dict[str, Passage] = {}

    @property
    def ping(self) -> bytes:
        return b": ping\n\n"

    def feed(self, data: bytes) -> bytes:
        return self._hearing.feed(data, self._take)

    def whole(self, data: bytes) -> None:
        self._hearing.whole(data, self._read)

    def over(self) -> Hop:
        self._hearing.end(self._take, self._is_woven)
        if not self._hearing.is_good(self._is_woven):
            return Hop()
        return Hop(tuple(self._asks()), any(is_call(item.value) for item in self._visible()))

    def go_on(self, results: Mapping[str, str]) -> str:
        answer = self._answer
        outputs = [result(ask.id, results.get(ask.id, "")) for ask in self._asks()]
        items = sendable(answer.output, is_stored=self._is_stored)
        self._body = self._gone_on([*items, *outputs], outputs)
        if not self._hearing.is_later:
            self._first = answer.response
        self._passed += [*items, *outputs]
        self._shown += self._visible()
        self._next = max([len(self._shown), *[place + 1 for place in answer.places.values()]])
        self._usage = summed(self._usage, counted(answer.response.json("usage")))
        self._answer = Answer()
        self._hearing.begin_next()
        return self._body

    def finish(self, results: Mapping[str, str]) -> bytes:
        answer, hearing = self._answer, self._hearing
        if not self._is_woven():
            return hearing.as_it_came(answer.held)
        self._passages = self._hidden(results)
        if hearing.document is not None:
            return self._one(answer.response).encode("utf-8", "surrogatepass")
        return hearing.owed + b"".join(map(self._last, answer.held))

    def passages(self) -> Mapping[str, Passage]:
        return self._passages

    def error(self, message: str, kind: str = "api_error") -> bytes:
        """In the form of the reference, and with the member that the provider's own libraries look for."""
        what = {"code": kind, "message": message, "param": None}
        number = {"sequence_number": self._last_number + 1}
        return self._hearing.owed + json_bytes(
            {"type": "error", **what, **number, "error": {"type": kind, **what}}, "error"
        )

    def _is_woven(self) -> bool:
        """Whether the client sees anything but the very answer."""
        return self._hearing.is_later or bool(self._answer.hidden) or any(map(self._is_hidden, self._answer.output))

    @property
    def _is_stored(self) -> bool:
        return self._asked("store") is not False

    def _asked(self, key: str) -> Any:
        return member(decoded(self._body), key)

    def _is_hidden(self, item: Item) -> bool:
        return is_call_of(item.value, self._tool)

    def _visible(self) -> list[Item]:
        return [item for item in self._answer.output if not self._is_hidden(item)]

    def _calls(self) -> list[Ask]:
        """The calls of the tool, each once."""
        calls = {call_id(one.value): one.value for one in self._answer.output if self._is_hidden(one)}
        return [Ask(name, string(item.get("arguments"))) for name, item in calls.items() if name]

    def _asks(self) -> list[Ask]:
        return self._calls() if self._answer.status in ("", "completed") else []

    def _gone_on(self, everything: list[str], outputs: list[str]) -> str:
        """The next request: all that has passed; or what is new, where the client leaves the rest to the provider too."""
        body, name = self._body, self._answer.response.value("id")
        try:
            found = members(body)
            given = found["input"]
        except (ValueError, KeyError, RecursionError):
            raise BrokenAnswerError("its request cannot be gone on with") from None
        if self._asked("previous_response_id") is not None and self._is_stored and isinstance(name, str):
            named = Edit(found["previous_response_id"], json_text(name))
            return edited(body, [named, Edit(given, f"[{','.join(outputs)}]")])
        if body[given.start] == '"':
            body = edited(body, [Edit(given, f"[{as_item(given.of(body))}]")])
        return gone_on(body, "input", everything)

    def _hidden(self, results: Mapping[str, str]) -> dict[str, Passage]:
        """The passage under what the answer is known by, and under its name."""
        answer = self._answer
        shown = [item.value for item in [*self._shown, *self._visible()]]
        texts = [text for item in shown for text in said(item)]
        owed = tuple([result(ask.id, results.get(ask.id, NOT_RUN)) for ask in self._calls()])
        passages: dict[str, Passage] = {}
        if (key := key_of(self._before, texts, [call_id(item) for item in shown if is_call(item)])) is not None:
            instead = (*self._passed, *sendable(answer.output, is_stored=self._is_stored))
            passages[key] = Passage(instead, owed)
        last = answer.response.value("id")
        first = self._first.value("id") if self._hearing.is_later else last
        if isinstance(first, str) and isinstance(last, str):
            passages[key_of_id(first)] = Passage(results=owed, goes_on_from=last)
        return passages

    def _read(self, document: str) -> None:
        self._answer.end(document, "")
        if self._hearing.is_later and self._answer.response.value("output") is None:
            raise ValueError("it is another answer than the first")

    def _take(self, event: Event) -> bytes:
        """What the client gets of an event."""
        answer, value = self._answer, decoded(event.data)
        kind = string(member(value, "type")) or ("error" if member(value, "error") else "")
        if answer.held:
            answer.held.append(event)
            return b""
        if kind in _ENDS:
            self._end(event, kind)
            return b""
        if self._hearing.is_later and kind in _BEGINNINGS:
            return b""
        if self._hides(event, value, kind):
            return b""
        return self._renumbered(event, value)

    def _end(self, event: Event, kind: str) -> None:
        answer = self._answer
        answer.held.append(event)
        self._hearing.is_over = True
        if kind == "error":
            answer.status = "failed"
            return
        try:
            data = event.data or ""
            answer.end(members(data)["response"].of(data), kind.removeprefix("response."))
        except (ValueError, KeyError, RecursionError):
            self._hearing.trouble = "its end is not understood"

    def _hides(self, event: Event, value: Any, kind: str) -> bool:
        """Whether an event is about an item that the client does not see."""
        answer, place = self._answer, member(value, "output_index")
        if kind in ("response.output_item.added", "response.output_item.done"):
            item = value.get("item")
            if is_call_of(item, self._tool):
                answer.hidden |= {one for one in (place, member(item, "id")) if type(one) in (int, str)}
            if kind == "response.output_item.done" and type(place) is int:
                answer.done[place] = _member(event.data or "", "item")
            if is_call_of(item, self._tool):
                return True
        if type(place) is int:
            return place in answer.hidden
        name = member(value, "item_id")
        return isinstance(name, str) and name in answer.hidden

    def _renumbered(self, event: Event, value: Any) -> bytes:
        """The event with the numbers that it has for the client; to the byte where they are the same."""
        changed: dict[str, int] = {}
        if type(number := member(value, "sequence_number")) is int:
            changed["sequence_number"] = self._last_number = self._last_number + 1 if self._is_woven() else number
        if type(place := member(value, "output_index")) is int:
            changed["output_index"] = self._place(place)
        if all(value[key] == new for key, new in changed.items()):
            return event.raw
        return json_bytes({**value, **changed}, event.name)

    def _place(self, place: int) -> int:
        places, hidden = self._answer.places, self._answer.hidden
        if place not in places:
            before = sum(1 for one in hidden if isinstance(one, int) and one < place)
            places[place] = self._next + place - before
        return places[place]

    def _last(self, event: Event) -> bytes:
        """One of the events that were held back."""
        data, value = event.data or "", decoded(event.data)
        edits = []
        try:
            found = members(data)
            if isinstance(member(value, "response"), dict):
                response = found["response"].of(data)
                edits.append(Edit(found["response"], self._one(Response(response, members(response)))))
        except (ValueError, RecursionError):
            return event.raw
        if type(member(value, "sequence_number")) is int:
            self._last_number += 1
            edits.append(Edit(found["sequence_number"], str(self._last_number)))
        return event_bytes(edited(data, edits), event.name)

    def _one(self, last: Response) -> str:
        """The last response under the name of the first, with the items and the costs of all."""
        values = {"output": f"[{','.join(item.text for item in [*self._shown, *self._visible()])}]"}
        if self._hearing.is_later:
            values |= {key: self._first.json(key) for key in _OF_THE_FIRST if key in self._first.found}
            values["usage"] = json_text(summed(self._usage, counted(last.json("usage"))))
        return edited(last.text, [Edit(last.found[key], value) for key, value in values.items() if key in last.found])


def _member(text: str, key: str) -> str:
    """The JSON of a member, as it came; empty where there is none."""
    try:
        return members(text)[key].of(text)
    except (ValueError, KeyError, RecursionError):
        return ""
