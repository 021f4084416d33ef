"""The log as a file: JSON lines with everything, CSV that no spreadsheet program runs."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.activity_export import COLUMNS, csv_head, csv_rows, harmless, jsonl
from memory.exchange import Decision, Scan
from tests.memory.exchanges import CLOUD, LOCAL, finished, released, sighting


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_head().removeprefix("\ufeff") + text, newline="")))


def test_a_line_for_each_entry_with_all_of_it() -> None:
    entries = [finished("1", notes=("vault/\udcff.md",)).to_json(), released("2", client="é\u2028").to_json()]
    text = jsonl(entries)
    assert text.isascii()
    assert [json.loads(line) for line in text.splitlines()] == entries
    assert jsonl([]) == ""


def test_a_row_for_each_exchange_and_note() -> None:
    one = finished(
        "1",
        sent_to=[LOCAL, CLOUD],
        scan=Scan(
            "partial", ("an image", "a file"), (sighting("vault/Tides.md", "Tides"), sighting("vault/B.md", "B"))
        ),
        decision=Decision("redact", "strip, always"),
    )
    rows = read(csv_rows([one.to_json(), released("2").to_json()]))
    assert [(row["id"], row["noteNumber"], row["note"]) for row in rows] == [
        ("1", "1", "vault/Tides.md"),
        ("1", "2", "vault/B.md"),
        ("2", "0", ""),
    ]
    assert rows[0] == {
        "id": "1",
        "startedAt": "2026-03-04T00:00:00.000Z",
        "finishedAt": "2026-03-04T00:00:05.000Z",
        "client": "claude-code",
        "conversation": "c0ffee",
        "provider": "anthropic",
        "protocol": "anthropic",
        "model": "claude-test",
        "to": "cloud",
        "sentTo": "llama-test (local, 127.0.0.1:11434); claude-test (cloud, api.anthropic.com:443)",
        "action": "redact",
        "rule": "strip, always",
        "scan": "partial",
        "reasons": "an image; a file",
        "outcome": "answered",
        "status": "200",
        "sideRequest": "false",
        "requestBytes": "100",
        "responseBytes": "200",
        "inputTokens": "12",
        "outputTokens": "34",
        "cacheReadTokens": "",
        "cacheWriteTokens": "",
        "noteNumber": "1",
        "note": "vault/Tides.md",
        "title": "Tides",
        "by": "content",
        "grade": "line",
        "matched": "1",
        "distinctive": "2",
        "resent": "false",
        "places": "1",
    }
    assert (rows[2]["outcome"], rows[2]["finishedAt"], rows[2]["status"]) == ("", "", "")


def test_the_head_names_the_columns_and_says_that_it_is_utf_8() -> None:
    assert csv_head() == "\ufeff" + ",".join(COLUMNS) + "\r\n"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ('=HYPERLINK("http://127.0.0.1")', '\'=HYPERLINK("http://127.0.0.1")'),
        ("+49", "'+49"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("＝1", "'＝1"),
        ("\t=1", "' =1"),
        ("\r\n=1", "' =1"),
        ("  =1", "'  =1"),
        ('"=1', "'\"=1"),
        ("a;=1", "a;'=1"),
        ('a;"=1', "a;'\"=1"),
        ("a\n=1", "a =1"),
        ("a=1; b-c, -5", "a=1; b-c, -5"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_no_cell_is_a_formula(text: str, cell: str) -> None:
    assert harmless(text) == cell
    note = replace(sighting("vault/N.md"), title=text)
    [row] = read(csv_rows([finished("1", client=text, scan=Scan("complete", (), (note,))).to_json()]))
    assert (row["client"], row["title"]) == (cell, cell)


@given(
    st.lists(st.text(alphabet=st.sampled_from("=+-@;,\"'\t\r\n |a\x00\u2028＝"), max_size=8), min_size=1, max_size=3)
)
def test_whatever_separates_cells_none_begins_one(texts: list[str]) -> None:
    entries = [released(str(number), client=text).to_json() for number, text in enumerate(texts)]
    written = csv_rows(entries)
    assert written.count("\n") == len(texts)
    for delimiter in ",;":
        for row in csv.reader(io.StringIO(written, newline=""), delimiter=delimiter):
            for cell in row:
                assert not cell.lstrip(' "').startswith(tuple("=+-@＝"))


def test_what_cannot_be_encoded_does_not_stop_it() -> None:
    entry: dict[str, Any] = finished("1", model="m\ud800").to_json()
    assert read(csv_rows([entry]))[0]["model"] == "m?"
    csv_rows([entry]).encode("utf-8")
