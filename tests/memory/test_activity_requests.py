"""Recorded requests as they came in: what a dry run reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.activity import Activity
from memory.activity_file import open_to_write
from memory.activity_rows import append, count_requests, read_requests
from memory.activity_store import ActivityStore
from memory.exchange import Decision
from tests.memory.exchanges import LOCAL, finished, released

MOMENTS = [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2, 3)]
FIRST, SECOND, THIRD = IDS = [f"{int(moment.timestamp() * 1e6):014x}" for moment in MOMENTS]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_to_write(tmp_path / "activity.db")) as opened:
        yield opened


def put(connection: sqlite3.Connection, *exchanges: Any) -> None:
    append(connection, [one.to_json() for one in exchanges], 1)


def test_each_exchange_once_as_its_first_row_says_oldest_first(connection: sqlite3.Connection) -> None:
    put(connection, released(SECOND, notes=("vault/A.md",)), released(FIRST))
    put(connection, finished(FIRST, sent_to=[LOCAL], to="local"), finished(SECOND), finished(THIRD, outcome="blocked"))
    found = list(read_requests(connection, None))
    assert [(one["id"], one["to"], one["outcome"], len(one["notes"])) for one in found] == [
        (FIRST, "cloud", None, 0),
        (SECOND, "cloud", None, 1),
        (THIRD, "cloud", "blocked", 0),
    ]
    assert count_requests(connection, None) == 3


def test_since(connection: sqlite3.Connection) -> None:
    put(connection, *map(finished, IDS))
    for number, moment in enumerate(MOMENTS):
        assert [one["id"] for one in read_requests(connection, moment)] == IDS[number:]
        assert count_requests(connection, moment) == 3 - number


def test_a_row_that_somebody_changed_is_left_out(connection: sqlite3.Connection) -> None:
    put(connection, *map(finished, IDS))
    connection.execute("UPDATE ledger SET entry = '{}' WHERE number = 1")
    connection.execute("UPDATE ledger SET entry = 'nonsense' WHERE number = 2")
    assert [one["id"] for one in read_requests(connection, None)] == [THIRD]


def test_an_exchange_that_was_written_whole_twice_counts_once(connection: sqlite3.Connection) -> None:
    put(connection, released(FIRST))
    connection.execute("UPDATE ledger SET entry = '[]'")
    put(connection, finished(FIRST))
    assert count_requests(connection, None) == 2
    connection.execute("UPDATE ledger SET entry = (SELECT entry FROM ledger WHERE number = 2)")
    assert [one["id"] for one in read_requests(connection, None)] == [FIRST]


async def test_the_store_reads_its_file_also_while_it_writes(tmp_path: Path) -> None:
    store = ActivityStore(tmp_path / "activity.db", keep=86_400 * 9999, max_entries=100)
    store.start()
    for one in (released(FIRST), finished(FIRST), finished(SECOND)):
        store.put(one)
    await store.flush()
    assert [one["id"] for one in store.requests()] == [FIRST, SECOND]
    assert [one["id"] for one in store.requests(MOMENTS[1])] == [SECOND]
    await store.aclose()


def in_memory(activity: Activity) -> list[str]:
    activity.put(released(SECOND))
    activity.put(released(THIRD, sent_to=[]))
    activity.put(finished(FIRST, sent_to=[], outcome="blocked", decision=Decision("block", "r")))
    return [one["id"] for one in activity.requests()]


def test_in_memory_what_is_still_to_be_judged_is_left_out(tmp_path: Path) -> None:
    activity = Activity()
    assert in_memory(activity) == [FIRST, SECOND]
    assert [one["id"] for one in activity.requests(MOMENTS[1])] == [SECOND]
    # Without a file that can be read, what is in memory is all there is.
    assert in_memory(ActivityStore(tmp_path / "none" / "activity.db", keep=1, max_entries=1)) == [FIRST, SECOND]
