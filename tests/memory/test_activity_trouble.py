"""The log with a file behind it: what happens when the disk does not play along, or the file is not what it was."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import memory.activity_writer
from memory.activity_file import MIGRATIONS, NewerSchemaError, open_to_write
from memory.activity_rows import append
from memory.activity_writer import LedgerWriter
from tests.memory.activity_logs import DAY, MEANWHILE, ROOT, Opener, exported, ids, rows, verdict
from tests.memory.exchanges import finished


def set_mode(file: Path, mode: int) -> None:
    file.chmod(mode)


def content_of(file: Path) -> bytes:
    return file.read_bytes()


def put_content(file: Path, content: bytes) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)


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
