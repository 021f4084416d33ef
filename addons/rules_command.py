"""`mitmemory rules`: what today's rules would have done with past requests. Works with and without a running suite."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from addons.config import Config
from addons.exits import FAILED, OK, WRONG_INPUT
from addons.notes_command import load_notes, say_errors
from addons.rules_service import book_of
from addons.tables import print_table
from memory.activity_file import FILE_NAME, NewerSchemaError, open_to_read
from memory.activity_rows import count_requests, read_requests
from memory.exchange import Action, timestamp
from memory.rules import DryRun, Facts, NotesFacts, RuleBook, dry_run
from memory.since import parse_since

DEFAULT_SINCE = "30d"
DONE: dict[Action, str] = {
    "block": "blocked",
    "hold": "held",
    "redirect": "redirected",
    "redact": "redacted",
    "allow": "allowed",
}
"""What is said of a request, the strictest action first."""
TOLD_EVERY = 1000
"""Requests between two moves of the progress bar."""


def rules_test(config: Config, *, since: str | None, as_json: bool) -> int:
    """Judge what was recorded since then anew; nothing is written and nobody is asked."""
    try:
        start = parse_since(since or DEFAULT_SINCE, datetime.now(UTC))
    except ValueError as error:
        return _wrong(f"--{error}")
    if config.state is None:
        return _wrong("state is null, so past requests are kept in memory only: set state to a folder")
    file = config.state / FILE_NAME
    if not file.exists():
        return _failed(f"there is no {file}: no request has been recorded yet")
    snapshot = asyncio.run(load_notes(config))
    say_errors(snapshot)
    try:
        with closing(open_to_read(file)) as connection:
            found = _tested(connection, book_of(config), start, NotesFacts(snapshot.map.notes))
    except NewerSchemaError as error:
        return _failed(str(error))
    except sqlite3.Error as error:
        return _failed(f"{file} cannot be read ({error})")
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        _print(found, start, config, Console())
    return FAILED if any(source.error for source in snapshot.sources) else OK


def _tested(connection: sqlite3.Connection, book: RuleBook, start: datetime, facts: Facts) -> DryRun:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("requests", total=count_requests(connection, start))

        def told() -> Iterator[dict[str, Any]]:
            for number, entry in enumerate(read_requests(connection, start)):
                if number % TOLD_EVERY == 0:
                    progress.update(bar, completed=number)
                yield entry

        return dry_run(book, told(), facts)


def _print(found: DryRun, start: datetime, config: Config, console: Console) -> None:
    since = timestamp(start)
    if not found.tested:
        console.print(f"No request was recorded since {since}.", highlight=False, soft_wrap=True)
        return
    (many, word), *rest = [(count, word) for one, word in DONE.items() if (count := found.actions.get(one))]
    done = ", ".join([f"{many:,} would have been {word}", *(f"{count:,} {word}" for count, word in rest)])
    rows = [
        (rule.name, rule.action, f"{rule.hits:,}", rule.examples[0] if rule.examples else "") for rule in found.rules
    ]
    if rows:
        print_table(console, ("rule", "then", "hits", "for example"), rows, numbers={"hits"})
    else:
        console.print(f"There are no rules in {config.file}.", markup=False, highlight=False, soft_wrap=True)
    requests = "1 request" if found.tested == 1 else f"{found.tested:,} requests"
    console.print(f"Of {requests} since {since}, {done}.", highlight=False, soft_wrap=True)


def _wrong(message: str) -> int:
    print(f"mitmemory: {message}", file=sys.stderr)
    return WRONG_INPUT


def _failed(message: str) -> int:
    print(f"mitmemory: {message}", file=sys.stderr)
    return FAILED
