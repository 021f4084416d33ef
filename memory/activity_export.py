"""Activity entries as a file: JSON lines, which hold everything, or CSV for spreadsheet programs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

type ExportFormat = Literal["csv", "jsonl"]
type Entry = Mapping[str, Any]

_EXCHANGE = (
    "id", "startedAt", "finishedAt", "client", "conversation", "provider", "protocol", "model", "to", "sentTo", "action",
    "rule", "scan", "reasons", "outcome", "status", "sideRequest", "requestBytes", "responseBytes", "inputTokens",
    "outputTokens", "cacheReadTokens", "cacheWriteTokens",
)  # fmt: skip
_NOTE = ("noteNumber", "note", "title", "by", "grade", "matched", "distinctive", "resent", "places")
COLUMNS = (*_EXCHANGE, *_NOTE)
"""A row per exchange and note: `noteNumber` counts the notes of an exchange from 1, and is 0 where there is none, so that
the rows with 0 or 1 are the exchanges, each once."""

_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_FORMULA = re.compile(r"(^|;)([\s\"']*[=+\-@＝＋－＠])")  # noqa: RUF001 - programs take the wide ones too


def jsonl(entries: Iterable[Entry]) -> str:
    """An entry per line, as the API gives it."""
    return "".join(f"{json.dumps(entry, separators=(',', ':'))}\n" for entry in entries)


def csv_head() -> str:
    """The names of the columns. The byte order mark before them tells spreadsheet programs that it is UTF-8."""
    return f"\ufeff{_csv([COLUMNS])}"


def csv_rows(entries: Iterable[Entry]) -> str:
    """RFC 4180, without the names of the columns."""
    return _csv(row for entry in entries for row in _rows(entry))


def harmless(text: str) -> str:
    """Text that no spreadsheet program takes for a formula, whether it splits cells at commas or at semicolons.

    An apostrophe comes before what would start one (OWASP, "CSV Injection"); what ends a line or a cell becomes a space.
    """
    if text[:1].isalnum() and ";" not in text and text.isprintable():
        return text  # as nearly all are
    return _FORMULA.sub(r"\1'\2", _BREAKS.sub(" ", text))


HEADS: Mapping[ExportFormat, Callable[[], str]] = {"csv": csv_head, "jsonl": str}
BODIES: Mapping[ExportFormat, Callable[[Iterable[Entry]], str]] = {"csv": csv_rows, "jsonl": jsonl}


def _rows(entry: Entry) -> Iterator[list[Any]]:
    usage, size, decision, scan = entry["usage"], entry["bytes"], entry["decision"], entry["scan"]
    exchange = [
        *(entry[name] for name in _EXCHANGE[:9]),
        "; ".join(f"{one['model']} ({one['to']}, {one['upstream']})" for one in entry["sentTo"]),
        decision["action"],
        decision["rule"],
        scan["state"],
        "; ".join(scan["reasons"]),
        *(entry[name] for name in ("outcome", "status", "sideRequest")),
        *(size["request"], size["response"]),
        *(usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"]),
    ]
    if not entry["notes"]:
        yield [*exchange, 0, *[None] * (len(_NOTE) - 1)]
    for number, note in enumerate(entry["notes"], start=1):
        of_note = (note[name] for name in ("id", "title", "by", "grade", "matched", "distinctive", "resent"))
        yield [*exchange, number, *of_note, len(note["evidence"])]


def _csv(rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([_cell(value) for value in row] for row in rows)
    # What cannot be encoded, as a lone half of a pair, is a question mark in a spreadsheet.
    return text.getvalue().encode("utf-8", "replace").decode()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return harmless(value) if isinstance(value, str) else value
