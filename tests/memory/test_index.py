"""Which lines are distinctive, and that the index finds exactly what the literal reference finds."""

from __future__ import annotations

import gc
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.index import NoteIndex
from memory.notes import Note
from memory.prints import LineFacts
from tests.memory import reference

LINE = "The tide chart is drawn from the harbour's own table."
OTHER = "Every berth has a number and a depth at low water."


def note(path: str, text: str, source: str = "vault") -> Note:
    return Note(f"{source}/{path}", source, path, path.removesuffix(".md"), text, (), (), (), len(text))


def found(index: NoteIndex, text: str) -> dict[str, tuple[int, int]]:
    return {one.note: (one.matched, one.distinctive) for one in index.match(text) if one.by == "content"}


def test_a_line_ten_times_in_one_note_is_one_line() -> None:
    index = NoteIndex.build([note("a.md", f"{LINE}\n" * 10), note("b.md", OTHER)])
    assert index.facts("vault/a.md") == LineFacts(lines=10, distinctive=1)
    assert found(index, LINE) == {"vault/a.md": (1, 1)}


def test_a_line_in_three_notes_credits_all_three() -> None:
    index = NoteIndex.build([note(f"{name}.md", LINE) for name in "abc"])
    assert found(index, LINE) == {"vault/a.md": (1, 1), "vault/b.md": (1, 1), "vault/c.md": (1, 1)}


def test_a_line_in_four_notes_is_dropped_from_all_and_comes_back_when_one_goes() -> None:
    notes = [note(f"{name}.md", f"{LINE}\n{name} {OTHER}") for name in "abcd"]
    index = NoteIndex.build(notes)
    assert found(index, LINE) == {}
    assert [index.facts(one.id) for one in notes] == [LineFacts(2, 1)] * 4
    assert len(found(NoteIndex.build(notes[1:]), LINE)) == 3


def test_lines_that_differ_in_white_space_are_one_and_in_case_are_two() -> None:
    index = NoteIndex.build([note("a.md", f"{LINE}\r\n\t{LINE.replace(' ', '  ')}  \n{LINE.upper()}")])
    assert index.facts("vault/a.md") == LineFacts(lines=3, distinctive=2)
    assert found(index, LINE.replace(" ", "\t")) == {"vault/a.md": (1, 2)}
    assert found(index, LINE.lower()) == {}


def test_a_file_that_two_sources_reach_is_one_note_for_distinctiveness() -> None:
    sources = {"vault": "/v", "inner": "/v/p", "again": "/v/", "windows": "\\v"}
    notes = [
        note("p/a.md", LINE),
        note("a.md", LINE, "inner"),
        note("p/a.md", LINE, "again"),
        note("p/a.md", LINE, "windows"),
    ]
    assert len(found(NoteIndex.build(notes, roots=sources), LINE)) == 4
    assert found(NoteIndex.build(notes), LINE) == {}


@pytest.mark.parametrize("character", ["x", "é", "字", "😀"])
def test_length_is_in_code_points_after_collapsing(character: str) -> None:
    long, short = character * 20 + " " + character * 3, character * 19 + " " + character * 3
    index = NoteIndex.build([note("a.md", f"{long}\n{short}\n   {short}   ")])
    assert (len(long), len(short)) == (24, 23)
    assert index.facts("vault/a.md") == LineFacts(lines=3, distinctive=1)
    assert found(index, long.replace(" ", "      ")) == {"vault/a.md": (1, 1)}
    assert found(index, f"     {short}     ") == {}


def test_the_minimum_length_can_be_set_and_is_at_least_eight() -> None:
    index = NoteIndex.build([note("a.md", "12345678\n1234567")], minimum_line_length=8)
    assert index.facts("vault/a.md") == LineFacts(2, 1)
    with pytest.raises(ValueError, match="at least 8"):
        NoteIndex.build([], minimum_line_length=7)


def test_a_note_without_a_distinctive_line_is_found_by_mention_only() -> None:
    index = NoteIndex.build([note("a.md", "short\n\nlines"), note("empty.md", "")])
    assert index.facts("vault/a.md") == LineFacts(2, 0)
    assert index.facts("vault/empty.md") == LineFacts(0, 0)
    [sighting] = index.match("short\nlines\nin a.md")
    assert (sighting.note, sighting.by, sighting.matched, sighting.distinctive) == ("vault/a.md", "reference", 0, 0)


def test_a_note_that_is_not_there_has_no_facts() -> None:
    with pytest.raises(KeyError):
        NoteIndex.build([]).facts("vault/a.md")


def test_a_line_that_comes_twice_counts_once() -> None:
    index = NoteIndex.build([note("a.md", f"{LINE}\n{OTHER}")])
    assert found(index, f"{LINE}\n> {LINE}\n1\t{LINE}") == {"vault/a.md": (1, 2)}
    assert found(index, f"{OTHER}\n{LINE}\n{OTHER}") == {"vault/a.md": (2, 2)}


def test_frontmatter_lines_count_like_any_other() -> None:
    index = NoteIndex.build([note("a.md", "---\nsummary: the tide chart and its table\n---\n")])
    assert found(index, "summary: the tide chart and its table") == {"vault/a.md": (1, 1)}


def test_only_newlines_part_lines() -> None:
    index = NoteIndex.build([note("a.md", f"{LINE}\u2028{OTHER}\x85\x0c")])
    assert index.facts("vault/a.md") == LineFacts(1, 1)
    assert found(index, LINE) == {}
    assert found(index, f"{LINE} {OTHER}") == {"vault/a.md": (1, 1)}
    assert found(NoteIndex.build([note("a.md", LINE)]), f"{LINE}\u2028{OTHER}\x0c{LINE}\x85{OTHER}") == {}


def test_a_line_is_looked_up_as_it_stands_first() -> None:
    index = NoteIndex.build([note("a.md", f"- {LINE}"), note("b.md", LINE)])
    assert found(index, f"- {LINE}") == {"vault/a.md": (1, 1)}
    assert found(index, f"12\t- {LINE}") == {"vault/a.md": (1, 1)}
    assert found(index, f"12\t{LINE}") == {"vault/b.md": (1, 1)}


def test_leading_digits_of_a_note_are_its_own() -> None:
    text = f"12\t2026-01-03 {LINE}\n1. {LINE}"
    index = NoteIndex.build([note("a.md", text)])
    assert found(index, text) == {"vault/a.md": (2, 2)}
    assert found(index, "".join(f"{number}\t{line}\n" for number, line in enumerate(text.split("\n"), 1))) == {
        "vault/a.md": (2, 2)
    }


def test_the_order_of_notes_is_of_no_account() -> None:
    notes = [note(f"{number}.md", f"{LINE} {number % 7}\n{OTHER} {number % 3}") for number in range(20)]
    text = "\n".join(one.text for one in notes)
    expected = NoteIndex.build(notes).match(text)
    for seed in range(5):
        shuffled = random.Random(seed).sample(notes, len(notes))
        assert NoteIndex.build(shuffled).match(text) == expected


def test_content_first_then_references_by_id() -> None:
    index = NoteIndex.build([note("b.md", LINE), note("a.md", ""), note("c.md", OTHER)])
    sightings = index.match(f"a.md, c.md\n{LINE}\n{LINE}\n{OTHER}")
    assert [(one.note, one.by, one.grade) for one in sightings] == [
        ("vault/b.md", "content", "line"),
        ("vault/c.md", "content", "line"),
        ("vault/a.md", "reference", "reference"),
    ]
    assert sightings[0].evidence[0].lines == 1
    assert [one.title for one in sightings] == ["b", "c", "a"]


def test_the_index_keeps_no_text_and_its_fingerprints_are_its_own() -> None:
    secret = "The harbour master's own telephone number is written here"
    notes = [note("a.md", secret), note("b.md", f"short {secret[:9]} c.md")]
    first, second = NoteIndex.build(notes), NoteIndex.build(notes)
    assert not np.array_equal(first._lines.rows.keys, second._lines.rows.keys)
    del notes
    kept = reachable(first)
    assert not [one for one in kept if isinstance(one, str | bytes) and secret[:9] in str(one)]
    assert any(isinstance(one, str) and one == "vault/a.md" for one in kept)


def reachable(root: object) -> list[object]:
    seen: dict[int, object] = {}
    todo = [root]
    while todo:
        one = todo.pop()
        if id(one) not in seen and not isinstance(one, type) and type(one).__name__ not in {"module", "function"}:
            seen[id(one)] = one
            todo += gc.get_referents(one)
    return list(seen.values())


# Lines that are near each other, so that notes share them, and what tools put before them.
texts = st.sampled_from(
    [LINE, OTHER, LINE.upper(), "short", "", "- " + LINE, "12 | " + OTHER, "a.md:3:" + LINE, "字" * 24, "字" * 23]
)
arbitrary = st.text(st.characters(), max_size=40)
prefixes = st.sampled_from(
    ["", "    ", "\t", "> ", "- ", "* ", "+", "-", "12\t", "  3→", "4|", "00005| ", "6: ", "L7: ", "8#PW|", "a/b.md:9:", "b.md-9-",
     "2026-01-03.md:1:", "- > ", "1\t2\t", "x ", "٣\t"]
)  # fmt: skip
lines = st.tuples(prefixes, st.one_of(texts, arbitrary), st.sampled_from(["", " ", "\r", "\u2028"])).map("".join)
documents = st.lists(lines, max_size=8).map("\n".join)


@given(st.lists(documents, max_size=6), documents, st.sampled_from([8, 24]))
def test_the_index_finds_what_the_reference_finds(bodies: list[str], text: str, minimum: int) -> None:
    notes = [note(f"{number}.md", body) for number, body in enumerate(bodies)]
    index = NoteIndex.build(notes, minimum_line_length=minimum)
    owners = reference.distinctive_lines(notes, minimum)
    expected = {
        one: (len(lines), sum(one in ids for ids in owners.values()))
        for one, lines in reference.content(notes, text, minimum).items()
    }
    assert found(index, text) == expected


@given(st.lists(documents, min_size=1, max_size=6), st.data())
def test_a_body_made_of_the_notes_own_lines_finds_what_the_reference_finds(
    bodies: list[str], data: st.DataObject
) -> None:
    notes = [note(f"{number}.md", body) for number, body in enumerate(bodies)]
    known = [line for body in bodies for line in body.split("\n")]
    text = "\n".join(
        data.draw(st.lists(st.tuples(prefixes, st.sampled_from(known)).map("".join), max_size=10), label="request")
    )
    index = NoteIndex.build(notes)
    expected = {one: len(lines) for one, lines in reference.content(notes, text, 24).items()}
    assert {one: matched for one, (matched, _) in found(index, text).items()} == expected
    named = reference.not_inside_content(notes, text, 24, reference.mentions(notes, text, {}))
    assert {one.note for one in index.match(text) if one.by == "reference"} == {note for _, note in named}
