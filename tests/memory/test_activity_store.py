"""The log with a file behind it: what it gives, what survives, and what happens when the disk does not play along."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memory.activity_store
import memory.activity_writer
from memory.activity_file import MIGRATIONS, NewerSchemaError, open_to_read, open_to_write
from memory.activity_rows import append, read_all, verify_rows
from memory.activity_store import ActivityStore
from memory.activity_writer import LedgerWriter
from memory.exchange import Exchange
from memory.ledger import Verdict
from tests.memory.exchanges import CLOUD, LOCAL, finished, released

DAY = 86_400.0
ROOT = Path(__file__).parents[2]

MEANWHILE = "until then the latest requests are kept in memory only"

type Opener = Callable[..., ActivityStore]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "activity.db"


@pytest.fixture
async def opened(file: Path) -> AsyncIterator[Opener]:
    stores: list[ActivityStore] = []

    def opener(**options: Any) -> ActivityStore:
        store = ActivityStore(file, **({"keep": DAY, "max_entries": 1000} | options))
        stores.append(store)
        store.start()
        return store

    yield opener
    for store in stores:
        await store.aclose()


def verdict(file: Path) -> Verdict:
    with contextlib.closing(open_to_read(file)) as connection:
        return verify_rows(connection)


def rows(file: Path) -> list[tuple[int, str, int | None, dict[str, Any]]]:
    with contextlib.closing(open_to_read(file)) as connection:
        found = connection.execute("SELECT number, id, notes, entry FROM ledger ORDER BY number").fetchall()
    return [(number, one, notes, json.loads(entry)) for number, one, notes, entry in found]


def modes(folder: Path) -> dict[str, int]:
    """The rights of a folder and of what is in it."""
    return {one.name: stat.S_IMODE(one.stat().st_mode) for one in (folder, *folder.iterdir())}


def set_mode(file: Path, mode: int) -> None:
    file.chmod(mode)


def content_of(file: Path) -> bytes:
    return file.read_bytes()


def put_content(file: Path, content: bytes) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)


def ids(page: tuple[list[dict[str, Any]], str | None]) -> tuple[str, str | None]:
    return "".join(entry["id"] for entry in page[0]), page[1]


async def exported(store: ActivityStore, since: datetime | None = None) -> list[dict[str, Any]]:
    return [entry async for chunk in store.export(since) for entry in chunk]


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
    store.put(finished("1"))
    await asyncio.sleep(1)
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
    await asyncio.sleep(0.2)
    assert len(connections) == 2
    for connection in connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            connection.execute("SELECT 1")


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


KILLED = """
import sys, time
from pathlib import Path
from memory.activity_store import ActivityStore
from tests.memory.exchanges import finished, released
store = ActivityStore(Path(sys.argv[1]), keep=86400, max_entries=int(sys.argv[2]))
store.start()
number = 0
while True:
    for one in (released, finished):
        store.put(one(f"{number:014x}", notes=("vault/Tides.md",)))
        print(number, time.monotonic(), flush=True)
    number += 1
    time.sleep(0.0005)
"""


@contextlib.contextmanager
def writing(file: Path, most: int = 10**6) -> Iterator[subprocess.Popen[str]]:
    """A process that puts one exchange after the other, and says which and when."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(file), str(most)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
@pytest.mark.parametrize(("after", "most"), [(700, 10**6), (1500, 10**6), (2500, 100)])
def test_a_process_that_is_killed_loses_a_second_at_most(file: Path, after: int, most: int) -> None:
    with writing(file, most) as process:
        assert process.stdout is not None
        said: list[tuple[int, float]] = []
        while len(said) < after:
            number, moment = process.stdout.readline().split()
            said.append((int(number), float(moment)))
        process.send_signal(signal.SIGKILL)
        said += [(int(line.split()[0]), float(line.split()[1])) for line in process.stdout if line.count(" ") == 1]
        process.wait()
    found = verdict(file)
    assert found.fault is None
    assert found.rows > 0
    if most == 10**6:
        assert found.rows == found.head.number
    # What was put more than a second before the end, row for row, is there.
    assert sum(moment < said[-1][1] - 1 for _, moment in said) <= found.head.number
    again = ActivityStore(file, keep=DAY, max_entries=most)
    again.start()
    again.put(finished("ffffffffffffff"))
    again._writer.stop()
    assert (verdict(file).fault, again.warnings) == (None, [])
    assert verdict(file).head.number == found.head.number + 1


def test_two_processes_make_one_chain(file: Path) -> None:
    file.parent.mkdir()
    program = """
import asyncio, sys
from pathlib import Path
from memory.activity_store import ActivityStore
from tests.memory.exchanges import finished, released
async def main():
    store = ActivityStore(Path(sys.argv[1]), keep=86400, max_entries=10**6)
    store.start()
    for number in range(300):
        for one in (released, finished):
            store.put(one(f"{number:013x}{sys.argv[2]}"))
            if number % 10 == 0:
                await store.flush()
    await store.aclose()
    assert store.warnings == [], store.warnings
asyncio.run(main())
"""
    both = [subprocess.Popen([sys.executable, "-c", program, str(file), which], cwd=ROOT) for which in "ab"]
    assert [process.wait(60) for process in both] == [0, 0]
    assert verdict(file).fault is None
    assert verdict(file).rows == 1200
    assert {one for _, one, _, _ in rows(file)} == {f"{number:013x}{which}" for number in range(300) for which in "ab"}


async def test_a_full_disk_is_said_and_nothing_else_stops(
    opened: Opener, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [16]

    def small(path: Path) -> sqlite3.Connection:
        connection = open_to_write(path)
        connection.execute(f"PRAGMA max_page_count = {pages[0]}")
        return connection

    monkeypatch.setattr(memory.activity_writer, "open_to_write", small)
    store = opened()
    for number in range(100):
        store.put(finished(f"{number:014x}"))
        if number % 5 == 0:
            await store.flush()
    await store.flush()
    [warning] = store.warnings
    assert warning == f"activity: there is no room left for {file}: free some; {MEANWHILE}"
    written = verdict(file)
    assert (written.fault, 0 < written.rows < 100) == (None, True)
    assert len((await store.page(limit=1000))[0]) == 100
    pages[0] = 10_000
    await store.flush()
    assert (store.warnings, verdict(file).rows, verdict(file).fault) == ([], 100, None)


def test_what_waits_for_a_disk_has_an_end(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.parent.mkdir()
    file.mkdir()  # nothing can be written there
    writer = LedgerWriter(file, keep=DAY, most=1000, most_waiting=5)
    writer.start()
    for number in range(8):
        writer.put(finished(f"{number:014x}").to_json())
    writer.flush()
    trouble = f"activity: {file} cannot be used (Is a directory): mend that; {MEANWHILE}"
    assert writer.warnings == [trouble, "activity: 3 rows could not be written and are lost"]
    file.rmdir()
    writer.stop()
    assert [one for _, one, _, _ in rows(file)] == [f"{number:014x}" for number in range(5)]
    assert writer.warnings == ["activity: 3 rows could not be written and are lost"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everything")
async def test_a_file_that_may_not_be_written_is_said(opened: Opener, file: Path) -> None:
    before = opened()
    before.put(finished("1"))
    await before.aclose()
    set_mode(file, 0o400)
    store = opened()
    store.put(finished("2"))
    await store.flush()
    assert "cannot be used (Permission denied)" in store.warnings[0]
    assert ids(await store.page()) == ("21", None)


async def test_a_disk_that_only_reads_is_said(opened: Opener, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reading(path: Path) -> sqlite3.Connection:
        connection = open_to_write(path)
        connection.execute("PRAGMA query_only = ON")  # SQLite then fails as on a file system that is mounted so
        return connection

    monkeypatch.setattr(memory.activity_writer, "open_to_write", reading)
    store = opened()
    store.put(finished("1"))
    await store.flush()
    [warning] = store.warnings
    assert warning.startswith(f"activity: {file} cannot be written (attempt to write a readonly database)")
    assert ids(await store.page()) == ("1", None)


async def test_another_program_that_holds_the_file_is_waited_for(
    opened: Opener, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.activity_file.BUSY_TIMEOUT", 0.05)
    store = opened()
    await store.flush()
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.put(finished("1"))
    await store.flush()
    [warning] = store.warnings
    assert warning.startswith(f"activity: another program has locked {file}: end it")
    assert ids(await store.page()) == ("1", None)
    other.execute("ROLLBACK")
    other.close()
    await store.flush()
    assert (store.warnings, len(rows(file))) == ([], 1)


@pytest.mark.parametrize("content", [b"", b"no database at all\n" * 500, b"SQLite format 3\x00" + b"\xff" * 4096])
async def test_a_damaged_file_is_set_aside_and_said(opened: Opener, file: Path, content: bytes) -> None:
    put_content(file, content)
    store = opened()
    store.put(finished("1"))
    await store.flush()
    assert ids(await store.page()) == ("1", None)
    assert (verdict(file).rows, verdict(file).fault) == (1, None)
    aside = [one for one in file.parent.iterdir() if ".damaged-" in one.name]
    if not content:  # what is empty is new
        assert (aside, store.warnings) == ([], [])
        return
    [kept] = aside
    assert kept.read_bytes() == content
    assert store.warnings == [f"activity: {file} was damaged: it is now {kept.name}, and a new log was begun"]


async def test_damage_that_shows_while_it_runs_is_set_aside_too(opened: Opener, file: Path) -> None:
    before = opened()
    for number in range(300):
        before.put(finished(f"{number:014x}", notes=("vault/Tides.md",)))
    await before.aclose()
    content = content_of(file)
    put_content(file, content[:4096] + b"\xa5" * len(content[4096:]))
    store = opened()
    store.put(finished("1"))
    await store.flush()
    [warning] = store.warnings
    assert "was damaged: it is now activity.db.damaged-" in warning
    assert ids(await store.page()) == ("1", None)
    assert [entry["id"] for entry in await exported(store)] == ["1"]
    assert verdict(file).rows == 1


async def test_a_file_that_cannot_be_read_leaves_what_is_in_memory(opened: Opener, file: Path) -> None:
    store = opened()
    store.put(finished("1"))
    await store.flush()
    await store.aclose()
    put_content(file, b"no database")
    assert ids(await store.page()) == ("1", None)
    assert [entry["id"] for entry in await exported(store)] == ["1"]
    assert "cannot be used (file is not a database)" in store.warnings[0]


async def test_a_row_that_somebody_changed_hides_no_other(opened: Opener, file: Path) -> None:
    before = opened()
    for number in range(5):
        before.put(finished(str(number)))
    await before.aclose()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE ledger SET entry = 'no JSON' WHERE number IN (3, 4)")
        connection.execute("UPDATE ledger SET entry = '[1]' WHERE number = 5")
        connection.commit()
    store = opened()
    assert ids(await store.page(limit=2)) == ("", "3")
    assert ids(await store.page("3", limit=2)) == ("1", "1")
    assert [entry["id"] for entry in await exported(store)] == ["0", "1"]
    assert verdict(file).fault is not None


async def test_a_newer_schema_is_left_alone(opened: Opener, file: Path) -> None:
    before = opened()
    before.put(finished("1"))
    await before.aclose()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    content = content_of(file)
    store = opened()
    store.put(finished("2"))
    await store.flush()
    assert ids(await store.page()) == ("2", None)
    assert [entry["id"] for entry in await exported(store)] == ["2"]
    newer = (
        f"activity: {file} was written by a newer mitmemory (schema 2, this one knows 1): update mitmemory, or move that "
        f"file away; {MEANWHILE}"
    )
    assert set(store.warnings) == {newer}
    await store.aclose()
    assert content_of(file) == content


def test_an_older_schema_is_brought_up_to_date_or_stays_as_it_is(file: Path) -> None:
    connection = open_to_write(file)
    append(connection, [finished("1").to_json()], 1)
    connection.close()
    with pytest.raises(sqlite3.OperationalError):
        open_to_write(file, [*MIGRATIONS, ("CREATE TABLE later (a)", "no SQL")])
    connection = open_to_write(file, [*MIGRATIONS, ("ALTER TABLE chain ADD COLUMN later TEXT",)])
    assert connection.execute("SELECT entries, later FROM chain").fetchall() == [(1, None)]
    assert connection.execute("PRAGMA user_version").fetchall() == [(2,)]
    assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'later'").fetchall() == []
    connection.close()
    with pytest.raises(NewerSchemaError, match="schema 2, this one knows 1"):
        open_to_write(file)


@pytest.mark.skipif(os.name == "nt", reason="the owner's rights are told otherwise there")
def test_it_is_read_where_nothing_may_be_written() -> None:
    program = """
import os, sys
from pathlib import Path
from memory.activity_file import open_to_read
from memory.activity_rows import verify_rows
if os.geteuid() == 0:  # who may write everything
    os.setuid(65534)
connection = open_to_read(Path(sys.argv[1]))
print(verify_rows(connection).rows)
connection.close()
"""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "activity.db"
        connection = open_to_write(file)
        append(connection, [finished("1").to_json()], 1)
        connection.close()
        file.chmod(0o444)
        file.parent.chmod(0o555)
        try:
            done = subprocess.run(
                [sys.executable, "-c", program, str(file)], cwd=ROOT, capture_output=True, text=True, check=False
            )
        finally:
            file.parent.chmod(0o700)
    assert (done.stdout, done.stderr) == ("1\n", "")


async def test_nothing_is_opened_before_the_start(file: Path) -> None:
    store = ActivityStore(file, keep=DAY, max_entries=10)
    store.put(released("1"))
    await store.flush()
    assert ids(await store.page()) == ("1", None)
    assert not file.parent.exists()
    await store.aclose()
