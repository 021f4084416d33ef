"""What the tests of the log of exchanges that is kept in a file have in common."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from memory.activity_file import open_to_read
from memory.activity_rows import verify_rows
from memory.activity_store import ActivityStore
from memory.ledger import Verdict

DAY = 86_400.0
ROOT = Path(__file__).parents[2]
MEANWHILE = "until then the latest requests are kept in memory only"

type Opener = Callable[..., ActivityStore]


def verdict(file: Path) -> Verdict:
    with contextlib.closing(open_to_read(file)) as connection:
        return verify_rows(connection)


def rows(file: Path) -> list[tuple[int, str, int | None, dict[str, Any]]]:
    with contextlib.closing(open_to_read(file)) as connection:
        found = connection.execute("SELECT number, id, notes, entry FROM ledger ORDER BY number").fetchall()
    return [(number, one, notes, json.loads(entry)) for number, one, notes, entry in found]


def ids(page: tuple[list[dict[str, Any]], str | None]) -> tuple[str, str | None]:
    return "".join(entry["id"] for entry in page[0]), page[1]


async def exported(store: ActivityStore, since: datetime | None = None) -> list[dict[str, Any]]:
    return [entry async for chunk in store.export(since) for entry in chunk]
