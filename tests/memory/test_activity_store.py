"""The log with a file behind it: what it gives, and what survives."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sqlite3
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memory.activity_store
from memory.activity_file import open_to_read
from memory.activity_rows import read_all
from memory.activity_store import ActivityStore
from memory.exchange import Exchange
from tests.memory.activity_logs import DAY, Opener, exported, ids, rows, verdict
from tests.memory.exchanges import CLOUD, LOCAL, finished, released
from tests.own_time import OwnTime


def modes(folder: Path) -> dict[str, int]:
    """The rights of a folder and of what is in it."""
    return {one.name: stat.S_IMODE(one.stat().st_mode) for one in (folder, *folder.iterdir())}


def set_mode(file: Path, mode: int) -> None:
    file.chmod(mode)


async def test_a_row_when_the_body_is_released_and_one_when_the_exchange_is_over(opened: Opener, file: Path) -> None:
    store = opened()
    routed = released("1", sent_to=[], notes=("vault/Tides.md",))
    first, last = released("1", notes=("vault/Tides.md",)), finished("1", notes=("vault/Tides.md",))
    for one in (routed, first, first, last, last):
        assert store.put(one) == one.to_json()
    await store.flush()
    changed = {
        "id": "1",
        "finishedAt": "2026-03-04T00:00:05.000Z",
        "usage": {"input": 12, "output": 34, "cacheRead": None, "cacheWrite": None},
        "bytes": {"request": 100, "response": 200},
        "status": 200,
        "outcome": "answered",
    }
    assert rows(file) == [(1, "1", 1, first.to_json()), (2, "1", None, changed)]
    assert (verdict(file).rows, verdict(file).fault) == (2, None)
    assert store.warnings == []


async def test_one_that_no_model_got_is_written_when_it_is_over(opened: Opener, file: Path) -> None:
    store = opened()
    blocked = finished("1", sent_to=[], outcome="blocked", status=400)
    store.put(released("1", sent_to=[]))
    await store.flush()
    assert rows(file) == []
    store.put(blocked)
    await store.flush()
    assert rows(file) == [(1, "1", 0, blocked.to_json())]


async def test_a_second_model_that_gets_the_body_is_a_row_of_its_own(opened: Opener, file: Path) -> None:
    store = opened()
    for sent in ([LOCAL], [LOCAL, CLOUD]):
        store.put(released("1", sent_to=sent))
        await store.flush()
    assert [said["sentTo"] for *_, said in rows(file)] == [[LOCAL.to_json()], [LOCAL.to_json(), CLOUD.to_json()]]


async def test_it_is_on_the_disk_within_a_second(opened: Opener, file: Path) -> None:
    store = opened()
    await store.flush()
    time_since = OwnTime()
    store.put(finished("1"))
    while not rows(file):
        assert time_since.seconds() < 1
        await asyncio.sleep(0.02)
    assert len(rows(file)) == 1


async def test_a_restart_forgets_nothing(opened: Opener) -> None:
    before = opened()
    cut_off, over = released("2", notes=("vault/Tides.md",)), finished("1")
    for one in (over, cut_off):
        before.put(one)
    await before.aclose()
    after = opened()
    assert await after.page() == ([cut_off.to_json(), over.to_json()], None)
    assert after.entries() == await after.page()
    assert (await after.page())[0][0]["outcome"] is None
    after.put(finished("2", notes=("vault/Tides.md",)))  # it was under way in another process
    after.put(finished("3"))
    assert [entry["outcome"] for entry in (await after.page())[0]] == ["answered"] * 3
    await after.flush()
    assert [entry["id"] for entry in await exported(after)] == ["1", "2", "3"]
    assert verdict(after.file).rows == 4


async def test_for_its_owner_alone_also_where_it_was_not(opened: Opener, file: Path) -> None:
    store = opened()
    store.put(finished("1"))
    await store.flush()
    assert modes(file.parent) == {
        "state": 0o700,
        "activity.db": 0o600,
        "activity.db-wal": 0o600,
        "activity.db-shm": 0o600,
    }
    await store.aclose()
    assert modes(file.parent) == {"state": 0o700, "activity.db": 0o600}
    set_mode(file, 0o644)
    await opened().flush()
    assert modes(file.parent)["activity.db"] == 0o600


async def test_filters_and_pages_are_those_of_the_log_in_memory(opened: Opener) -> None:
    store = opened()
    store.put(finished("1", notes=("vault/Tides.md", "vault/Clock.md")))
    store.put(finished("2", client="codex"))
    store.put(finished("3", notes=("vault/Tides.md",), model="gpt-test"))
    store.put(finished("4", notes=("vault/Clock.md",), client="codex"))
    await store.aclose()
    for log in (store, opened()):
        assert ids(await log.page(note="vault/Tides.md")) == ("31", None)
        assert ids(await log.page(note="vault/Tides")) == ("", None)
        assert ids(await log.page(client="codex")) == ("42", None)
        assert ids(await log.page(model="claude-test")) == ("421", None)
        assert ids(await log.page(notes_only=True)) == ("431", None)
        assert ids(await log.page(note="vault/Clock.md", client="codex", notes_only=True)) == ("4", None)
        assert ids(await log.page(note="vault/Clock.md", model="gpt-test")) == ("", None)
        assert ids(await log.page(limit=1, notes_only=True)) == ("4", "4")
        assert ids(await log.page("4", limit=2, notes_only=True)) == ("31", None)
        assert ids(await log.page("35", limit=2, note="vault/Tides.md")) == ("31", None)
        assert ids(await log.page(limit=0)) == ("4", "4")


async def test_names_that_are_no_text_are_kept_and_found(opened: Opener) -> None:
    odd = finished("1", client="a\x00b", model="m\ud800", notes=("vault/\udcff.md", 'vault/"\n.md'))
    before = opened()
    before.put(odd)
    await before.aclose()
    after = opened()
    for filters in ({"client": "a\x00b"}, {"model": "m\ud800"}, {"note": "vault/\udcff.md"}, {"note": 'vault/"\n.md'}):
        assert (await after.page(**filters))[0] == [odd.to_json()]
    assert verdict(after.file).fault is None


@settings(max_examples=40)
@given(
    kept=st.sets(st.integers(0, 60)), recent=st.sets(st.integers(0, 60)), limit=st.integers(1, 9), client=st.booleans()
)
async def test_page_by_page_every_entry_comes_once(
    tmp_path_factory: pytest.TempPathFactory, kept: set[int], recent: set[int], limit: int, client: bool
) -> None:
    """Entries of an earlier run are in the file only, those of this one are in memory and may be in the file."""

    def made(number: int) -> Exchange:
        return finished(f"{number:014x}", client="even" if number % 2 == 0 else "odd")

    file = tmp_path_factory.mktemp("pages") / "activity.db"
    before, after = (ActivityStore(file, keep=DAY, max_entries=1000) for _ in range(2))
    for store, numbers in ((before, kept), (after, recent)):
        store.start()
        for number in sorted(numbers):
            store.put(made(number))
    await before.flush()  # what the other one writes comes meanwhile
    read: list[str] = []
    following: str | None = None
    while True:
        page, following = await after.page(following, limit, client="even" if client else None)
        read += [entry["id"] for entry in page]
        if following is None:
            break
        assert len(page) == limit
    for store in (before, after):
        await store.aclose()
    expected = {number for number in kept | recent if not client or number % 2 == 0}
    assert read == [f"{number:014x}" for number in sorted(expected, reverse=True)]


async def test_every_note_of_an_exchange_finds_it_however_many_there_are(opened: Opener) -> None:
    notes = tuple(f"vault/{number}.md" for number in range(2001))
    before = opened()
    for one in (finished("1", notes=notes), finished("2", notes=notes[:1]), released("3", notes=notes[:450])):
        before.put(one)
    await before.aclose()
    after = opened()
    for number, found in ((0, "321"), (1, "31"), (449, "31"), (450, "1"), (2000, "1")):
        assert ids(await after.page(note=notes[number])) == (found, None)
    assert (len(rows(after.file)), verdict(after.file).fault) == (3, None)


async def test_what_fell_out_of_memory_is_in_the_file(opened: Opener) -> None:
    store = opened(max_entries=2000)
    for number in range(1200):
        store.put(finished(f"{number:014x}"))
    await store.flush()
    first, following = await store.page(limit=1000)
    assert (len(first), following) == (1000, f"{200:014x}")
    rest, following = await store.page(following, limit=1000)
    assert ([entry["id"] for entry in rest], following) == ([f"{one:014x}" for one in range(199, -1, -1)], None)
    assert len(await exported(store)) == 1200


async def test_the_export_begins_where_it_shall(opened: Opener) -> None:
    store = opened()
    moment = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    microseconds = int(moment.timestamp()) * 10**6
    for number in (microseconds - 1, microseconds, microseconds + 1):
        store.put(finished(f"{number:014x}"))
    assert len(await exported(store)) == 3
    assert [entry["id"] for entry in await exported(store, moment)] == [
        f"{number:014x}" for number in (microseconds, microseconds + 1)
    ]


async def test_an_export_that_is_left_closes_the_file(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    connections: list[sqlite3.Connection] = []

    def kept(file: Path) -> sqlite3.Connection:
        connections.append(open_to_read(file))
        return connections[-1]

    def slowly(*asked: Any) -> Iterator[list[dict[str, Any]]]:
        for entries in read_all(*asked):
            reads.append(len(entries))
            time.sleep(0.1)
            yield entries

    reads: list[int] = []
    monkeypatch.setattr(memory.activity_store, "open_to_read", kept)
    monkeypatch.setattr(memory.activity_store, "read_all", slowly)
    store = opened()
    for number in range(500):
        store.put(finished(f"{number:014x}"))
    async with contextlib.aclosing(store.export()) as chunks:
        assert [entry["id"] for entry in await anext(chunks)] == [f"{number:014x}" for number in range(200)]
    reads.clear()
    asked = asyncio.ensure_future(exported(store))
    while not reads:  # noqa: ASYNC110  # a read is under way: what is waited for has no event
        await asyncio.sleep(0.01)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    gc.collect()  # an asynchronous generator that nobody closes is closed by the event loop
    assert len(connections) == 2
    async with asyncio.timeout(60):
        while not all(map(is_closed, connections)):  # noqa: ASYNC110  # once the read is over: nobody is told
            await asyncio.sleep(0.01)


def is_closed(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError as error:
        return "closed database" in str(error)
    return False


async def test_bounded_by_number_and_by_age(opened: Opener, file: Path) -> None:
    now = [1_800_000_000.0]
    store = opened(max_entries=10, clock=lambda: now[0])
    for number in range(30):
        for one in (released, finished):
            store.put(one(f"{number:014x}", notes=("vault/Tides.md",)))
        await store.flush()
        assert verdict(file).fault is None
    assert [entry["id"] for entry in await exported(store)] == [f"{number:014x}" for number in range(20, 30)]
    assert (verdict(file).head.number, verdict(file).rows) == (60, 20)
    now[0] += DAY / 2
    store.put(finished("00000000001000"))
    await store.flush()
    now[0] += DAY / 2 + 1
    await store.flush()
    store.put(finished("00000000001001"))
    await store.flush()
    assert [entry["id"] for entry in await exported(store)] == ["00000000001000", "00000000001001"]
    assert (verdict(file).rows, verdict(file).fault) == (2, None)
    now[0] += DAY + 1
    await store.flush()
    assert (verdict(file).rows, verdict(file).fault) == (0, None)


async def test_nothing_is_opened_before_the_start(file: Path) -> None:
    store = ActivityStore(file, keep=DAY, max_entries=10)
    store.put(released("1"))
    await store.flush()
    assert ids(await store.page()) == ("1", None)
    assert not file.parent.exists()
    await store.aclose()
