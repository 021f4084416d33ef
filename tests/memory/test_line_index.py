"""The sieve lets through whatever the exact rule finds; long texts are looked at in pieces; rows are kept per note."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import line_index, pieces
from memory.index import NoteIndex
from memory.letters import encoded
from memory.lines import fingerprint, fingerprints
from memory.notes import Note
from memory.pieces import Rows
from memory.prints import LineFacts
from memory.sieve import Sieve, letters_of, sieve_hashes
from memory.sifting import POOR, PREFIXED, SIEVED
from memory.tally import NOTHING
from tests.memory import reference

LINE = "The tide chart is drawn from the harbour's own table."
NUMBERS = "| 123 | 456 | 789.50 | 1,024 | 2026-03-01 |"
KANA = "あいうえおかきくけこさしすせそたちつてとなにぬねの"


def note(path: str, text: str) -> Note:
    return Note(f"vault/{path}", "vault", path, path.removesuffix(".md"), text, (), (), (), len(text))


def matched(index: NoteIndex, text: str) -> dict[str, int]:
    return {one.note: one.matched for one in index.match(text) if one.by == "content"}


@pytest.mark.parametrize(
    "line", [NUMBERS, KANA, "1" * 24, "\uff0e" * 24, "→" * 24, "é" * 24, "\ud800" * 24, "ab 12 " * 4 + "-" * 9]
)
def test_lines_with_few_letters(line: str) -> None:
    index = NoteIndex.build([note("a.md", line), note("b.md", LINE)])
    assert matched(index, f"x\n{line}\n{line}1\nend") == {"vault/a.md": 1}
    assert matched(index, f"12\t{line}") == {"vault/a.md": 1}
    assert matched(index, f"L12: {line}\n{LINE}") == {"vault/a.md": 1, "vault/b.md": 1}


def test_all_that_python_splits_at_is_no_letter() -> None:
    white = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))
    assert len(white) > 20
    assert letters_of(white.encode()) == b"\n"
    assert letters_of("A→é 1\nb".encode()).split(b"\n")[1] == b"b"


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u2003", "\x85", "\x1f", "\u1680", "\u205f"])
def test_white_space_of_every_kind(space: str) -> None:
    index = NoteIndex.build([note("a.md", LINE), note("b.md", KANA[:12] + " " + KANA[12:])])
    text = f"{space}{LINE.replace(' ', space)}\n{KANA[:12]}{space}{KANA[12:]}{space}"
    assert matched(index, text) == {"vault/a.md": 1, "vault/b.md": 1}


def test_a_sieve_lets_all_its_own_through_and_few_others() -> None:
    numbers = np.random.default_rng(1).integers(1, 1 << 32, 60_000, np.uint32)
    sieve = Sieve(numbers[:10_000], 7)
    assert sieve.passing(numbers[:10_000]).tolist() == list(range(10_000))
    assert len(sieve.passing(numbers[10_000:])) < 50_000 / 100
    assert sieve.nbytes == 20_000
    assert Sieve(numbers[:0], 7).passing(numbers).tolist() == []


def test_sieve_hashes_are_of_the_letters_alone() -> None:
    data = letters_of(f"{LINE}\n12\t> {LINE}\n{LINE}x\n{LINE.upper()}".encode())
    rows = Rows.of(np.frombuffer(data, np.uint8))
    first, second, third, fourth = sieve_hashes(data, rows.starts, rows.ends, 7).tolist()
    assert first == second
    assert len({first, third, fourth}) == 3
    assert sieve_hashes(data, rows.starts, rows.ends, 8).tolist()[0] != first
    assert sieve_hashes(b"", rows.starts[:0], rows.ends[:0], 7).tolist() == []


def test_fingerprints_are_those_of_the_lines_one_by_one() -> None:
    lines = [LINE, KANA, "", "\ud83d"]
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    assert fingerprints(data, 9).tolist() == [fingerprint(line, 9) for line in lines]


@given(st.lists(st.text(alphabet="ab\n", max_size=20), min_size=1, max_size=4), st.integers(1, 12))
def test_pieces_are_the_texts_at_their_newlines(texts: list[str], size: int) -> None:
    data = "\n".join(texts).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", size)
        cut = list(pieces.Joined.of([text.encode() for text in texts]).pieces())
    assert b"\n".join(piece for _, piece in cut) == data
    for start, piece in cut:
        assert data[start : start + len(piece)] == piece
        assert len(piece) <= size or b"\n" not in piece


def test_a_text_longer_than_a_piece() -> None:
    filler = "filler\n" * 130_000
    text = f"{LINE}\n{filler}{NUMBERS}\n{filler}12\t{KANA}"
    index = NoteIndex.build([note("a.md", LINE), note("b.md", NUMBERS), note("c.md", KANA)])
    joined = pieces.Joined.of([b"nothing here that is long enough", b"", text.encode(), b""])
    assert len(list(joined.pieces())) == 4
    places = [place for start, piece in joined.pieces() for place in found_at(index, piece, start)]
    assert joined.texts_at(places) == [2, 2, 2]
    assert joined.rows_of(2, places) == [0, 130_001, 260_002]
    assert matched(index, text) == {"vault/a.md": 1, "vault/b.md": 1, "vault/c.md": 1}


def found_at(index: NoteIndex, piece: bytes, start: int) -> Sequence[int]:
    return index._lines.find(piece, index._lines.sift(piece, index._mentions.beginnings), start).at


def test_the_exact_rule_looks_at_few_of_many_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    words = random.Random(4).choices(
        ["tide", "berth", "harbour", "chart", "mast", "buoy", "the", "of", "and"], k=200_000
    )
    lines = [f"{number}: {' '.join(words[number * 8 : number * 8 + 8])}" for number in range(20_000)]
    index = NoteIndex.build([note(f"{number}.md", lines[number]) for number in range(500)])
    looked_at: list[int] = []
    known_rows = line_index.known_rows
    monkeypatch.setattr(
        line_index,
        "known_rows",
        lambda data, sifted, keys, **rest: (
            looked_at.append(len(sifted.having(SIEVED | POOR | PREFIXED))) or known_rows(data, sifted, keys, **rest)
        ),
    )
    assert len(index.match("\n".join(lines))) == 500
    assert 500 <= sum(looked_at) < 500 + 20_000 / 50


def test_a_line_far_longer_than_any_note_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    index = NoteIndex.build([note("a.md", f"{NUMBERS}\n{LINE}")])
    read: list[int] = []
    canonical = line_index.canonical_rows
    monkeypatch.setattr(line_index, "canonical_rows", lambda rows: read.append(len(rows)) or canonical(rows))
    assert matched(index, "1 2 " * 1_000_000) == {}
    assert matched(index, "x.md:1:" * 1_000_000) == {}
    assert read == []
    assert matched(index, f"12\t{' ' * 1_000_000}{NUMBERS}{'　' * 400_000}") == {"vault/a.md": 1}


# What is near each other, as letters, as signs, or as white space; and what tools put before it.
words = st.sampled_from(
    ["tide", "tides", "Tide", "harbour master", "12", "|", "—", "é", "字字字", "あい", "\u00a0", "\u3000", "  ", "→", "L12:", ".md:1:",
     "#a|", "\t", "\x1f", "\ud83d", "> ", "- "]
)  # fmt: skip
made = st.lists(words, min_size=1, max_size=9).map("".join)
prefixes = st.sampled_from(
    ["", " ", "> ", "-", "12\t", "  3→", "4|", "00005| ", "6: ", "L7: ", "  L7:", "8#PW|", "a/b.md:9:", "b.мд-9-", "b.md-9-c.md:1:",
     "1#ü|", "L1:L2:", "9.md:1:"]
)  # fmt: skip


@given(
    st.lists(st.lists(made, max_size=6).map("\n".join), min_size=1, max_size=5),
    st.lists(st.lists(st.tuples(prefixes, made), max_size=5), max_size=4),
    st.sampled_from([8, 12]),
    st.sampled_from([4, 40, 1 << 18]),
    st.data(),
)
def test_many_texts_at_once_find_what_the_reference_finds_in_each(
    bodies: list[str], drawn: list[list[tuple[str, str]]], minimum: int, size: int, data: st.DataObject
) -> None:
    known = [line for body in bodies for line in body.split("\n")]
    texts = [
        "\n".join(prefix + (data.draw(st.sampled_from([line, *known]))) for prefix, line in text) for text in drawn
    ]
    notes = [note(f"{number}.md", body) for number, body in enumerate(bodies)]
    index = NoteIndex.build(notes, minimum_line_length=minimum)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", size)
        found = index.find_all(pieces.Joined.of([encoded(text) for text in texts]))
    for number, text in enumerate(texts):
        expected = reference.content(notes, text, minimum)
        there = found.get(number, NOTHING)
        assert {index.known(one.note).note: len(one.lines) for one in there.content} == {
            one: len(lines) for one, lines in expected.items()
        }


# ---- taken over from the index before

BODIES = st.lists(st.sampled_from([LINE, NUMBERS, KANA, "short [[b]]", "see a.md", "", f"- {LINE}"]), max_size=5).map(
    "\n".join
)
vaults = st.dictionaries(st.sampled_from("abcdefg"), BODIES, max_size=7)


@given(st.lists(vaults, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_an_index_built_from_the_one_before_is_the_one_built_from_nothing(
    states: list[dict[str, str]], order: random.Random
) -> None:
    index: NoteIndex | None = None
    everything = "\n".join(
        [LINE, NUMBERS, KANA, f"- {LINE}", f"12\t{NUMBERS}", *(f"{one}.md {one}" for one in "abcdefg")]
    )
    for state in states:
        notes = [note(f"{name}.md", body) for name, body in state.items()]
        order.shuffle(notes)
        index = NoteIndex.build(notes, previous=index)
        full = NoteIndex.build(notes)
        assert index.notes == full.notes
        assert [index.facts(one) for one in index.notes] == [full.facts(one) for one in full.notes]
        for text in (everything, "short [[b]]\nsee a.md", *state.values()):
            assert index.match(text) == full.match(text)


def test_only_changed_notes_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = [note(f"{number}.md", f"{LINE} {number}") for number in range(20)]
    first = NoteIndex.build(notes)
    printed: list[int] = []
    from memory import prints

    add = prints._Printer.add
    monkeypatch.setattr(
        prints._Printer, "add", lambda self, owner, text: printed.append(owner) or add(self, owner, text)
    )
    notes[7] = note("7.md", NUMBERS)
    second = NoteIndex.build(notes, previous=first)
    assert printed == [sorted(str(number) for number in range(20)).index("7")]
    assert matched(second, f"{LINE} 8\n{LINE} 7\n{NUMBERS}") == {"vault/7.md": 1, "vault/8.md": 1}
    assert matched(first, f"{LINE} 7\n{NUMBERS}") == {"vault/7.md": 1}
    assert second.generation is not first.generation


def test_nothing_changed_is_the_same_index() -> None:
    notes = [note("a.md", LINE), note("b.md", NUMBERS)]
    index = NoteIndex.build(notes, roots={"vault": "/v"})
    assert NoteIndex.build(notes[::-1], roots={"vault": "/v"}, previous=index) is index
    assert NoteIndex.build(notes, roots={"vault": "/w"}, previous=index) is not index
    assert NoteIndex.build(notes, roots={"vault": "/v"}, mentions="seed", previous=index) is not index
    renamed = [Note("vault/a.md", "vault", "a.md", "Other", LINE, (), (), (), 9), notes[1]]
    assert NoteIndex.build(renamed, roots={"vault": "/v"}, previous=index).notes["vault/a.md"] == "Other"


def test_another_minimum_length_takes_nothing_over() -> None:
    index = NoteIndex.build([note("a.md", f"{LINE}\nshort one")])
    shorter = NoteIndex.build([note("a.md", f"{LINE}\nshort one")], minimum_line_length=8, previous=index)
    assert shorter.facts("vault/a.md") == LineFacts(2, 2)


def test_a_note_that_was_not_read_again_is_what_it_was() -> None:
    index = NoteIndex.build([note("a.md", LINE), note("b.md", NUMBERS)])
    unread = Note("vault/a.md", "vault", "a.md", "New title", "", (), (), (), 9, unread=True)
    after = NoteIndex.build([unread], previous=index)
    assert matched(after, f"{LINE}\n{NUMBERS}") == {"vault/a.md": 1}
    assert after.notes == {"vault/a.md": "New title"}
    with pytest.raises(ValueError, match=r"vault/a\.md is new"):
        NoteIndex.build([unread])


def test_what_is_kept_of_a_line() -> None:
    text = "\n".join(f"{LINE} {number}" for number in range(5_000))
    index = NoteIndex.build([note("a.md", text)])
    assert index.line_bytes / 5_000 <= 20
