"""Names of notes in texts: the cases of cases/mentions.txt, listings, attribution, and the literal reference."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.effort import Effort
from memory.index import NoteIndex
from memory.listings import may_be_listed
from memory.mentions import MentionFinder, NamedNote
from memory.notes import Note
from memory.pieces import Joined
from memory.sieve import Sieve
from memory.sifting import NAMED, sift
from tests.memory import reference

ROOTS = {"vault": "/home/sam/vault"}


def note(path: str, title: str = "", aliases: tuple[str, ...] = (), text: str = "", source: str = "vault") -> Note:
    title = title or path.rpartition("/")[2].removesuffix(".md")
    return Note(f"{source}/{path}", source, path, title, text, aliases, (), (), len(text))


VAULT = (
    note("projects/Billing.md", aliases=("Invoices",)),
    note("notes/Billing.md", title="Bill"),
    note("daily/2026-01-03.md"),
    note("areas/Big plan.md"),
    note("areas/c++.md"),
    note("projects/README.md"),
    note("index.md"),
    note("MEMORY.md", title="What I know"),
    note("ideas/Über uns.md"),
    note("people/Ada.md", aliases=("Twin",)),
    note("people/Bob.md", aliases=("Twin",)),
    note("账单.md"),
)
INDEX = NoteIndex.build(VAULT, roots=ROOTS)


def cases() -> list[tuple[str, list[str]]]:
    lines = (Path(__file__).parent / "cases" / "mentions.txt").read_text(encoding="utf-8").split("\n")
    pairs = [line.rpartition("=>") for line in lines if line and not line.startswith("# ") and line != "#"]
    return [(text.strip(), sorted(filter(None, (one.strip() for one in notes.split(","))))) for text, _, notes in pairs]


def mentioned(index: NoteIndex, text: str, grade: str = "reference") -> list[str]:
    return sorted(one.note.partition("/")[2] for one in index.match(text) if one.grade == grade)


@pytest.mark.parametrize(("text", "expected"), cases())
def test_case(text: str, expected: list[str]) -> None:
    assert mentioned(INDEX, text) == expected


@pytest.mark.parametrize(("text", "expected"), cases())
def test_case_among_other_text(text: str, expected: list[str]) -> None:
    assert mentioned(INDEX, f"Before it.\n{text}\nAfter it: v1.2.") == expected


def test_there_are_cases_of_both_kinds() -> None:
    assert len(cases()) > 80
    assert sum(not expected for _, expected in cases()) > 30


def test_decomposed_names_are_the_same_names() -> None:
    decomposed = unicodedata.normalize("NFD", "ideas/Über uns.md")
    assert decomposed != "ideas/Über uns.md"
    assert mentioned(INDEX, decomposed) == ["ideas/Über uns.md"]
    assert mentioned(NoteIndex.build([note(decomposed)]), "see ideas/Über uns.md") == [decomposed]


def test_a_name_in_compatible_characters() -> None:
    assert mentioned(NoteIndex.build([note("Klein.md")]), "see \u212alein.md") == ["Klein.md"]  # the sign for Kelvin


@pytest.mark.parametrize("root", [r"C:\Users\Sam\vault", "C:/Users/Sam/vault/"])
@pytest.mark.parametrize(
    "text",
    [
        r"C:\Users\Sam\vault\projects\Billing.md",
        r"c:\\users\\sam\\vault\\projects\\Billing.md",
        "file:///C:/Users/Sam/vault/projects/Billing.md",
        r'{"path":"C:\\Users\\Sam\\vault\\projects\\Billing.md"',
    ],
)
def test_a_root_on_windows(root: str, text: str) -> None:
    index = NoteIndex.build(VAULT, roots={"vault": root})
    assert mentioned(index, text) == ["projects/Billing.md"]
    assert mentioned(index, text.replace("vault", "other").replace("Vault", "other")) == []


def test_file_systems_that_fold_case() -> None:
    index = NoteIndex.build(VAULT, roots=ROOTS, fold_paths=True)
    assert mentioned(index, "PROJECTS/billing.MD") == ["projects/Billing.md"]
    assert mentioned(index, "/Home/Sam/Vault/projects/billing.md") == ["projects/Billing.md"]
    assert mentioned(index, "README.MD") == []


def test_a_relative_path_that_two_sources_have_is_each_ones_and_an_absolute_one_tells_them_apart() -> None:
    both = [note("a/x.md"), note("a/x.md", source="other")]
    index = NoteIndex.build(both, roots={"vault": "/v", "other": "/o"})
    assert [one.note for one in index.match("a/x.md")] == ["other/a/x.md", "vault/a/x.md"]
    assert [one.note for one in index.match("/o/a/x.md")] == ["other/a/x.md"]
    assert index.match("x.md") == ()


def test_a_file_that_two_sources_reach_has_its_name_to_itself() -> None:
    index = NoteIndex.build([note("a/x.md"), note("x.md", source="inner")], roots={"vault": "/v", "inner": "/v/a"})
    assert [one.note for one in index.match("[[x]]")] == ["inner/x.md", "vault/a/x.md"]


def test_other_extensions() -> None:
    index = NoteIndex.build([note("log.txt"), note("people/Ada.md")])
    assert mentioned(index, "in log.txt and people/Ada.md") == ["log.txt", "people/Ada.md"]
    assert mentioned(index, "log.md, people/Ada.txt") == []


def test_the_seed_counts_generic_names_and_shared_titles() -> None:
    index = NoteIndex.build(VAULT, roots=ROOTS, mentions="seed")
    assert mentioned(index, "index.md") == ["index.md"]
    assert mentioned(index, "README.md") == ["projects/README.md"]
    assert mentioned(index, "[[Twin]]") == ["people/Ada.md", "people/Bob.md"]
    assert mentioned(index, "https://example.com/index.md") == []


TREE = """I'm working in /home/sam/vault. Here is the folder:

/home/sam/vault/
├───daily/
│   └───2026-01-03.md
├───people/
│   ├───Ada.md
│   └───Bob.md
└───areas/
    └───Big plan.md
"""
LISTINGS = {
    "gemini's tree": TREE,
    "ls": "2026-01-03.md\nAda.md\nassets\nBig plan.md\nBob.md",
    "find": "./daily/2026-01-03.md\n./people/Ada.md\n./people/Bob.md\n./areas/Big plan.md",
    "absolute": "\n".join(
        f"/home/sam/vault/{one}"
        for one in ("daily/2026-01-03.md", "people/Ada.md", "areas/Big plan.md", "people/Bob.md")
    ),
    "list": "- 2026-01-03.md\n- Ada.md\n- Bob.md\n- Big plan.md",
    "tree /a": "+---daily\n|   2026-01-03.md\n+---people\n|   Ada.md\n|   Bob.md\n\\---areas\n    Big plan.md",
    "mcp": "[FILE] 2026-01-03.md\n[FILE] Ada.md\n[FILE] Bob.md\n[DIR] x\n[FILE] Big plan.md",
}


@pytest.mark.parametrize("text", LISTINGS.values(), ids=LISTINGS.keys())
def test_listings(text: str) -> None:
    expected = ["areas/Big plan.md", "daily/2026-01-03.md", "people/Ada.md", "people/Bob.md"]
    assert mentioned(INDEX, text, "listing") == expected
    assert mentioned(INDEX, text) == []
    assert mentioned(NoteIndex.build(VAULT, roots=ROOTS, mentions="seed"), text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Ada.md\nBob.md",
        "Ada.md\n\nBob.md\n\nBig plan.md",
        "Compare\nAda.md\nwith",
        "read Ada.md\nthen Bob.md\nand 2026-01-03.md",
        "Ada.md is new\nBob.md is old\n2026-01-03.md is both",
        "[[Ada]]\n[[Bob]]\n[[Big plan]]",
        "https://example.com/a\nAda.md\nBob.md",
    ],
)
def test_no_listings(text: str) -> None:
    assert mentioned(INDEX, text, "listing") == []
    assert mentioned(INDEX, text) != []


def test_a_name_in_a_listing_and_in_a_sentence_is_a_mention_with_both_as_evidence() -> None:
    [ada] = [one for one in INDEX.match(TREE + "\nWhat does Ada.md say?") if one.note == "vault/people/Ada.md"]
    assert (ada.by, ada.grade, ada.matched) == ("reference", "reference", 0)
    assert sorted(one.grade for one in ada.evidence) == ["listing", "reference"]


def test_a_text_is_read_as_a_listing_only_for_rows_that_are_like_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[bytes, list[int]]] = []
    listed = MentionFinder.listed

    def counted(self: MentionFinder, text: bytes, rows: list[int]) -> set[int]:
        asked.append((text, rows))
        return listed(self, text, rows)

    monkeypatch.setattr(MentionFinder, "listed", counted)
    spoken = "What does Ada.md say?\nAnd Bob.md, what of it?\nOr [[Big plan]]?"
    assert mentioned(INDEX, spoken) == ["areas/Big plan.md", "people/Ada.md", "people/Bob.md"]
    assert asked == []
    text = f"is 账单.md new?\n- Ada.md\n- Bob.md\n- x.md\n{'x' * 1200} 2026-01-03.md"
    assert mentioned(INDEX, text, "listing") == ["people/Ada.md", "people/Bob.md"]
    assert mentioned(INDEX, text) == ["daily/2026-01-03.md", "账单.md"]
    assert asked[0] == (text.encode(), [1, 2])


@pytest.mark.parametrize(("letter", "most"), [("x", 300), ("账", 300), ("𝒳", 300)])
def test_a_row_of_a_listing_has_so_many_characters_at_most(letter: str, most: int) -> None:
    ending = "/Ada.md"
    for length, grade in ((most, "listing"), (most + 1, "reference")):
        long = f"./people/Ada.md/{letter * (length - 16 - len(ending))}{ending}"
        assert len(long) == length
        assert mentioned(INDEX, f"- Bob.md\n{long}\n- x.md", grade) != []
        assert may_be_listed(long.encode(), lambda _: False) is (length == most)


TOPICS = """# Memory

- [Harbour](harbour.md): how the tide chart is drawn
- [[Tides]]
Keep the harbour master informed about every change.
"""


def memory_notes() -> list[Note]:
    return [note("m/MEMORY.md", text=TOPICS), note("m/harbour.md"), note("m/Tides.md"), note("m/other.md")]


def test_names_inside_a_note_that_is_itself_there_are_its_own() -> None:
    index = NoteIndex.build(memory_notes())
    sightings = index.match(f"Contents of /x/MEMORY.md:\n\n{TOPICS}\nAnd other.md")
    assert [(one.note, one.by, one.matched) for one in sightings] == [
        ("vault/m/MEMORY.md", "content", 2),
        ("vault/m/other.md", "reference", 0),
    ]


def test_names_beside_such_a_note_count() -> None:
    index = NoteIndex.build(memory_notes())
    assert [one.note for one in index.match(f"{TOPICS}\nNow read harbour.md.")] == [
        "vault/m/MEMORY.md",
        "vault/m/harbour.md",
    ]
    assert [one.note for one in index.match("- [[Tides]]")] == ["vault/m/Tides.md"]


def test_read_with_numbers_they_are_its_own_too() -> None:
    numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(TOPICS.split("\n"), 1))
    assert [one.note for one in NoteIndex.build(memory_notes()).match(numbered)] == ["vault/m/MEMORY.md"]


def test_the_seed_counts_names_inside_matched_text() -> None:
    index = NoteIndex.build(memory_notes(), mentions="seed")
    assert [one.note for one in index.match(TOPICS)] == ["vault/m/MEMORY.md", "vault/m/Tides.md", "vault/m/harbour.md"]


words = st.sampled_from(["a", "b", "plan", "old plan", "index", "README", "x-1", "é", "[[a]]"])
paths = st.lists(words.filter(lambda word: "[" not in word), min_size=1, max_size=3).map(
    lambda one: "/".join(one) + ".md"
)
pieces = st.one_of(
    paths,
    words,
    st.sampled_from(list(" \t/\\.~-_:,()[]|#%\n@\"'=")),
    st.sampled_from(
        ["%20", "https://e.org/", "file://", "/v/", "./", ".md", ".mdx", "[[", "]]", "e\u0301", "\\\\", "sam@"]
    ),
)


@given(
    st.lists(
        st.tuples(paths, st.sampled_from(["", "A", "B", "plan"])), min_size=1, max_size=4, unique_by=lambda one: one[0]
    ),
    st.lists(pieces, max_size=12).map("".join),
)
def test_the_finder_finds_what_the_reference_finds(named: list[tuple[str, str]], text: str) -> None:
    notes = [note(path, title=title) for path, title in named]
    roots = {"vault": "/v"}
    data = text.encode("utf-8", "surrogatepass")
    names = finder(notes, roots)
    sifted = sift(data, Sieve(np.empty(0, np.uint32), 0), names.beginnings, minimum=24, poor=False)
    row_of = {
        start: row for row, start in enumerate(np.append(0, np.cumsum([len(one) + 1 for one in data.split(b"\n")])))
    }
    signed = list(sifted.at(sifted.having(NAMED)))
    rows = b"\n".join([data[begin:end] for begin, end in signed]).decode("utf-8", "surrogatepass")
    found = {(row_of[signed[row][0]], notes[place].id) for row, place in names.named_in(rows, Effort())}
    assert found == reference.mentions(notes, text, roots)


def test_rows_that_may_name_a_note_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    named_in = MentionFinder.named_in

    def counted(self: MentionFinder, rows: str, effort: Effort) -> object:
        asked.append(rows)
        return named_in(self, rows, effort)

    monkeypatch.setattr(MentionFinder, "named_in", counted)
    index = NoteIndex.build([note("plan.md", title="The Plan")])
    texts = Joined.of([b"[[\nno\nplan.mdx", b"a\nplan.md\n[[The Plan]]", b"plan.md"])
    found = index.find_all(texts, np.array([False, False, True]))
    assert asked == ["[[\nplan.mdx\nplan.md\n[[The Plan]]"]
    assert {number: [one.grade for one in there.mentions] for number, there in found.items()} == {1: ["reference"]}


def finder(notes: list[Note], roots: dict[str, str]) -> MentionFinder:
    named = [NamedNote(one.path, one.title, one.aliases, roots[one.source], one.id) for one in notes]
    return MentionFinder(named, careful=True, fold_paths=False)
