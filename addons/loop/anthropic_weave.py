"""Several answers of Anthropic Messages made one (https://docs.claude.com/en/docs/build-with-claude/streaming)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from addons.loop.anthropic_blocks import Answer, Block
from addons.loop.dialect import Hop, Passage
from addons.loop.events import Event, decoded, json_bytes, json_text
from addons.loop.keys import key_of
from addons.loop.places import Edit, edited, members
from addons.loop.usage import summed
from addons.loop.weaving import Hearing, gone_on
from addons.wire.shapes import member


class AnthropicWeave:
    """One answer made of several (`dialect.Weave`)."""

    def __init__(self, body: str, before: str, tool: str) -> None:
        self._body = body
        self._before = before
        self._tool = tool
        self._answer = Answer()
        self._hearing = Hearing()
        self._passed: list[str] = []
        """The messages that the client does not see."""
        self._shown: list[Block] = []
        """The blocks of earlier answers that it does see."""
        self._usage: Any = None
        """Of earlier answers."""
        self._first: bytes | None = None
        """The first answer, where it is one document."""
        self._has_told = False
        """The provider's own error has been passed on."""
        self._passages: dict[str, Passage] = {}

    @property
    def ping(self) -> bytes:
        return json_bytes({"type": "ping"}, "ping")

    def feed(self, data: bytes) -> bytes:
        return self._hearing.feed(data, self._take)

    def whole(self, data: bytes) -> None:
        self._hearing.whole(data, self._read)

    def over(self) -> Hop:
        self._hearing.end(self._take, self._is_woven)
        good = self._hearing.is_good(self._is_woven)
        return Hop(self._answer.asks(), self._answer.calls_others) if good else Hop()

    def go_on(self, results: Mapping[str, str]) -> str:
        answer = self._answer
        asks = answer.asks()
        said = answer.message({ask.id for ask in asks})
        answers = ",".join(_result(ask.id, results.get(ask.id, "")) for ask in asks)
        hidden = [*([said] if said else []), f'{{"role":"user","content":[{answers}]}}']
        self._body = gone_on(self._body, "messages", hidden)
        if not self._hearing.is_later:
            self._first = self._hearing.document
        self._passed += hidden
        self._shown += answer.shown
        self._usage = summed(self._usage, answer.usage)
        self._answer = Answer()
        self._hearing.begin_next()
        return self._body

    def finish(self, results: Mapping[str, str]) -> bytes:
        answer, hearing = self._answer, self._hearing
        if not self._is_woven():
            return hearing.as_it_came(event for event, _ in answer.held)
        answered = {ask.id: results[ask.id] for ask in answer.asks() if ask.id in results}
        self._passages = self._passage(answered)
        usage = summed(self._usage, answer.usage)
        stop = answer.stop_reason
        if stop == "tool_use" and not answer.calls_others:
            stop = "end_turn"
        if hearing.document is not None:
            return self._one_document(hearing.document.decode(), usage, stop)
        return hearing.owed + b"".join(_last(event, value, usage, stop) for event, value in answer.held)

    def passages(self) -> Mapping[str, Passage]:
        return self._passages

    def error(self, message: str, kind: str = "api_error") -> bytes:
        if self._has_told:
            return self._hearing.owed
        return self._hearing.owed + json_bytes({"type": "error", "error": {"type": kind, "message": message}}, "error")

    def _is_woven(self) -> bool:
        """Whether the client sees anything but the very answer."""
        return self._hearing.is_later or bool(self._answer.hidden)

    def _read(self, document: str) -> None:
        self._answer.read(document, self._tool)

    def _take(self, event: Event) -> bytes:
        """What the client gets of an event."""
        answer, value = self._answer, decoded(event.data)
        match member(value, "type"):
            case "message_start":
                answer.usage = _brought_up(answer.usage, member(value, "message", "usage"))
                if self._hearing.is_later:
                    return b""
            case "content_block_start" | "content_block_delta" | "content_block_stop" if not answer.held:
                return self._take_block(event, value)
            case "message_delta":
                answer.usage = _brought_up(answer.usage, value.get("usage"))
                answer.stop_reason = member(value, "delta", "stop_reason") or answer.stop_reason
                self._hearing.is_over = True
                answer.held.append((event, value))
                return b""
            case "message_stop":
                self._hearing.is_over = True
                answer.held.append((event, value))
                return b""
            case "error":
                self._hearing.trouble = "the provider broke it off"
                if self._is_woven():
                    self._has_told = True
                    return event.raw
        if answer.held:
            answer.held.append((event, value))
            return b""
        return event.raw

    def _take_block(self, event: Event, value: dict[str, Any]) -> bytes:
        answer, index = self._answer, value.get("index")
        if type(index) is not int:
            return event.raw
        if value["type"] == "content_block_start":
            if not isinstance(begun := value.get("content_block"), dict):
                return event.raw
            block = Block(begun)
            answer.by_index[index] = block, len(self._shown) + index - len(answer.hidden)
            answer.add(block, self._tool)
        elif index not in answer.by_index:
            return event.raw
        block, shown = answer.by_index[index]
        if value["type"] == "content_block_delta":
            block.add(value.get("delta"))
        if block in answer.hidden:
            return b""
        return event.raw if shown == index else json_bytes({**value, "index": shown}, event.name)

    def _passage(self, answered: Mapping[str, str]) -> dict[str, Passage]:
        answer = self._answer
        shown = [*self._shown, *answer.shown]
        calls = [block.id for block in shown if block.type == "tool_use"]
        key = key_of(self._before, [block.said for block in shown], calls)
        said = answer.message(answered.keys())
        if key is None or not (self._passed or answered):
            return {}
        instead = (*self._passed, *([said] if said else []))
        return {key: Passage(instead, tuple(_result(one, text) for one, text in answered.items()))}

    def _one_document(self, last: str, usage: Any, stop: Any) -> bytes:
        """The last document under the name of the first."""
        found = members(last)
        content = ",".join(block.json() for block in [*self._shown, *self._answer.shown])
        values = {"content": f"[{content}]", "stop_reason": json_text(stop), "usage": json_text(usage)}
        if self._first is not None:
            first = self._first.decode()
            named = members(first)
            values |= {key: named[key].of(first) for key in ("id", "model") if key in named}
        edits = [Edit(found[key], value) for key, value in values.items() if key in found]
        return edited(last, edits).encode("utf-8", "surrogatepass")


def _brought_up(before: Any, said: Any) -> Any:
    """Later counts of one answer are totals too and stand instead of earlier ones; what is not said again stays."""
    if not isinstance(said, dict):
        return before
    return {**(before or {}), **{key: value for key, value in said.items() if value is not None}}


def _result(call: str, text: str) -> str:
    return json_text({"type": "tool_result", "tool_use_id": call, "content": text})


def _last(event: Event, value: Any, usage: Any, stop: Any) -> bytes:
    if member(value, "type") != "message_delta":
        return event.raw
    delta = value.get("delta")
    told = {**value, "delta": {**(delta if isinstance(delta, dict) else {}), "stop_reason": stop}, "usage": usage}
    return json_bytes(told, event.name)
