"""Several answers of Gemini made one (https://ai.google.dev/gemini-api/docs/function-calling, and …/thought-signatures)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from addons.loop.dialect import MOST_ANSWER, Ask, BrokenAnswerError, Hop, Passage
from addons.loop.events import Event, EventSplitter, TooLongError, decoded, event_bytes, event_of, json_bytes, json_text
from addons.loop.gemini_parts import Chunk, Part, call_of, calls, content, is_call_of, read_chunk, result, said
from addons.loop.keys import key_of
from addons.loop.places import Edit, appended, edited, members
from addons.loop.usage import counted, summed
from addons.wire.shapes import member, string

NOT_RUN = "This search was not run."
"""The result of a call that the answer ended with: the model is sent its own calls again, and each needs one."""

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
    raw: bytes | None = None
    """The document as it came."""
    size: int = 0
    is_over: bool = False
    trouble: str | None = None
    is_given_up: bool = False
    """Not all of it has been read."""

    def give_up(self, trouble: str) -> None:
        self.trouble, self.is_given_up = trouble, True

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
        self._splitter = EventSplitter()
        self._passed: list[str] = []
        """The contents that the client does not see."""
        self._shown: list[Part] = []
        """The parts of earlier answers that it does see."""
        self._usage: Any = None
        """Of earlier answers."""
        self._named: dict[str, str] = {}
        """What the first answer is called, as JSON."""
        self._is_document = False
        self._owed = b""
        self._passages: dict[str, Passage] = {}

    @property
    def ping(self) -> bytes:
        """Google's own libraries take a comment for a broken chunk, and pass over an empty one."""
        return b"\n\n"

    def feed(self, data: bytes) -> bytes:
        answer, given, self._owed = self._answer, [self._owed], b""
        answer.size += len(data)
        if answer.size > MOST_ANSWER:
            answer.give_up("it is too long")
        if self._is_document:
            answer.give_up("it is a stream after one document")
        if not answer.is_given_up:
            given.append(self._taken(self._splitter.feed(data)))
        return b"".join(given)

    def whole(self, data: bytes) -> None:
        answer = self._answer
        answer.raw, answer.is_over = data, True
        try:
            answer.document = read_chunk(data.decode())
        except (ValueError, RecursionError):
            answer.trouble = "it is no answer"
            return
        answer.add(answer.document, self._tool)
        self._name(answer.document)
        if self._is_later and (not self._is_document or not answer.document.candidate):
            answer.trouble = "it is another answer than the first"

    def over(self) -> Hop:
        answer = self._answer
        if answer.raw is None and (rest := self._splitter.rest()):
            event = event_of(rest)
            if not self._is_woven or decoded(event.data) is not None:
                self._owed += self._taken([event])
        trouble = answer.trouble or (None if answer.is_over else "it ended before it was over")
        if trouble is None:
            asks = self._asks() if answer.finish_reason == "STOP" else ()
            return Hop(asks, any(call_of(part.value) is not None for part in answer.shown))
        if self._is_woven or answer.is_given_up:
            raise BrokenAnswerError(trouble)
        return Hop()  # the client gets what came, as it would without the loop

    def go_on(self, results: Mapping[str, str]) -> str:
        answer = self._answer
        hidden = [content("model", answer.sendable()), content("user", self._results(results, ""))]
        try:
            contents = members(self._body)["contents"]
            self._body = edited(self._body, [appended(self._body, contents, hidden)])
        except (ValueError, KeyError, RecursionError):
            raise BrokenAnswerError("its request cannot be gone on with") from None
        self._is_document = answer.raw is not None
        self._passed += hidden
        self._shown += answer.shown
        self._usage = _total(self._usage, answer.usage)
        if self._owed:
            self._owed += b"\n\n"  # it had no end of its own
        self._answer, self._splitter = Answer(), EventSplitter()
        return self._body

    def finish(self, results: Mapping[str, str]) -> bytes:
        answer = self._answer
        if not self._is_woven:
            return self._owed + (answer.raw or b"".join(event.raw for event, _, _ in answer.held))
        self._passages = self._hidden(results)
        if answer.document is not None:
            parts = [*self._shown, *answer.shown]
            told = edited(answer.document.text, self._edits(answer.document, parts))
            return told.encode("utf-8", "surrogatepass")
        return self._owed + b"".join(self._told(*held) for held in answer.held)

    def passages(self) -> Mapping[str, Passage]:
        return self._passages

    def error(self, message: str, kind: str = "api_error") -> bytes:  # noqa: ARG002 - Google's words are others
        return json_bytes({"error": {"code": 500, "message": message, "status": "INTERNAL"}})

    @property
    def _is_later(self) -> bool:
        return bool(self._passed)

    @property
    def _is_woven(self) -> bool:
        """Whether the client sees anything but the very answer."""
        return self._is_later or bool(self._answer.hidden)

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

    def _taken(self, events: Iterable[Event]) -> bytes:
        given: list[bytes] = []
        try:
            given.extend(self._take(event) for event in events)
        except (TooLongError, RecursionError):
            self._answer.give_up("an event of it is too long, or nested too deep")
        return b"".join(given)

    def _take(self, event: Event) -> bytes:
        """What the client gets of an event."""
        answer = self._answer
        try:
            chunk = read_chunk(event.data or "")
        except (ValueError, RecursionError):
            return self._passed_over(event)
        parts = answer.add(chunk, self._tool)
        self._name(chunk)
        answer.is_over = answer.is_over or chunk.is_last
        if not answer.is_over:
            return self._told(event, chunk, parts) if parts or not chunk.parts else b""
        now = [self._given_now(at) for at in range(len(answer.held))] if answer.hidden else []
        answer.held.append((event, chunk, parts))
        if answer.hidden:
            now.append(self._given_now(len(answer.held) - 1))
        return b"".join(now)

    def _passed_over(self, event: Event) -> bytes:
        if not self._answer.is_over:
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
        if self._is_later:
            edits += [Edit(chunk.top[key], name) for key, name in self._named.items() if key in chunk.top]
            if (place := chunk.top.get("usageMetadata")) is not None:
                edits.append(Edit(place, json_text(_total(self._usage, counted(place.of(chunk.text))))))
        return edits

    def _name(self, chunk: Chunk) -> None:
        if not self._is_later:
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
