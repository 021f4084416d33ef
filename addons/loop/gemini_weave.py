"""Several answers of Gemini made one (https://ai.google.dev/gemini-api/docs/function-calling, and …/thought-signatures)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from addons.loop.dialect import Ask, Hop, Passage
from addons.loop.events import Event, event_bytes, json_bytes, json_text
from addons.loop.gemini_parts import Chunk, Part, call_of, calls, content, is_call_of, read_chunk, result, said
from addons.loop.keys import key_of
from addons.loop.places import Edit, edited
from addons.loop.usage import counted, summed
from addons.loop.weaving import NOT_RUN, Hearing, gone_on
from addons.wire.shapes import member, string

_OF_THE_FIRST = ("responseId", "modelVersion")


@dataclass(slots=True)
class Answer:
    """The answer to one request, as far as it has come."""

    parts: list[Part] = field(default_factory=list)
    shown: list[Part] = field(default_factory=list)
    hidden: list[Part] = field(default_factory=list)
    usage: Any = None
    """The last count, which is the valid one."""
    finish_reason: Any = None
    held: list[tuple[Event, Chunk | None, Sequence[Part]]] = field(default_factory=list)
    """The last events, with the parts that the client has not got yet."""
    document: Chunk | None = None

    def add(self, chunk: Chunk, tool: str) -> list[Part]:
        """Takes the parts of a chunk; gives those that the client sees."""
        shown = [part for part in chunk.parts if not is_call_of(part.value, tool)]
        self.parts += chunk.parts
        self.shown += shown
        self.hidden += [part for part in chunk.parts if is_call_of(part.value, tool)]
        if "usageMetadata" in chunk.top:
            self.usage = counted(chunk.top["usageMetadata"].of(chunk.text))
        self.finish_reason = chunk.finish_reason or self.finish_reason
        return shown

    def sendable(self) -> list[str]:
        """The parts as a request may hold them, verbatim: signatures belong to the very parts they came with."""
        return [part.text for part in self.parts if not part.is_empty]


class GeminiWeave:
    """One answer made of several (`dialect.Weave`)."""

    def __init__(self, body: str, before: str, tool: str) -> None:
        self._body = body
        self._before = before
        self._tool = tool
        self._answer = Answer()
        self._hearing = Hearing()
        self._passed: list[str] = []
        """The contents that the client does not see."""
        self._shown: list[Part] = []
        """The parts of earlier answers that it does see."""
        self._usage: Any = None
        """Of earlier answers."""
        self._named: dict[str, str] = {}
        """What the first answer is called, as JSON."""
        self._passages: dict[str, Passage] = {}

    @property
    def ping(self) -> bytes:
        """Google's own libraries take a comment for a broken chunk, and pass over an empty one."""
        return b"\n\n"

    def feed(self, data: bytes) -> bytes:
        return self._hearing.feed(data, self._take)

    def whole(self, data: bytes) -> None:
        self._hearing.whole(data, self._read)

    def over(self) -> Hop:
        self._hearing.end(self._take, self._is_woven)
        if not self._hearing.is_good(self._is_woven):
            return Hop()
        asks = self._asks() if self._answer.finish_reason == "STOP" else ()
        return Hop(asks, any(call_of(part.value) is not None for part in self._answer.shown))

    def go_on(self, results: Mapping[str, str]) -> str:
        answer = self._answer
        hidden = [content("model", answer.sendable()), content("user", self._results(results, ""))]
        self._body = gone_on(self._body, "contents", hidden)
        self._passed += hidden
        self._shown += answer.shown
        self._usage = _total(self._usage, answer.usage)
        self._answer = Answer()
        self._hearing.begin_next()
        return self._body

    def finish(self, results: Mapping[str, str]) -> bytes:
        answer, hearing = self._answer, self._hearing
        if not self._is_woven():
            return hearing.as_it_came(event for event, *_ in answer.held)
        self._passages = self._hidden(results)
        if answer.document is not None:
            parts = [*self._shown, *answer.shown]
            told = edited(answer.document.text, self._edits(answer.document, parts))
            return told.encode("utf-8", "surrogatepass")
        return hearing.owed + b"".join(self._told(*held) for held in answer.held)

    def passages(self) -> Mapping[str, Passage]:
        return self._passages

    def error(self, message: str, kind: str = "api_error") -> bytes:  # noqa: ARG002 - Google's words are others
        return self._hearing.owed + json_bytes({"error": {"code": 500, "message": message, "status": "INTERNAL"}})

    def _is_woven(self) -> bool:
        """Whether the client sees anything but the very answer."""
        return self._hearing.is_later or bool(self._answer.hidden)

    def _asks(self) -> tuple[Ask, ...]:
        """Calls without an id get one here, which no request says."""
        return tuple(
            Ask(string(member(call_of(part.value), "id")) or f"{self._tool}-{len(self._passed)}-{n}", part.arguments)
            for n, part in enumerate(self._answer.hidden)
        )

    def _results(self, results: Mapping[str, str], unanswered: str) -> list[str]:
        """The parts that answer the calls, in their order."""
        each = zip(self._answer.hidden, self._asks(), strict=True)
        return [result(call_of(part.value), self._tool, results.get(ask.id, unanswered)) for part, ask in each]

    def _hidden(self, results: Mapping[str, str]) -> dict[str, Passage]:
        answer = self._answer
        shown = [part.value for part in [*self._shown, *answer.shown]]
        if (key := key_of(self._before, said(shown), calls(shown))) is None:
            return {}
        parts = answer.sendable()
        instead = (*self._passed, *([content("model", parts)] if parts else []))
        return {key: Passage(instead, tuple(self._results(results, NOT_RUN)))}

    def _read(self, document: str) -> None:
        answer, chunk = self._answer, read_chunk(document)
        if self._hearing.is_later and not chunk.candidate:
            raise ValueError("it is another answer than the first")
        answer.document = chunk
        answer.add(chunk, self._tool)
        self._name(chunk)

    def _take(self, event: Event) -> bytes:
        """What the client gets of an event."""
        answer = self._answer
        try:
            chunk = read_chunk(event.data or "")
        except (ValueError, RecursionError):
            return self._passed_over(event)
        parts = answer.add(chunk, self._tool)
        self._name(chunk)
        self._hearing.is_over |= chunk.is_last
        if not self._hearing.is_over:
            return self._told(event, chunk, parts) if parts or not chunk.parts else b""
        now = [self._given_now(at) for at in range(len(answer.held))] if answer.hidden else []
        answer.held.append((event, chunk, parts))
        if answer.hidden:
            now.append(self._given_now(len(answer.held) - 1))
        return b"".join(now)

    def _passed_over(self, event: Event) -> bytes:
        if not self._hearing.is_over:
            return event.raw
        self._answer.held.append((event, None, ()))
        return b""

    def _given_now(self, at: int) -> bytes:
        """What is said in an event that is held back, as an event that does not say that it is the last one."""
        event, chunk, parts = self._answer.held[at]
        if chunk is None or all(part.is_empty for part in parts):
            return b""
        self._answer.held[at] = event, chunk, ()
        edits = self._edits(chunk, parts)
        if "finishReason" in chunk.candidate:
            edits.append(Edit(chunk.candidate["finishReason"], "null"))
        return event_bytes(edited(chunk.text, edits), event.name)

    def _told(self, event: Event, chunk: Chunk | None, parts: Sequence[Part]) -> bytes:
        edits = self._edits(chunk, parts) if chunk is not None else []
        return event_bytes(edited(chunk.text, edits), event.name) if chunk is not None and edits else event.raw

    def _edits(self, chunk: Chunk, parts: Sequence[Part]) -> list[Edit]:
        """To a chunk with these parts, under the name of the first answer, and with the costs of all."""
        edits = chunk.with_parts(parts)
        if self._hearing.is_later:
            edits += [Edit(chunk.top[key], name) for key, name in self._named.items() if key in chunk.top]
            if (place := chunk.top.get("usageMetadata")) is not None:
                edits.append(Edit(place, json_text(_total(self._usage, counted(place.of(chunk.text))))))
        return edits

    def _name(self, chunk: Chunk) -> None:
        if not self._hearing.is_later:
            for key in _OF_THE_FIRST:
                if key in chunk.top:
                    self._named.setdefault(key, chunk.top[key].of(chunk.text))


def _total(first: Any, second: Any) -> Any:
    """Counts added; where they are told apart by modality, each to its own."""
    total = summed(first, second)
    for key, value in total.items() if isinstance(total, dict) else ():
        if isinstance(value, list):
            found: dict[str, Any] = {}
            for count in value:
                modality = string(member(count, "modality"))
                found[modality] = summed(found.get(modality), count)
            total[key] = list(found.values())
    return total
