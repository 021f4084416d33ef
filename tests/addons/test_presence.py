"""Which suites run: the lock tells, whatever the files say."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from addons.presence import Announcement, Presence, hold_start, in_use, is_used, running_suites

HERE = Presence(os.getpid(), "/home/me/mitm.yaml", "127.0.0.1:8080", "127.0.0.1:8090", "/home/me/certificates")


def test_a_suite_is_found_while_it_says_so(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert running_suites(state) == []
    said = Announcement(state, HERE)
    said.announce()
    assert running_suites(state) == [HERE]
    [file] = (state / "running").iterdir()
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    said.withdraw()
    said.withdraw()
    assert running_suites(state) == []
    said.announce()
    assert running_suites(state) == [HERE]
    said.withdraw()
    assert list((state / "running").iterdir()) == []


PROGRAM = """
import os, sys, time
from pathlib import Path
from addons.presence import Announcement, Presence, in_use
state = Path(sys.argv[1])
said = Announcement(state, Presence(os.getpid(), "", "127.0.0.1:1", "127.0.0.1:2", ""))
said.announce()
with in_use(state, 7):
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_a_killed_suite_and_a_killed_program_are_gone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, tmp_path], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        assert [suite.pid for suite in running_suites(tmp_path)] == [process.pid]
        assert is_used(tmp_path, 7)
        process.send_signal(signal.SIGKILL)
    assert running_suites(tmp_path) == []
    assert not is_used(tmp_path, 7)
    assert len(list((tmp_path / "running").iterdir())) == 2  # the files are still there


def test_what_is_left_over_is_cleared_away_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "running"
    folder.mkdir()
    old = time.time() - 3600
    (folder / "1.json").write_text("{}")
    (folder / "2.json").write_text("{}")
    os.utime(folder / "1.json", (old, old))
    with in_use(tmp_path, 3):
        [used] = folder.glob("3.*.use")
        os.utime(used, (old, old))
        said = Announcement(tmp_path, HERE)
        said.announce()
        said.withdraw()
        assert sorted(path.name for path in folder.iterdir()) == sorted(["2.json", used.name])
    assert [path.name for path in folder.iterdir()] == ["2.json"]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"pid": 1}', b"\xff", b'{"pid": 1, "more": 2}'])
def test_a_file_that_says_nothing_is_no_suite(tmp_path: Path, text: bytes) -> None:
    said = Announcement(tmp_path, HERE)
    said.announce()
    (tmp_path / "running" / f"{HERE.pid}.json").write_bytes(text)
    assert running_suites(tmp_path) == []
    said.withdraw()


def test_programs_use_a_suite_each_on_its_own(tmp_path: Path) -> None:
    assert not is_used(tmp_path, 7)
    with in_use(tmp_path, 7):
        assert is_used(tmp_path, 7)
        assert not is_used(tmp_path, 77)
    assert not is_used(tmp_path, 7)
    with pytest.raises(ZeroDivisionError), in_use(tmp_path, 7):
        raise ZeroDivisionError
    assert not is_used(tmp_path, 7)


def test_two_suites_are_both_found(tmp_path: Path) -> None:
    other = replace(HERE, pid=12345, proxy="127.0.0.1:9", for_programs=True)
    for one in (first := Announcement(tmp_path, HERE)), (second := Announcement(tmp_path, other)):
        one.announce()
    assert {suite.pid: suite for suite in running_suites(tmp_path)} == {HERE.pid: HERE, 12345: other}
    first.withdraw()
    assert running_suites(tmp_path) == [other]
    second.withdraw()


def test_only_one_may_start_at_a_time(tmp_path: Path) -> None:
    with hold_start(tmp_path, 0):
        before = time.monotonic()
        with pytest.raises(BlockingIOError):
            hold_start(tmp_path, 0.2)
        assert time.monotonic() - before >= 0.2
    hold_start(tmp_path, 0).close()
    assert running_suites(tmp_path) == []


def test_a_lock_that_another_holds_is_an_error_in_the_end(tmp_path: Path) -> None:
    said = Announcement(tmp_path, HERE)
    said.announce()
    with pytest.raises(BlockingIOError, match="is locked by another process"):
        Announcement(tmp_path, HERE).announce()
    said.withdraw()
