"""Annotate: what the person sees of an exchange in mitmweb and mitmproxy: comment, marker, metadata, content view.

`flow.metadata` holds plain JSON only: it is saved with flow files. `~meta memory.notes` filters by it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import yaml
from mitmproxy import contentviews, http

from addons.flows import Flows
from addons.wire import wire_for
from addons.wire.answer import Answer
from addons.wire.assembly import Room
from addons.wire.streams import AnswerReader
from memory.exchange import Exchange, Scan

ENTRY = "memory.exchange"
NOTES = "memory.notes"
"""The metadata keys of the activity entry, and of the list of note ids; without notes there is no such list."""

MOST_SHOWN = 100_000
"""Characters of an answer that the content view shows. Writing YAML takes 1.6 µs for each, and all streams wait."""

CARRIED, BLOCKED, LOCAL, WAITING = ":brain:", ":no_entry:", ":house:", ":hourglass:"


class Annotate:
    """Writes the exchange onto its flow, once it is scanned and again when it is answered."""

    def __init__(self, flows: Flows) -> None:
        self._flows = flows

    def running(self) -> None:
        contentviews.add(MemoryView)

    def request(self, flow: http.HTTPFlow) -> None:
        if (exchange := self._flows.of(flow)) is not None:
            annotate(flow, exchange)

    def response(self, flow: http.HTTPFlow) -> None:
        self._finish(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._finish(flow)

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        """A WebSocket shows its latest turn, and all the notes that it has carried."""
        exchange = self._flows.of(flow)
        if exchange is None or flow.websocket is None:
            return
        asks = flow.websocket.messages[-1].from_client
        awaits = self._flows.awaits_answer(flow) and exchange.decision.action != "block"
        if asks and (awaits or exchange.scan.sightings):
            annotate(flow, exchange)
        if asks and not awaits:
            self._flows.end(flow)
        elif not asks and self._flows.answer_of(flow) is not None:
            self._finish(flow)

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        while self._flows.of(flow) is not None:
            self._finish(flow)

    def _finish(self, flow: http.HTTPFlow) -> None:
        """The last stage to see an exchange lets go of it."""
        if (exchange := self._flows.end(flow)) is not None:
            annotate(flow, exchange)


def annotate(flow: http.HTTPFlow, exchange: Exchange) -> None:
    flow.comment = comment(exchange)
    flow.metadata[ENTRY] = exchange.to_json()
    notes = [sighting.note for sighting in exchange.scan.sightings]
    if flow.websocket:
        flow.marked = marker(exchange) or flow.marked
        notes = list(dict.fromkeys([*flow.metadata.get(NOTES, []), *notes]))
    else:
        flow.marked = marker(exchange)
    _list_notes(flow, notes)


def rescan(flow: http.HTTPFlow, scan: Scan) -> None:
    """Show what a later look at the request found. What was recorded of it stays."""
    flow.comment = _carried(scan)
    _list_notes(flow, [sighting.note for sighting in scan.sightings])
    if (entry := flow.metadata.get(ENTRY)) is not None:
        flow.comment += f" -> {entry['model'] or entry['provider']} ({entry['to']})"
        notes = [sighting.to_json() for sighting in scan.sightings]
        flow.metadata[ENTRY] = {**entry, "notes": notes, "scan": scan.to_json()}


def _list_notes(flow: http.HTTPFlow, notes: list[str]) -> None:
    """An empty list would be found by `~meta memory.notes` as well."""
    flow.metadata.pop(NOTES, None)
    if notes:
        flow.metadata[NOTES] = notes


def comment(exchange: Exchange) -> str:
    """`3 notes -> claude-sonnet-4 (cloud)`; says so where the body could not be looked at, and what was recalled."""
    way = f"{_carried(exchange.scan)} -> {exchange.model or exchange.provider} ({exchange.to})"
    return f"{way}, {_recalled(exchange.recalls.to_json())}" if exchange.recalls.searches else way


def _recalled(recalls: Mapping[str, int]) -> str:
    count = recalls["memories"]
    return f"{count or 'no'} {'memory' if count == 1 else 'memories'} recalled"


def _carried(scan: Scan) -> str:
    count = len(scan.sightings)
    notes = "1 note" if count == 1 else f"{count} notes"
    if scan.state == "complete":
        return notes
    return f"{notes}, {scan.state}" if count else scan.state


def marker(exchange: Exchange) -> str:
    if exchange.decision.action == "block":
        return BLOCKED
    if exchange.decision.action == "hold" and exchange.outcome is None:
        return WAITING
    if not exchange.scan.sightings:
        return ""
    return LOCAL if exchange.to == "local" else CARRIED


class MemoryView(contentviews.Contentview):
    """The content view `Memory`: which notes a request carried, where in the body each was found, and what was answered."""

    name = "Memory"
    syntax_highlight = "yaml"

    def prettify(self, data: bytes, metadata: contentviews.Metadata) -> str:  # noqa: ARG002 - the flow says it all
        entry = _entry(metadata)
        if entry is None:
            raise ValueError("not a request to a model")
        return describe(entry, _answer(metadata))

    def render_priority(self, data: bytes, metadata: contentviews.Metadata) -> float:  # noqa: ARG002
        entry = _entry(metadata)
        if entry is None:
            return -1
        if isinstance(metadata.http_message, http.Request):
            return 2 if entry["notes"] else 0
        return 0


def describe(entry: Mapping[str, Any], answer: Answer | None = None) -> str:
    """An activity entry as a person reads it, in YAML. Names of notes and models may hold whatever YAML gives a meaning."""
    scan = entry["scan"]
    recalls = entry.get("recalls") or {"searches": 0}  # flow files of earlier versions say nothing of it
    notes: dict[str, Any] = {}
    for note in entry["notes"]:
        found = f"{note['matched']}/{note['distinctive']} lines" if note["grade"] == "line" else note["grade"]
        notes[note["id"]] = {
            "found": f"{found}, again" if note["resent"] else found,
            "at": [f"{one['pointer']} ({one['grade']}, {one['lines']})" for one in note["evidence"]],
        }
    shown = {
        "to": f"{entry['model'] or 'unknown model'} ({entry['to']}), {entry['provider']}, {entry['protocol']}",
        "client": entry["client"],
        "decision": entry["decision"]["action"],
        "scan": ", ".join([scan["state"], *scan["reasons"]]),
        "notes": notes or "none",
    }
    if recalls["searches"]:
        times = "once" if recalls["searches"] == 1 else f"{recalls['searches']} times"
        shown["memory"] = f"searched {times}, {_recalled(recalls)}"
    if answer is not None and (said := {key: value for key, value in _described(answer).items() if value}):
        shown["answer"] = said
    return str(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=sys.maxsize))


def _described(answer: Answer) -> dict[str, Any]:
    room = Room(MOST_SHOWN)
    text, thinking = room.fit(answer.text), room.fit(answer.thinking)
    tools = [room.fit(f"{call.name}: {call.arguments}") for call in answer.tool_calls]
    return {
        "text": text,
        "thinking": thinking,
        "tools": [call for call in tools if call],
        "shown": "" if room.left else f"the first {MOST_SHOWN:,} characters",
        "stopped": answer.stop_reason,
        "error": answer.error,
        "tokens": {key: count for key, count in answer.usage.to_json().items() if count is not None},
        "complete": "" if answer.complete else "no",
    }


def _answer(metadata: contentviews.Metadata) -> Answer | None:
    """The answer put together from what the inspector keeps of it."""
    flow = metadata.flow
    if not isinstance(flow, http.HTTPFlow) or flow.response is None:
        return None
    parts, data = wire_for(flow.request.path).answer(), flow.response.get_content(strict=False)
    if parts is None or not data:
        return None
    reader = AnswerReader(parts, flow.response.headers.get("content-type", ""))
    reader.feed(data)
    return reader.close()


def _entry(metadata: contentviews.Metadata) -> Mapping[str, Any] | None:
    return metadata.flow.metadata.get(ENTRY) if metadata.flow is not None else None
