"""The `mitmemory` command.

Exit 0: done; 1: it failed while running; 2: the input is wrong. A person's mistake gets a message, never a traceback.
With `--json`, stdout holds the JSON and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from addons.captures import Captured, CaptureError, read_capture
from addons.config import Config, ConfigError, load_config
from addons.encodings import EncodingError, decode
from addons.suite import StartError, make_library
from addons.wire import bare_path, wire_for
from memory.body import read_body, unreadable
from memory.index import NoteIndex
from memory.library import Snapshot
from memory.scan import scan_body

OK, FAILED, WRONG_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    given, flags = _split(given)
    parser = make_parser()
    options = parser.parse_args(given)
    if flags and options.command != "run":
        parser.error(f"{options.command} takes nothing after --")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file's name may hold what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    commands: dict[str, Callable[[Config], int]] = {
        "run": lambda config: run(config, flags, inspector=not options.no_inspector),
        "check": check,
        "map": lambda config: show_map(config, as_json=options.json),
        "scan": lambda config: scan(config, options.files, as_json=options.json),
    }
    try:
        if options.command == "demo":  # it reads nothing of the person's, not even the configuration
            return demo(once=options.once)
        code = commands[options.command](load_config(options.config))
        sys.stdout.flush()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    except KeyboardInterrupt:
        return FAILED
    except BrokenPipeError:  # whoever read our output has enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter's last flush fails again
        return FAILED
    return code


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mitmemory", description="See which of your own notes your AI tools send to which model."
    )
    parser.add_argument("--version", action="version", version=f"mitmemory {metadata.version('mitmemory')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    configured = argparse.ArgumentParser(add_help=False)
    configured.add_argument("--config", type=Path, metavar="FILE", help="the configuration (default: ./mitm.yaml)")

    command = commands.add_parser("run", parents=[configured], help="start proxy, inspector and dashboard")
    command.add_argument("--no-inspector", action="store_true", help="without mitmweb")
    command.epilog = "What follows -- goes to mitmproxy, for example: mitmemory run -- --set ssl_insecure=true"

    command = commands.add_parser("demo", help="show it on a sample vault, with a scripted model, without a key")
    command.add_argument("--once", action="store_true", help="play it once, print a summary, end")

    commands.add_parser("check", parents=[configured], help="validate the configuration")

    command = commands.add_parser("map", parents=[configured], help="load the notes and say what is there")
    command.add_argument("--json", action="store_true", help="the same JSON as GET api/memory")

    command = commands.add_parser("scan", parents=[configured], help="which notes are in these request bodies")
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="raw body, HAR, or mitmproxy flow file")
    command.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Ours and, after `--`, mitmproxy's."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def run(config: Config, flags: Sequence[str], *, inspector: bool) -> int:
    # Imported here: the other commands do without mitmproxy's masters, which take a second to load.
    from addons.greeting import greet  # noqa: PLC0415
    from addons.launcher import launch  # noqa: PLC0415

    if not inspector:
        config = replace(config, proxy=replace(config.proxy, inspector=None))
    console = Console()
    try:
        launch(config, lambda running, _end: greet(running, console), flags=flags)
    except StartError as error:
        print(f"mitmemory: {error}", file=sys.stderr)
        return FAILED
    return OK


def demo(*, once: bool) -> int:
    from addons.demo.run import run_demo  # noqa: PLC0415 - as above

    return run_demo(once=once)


def check(config: Config) -> int:
    sources = len(config.memory.sources)
    print(f"{config.file or 'the default configuration'}: fine, {sources} source{'' if sources == 1 else 's'}")
    return OK


def show_map(config: Config, *, as_json: bool) -> int:
    """Load every source; a source that fails makes the exit code 1, and the others are shown all the same."""
    snapshot = asyncio.run(_load(config))
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
    snapshot = asyncio.run(_load(config))
    found = [
        {"file": str(file), "requests": [_scanned(snapshot.index, one, config.proxy.max_body) for one in requests]}
        for file, requests in captures.items()
    ]
    if as_json:
        print(json.dumps({"files": found}))
    else:
        _print_scan(found, Console())
    return FAILED if any(source.error for source in snapshot.sources) else OK


async def _load(config: Config) -> Snapshot:
    """Scan the sources, with a progress bar on stderr where a person looks at it."""
    library = make_library(config)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bars: dict[str, TaskID] = {}

        def tell(source: str, done: int, total: int) -> None:
            if source not in bars:
                bars[source] = progress.add_task(escape(source))
            progress.update(bars[source], completed=done, total=total)

        try:
            snapshot = await library.scan(tell)
        finally:
            await library.aclose()
    for source in snapshot.sources:
        if source.error:
            print(f"mitmemory: source {source.name}: {source.error}", file=sys.stderr)
    return snapshot


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


def _print_map(snapshot: Snapshot, console: Console) -> None:
    if not snapshot.sources:
        console.print("No source yet: add one under memory.sources in mitm.yaml.")
        return
    nodes = snapshot.map.nodes()
    source_of = {node["id"]: node["source"] for node in nodes}
    links = Counter(source_of[start] for start, _ in snapshot.map.links())
    orphans = Counter(source_of[note] for note in snapshot.map.orphans())
    # Without lines between the columns it fits into 80 characters.
    table = Table("source", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("notes", "links", "unresolved", "orphans", "by name only", "skipped", "warnings"):
        table.add_column(column, justify="right", no_wrap=True)
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
            table.add_row(escape(source.name), "[red]error[/red]")
        elif not source.enabled:
            table.add_row(escape(source.name), "off")
        else:
            table.add_row(escape(source.name), *(f"{count:,}" for count in counts))
    console.print(table)
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
            table = Table("note", "found", "lines", "where", title=escape(f"{where}: {state}"), title_justify="left")
            for note in request["notes"]:
                lines = f"{note['matched']}/{note['distinctive']}" if note["grade"] == "line" else ""
                pointers = [one["pointer"] for one in note["evidence"]]
                more = f" and {len(pointers) - 1} more" if len(pointers) > 1 else ""
                table.add_row(escape(note["id"]), note["grade"], lines, escape(pointers[0] if pointers else "") + more)
            if request["notes"]:
                console.print(table)
            else:
                console.print(f"{where}: {state}; no note", markup=False, highlight=False, soft_wrap=True)
