"""`mitmemory map` and `scan`: what is in the notes, and which of them are in saved requests. Nothing is started."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from addons.captures import Captured, CaptureError, read_capture
from addons.config import Config
from addons.encodings import EncodingError, decode
from addons.exits import FAILED, OK, WRONG_INPUT
from addons.note_sources import make_library
from addons.tables import print_table
from addons.wire import bare_path, wire_for
from memory.body import read_body, unreadable
from memory.index import NoteIndex
from memory.note_library import NoteLibrary, Snapshot
from memory.scan import scan_body


def show_map(config: Config, *, as_json: bool) -> int:
    """Load every source; a source that fails makes the exit code 1, and the others are shown all the same."""
    snapshot = asyncio.run(load_notes(config))
    say_errors(snapshot)
    if as_json:
        print(json.dumps(snapshot.to_json() | {"exposure": {}}))  # nothing is sent here
    else:
        _print_map(snapshot, Console())
    return FAILED if any(source.error for source in snapshot.sources) else OK


def scan(config: Config, files: Sequence[Path], *, as_json: bool) -> int:
    try:
        captures = {file: read_capture(file) for file in files}
    except CaptureError as error:
        print(f"mitmemory: {error}", file=sys.stderr)
        return WRONG_INPUT
    snapshot = asyncio.run(load_notes(config))
    say_errors(snapshot)
    found = [
        {"file": str(file), "requests": [_scanned(snapshot.index, one, config.proxy.max_body) for one in requests]}
        for file, requests in captures.items()
    ]
    if as_json:
        print(json.dumps({"files": found}))
    else:
        _print_scan(found, Console())
    return FAILED if any(source.error for source in snapshot.sources) else OK


async def load_notes(config: Config) -> Snapshot:
    """Scan the sources, with a progress bar on stderr where a person looks at it. Errors of sources are the caller's to say."""
    library = make_library(config)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bars: dict[str, TaskID] = {}

        def tell(source: str, done: int, total: int) -> None:
            if source not in bars:
                bars[source] = progress.add_task(escape(source))
            progress.update(bars[source], completed=done, total=total)

        with _unlogged():
            try:
                return await library.scan(tell)
            finally:
                await library.aclose()


def say_errors(snapshot: Snapshot) -> None:
    """Which sources could not be read, a line each on stderr."""
    for source in snapshot.sources:
        if source.error:
            print(f"mitmemory: source {source.name}: {source.error}", file=sys.stderr)


@contextmanager
def _unlogged() -> Iterator[None]:
    """What a suite logs of a source in error; Python would print it beside what the command itself says."""
    logger = logging.getLogger(NoteLibrary.__module__)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _scanned(index: NoteIndex, captured: Captured, largest: int) -> dict[str, Any]:
    try:
        body = read_body(decode(captured.body, captured.encoding, largest), captured.content_type)
    except EncodingError as error:
        body = unreadable(str(error))
    result = scan_body(index, body)
    model = wire_for(captured.path).read(bare_path(captured.path), {}, body.json).model
    return {
        "model": model,
        "scan": result.to_json(),
        "notes": [sighting.to_json() for sighting in result.sightings],
    }


_COUNTS = ("notes", "links", "unresolved", "orphans", "by name only", "skipped", "warnings")


def _print_map(snapshot: Snapshot, console: Console) -> None:
    if not snapshot.sources:
        console.print("No source yet: add one under memory.sources in mitm.yaml.")
        return
    nodes = snapshot.map.nodes()
    source_of = {node["id"]: node["source"] for node in nodes}
    links = Counter(source_of[start] for start, _ in snapshot.map.links())
    orphans = Counter(source_of[note] for note in snapshot.map.orphans())
    rows: list[list[str | Text]] = []
    for source in snapshot.sources:
        own = [node for node in nodes if node["source"] == source.name]
        counts = (
            source.notes,
            links[source.name],
            sum(node["unresolved"] for node in own),
            orphans[source.name],
            sum(1 for node in own if node["detectable"] == "mention"),
            source.skipped,
            len(source.warnings),
        )
        if source.error:
            rows.append([source.name, Text("error", "red")])
        elif not source.enabled:
            rows.append([source.name, Text("off")])
        else:
            rows.append([source.name, *(f"{count:,}" for count in counts)])
    print_table(console, ("source", *_COUNTS), rows, numbers=_COUNTS)
    for source in snapshot.sources:
        for warning in source.warnings:
            console.print(
                f"{source.name}: {warning.path}: {warning.reason}", markup=False, highlight=False, soft_wrap=True
            )


def _print_scan(files: list[dict[str, Any]], console: Console) -> None:
    for file in files:
        for number, request in enumerate(file["requests"], start=1):
            where = file["file"] if len(file["requests"]) == 1 else f"{file['file']}, request {number}"
            state = ", ".join([request["scan"]["state"], *request["scan"]["reasons"]])
            none = "" if request["notes"] else "; no note"
            console.print(f"{where}: {state}{none}", markup=False, highlight=False, soft_wrap=True)
            rows: list[list[str]] = []
            for note in request["notes"]:
                lines = f"{note['matched']}/{note['distinctive']}" if note["grade"] == "line" else ""
                pointers = [one["pointer"] for one in note["evidence"]]
                more = f" and {len(pointers) - 1} more" if len(pointers) > 1 else ""
                rows.append([note["id"], note["grade"], lines, (pointers[0] if pointers else "") + more])
            if rows:
                print_table(console, ("note", "found", "lines", "where"), rows)
