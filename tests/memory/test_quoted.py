"""Quotes in whole bodies: their grade, their evidence, and how they go together with lines and names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.exchange import Evidence
from memory.index import NoteIndex
from memory.notes import Note
from memory.scan import Scanner, scan_value

SENTENCE = "the harbour office opens at seven and closes when the last ferry has left the northern pier"
LINE = f"In winter {SENTENCE}, as the notice beside the door has it."
OTHER = "Every berth has a number and a depth at low water, read [[Depths]]."
CJK = "港口办公室每天七点开门最后一班渡轮"
TIDES = "vault/tides.md"


def note(path: str, text: str, *, unread: bool = False) -> Note:
    return Note(f"vault/{path}", "vault", path, path.removesuffix(".md"), text, (), (), (), len(text), unread=unread)


def build(*notes: Note, **options: Any) -> NoteIndex:
    return NoteIndex.build(notes, **{"quotes": True, **options})


INDEX = build(note("tides.md", f"{LINE}\n{OTHER}"), note("wide.md", CJK), note("Depths.md", ""))


def seen(value: Any, index: NoteIndex = INDEX) -> list[tuple[str, str, str, int, int]]:
    return [(one.note, one.by, one.grade, one.matched, one.distinctive) for one in scan_value(index, value).sightings]


@pytest.mark.parametrize(
    "text",
    [
        f"You wrote that {SENTENCE}. Is that so?",
        f"> {SENTENCE[:40]}\n> {SENTENCE[40:]}",
        LINE.replace("winter", "the winter months"),
        json.dumps({"quoted": f"so {SENTENCE}"}),
    ],
)
def test_a_quote_is_content_with_no_line_of_it(text: str) -> None:
    assert seen({"a": text}) == [(TIDES, "content", "quote", 0, 2)]
    assert seen({"a": text}, build(note("tides.md", LINE), quotes=False)) == []


def test_a_line_is_a_line_and_a_quote_beside_it_evidence() -> None:
    [sighting] = scan_value(INDEX, [f"so {SENTENCE}", OTHER, json.dumps([f"and {SENTENCE}"])]).sightings
    assert (sighting.grade, sighting.matched, sighting.distinctive) == ("line", 1, 2)
    assert sighting.evidence == (Evidence("/0", 0, "quote"), Evidence("/1", 1, "line"), Evidence("/2!/0", 0, "quote"))


def test_a_short_wide_line_is_a_quote_and_no_line() -> None:
    assert seen([CJK]) == [("vault/wide.md", "content", "quote", 0, 0)]
    assert seen([f"他说、{CJK}。"]) == [("vault/wide.md", "content", "quote", 0, 0)]


def test_a_name_on_a_line_of_a_quoted_note_is_its_own() -> None:
    text = f"so {SENTENCE}\n- short [[Depths]]"
    index = build(note("tides.md", f"{LINE}\n- short [[Depths]]"), note("Depths.md", ""))
    assert seen([text], index) == [(TIDES, "content", "quote", 0, 1)]
    assert [one[:3] for one in seen([f"{text}\nread [[Depths]]"], index)] == [
        (TIDES, "content", "quote"),
        ("vault/Depths.md", "reference", "reference"),
    ]


def test_quotes_are_remembered_like_all_else() -> None:
    scanner = Scanner()
    data = json.dumps(
        {"messages": [{"content": f"{number} {SENTENCE} {'filler ' * 40}"} for number in range(4)]}
    ).encode()
    first = scanner.scan(INDEX, scanner.read(data))
    assert [one.pointer for one in first.sightings[0].evidence] == [
        f"/messages/{number}/content" for number in range(4)
    ]
    assert scanner.scan(INDEX, scanner.read(data)) == first


def test_an_index_with_quotes_takes_over_what_it_can() -> None:
    notes = [note("tides.md", LINE), note("other.md", OTHER)]
    first = build(*notes)
    assert build(*notes, previous=first) is first
    second = build(note("tides.md", "", unread=True), note("other.md", OTHER * 2), previous=first)
    assert seen([f"so {SENTENCE}"], second) == [(TIDES, "content", "quote", 0, 1)]
    without = build(*notes, previous=first, quotes=False)
    assert (without.quotes, seen([f"so {SENTENCE}"], without)) == (None, [])
    with_them_again = build(*notes, previous=without)
    assert seen([f"so {SENTENCE}"], with_them_again) == [(TIDES, "content", "quote", 0, 1)]


def test_a_file_that_two_sources_reach_is_one_note() -> None:
    roots = {f"s{number}": "/v" for number in range(5)}
    notes = [Note(f"s{n}/a.md", f"s{n}", "a.md", "a", LINE, (), (), (), 9) for n in range(5)]
    assert len(seen([f"so {SENTENCE}"], build(*notes, roots=roots))) == 5
    assert seen([f"so {SENTENCE}"], build(*notes)) == []
