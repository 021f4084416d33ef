"""The chain of the activity log: each row carries the hash of the one before (dispatch.md, "Ledger").

Pure functions over rows; `memory/activity_rows.py` keeps them. A row's hash is the SHA-256 of the hash before it, as
64 hex digits, and the row's canonical JSON: keys sorted, no spaces, everything beyond ASCII escaped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson


@dataclass(frozen=True, slots=True)
class Link:
    """A place in the chain: the number of a row and its hash. Before the first row it is `START`."""

    number: int
    hash: str


START = Link(0, "0" * 64)
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


class Row(NamedTuple):
    """One statement about one exchange, made at `written` (milliseconds since 1970).

    The first row of an exchange is whole: `entry` is the canonical JSON of its activity entry. A later one holds the id
    and what has changed since. `client`, `model` and `notes` (how many) are what entries are looked up by, None in a row
    that does not say them.
    """

    number: int
    id: str
    written: int
    client: str | None
    model: str | None
    notes: int | None
    entry: str
    hash: str = ""


class UnreadableError(Exception):
    """The next row cannot be read at all."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first row that does not fit. `number` is the one it should have had."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What going along the chain came to. `head` is the last row that fits; `found` the number of the row with the hash
    that was sought, None where no row has it.
    """

    rows: int
    head: Link
    fault: Fault | None = None
    found: int | None = None


def canonical(value: Any) -> str:
    """JSON in the one form that is hashed. Numbers are whole: there are no others in an entry."""
    try:
        quick = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # half of a surrogate pair, or a number beyond 64 bits
        return _ENCODER.encode(value)
    # In a tenth of the time, and the same where nothing has to be escaped that only the other escapes.
    return quick.decode() if quick.isascii() and b"\x7f" not in quick else _ENCODER.encode(value)


def row_hash(previous: str, row: Row) -> str:
    """64 hex digits. `row.hash` has no part in it. `row.entry` goes in as it stands, canonical since it was made."""
    text = (
        f'{{"client":{json.dumps(row.client)},"entry":{row.entry},"id":{json.dumps(row.id)},'
        f'"model":{json.dumps(row.model)},"notes":{json.dumps(row.notes)},"number":{row.number},"written":{row.written}}}'
    )
    return hashlib.sha256(f"{previous}{text}".encode("utf-8", "surrogateescape")).hexdigest()


def verify(anchor: Link, rows: Iterable[Row], *, sought: str | None = None) -> Verdict:
    """Go along the chain from `anchor`, the last row that was pruned or `START`, up to the first row that does not fit.

    `rows` come in the order of their numbers, and may raise UnreadableError. `sought` is a head's hash that was noted
    elsewhere.
    """
    head, count, fault = anchor, 0, None
    found = anchor.number if sought == anchor.hash else None
    try:
        for row in rows:
            if row.number != head.number + 1:
                fault = Fault(head.number + 1, "it is missing")
                break
            if not _fits(head.hash, row):
                fault = Fault(row.number, "it, or the row before it, is not what was written")
                break
            head, count = Link(row.number, row.hash), count + 1
            if row.hash == sought:
                found = row.number
    except UnreadableError as error:
        fault = Fault(head.number + 1, f"it cannot be read ({error})")
    return Verdict(count, head, fault, found)


def _fits(previous: str, row: Row) -> bool:
    try:
        return row.hash == row_hash(previous, row)
    except TypeError:  # somebody put bytes where text was
        return False
