"""The log with a file behind it: a process that is killed, and two that write to the same."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memory import activity_file
from memory.activity_file import open_to_write
from memory.activity_store import ActivityStore
from tests.memory.activity_logs import DAY, ROOT, rows, verdict
from tests.memory.exchanges import finished

KILLED = """
import sys, time
from pathlib import Path
from memory.activity_store import ActivityStore
from tests.memory.exchanges import finished, released
from tests.own_time import OwnTime
store = ActivityStore(Path(sys.argv[1]), keep=86400, max_entries=int(sys.argv[2]))
store.start()
clock, number = OwnTime(), 0
while True:
    for one in (released, finished):
        store.put(one(f"{number:014x}", notes=("vault/Tides.md",)))
        print(number, clock.seconds(), flush=True)
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


class Racing(sqlite3.Connection):
    """Another program turns the write-ahead log on just now, for which SQLite does not wait."""

    left = 2

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if "journal_mode" in sql and Racing.left:
            Racing.left -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return super().execute(sql, *parameters)


def test_two_processes_make_the_file_at_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Racing))
    with contextlib.closing(open_to_write(file)) as connection:
        assert Racing.left == 0
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    Racing.left = 1
    monkeypatch.setattr(activity_file, "BUSY_TIMEOUT", 0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        open_to_write(file)
