"""The hashes of all lines of some notes: what is the same line, what is kept, and what is taken over."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.index import NoteIndex
from memory.lines import prefix_ends
from memory.notes import Note
from memory.redact_lines import EveryLine, fold_key, fold_keys, folded_rows

LONG = "The tide chart is drawn from the harbour's own table."
TEXT = f"{LONG}\nPIN 4711\n\nOK\n---\n密 码 本\nPIN 4711"
SEED = 7


def note(path: str, text: str = TEXT, *, unread: bool = False) -> Note:
    return Note(f"vault/{path}", "vault", path, path, "" if unread else text, (), (), (), len(text), unread=unread)


def folded(text: str) -> str:
    return folded_rows(text.encode("utf-8", "surrogatepass")).decode()


def rows_among(lines: EveryLine, text: str, note: str = "vault/a.md") -> list[int]:
    """The rows of a text that are lines of a note, by two ways that have to agree."""
    data = text.encode("utf-8", "surrogatepass")
    wanted = lines.wanted([note])
    found = wanted.among(fold_keys(folded_rows(data), SEED)).tolist()
    assert set(found) <= set(wanted.may_have(data).tolist())
    assert found == [row for row, line in enumerate(text.split("\n")) if list(wanted.rows(fold_key(line, SEED)))]
    return found


@pytest.mark.parametrize(
    "other",
    [
        "pin 4711",
        "  **PIN**: 4711 \r",
        "P\u200bIN\u00a04711",
        "ＰＩＮ４７１１",  # fullwidth
        "PIN&nbsp;4711",
        "P&amp;#73;N 4711",
        "P\u0301IN 47\u030211\u0301",
        "> PIN — 4711…",
    ],
)
def test_the_same_line(other: str) -> None:
    assert rows_among(EveryLine.of([note("a.md")], seed=SEED), f"x\n{other}\ny") == [1]


@pytest.mark.parametrize("other", ["PIN 471", "PIN 4711 x", "11", "OK", "---", "", "4711", "PIN\u00e9 4711"])
def test_another_line(other: str) -> None:
    assert rows_among(EveryLine.of([note("a.md")], seed=SEED), f"x\n{other}\ny") == []


def test_what_is_written_otherwise_is_one_fold() -> None:
    assert folded("Größe: STRASSE 3½\n¡Möwe_1!\n字 ２") == "grossestrasse312\nmowe1\n字2"
    assert folded("a&#10;b&amp;amp;c\n&lt;\n&") == "abc\n\n"


def test_marks_without_end_take_no_time() -> None:
    start = time.thread_time()
    assert folded("a" + "\u0316\u0301" * 50_000 + "é") == "ae"
    assert time.thread_time() - start < 1  # to put them in order takes ten


@given(st.lists(st.text(max_size=12), max_size=6), st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_a_line_is_found_in_each_form(lines: list[str], form: str) -> None:
    lines = [line.replace("\n", "").replace("&", "").encode("utf-8", "replace").decode() for line in lines]
    text = "\n".join(lines)
    here = unicodedata.normalize(form, text)  # type: ignore[arg-type]
    expected = [row for row, line in enumerate(folded(text).split("\n")) if len(line) >= 3]
    assert rows_among(EveryLine.of([note("a.md", text)], seed=SEED), here) == expected


def test_what_is_kept() -> None:
    lines = EveryLine.of([note("a.md"), note("b.md", "")], seed=SEED)
    assert "vault/a.md" in lines
    assert "vault/b.md" in lines
    assert "vault/c.md" not in lines
    assert lines.nbytes == 16 * 3  # of the long line, the PIN once, and the three characters
    wanted = lines.wanted(["vault/b.md", "vault/gone.md", "vault/a.md"])
    assert wanted.notes.tolist() == [2, 2, 2]
    assert wanted.long.tolist().count(True) == 1
    assert wanted.longest == len("thetidechartisdrawnfromtheharboursowntable")
    assert sorted(wanted.folds.tolist()) == wanted.folds.tolist()
    assert rows_among(EveryLine(), TEXT) == []


def test_many_notes_at_once_have_the_lines_that_each_has_alone() -> None:
    notes = [note(f"{number}.md", f"line {number} of it\n\nand x{number}" * (number + 1)) for number in range(40)]
    together = EveryLine.of(notes, seed=SEED)
    assert all(together.notes[one.id] == EveryLine.of([one], seed=SEED).notes[one.id] for one in notes)


# --- in an index -----------------------------------------------------------------------------------------------------


def is_health(one: Note) -> bool:
    return one.path.startswith("Health/")


def built(
    *notes: Note, previous: NoteIndex | None = None, reachable: Callable[[Note], bool] | None = is_health
) -> NoteIndex:
    return NoteIndex.build(notes, reachable=reachable, previous=previous)


def test_only_reachable_notes_are_paid_for() -> None:
    index = built(note("Health/a.md"), note("b.md"))
    assert list(index.every_line.notes) == ["vault/Health/a.md"]
    assert NoteIndex.build([note("Health/a.md")]).every_line.nbytes == 0


def test_what_has_not_changed_is_taken_over() -> None:
    first = built(note("Health/a.md"), note("Health/b.md"), note("c.md"))
    again = built(*(note(path, unread=True) for path in ("Health/a.md", "Health/b.md", "c.md")), previous=first)
    assert again is first
    edited = built(note("Health/a.md", unread=True), note("Health/b.md", "another"), note("c.md"), previous=first)
    assert edited.every_line.notes["vault/Health/a.md"] is first.every_line.notes["vault/Health/a.md"]
    fresh = EveryLine.of([note("Health/b.md", "another")], seed=first.seed)
    assert edited.every_line.notes["vault/Health/b.md"] == fresh.notes["vault/Health/b.md"]


def test_another_reach_is_another_index() -> None:
    first = built(note("Health/a.md"), note("c.md"))
    wider = built(note("Health/a.md"), note("c.md"), previous=first, reachable=lambda _: True)
    assert sorted(wider.every_line.notes) == ["vault/Health/a.md", "vault/c.md"]
    unread = built(
        note("Health/a.md", unread=True), note("c.md", unread=True), previous=first, reachable=lambda _: True
    )
    assert unread is first  # its text is needed for more
    assert built(note("Health/a.md"), note("c.md"), previous=first, reachable=None).every_line.notes == {}


def test_where_a_line_may_begin() -> None:
    assert list(prefix_ends("  12→> text")) == [5, 7]
    assert list(prefix_ends("a/b.md:12:text")) == [10]
    assert list(prefix_ends("text")) == []
