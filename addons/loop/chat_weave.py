"""Several chat completions made one (https://platform.openai.com/docs/api-reference/chat-streaming)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from addons.loop.chat_answer import Call, ChatAnswer, as_part, grown
from addons.loop.dialect import Hop, Passage
from addons.loop.events import DONE, Event, decoded, event_bytes, json_bytes, json_text
from addons.loop.keys import key_of
from addons.loop.usage import summed
from addons.loop.weaving import Hearing, gone_on
from addons.wire.shapes import member, objects, string

_NAMED = ("id", "created", "model")
"""What is the same in all chunks of an answer."""
_BREAK = "\n\n"
"""Between the texts of two answers, which are one to the client."""


class ChatWeave:
    """One answer made of several (`dialect.Weave`), of the only choice there is."""

    def __init__(self, body: str, before: str, tool: str) -> None:
        self._body = body
        self._before = before
        self._tool = tool
        self._answer = ChatAnswer()
        self._hearing = Hearing()
        self._calls: list[Call] = []
        """Of the pieces of calls in an answer that is one document."""
        self._waiting: deque[tuple[Event, Any, list[Call]]] = deque()
        """Events from a call on whose name is not whole."""
        self._held: list[tuple[Event, Any, list[Call]]] = []
        """The last events, from the stop reason on."""
        self._passed: list[str] = []
        """The messages that the client does not see."""
        self._earlier: list[ChatAnswer] = []
        self._usage: Any = None
        """Of earlier answers."""
        self._named: dict[str, Any] = {}
        self._needs_break = False
        self._has_told = False
        """The provider's own error has been passed on."""
        self._names = (f"recall_{number}" for number in range(1, 1 << 30))
        self._passages: dict[str, Passage] = {}

    @property
    def ping(self) -> bytes:
        return b": ping\n\n"

    def feed(self, data: bytes) -> bytes:
        return self._hearing.feed(data, self._take)

    def whole(self, data: bytes) -> None:
        self._hearing.whole(data, self._read)

    def over(self) -> Hop:
        answer, hearing = self._answer, self._hearing
        hearing.end(self._take, self._is_woven)
        answer.decide(self._names)
        hearing.owed += self._let_go()
        return Hop(answer.asks(), bool(answer.shown)) if hearing.is_good(self._is_woven) else Hop()

    def go_on(self, results: Mapping[str, str]) -> str:
        answer = self._answer
        asks = answer.asks()
        said = answer.message({ask.id for ask in asks})
        hidden = [*([said] if said else []), *(_result(ask.id, results.get(ask.id, "")) for ask in asks)]
        self._body = gone_on(self._body, "messages", hidden)
        said_last = b"".join(self._told_of(*held, stop=None) for held in self._held)
        self._hearing.begin_next()
        self._hearing.owed += said_last
        self._needs_break = self._needs_break or any(answer.texts)
        self._passed += hidden
        self._earlier.append(answer)
        self._usage = summed(self._usage, answer.usage)
        self._answer, self._held = ChatAnswer(), []
        return self._body

    def finish(self, results: Mapping[str, str]) -> bytes:
        answer, hearing = self._answer, self._hearing
        if not self._is_woven():
            return hearing.as_it_came(event for event, *_ in self._held)
        answered = {ask.id: results[ask.id] for ask in answer.asks() if ask.id in results}
        self._passages = self._passage(answered)
        stop = answer.stop_reason
        if stop in ("tool_calls", "function_call") and not answer.shown:
            stop = "stop"
        if hearing.document is not None:
            return self._one_document(decoded(hearing.document.decode()), stop)
        return hearing.owed + b"".join(self._told_of(*held, stop=stop) for held in self._held)

    def passages(self) -> Mapping[str, Passage]:
        return self._passages

    def error(self, message: str, kind: str = "api_error") -> bytes:
        if self._has_told:
            return self._hearing.owed
        error = {"message": message, "type": kind, "param": None, "code": None}
        return self._hearing.owed + json_bytes({"error": error}) + event_bytes(DONE)

    def _is_woven(self) -> bool:
        """Whether the client sees anything but the very answer."""
        return self._hearing.is_later or bool(self._answer.hidden)

    def _read(self, document: str) -> None:
        value = decoded(document)
        message = member(_choice(value), "message")
        if not isinstance(message, dict) or value.get("error"):
            raise ValueError("no completion")
        self._calls = self._answer.add(message, self._tool)
        self._note(value)

    def _take(self, event: Event) -> bytes:
        """What the client gets of an event and of those that waited for it."""
        answer, value = self._answer, decoded(event.data)
        self._hearing.is_over |= event.data == DONE
        delta, calls = member(_choice(value), "delta"), []
        if isinstance(delta, dict):
            calls = answer.add(delta, self._tool)
        if isinstance(value, dict):
            self._note(value)
            if value.get("error"):
                self._hearing.trouble = "the provider broke it off"
        self._waiting.append((event, value, calls))
        return self._let_go()

    def _let_go(self) -> bytes:
        given = []
        while self._waiting and all(call.is_hidden is not None for call in self._waiting[0][2]):
            given.append(self._show(*self._waiting.popleft()))
        return b"".join(given)

    def _note(self, value: dict[str, Any]) -> None:
        answer = self._answer
        usage = value.get("usage") or member(value, "x_groq", "usage")
        answer.usage = usage if isinstance(usage, dict) else answer.usage
        if stop := string(member(_choice(value), "finish_reason")):
            answer.stop_reason, self._hearing.is_over = stop, True
        if not self._hearing.is_later:
            self._named |= {key: value[key] for key in _NAMED if value.get(key) and not self._named.get(key)}

    def _show(self, event: Event, value: Any, calls: list[Call]) -> bytes:
        if member(value, "error") and self._is_woven():
            self._has_told = True
            return event.raw
        if self._held or event.data == DONE or member(_choice(value), "finish_reason"):
            self._held.append((event, value, calls))
            return b""
        if not self._hearing.is_later and not any(
            call.is_hidden or self._answer.index(call) != call.index for call in calls
        ):
            return event.raw
        return self._told_of(event, value, calls, stop=None)

    def _told_of(self, event: Event, value: Any, calls: list[Call], *, stop: str | None) -> bytes:
        """An event as the client gets it; nothing, where it is of no use to it. `stop` None: the answer is not over."""
        choice = _choice(value)
        if choice is None:
            return self._aside(event, value, is_last=stop is not None)
        delta = dict(choice["delta"]) if isinstance(choice.get("delta"), dict) else {}
        if self._hearing.is_later:
            delta.pop("role", None)
        if calls:
            delta["tool_calls"] = self._shown(delta["tool_calls"], calls)
            if not delta["tool_calls"]:
                del delta["tool_calls"]
        if self._needs_break and isinstance(delta.get("content"), str) and delta["content"]:
            delta["content"] = _BREAK + delta["content"]
            self._needs_break = False
        if stop is None and not any(delta.values()):
            return b""
        told = {**value, **self._named, "choices": [{**choice, "delta": delta, "finish_reason": None}]}
        if stop is not None and choice.get("finish_reason"):
            told["choices"][0]["finish_reason"] = stop
        return json_bytes(self._counted(told, is_last=stop is not None), event.name)

    def _aside(self, event: Event, value: Any, *, is_last: bool) -> bytes:
        """What holds no choice: a comment, the end, or a count."""
        if not isinstance(value, dict):
            return event.raw if is_last or event.data is None else b""
        if not is_last:
            return b""
        return json_bytes(self._counted({**value, **self._named}, is_last=True), event.name)

    def _counted(self, told: dict[str, Any], *, is_last: bool) -> dict[str, Any]:
        """With what all answers cost, where it says at its end what it cost."""
        usage = summed(self._usage, self._answer.usage) if is_last else None
        if isinstance(told.get("usage"), dict):
            told["usage"] = usage
        if isinstance(member(told, "x_groq", "usage"), dict):
            told["x_groq"] = {**told["x_groq"], "usage": usage}
        return told

    def _shown(self, pieces: Any, calls: list[Call]) -> list[Any]:
        """The pieces of calls that the client sees."""
        shown = []
        for piece, call in zip(objects(pieces), calls, strict=True):
            if not call.is_hidden:
                index = self._answer.index(call)
                shown.append(piece if index is None else {**piece, "index": index})
        return shown

    def _passage(self, answered: Mapping[str, str]) -> dict[str, Passage]:
        answer = self._answer
        answers = [*self._earlier, answer]
        calls = [call.id for one in answers for call in one.shown]
        key = key_of(self._before, [text for one in answers for text in one.texts], calls)
        if key is None or not (self._passed or answered):
            return {}
        said = answer.message(answered.keys())
        results = [_result(one, text) for one, text in answered.items()]
        return {key: Passage((*self._passed, *([said] if said else []), *results))}

    def _one_document(self, last: Any, stop: str | None) -> bytes:
        """The last document under the name of the first."""
        choice = _choice(last)
        assert choice is not None
        message, answers = dict(choice["message"]), [*self._earlier, self._answer]
        for key in dict.fromkeys(key for one in answers for key in one.more):
            message[key] = grown([value for one in answers for value in one.more.get(key, ())], _BREAK)
        said = [content for one in answers if (content := one.content())]
        if all(isinstance(one, str) for one in said):
            message["content"] = _BREAK.join(said) or None
        else:
            message["content"] = [part for one in said for part in ([as_part(one)] if isinstance(one, str) else one)]
        message.pop("tool_calls", None)
        if shown := self._shown(choice["message"].get("tool_calls"), self._calls):
            message["tool_calls"] = shown
        told = {**last, **self._named, "choices": [{**choice, "message": message, "finish_reason": stop}]}
        return json_text(self._counted(told, is_last=True)).encode()


def _choice(value: Any) -> dict[str, Any] | None:
    """The first one; a request that asks for several is offered nothing."""
    return next((one for one in objects(member(value, "choices")) if not one.get("index")), None)


def _result(call: str, text: str) -> str:
    return json_text({"role": "tool", "tool_call_id": call, "content": text})
