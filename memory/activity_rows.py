"""The rows of the activity log: chained when they are written, put together to entries when they are read.

Functions over a connection of `memory/activity_file.py`, for one thread at a time. Two processes may write to the same
file: each batch is one transaction that begins where the chain then ends.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import batched, groupby
from operator import itemgetter
from typing import Any

import orjson

from memory.activity_file import transaction
from memory.ledger import Link, Row, UnreadableError, Verdict, canonical, row_hash, verify
from memory.since import last_id_before

PRUNED_AT_ONCE = 500
"""Rows in one transaction, so that those that wait to be written need not wait long."""
MOST_VALUES = 900
"""In one statement: older builds of SQLite take 999."""
SAYS_MORE = frozenset({"sentTo", "outcome"})
"""A later row is written when one of these has changed: another model got the body, or the exchange is over."""

type Found = dict[str, dict[str, Any] | None]
"""Entries by id. None: somebody changed the row, and it cannot be read."""

_ROW = "number, id, written, client, model, notes, entry, hash"


def anchor(connection: sqlite3.Connection) -> Link:
    """The last row that was pruned, or `START`."""
    if (found := connection.execute("SELECT anchor, hash FROM chain").fetchone()) is None:
        error = sqlite3.DatabaseError("the chain's beginning is missing")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
    return Link(*found)


def head(connection: sqlite3.Connection) -> Link:
    """The last row, or the anchor where none is left."""
    found = connection.execute("SELECT number, hash FROM ledger ORDER BY number DESC LIMIT 1").fetchone()
    return Link(*found) if found else anchor(connection)


def append(connection: sqlite3.Connection, entries: Iterable[dict[str, Any]], now: int) -> int:
    """Chain a row for each entry that says something new, all in one transaction; how many rows that made.

    `now` is in milliseconds since 1970.
    """
    rows: list[Row] = []
    carried: list[tuple[str, str]] = []
    latest: dict[str, dict[str, Any]] = {}
    with transaction(connection):
        link = head(connection)
        whole = 0
        for entry in entries:
            earlier = latest.get(entry["id"]) or _stored(connection, entry["id"])
            said = entry if earlier is None else _changed(earlier, entry)
            if earlier is not None and not said.keys() & SAYS_MORE:
                continue
            latest[entry["id"]] = (earlier or {}) | said
            row = _row(said, link.number + 1, now, whole=earlier is None)
            whole += earlier is None
            link = Link(row.number, row_hash(link.hash, row))
            rows.append(row._replace(hash=link.hash))
            carried += _carried(said)
        _insert(connection, f"INSERT INTO ledger ({_ROW})", rows)
        _insert(connection, "INSERT OR IGNORE INTO carried", carried)
        connection.execute("UPDATE chain SET entries = entries + ?", (whole,))
    return len(rows)


def prune(connection: sqlite3.Connection, *, before: int, most: int) -> int:
    """Forget the oldest rows: those written before `before` (milliseconds since 1970), and the entries beyond `most`.

    How many went, `PRUNED_AT_ONCE` at most. The last of them becomes the anchor.
    """
    if not _has_old(connection, before, most):
        return 0
    with transaction(connection):
        [excess] = connection.execute("SELECT entries - ? FROM chain", (most,)).fetchone()
        gone: list[Row] = []
        whole = 0
        for row in _rows(connection, "ORDER BY number LIMIT ?", PRUNED_AT_ONCE):
            # A row that is not whole and comes first speaks of an exchange that is forgotten already.
            if row.client is not None and not _is_older(row.written, before) and whole >= excess:
                break
            gone.append(row)
            whole += row.client is not None
        if gone:
            last = gone[-1]
            connection.execute("DELETE FROM ledger WHERE number <= ?", (last.number,))
            carried = [pair for row in gone if row.notes for pair in _carried(_read(row.entry))]
            connection.executemany("DELETE FROM carried WHERE note = ? AND id = ?", carried)
            connection.execute(
                "UPDATE chain SET anchor = ?, hash = ?, entries = entries - ?", (last.number, last.hash, whole)
            )
    return len(gone)


def _has_old(connection: sqlite3.Connection, before: int, most: int) -> bool:
    """Whether the first row may go. It is asked after every batch, and a transaction for nothing would cost more."""
    first = connection.execute(
        "SELECT written, client IS NULL, (SELECT entries FROM chain) FROM ledger ORDER BY number LIMIT 1"
    ).fetchone()
    if first is None:
        return False
    written, adds, entries = first
    return bool(adds or _is_older(written, before) or entries > most)


def _is_older(written: object, before: int) -> bool:
    """Something else than a number, which somebody put there, is old."""
    return not isinstance(written, int) or written < before


def read_page(
    connection: sqlite3.Connection,
    before: str | None,
    limit: int,
    *,
    note: str | None = None,
    client: str | None = None,
    model: str | None = None,
    notes_only: bool = False,
) -> Found:
    """Entries, newest first: `limit` of those with an id below `before` that the filters let through."""
    table = "ledger" if note is None else "carried CROSS JOIN ledger ON ledger.id = carried.id"
    by = "ledger.id" if note is None else "carried.id"
    conditions, values = ["ledger.client IS NOT NULL"], list[str | int]()
    for condition, value in (
        (f"{by} < ?", before),
        ("carried.note = ?", note),
        ("ledger.client = ?", client),
        ("ledger.model = ?", model),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(_storable(value))
    if notes_only:
        conditions.append("ledger.notes > 0")
    found = f"SELECT DISTINCT {by} FROM {table} WHERE {' AND '.join(conditions)} ORDER BY {by} DESC LIMIT ?"  # noqa: S608
    return _entries(connection, found, [*values, limit], "DESC")


def read_all(connection: sqlite3.Connection, since: datetime | None, at_once: int) -> Iterator[list[dict[str, Any]]]:
    """Every entry that began at `since` or later, oldest first, `at_once` or fewer at a time.

    Each time is a query of its own: a reader that takes long keeps no old state of the file alive.
    """
    after = last_id_before(since)
    query = "SELECT DISTINCT id FROM ledger WHERE id > ? AND client IS NOT NULL ORDER BY id LIMIT ?"
    while found := _entries(connection, query, [after, at_once], "ASC"):
        yield [entry for entry in found.values() if entry]
        after = max(found)


def count_requests(connection: sqlite3.Connection, since: datetime | None) -> int:
    """How many there are of what `read_requests` reads, or a few more."""
    found = "SELECT count(*) FROM ledger INDEXED BY ledger_id WHERE id > ? AND client IS NOT NULL"
    [count] = connection.execute(found, (last_id_before(since),)).fetchone()
    return int(count)


def read_requests(connection: sqlite3.Connection, since: datetime | None) -> Iterator[dict[str, Any]]:
    """What the first row of every exchange says that began at `since` or later, oldest first.

    It is written when the body goes out, or when the exchange ends without that: the request is whole then, and nothing
    that rules ask about changes later. So this takes a quarter of the time of `read_all`.
    """
    found = "SELECT id, entry FROM ledger WHERE id > ? AND client IS NOT NULL ORDER BY id, number"
    before = None
    for identifier, text in connection.execute(found, (last_id_before(since),)):
        if identifier != before and "startedAt" in (said := _read(text)):
            before = identifier
            yield said


def verify_rows(connection: sqlite3.Connection, *, sought: str | None = None) -> Verdict:
    """Go along the whole chain as it is now, whoever writes meanwhile. Raises sqlite3.Error where there is none."""
    connection.execute("BEGIN")
    try:
        return verify(anchor(connection), _readable(_rows(connection, "ORDER BY number")), sought=sought)
    finally:
        connection.execute("ROLLBACK")


def _readable(rows: Iterator[Row]) -> Iterator[Row]:
    try:
        yield from rows
    except sqlite3.DatabaseError as error:
        raise UnreadableError(str(error)) from error


def _entries(connection: sqlite3.Connection, found: str, values: list[str | int], direction: str) -> Found:
    rows = connection.execute(
        f"SELECT id, entry FROM ledger WHERE id IN ({found}) ORDER BY id {direction}, number",  # noqa: S608
        values,
    )
    return {identifier: _merged(text for _, text in group) for identifier, group in groupby(rows, itemgetter(0))}


def _stored(connection: sqlite3.Connection, identifier: str) -> dict[str, Any] | None:
    """The entry as it was last written. None: never, or its whole row is pruned or unreadable."""
    found = connection.execute("SELECT entry FROM ledger WHERE id = ? ORDER BY number", (identifier,))
    return _merged(text for (text,) in found)


def _merged(texts: Iterable[str]) -> dict[str, Any] | None:
    entry: dict[str, Any] = {}
    for text in texts:
        entry |= _read(text)
    return entry if "startedAt" in entry else None  # later rows do not say that again


def _read(text: str) -> dict[str, Any]:
    """What a row says; nothing where somebody changed it, which is for `verify` to find."""
    try:
        said = _decoded(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _decoded(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return json.loads(text)  # a client may have sent half of a surrogate pair, which orjson does not read


def _rows(connection: sqlite3.Connection, which: str, *values: int) -> Iterator[Row]:
    for columns in connection.execute(f"SELECT {_ROW} FROM ledger {which}", values):  # noqa: S608
        yield Row(*columns)


def _row(said: dict[str, Any], number: int, now: int, *, whole: bool) -> Row:
    text = canonical(said)
    if not whole:
        return Row(number, said["id"], now, None, None, None, text)
    return Row(number, said["id"], now, _storable(said["client"]), _storable(said["model"]), len(said["notes"]), text)


def _changed(earlier: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name == "id" or earlier.get(name) != value}


def _carried(said: dict[str, Any]) -> list[tuple[str, str]]:
    identifier = said["id"]
    return [(_storable(note["id"]), identifier) for note in said.get("notes", ())]


def _insert(connection: sqlite3.Connection, into: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """With one statement for many rows: each that is run has this thread wait for the interpreter, which the proxy uses."""
    for some in batched(rows, MOST_VALUES // len(rows[0]) if rows else 1):
        places = f"({', '.join('?' * len(some[0]))})"
        values = ", ".join([places] * len(some))
        connection.execute(f"{into} VALUES {values}", [value for row in some for value in row])


def _storable(text: str) -> str:
    """Lone halves of surrogate pairs, which come in names of files and of models, are no UTF-8: they are spelt out."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
