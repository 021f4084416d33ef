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
from memory.exchange import Exchange

ENTRY = "memory.exchange"
"""The metadata key of the activity entry; `memory.notes` beside it is the list of note ids as text."""

CARRIED, BLOCKED, LOCAL = ":brain:", ":no_entry:", ":house:"


class Annotate:
    """Writes the exchange onto its flow, once it is scanned and again when it is answered."""

    def __init__(self, flows: Flows) -> None:
        self._flows = flows

    def running(self) -> None:
        contentviews.add(MemoryView)

    def request(self, flow: http.HTTPFlow) -> None:
        if (exchange := self._flows.of(flow)) is not None:
            annotate(flow, exchange)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        self.request(flow)

    def response(self, flow: http.HTTPFlow) -> None:
        self._finish(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._finish(flow)

    def _finish(self, flow: http.HTTPFlow) -> None:
        """The last stage to see an exchange lets go of it."""
        if (exchange := self._flows.end(flow)) is not None:
            annotate(flow, exchange)


def annotate(flow: http.HTTPFlow, exchange: Exchange) -> None:
    flow.comment = comment(exchange)
    flow.marked = marker(exchange)
    flow.metadata[ENTRY] = exchange.to_json()
    flow.metadata["memory.notes"] = ", ".join(sighting.note for sighting in exchange.scan.sightings)


def comment(exchange: Exchange) -> str:
    """`3 notes -> claude-sonnet-4 (cloud)`; says so where the body could not be looked at."""
    count = len(exchange.scan.sightings)
    notes = "1 note" if count == 1 else f"{count} notes"
    if exchange.scan.state != "complete":
        notes = f"{notes}, {exchange.scan.state}" if count else exchange.scan.state
    return f"{notes} -> {exchange.model or exchange.provider} ({exchange.to})"


def marker(exchange: Exchange) -> str:
    if exchange.decision.action == "block":
        return BLOCKED
    if not exchange.scan.sightings:
        return ""
    return LOCAL if exchange.to == "local" else CARRIED


class MemoryView(contentviews.Contentview):
    """The content view `Memory`: which notes a request carried, and where in the body each was found."""

    name = "Memory"
    syntax_highlight = "yaml"

    def prettify(self, data: bytes, metadata: contentviews.Metadata) -> str:  # noqa: ARG002 - the flow says it all
        entry = _entry(metadata)
        if entry is None:
            raise ValueError("not a request to a model")
        return describe(entry)

    def render_priority(self, data: bytes, metadata: contentviews.Metadata) -> float:  # noqa: ARG002
        entry = _entry(metadata)
        if entry is None or not isinstance(metadata.http_message, http.Request):
            return -1
        return 2 if entry["notes"] else 0


def describe(entry: Mapping[str, Any]) -> str:
    """An activity entry as a person reads it, in YAML. Names of notes and models may hold whatever YAML gives a meaning."""
    scan = entry["scan"]
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
    return str(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=sys.maxsize))


def _entry(metadata: contentviews.Metadata) -> Mapping[str, Any] | None:
    return metadata.flow.metadata.get(ENTRY) if metadata.flow is not None else None
