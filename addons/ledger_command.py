"""`mitmemory ledger`: the activity log's hash chain, and the log as a file. Works with and without a running suite."""

from __future__ import annotations

import re
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from addons.config import Config
from addons.exits import FAILED, OK, WRONG_INPUT
from addons.program import with_program
from memory.activity import EXPORT_CHUNK
from memory.activity_export import BODIES, HEADS, ExportFormat
from memory.activity_file import FILE_NAME, NewerSchemaError, open_to_read
from memory.activity_rows import head, read_all, verify_rows
from memory.since import parse_since

type LedgerAction = Literal["verify", "export", "head"]

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


def ledger(
    config: Config, action: LedgerAction, *, since: str | None, kind: ExportFormat | None, noted: str | None
) -> int:
    """`kind` is `--format`, `noted` is `--head`: each goes with one action only."""
    if (since or kind) and action != "export":
        return _wrong(with_program("--since and --format are for `mitmemory ledger export`"))
    if noted is not None and action != "verify":
        return _wrong(with_program("--head is for `mitmemory ledger verify`"))
    if noted is not None and not _HASH.fullmatch(noted := noted.strip().lower()):
        return _wrong(with_program("--head takes the 64 letters and digits that `mitmemory ledger head` printed"))
    try:
        start = parse_since(since, datetime.now(UTC)) if since is not None else None
    except ValueError as error:
        return _wrong(f"--{error}")
    if config.state is None:
        return _wrong("state is null, so past requests are kept in memory only: set state to a folder")
    file = config.state / FILE_NAME
    if not file.exists():
        return _failed(f"there is no {file}: no request has been recorded yet")
    try:
        with closing(open_to_read(file)) as connection:
            match action:
                case "verify":
                    return _verify(connection, file, noted)
                case "export":
                    return _export(connection, kind or "jsonl", start)
                case "head":
                    print(head(connection).hash)
                    return OK
    except NewerSchemaError as error:
        return _failed(str(error))
    except sqlite3.Error as error:
        return _failed(f"{file} cannot be read ({error})")


def _verify(connection: sqlite3.Connection, file: Path, noted: str | None) -> int:
    verdict = verify_rows(connection, sought=noted)
    first, last = verdict.head.number - verdict.rows + 1, verdict.head.number
    if verdict.fault is not None:
        before = f"; those before it fit, from row {first:,} on" if verdict.rows else ""
        return _failed(f"{file}: row {verdict.fault.number:,} does not fit: {verdict.fault.reason}{before}")
    if noted is not None and verdict.found is None:
        why = "the chain was cut off or written anew since, or that row has been pruned"
        return _failed(f"{file}: no row has the head that was noted: {why}")
    follows = f"; those before were pruned (activity.keep, max_entries): row {first:,} follows on them"
    pruned = follows if first > 1 else ""
    print(f"{file}: rows {first:,} to {last:,} fit{pruned}" if verdict.rows else f"{file}: it holds no row{pruned}")
    if verdict.found is not None:
        print(f"the head that was noted is row {verdict.found:,}: {last - verdict.found:,} came after it")
    print(f"head: {verdict.head.hash}")
    return OK


def _export(connection: sqlite3.Connection, kind: ExportFormat, start: datetime | None) -> int:
    # Bytes: neither the terminal's encoding nor its line ends have a say in a file.
    out = sys.stdout.buffer
    out.write(HEADS[kind]().encode())
    for entries in read_all(connection, start, EXPORT_CHUNK):
        out.write(BODIES[kind](entries).encode())
    out.flush()
    return OK


def _wrong(message: str) -> int:
    print(f"mitmemory: {message}", file=sys.stderr)
    return WRONG_INPUT


def _failed(message: str) -> int:
    print(f"mitmemory: {message}", file=sys.stderr)
    return FAILED
