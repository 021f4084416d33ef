"""The log of exchanges and its pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.activity import LARGEST_PAGE, MOST_ENTRIES, Activity
from memory.exchange import Exchange, Scan, Sighting


def exchange(identifier: str, *, notes: tuple[str, ...] = (), **changes: Any) -> Exchange:
    made: dict[str, Any] = {
        "started_at": datetime(2026, 3, 4, tzinfo=UTC),
        "provider": "anthropic",
        "protocol": "anthropic",
        "model": "claude-test",
        "client": "claude-code",
        "conversation": None,
        "to": "cloud",
        "upstream": "api.anthropic.com:443",
        "scan": Scan("complete", (), tuple(Sighting(note, "T", "content", "line", 1, 1) for note in notes)),
    }
    return Exchange(identifier, **(made | changes))


def filled(*identifiers: str, most: int = MOST_ENTRIES) -> Activity:
    activity = Activity(most)
    for identifier in identifiers:
        activity.put(exchange(identifier))
    return activity


def ids(page: tuple[list[dict[str, Any]], str | None]) -> tuple[str, str | None]:
    return "".join(entry["id"] for entry in page[0]), page[1]


def test_newest_first() -> None:
    assert ids(filled("1", "2", "3").entries()) == ("321", None)
    assert ids(Activity().entries()) == ("", None)


def test_put_gives_the_entry_and_brings_it_up_to_date_in_its_place() -> None:
    activity = filled("1", "2")
    changed = exchange("1", status=200, outcome="answered")
    assert activity.put(changed) == changed.to_json()
    entries, _ = activity.entries()
    assert [(entry["id"], entry["outcome"]) for entry in entries] == [("2", None), ("1", "answered")]


@pytest.mark.parametrize(
    ("before", "limit", "page"),
    [
        (None, 2, ("54", "4")),
        ("4", 2, ("32", "2")),
        ("2", 2, ("1", None)),
        (None, 5, ("54321", None)),
        (None, 4, ("5432", "2")),
        ("1", 2, ("", None)),
        ("35", 2, ("32", "2")),  # one that is gone by now
        ("9", 1, ("5", "5")),
        (None, 0, ("5", "5")),
        (None, -7, ("5", "5")),
        (None, 10**9, ("54321", None)),
    ],
)
def test_pages(before: str | None, limit: int, page: tuple[str, str | None]) -> None:
    assert ids(filled("1", "2", "3", "4", "5").entries(before, limit)) == page


def test_a_page_has_100_entries_by_itself_and_1000_at_most() -> None:
    activity = filled(*(f"{number:04}" for number in range(1200)), most=2000)
    assert len(activity.entries()[0]) == 100
    assert len(activity.entries(limit=5000)[0]) == LARGEST_PAGE == 1000


def test_filters() -> None:
    activity = Activity()
    activity.put(exchange("1", notes=("vault/Tides.md", "vault/Clock.md")))
    activity.put(exchange("2", client="codex"))
    activity.put(exchange("3", notes=("vault/Tides.md",), model="gpt-test"))
    activity.put(exchange("4", notes=("vault/Clock.md",), client="codex"))
    assert ids(activity.entries(note="vault/Tides.md")) == ("31", None)
    assert ids(activity.entries(note="vault/Tides")) == ("", None)
    assert ids(activity.entries(client="codex")) == ("42", None)
    assert ids(activity.entries(model="claude-test")) == ("421", None)
    assert ids(activity.entries(notes_only=True)) == ("431", None)
    assert ids(activity.entries(note="vault/Clock.md", client="codex", notes_only=True)) == ("4", None)
    assert ids(activity.entries(limit=1, notes_only=True)) == ("4", "4")
    assert ids(activity.entries("4", limit=2, notes_only=True)) == ("31", None)


def test_there_is_no_next_page_where_no_further_entry_matches() -> None:
    activity = filled("1", "2")
    activity.put(exchange("3", client="codex"))
    assert ids(activity.entries(limit=1, client="codex")) == ("3", None)


def test_a_body_that_took_long_to_arrive_stands_where_its_id_says() -> None:
    activity = filled("2", "4", "1", "3")
    assert ids(activity.entries()) == ("4321", None)
    assert ids(activity.entries(limit=2)) == ("43", "3")
    assert ids(activity.entries("3", limit=2)) == ("21", None)


def test_the_oldest_are_forgotten_and_do_not_come_back() -> None:
    activity = filled("1", "2", "3", "4", most=3)
    assert ids(activity.entries()) == ("432", None)
    late = exchange("1", outcome="answered")
    assert activity.put(late) == late.to_json()
    assert ids(activity.entries()) == ("432", None)


def test_a_thousand_are_kept() -> None:
    activity = filled(*(f"{number:04}" for number in range(1001)))
    entries, _ = activity.entries(limit=1000)
    assert (len(entries), entries[-1]["id"]) == (1000, "0001")


@given(st.lists(st.integers(0, 99).map("{:02}".format)), st.integers(1, 9))
def test_in_whatever_order_they_come_the_newest_are_kept(put: list[str], most: int) -> None:
    entries, _ = filled(*put, most=most).entries()
    assert [entry["id"] for entry in entries] == sorted(set(put), reverse=True)[:most]


@given(st.lists(st.integers(0, 99).map("{:02}".format), unique=True), st.integers(1, 7))
def test_page_by_page_every_entry_comes_once(put: list[str], limit: int) -> None:
    activity = filled(*put)
    read: list[str] = []
    before = None
    while True:
        page, before = activity.entries(before, limit)
        read += [entry["id"] for entry in page]
        if before is None:
            break
        assert len(page) == limit
    assert read == sorted(put, reverse=True)
