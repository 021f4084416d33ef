"""`mitmemory ledger`: what it says of a chain that fits and of one that does not, and the log as a file."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from addons.config import Config
from addons.exits import FAILED, OK, WRONG_INPUT
from addons.ledger_command import LedgerAction, ledger
from addons.program import with_program
from memory.activity_file import FILE_NAME, open_to_write
from memory.activity_rows import append, head, prune
from memory.ledger import START
from tests.memory.exchanges import finished, released


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def writer(state: Path) -> Iterator[sqlite3.Connection]:
    """The suite that runs meanwhile. Three exchanges in six rows are written."""
    with closing(open_to_write(state / FILE_NAME)) as connection:
        for number in range(3):
            for one in (released, finished):
                append(connection, [one(f"{10**15 + number:014x}", notes=("vault/Tides.md",)).to_json()], number)
        yield connection


def run(state: Path | None, action: LedgerAction, **options: Any) -> int:
    return ledger(Config(state=state), action, **({"since": None, "kind": None, "noted": None} | options))


def test_a_chain_that_fits_also_while_it_is_written(state: Path, writer: sqlite3.Connection, capsys: Any) -> None:
    assert run(state, "verify") == OK
    file, top = state / FILE_NAME, head(writer).hash
    assert capsys.readouterr() == (f"{file}: rows 1 to 6 fit\nhead: {top}\n", "")
    writer.close()
    assert run(state, "verify") == OK
    assert capsys.readouterr().out == f"{file}: rows 1 to 6 fit\nhead: {top}\n"


def test_the_head_is_printed_and_found_again(state: Path, writer: sqlite3.Connection, capsys: Any) -> None:
    assert run(state, "head") == OK
    noted = capsys.readouterr().out
    assert noted == f"{head(writer).hash}\n"
    append(writer, [finished("a").to_json()], 9)
    assert run(state, "verify", noted=noted.upper()) == OK
    assert "the head that was noted is row 6: 1 came after it\n" in capsys.readouterr().out
    writer.execute("DELETE FROM ledger WHERE number > 4")
    assert run(state, "verify", noted=noted) == FAILED
    said = (
        "no row has the head that was noted: the chain was cut off or written anew since, or that row has been pruned"
    )
    assert capsys.readouterr() == ("", f"mitmemory: {state / FILE_NAME}: {said}\n")


def test_the_first_row_that_does_not_fit_is_named(state: Path, writer: sqlite3.Connection, capsys: Any) -> None:
    writer.execute("UPDATE ledger SET entry = replace(entry, 'cloud', 'local') WHERE number IN (3, 5)")
    assert run(state, "verify") == FAILED
    said = "it, or the row before it, is not what was written; those before it fit, from row 1 on"
    assert capsys.readouterr() == ("", f"mitmemory: {state / FILE_NAME}: row 3 does not fit: {said}\n")


def test_a_row_that_cannot_be_read_is_named(state: Path, capsys: Any) -> None:
    file = state / FILE_NAME
    with closing(open_to_write(file)) as connection:
        append(connection, [finished(f"{number:014x}").to_json() for number in range(200)], 1)
        [last] = connection.execute("SELECT max(pageno) FROM dbstat WHERE name = 'ledger'").fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(file.read_bytes())
    content[(last - 1) * 4096 : last * 4096] = b"\xa5" * 4096
    file.write_bytes(content)
    assert run(state, "verify") == FAILED
    said = capsys.readouterr().err
    assert f"{file}: row 1" in said
    assert "does not fit: it cannot be read (database disk image is malformed)" in said


def test_what_was_pruned_is_said(state: Path, writer: sqlite3.Connection, capsys: Any) -> None:
    prune(writer, before=0, most=1)
    assert run(state, "verify") == OK
    pruned = "; those before were pruned (activity.keep, max_entries): row 5 follows on them"
    assert capsys.readouterr().out.startswith(f"{state / FILE_NAME}: rows 5 to 6 fit{pruned}\n")
    prune(writer, before=0, most=0)
    assert run(state, "verify") == OK
    assert capsys.readouterr().out.startswith(f"{state / FILE_NAME}: it holds no row{pruned.replace('5', '7')}\n")


def test_a_log_in_which_nothing_stands(state: Path, capsys: Any) -> None:
    open_to_write(state / FILE_NAME).close()
    assert run(state, "verify") == OK
    assert capsys.readouterr().out == f"{state / FILE_NAME}: it holds no row\nhead: {START.hash}\n"
    assert run(state, "export") == OK
    assert capsys.readouterr().out == ""


def test_the_log_as_a_file(state: Path, writer: sqlite3.Connection, capsysbinary: Any) -> None:
    assert run(state, "export") == OK
    entries = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert entries == [finished(f"{10**15 + one:014x}", notes=("vault/Tides.md",)).to_json() for one in range(3)]
    assert run(state, "export", kind="csv") == OK
    text = capsysbinary.readouterr().out.decode("utf-8-sig")
    assert text.count("\r\n") == text.count("\n") == 4
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(row["id"], row["note"]) for row in rows] == [(entry["id"], "vault/Tides.md") for entry in entries]
    assert run(state, "export", since="2001-09-09T01:46:40.000001Z") == OK
    assert len(capsysbinary.readouterr().out.splitlines()) == 2
    assert run(state, "export", since="1d") == OK
    assert capsysbinary.readouterr().out == b""


@pytest.mark.parametrize(
    ("action", "options", "message"),
    [
        ("verify", {"since": "30d"}, "--since and --format are for `mitmemory ledger export`"),
        ("head", {"kind": "csv"}, "--since and --format are for `mitmemory ledger export`"),
        ("export", {"noted": "ab" * 32}, "--head is for `mitmemory ledger verify`"),
        ("verify", {"noted": "ab"}, "--head takes the 64 letters and digits that `mitmemory ledger head` printed"),
        ("export", {"since": "1y"}, "--since must be a duration like 30d, or a time like 2026-03-04T05:06:07Z"),
    ],
)
def test_a_mistake_is_said(
    state: Path, capsys: Any, action: LedgerAction, options: dict[str, str], message: str
) -> None:
    assert run(state, action, **options) == WRONG_INPUT
    assert capsys.readouterr() == ("", with_program(f"mitmemory: {message}\n"))


@pytest.mark.parametrize("action", ["verify", "export", "head"])
def test_without_a_log_there_is_nothing_to_do(state: Path, capsys: Any, action: LedgerAction) -> None:
    assert run(None, action) == WRONG_INPUT
    assert "state is null" in capsys.readouterr().err
    assert run(state, action) == FAILED
    assert f"there is no {state / FILE_NAME}: no request has been recorded yet" in capsys.readouterr().err
    assert not state.exists()


@pytest.mark.parametrize("action", ["verify", "export", "head"])
def test_a_file_that_is_no_log_is_said(state: Path, capsys: Any, action: LedgerAction) -> None:
    state.mkdir()
    (state / FILE_NAME).write_bytes(b"something else")
    assert run(state, action) == FAILED
    assert capsys.readouterr().err == f"mitmemory: {state / FILE_NAME} cannot be read (file is not a database)\n"


def test_a_newer_log_is_said(state: Path, writer: sqlite3.Connection, capsys: Any) -> None:
    writer.execute("PRAGMA user_version = 9")
    assert run(state, "verify") == FAILED
    assert "was written by a newer mitmemory (schema 9, this one knows 1): update mitmemory" in capsys.readouterr().err
