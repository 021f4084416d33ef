"""The chain: what is written fits, and whatever is changed later is found."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory.activity_file import open_to_read, open_to_write
from memory.activity_rows import append, prune, verify_rows
from memory.ledger import START, Fault, Link, Row, Verdict, canonical, row_hash, verify
from tests.memory.exchanges import finished, released


def chain(count: int, anchor: Link = START) -> list[Row]:
    rows: list[Row] = []
    for number in range(anchor.number + 1, anchor.number + count + 1):
        row = Row(number, f"{number:014x}", 1000 + number, "cli\u00e9nt", "m", 0, canonical({"id": number, "a": "ü"}))
        rows.append(row._replace(hash=row_hash(rows[-1].hash if rows else anchor.hash, row)))
    return rows


def test_the_hash_is_the_one_that_anybody_can_work_out() -> None:
    row = Row(3, "00aa", 5, "claude \u00fc", None, 2, canonical({"z": [1, None], "a": "\u00fc"}))
    text = (
        r'{"client":"claude \u00fc","entry":{"a":"\u00fc","z":[1,null]},"id":"00aa","model":null,"notes":2,"number":3,'
        '"written":5}'
    )
    assert json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) == text
    assert row_hash("ab" * 32, row) == hashlib.sha256(("ab" * 32 + text).encode("ascii")).hexdigest()


@given(
    st.recursive(
        st.text(st.characters() | st.sampled_from('\x7f\ud800"\\')) | st.integers() | st.booleans() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
@example({"\x7f": "\b\x00\u2028", "é": "\U0001f600"})
@example(["\x7f"])
@example(["\ud800", 2**64])
def test_the_one_form_is_that_of_the_standard_library(value: Any) -> None:
    assert canonical(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))


def test_a_chain_that_is_whole_fits() -> None:
    rows = chain(3)
    assert verify(START, rows) == Verdict(3, Link(3, rows[2].hash))
    assert verify(START, []) == Verdict(0, START)
    assert verify(Link(2, rows[1].hash), rows[2:]) == Verdict(1, Link(3, rows[2].hash))


def test_a_head_that_was_noted_is_found_again() -> None:
    rows = chain(3)
    assert [verify(START, rows, sought=one.hash).found for one in rows] == [1, 2, 3]
    assert verify(START, rows, sought=START.hash).found == 0
    assert verify(START, rows, sought="ab" * 32).found is None


def test_a_row_that_is_missing_moved_or_doubled_is_named() -> None:
    rows = chain(4)
    last = Link(1, rows[0].hash)
    assert verify(START, [rows[0], *rows[2:]]) == Verdict(1, last, Fault(2, "it is missing"))
    assert verify(START, rows[1:]).fault == Fault(1, "it is missing")
    assert verify(START, [rows[0], rows[0], *rows[1:]]).fault == Fault(2, "it is missing")
    moved = [rows[0], rows[2]._replace(number=2), rows[1]._replace(number=3), rows[3]]
    assert verify(START, moved).fault == Fault(2, "it, or the row before it, is not what was written")


def filled(file: Path) -> None:
    connection = open_to_write(file)
    entries = []
    for number in range(5):
        notes = ("vault/Tides.md", "vault/Übung.md")[: number % 3]
        entries += [one(f"{number:014x}", notes=notes).to_json() for one in (released, finished)]
    assert append(connection, entries, 1_700_000_000_000) == 10
    connection.close()


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> sqlite3.Connection:
    """Ten rows of five exchanges, in memory: each example changes a copy."""
    file = tmp_path_factory.mktemp("ledger") / "activity.db"
    filled(file)
    copy = sqlite3.connect(":memory:", isolation_level=None)
    source = open_to_read(file)
    source.backup(copy)
    source.close()
    copy.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
    return copy


COLUMNS = ("id", "written", "client", "model", "notes", "entry", "hash")


@settings(max_examples=400)
@given(
    number=st.integers(1, 10),
    column=st.sampled_from(COLUMNS),
    position=st.integers(0, 10_000),
    other=st.integers(0, 255),
    as_blob=st.booleans(),
)
def test_any_byte_of_any_column_that_is_changed_is_found(
    ledger: sqlite3.Connection, number: int, column: str, position: int, other: int, as_blob: bool
) -> None:
    asked = f"SELECT {column}, typeof({column}) FROM ledger WHERE number = ?"
    change = f"UPDATE ledger SET {column} = ? WHERE number = ?"
    was = ledger.execute(asked, (number,)).fetchone()
    ledger.execute(change, (tampered(was[0], position, other, as_blob=as_blob), number))
    try:
        differs = ledger.execute(asked, (number,)).fetchone() != was
        fault = verify_rows(ledger).fault
    finally:
        ledger.execute(change, (was[0], number))
    assert (fault is not None) == differs
    assert fault is None or fault.number == number
    assert verify_rows(ledger).fault is None


def tampered(value: Any, position: int, other: int, *, as_blob: bool) -> Any:
    if value is None:
        return other
    if isinstance(value, int):
        return value ^ (1 << position % 40)
    content = bytearray(value.encode())
    content[position % len(content)] = other
    return bytes(content) if as_blob else content.decode("latin-1")


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("DELETE FROM ledger WHERE number = 1", 1),
        ("DELETE FROM ledger WHERE number = 4", 4),
        ("UPDATE ledger SET number = number + 1 WHERE number = 10", 10),
        ("UPDATE ledger SET number = 99 WHERE number = 2", 2),
        ("UPDATE ledger SET number = 0 WHERE number = 2", 1),
        ("UPDATE ledger SET number = -number", 1),
        ("UPDATE chain SET hash = replace(hash, '0', '1')", 1),
        ("UPDATE chain SET anchor = 1", 2),
        (
            "INSERT INTO ledger SELECT 11, id, written, client, model, notes, hash, entry FROM ledger WHERE number = 10",
            11,
        ),
        ("UPDATE ledger SET entry = CAST(x'ff' AS TEXT) WHERE number = 7", 7),
        ("UPDATE ledger SET notes = x'00' WHERE number = 7", 7),
        ("UPDATE ledger SET hash = upper(hash) WHERE number = 7", 7),
    ],
)
def test_whatever_sql_can_do_to_the_rows_is_found(tmp_path: Path, statement: str, number: int) -> None:
    file = tmp_path / "activity.db"
    filled(file)
    writer = open_to_write(file)
    writer.execute(statement)
    writer.close()
    reader = open_to_read(file)
    verdict = verify_rows(reader)
    reader.close()
    assert verdict.fault is not None
    assert verdict.fault.number == number


def test_the_last_rows_can_be_cut_off_unseen_but_for_the_head_noted_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "activity.db"
    filled(file)
    writer = open_to_write(file)
    head = verify_rows(writer).head
    writer.execute("DELETE FROM ledger WHERE number > 8")
    verdict = verify_rows(writer, sought=head.hash)
    writer.close()
    assert (head.number, verdict.rows, verdict.fault, verdict.found) == (10, 8, None, None)


@pytest.mark.parametrize(("most", "left"), [(5, 10), (4, 8), (1, 2), (0, 0)])
def test_what_is_left_after_pruning_fits(tmp_path: Path, most: int, left: int) -> None:
    connection = open_to_write(tmp_path / "activity.db")
    for number in range(5):
        for one in (released, finished):
            append(connection, [one(f"{number:014x}", notes=("vault/Tides.md",)).to_json()], number)
    head = verify_rows(connection).head
    while prune(connection, before=0, most=most):
        pass
    assert verify_rows(connection, sought=head.hash) == Verdict(left, head, None, 10)
    append(connection, [finished("a").to_json()], 9)
    assert verify_rows(connection).fault is None
    assert verify_rows(connection).head.number == 11
    [carried] = connection.execute("SELECT count(*) FROM carried").fetchone()
    connection.close()
    assert carried == left // 2


def test_a_row_that_adds_to_one_that_was_pruned_goes_too(tmp_path: Path) -> None:
    entries = [finished("0"), *(one(f"{number:04}") for number in range(1, 251) for one in (released, finished))]
    connection = open_to_write(tmp_path / "activity.db")
    assert append(connection, [one.to_json() for one in entries], 1) == 501
    assert [prune(connection, before=0, most=0) for _ in range(3)] == [500, 1, 0]
    assert verify_rows(connection) == Verdict(0, Link(501, verify_rows(connection).head.hash))
    connection.close()
