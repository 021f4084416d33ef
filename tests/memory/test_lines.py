"""One line: collapsed, without one prefix, fingerprinted."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.lines import PATH_PREFIXES, PREFIXES, canonical_line, fingerprint, line_forms
from tests.memory import reference

FORMS = [
    "   12→text",
    "12\ttext",
    "    12\ttext",
    "     1|text",
    "00001| text",
    "1: text",
    "12:text",
    "12-text",
    " 1 | text",
    "L12: text",
    "1#PW|text",
    "notes/plan.md:12:text",
    "notes/plan.md-12-text",
    r"C:\vault\plan.md:12:text",
    "daily/2026-01-03.md-12-text",
    "2026-01-03.md:7:text",
    "My notes/big plan.md:12:text",
    "> text",
    "- text",
    "* text",
    "+text",
    "-text",
    "    - text",
    "\t> text",
    *(prefix.example.replace("⇥", "\t") for prefix in (*PREFIXES, *PATH_PREFIXES)),
]


def stripped(line: str) -> list[str]:
    whole, *forms = (form.decode() for form in line_forms(line.encode()))
    return [form for form in forms if form != whole]


@pytest.mark.parametrize("line", FORMS)
def test_each_form_of_prefix(line: str) -> None:
    assert "text" in stripped(line)


@pytest.mark.parametrize("form", ["12\t{}", "> {}", "+{}", "a/b.md:12:{}"])
@pytest.mark.parametrize("inner", ["12→text", "- text", "> text", "L1: text"])
def test_one_prefix_and_never_two(form: str, inner: str) -> None:
    assert inner in stripped(form.format(inner))
    assert "text" not in stripped(form.format(inner))


@pytest.mark.parametrize(
    "line", ["text", "12 text", "12. text", ">text", "*text", "L: text", "a.md: text", "12345678\ttext"]
)
def test_what_is_no_prefix(line: str) -> None:
    assert stripped(line) == []


@pytest.mark.parametrize(
    ("line", "canonical"),
    [
        ("  a \t b\r", "a b"),
        ("\u00a0a\u2003b\u3000", "a b"),
        ("a\u2028b\x85c", "a b c"),
        ("a\u200bb", "a\u200bb"),
        (" \t", ""),
    ],
)
def test_white_space_is_collapsed(line: str, canonical: str) -> None:
    assert canonical_line(line) == canonical


made = st.lists(
    st.sampled_from([*"ab \t\n\r\x1f\x85\u00a0\u1680\u2003\u2028\u205f\u3000é字\ud83d", "  ", "\n\n", "12", "→", "|", " |", "> ", "-", "L1:", "#a|",
        ".md:1:", ".md-2-"]),
    max_size=12,
).map("".join)  # fmt: skip


@given(made)
def test_many_rows_at_once_are_what_they_are_one_by_one(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    forms = [form.decode("utf-8", "surrogatepass").split("\n") for form in line_forms(data)]
    assert forms[0] == [canonical_line(line) for line in text.split("\n")]
    for line, *of_line in zip(text.split("\n"), *forms, strict=True):
        assert set(of_line) == set(reference.forms(line))


def test_a_fingerprint_has_64_bits_and_depends_on_the_seed() -> None:
    assert fingerprint("a line", 1) == fingerprint("a line", 1)
    assert fingerprint("a line", 1) != fingerprint("a line", 2)
    assert fingerprint("a line", 1) != fingerprint("a Line", 1)
    assert all(0 <= fingerprint(str(number), 1) < 1 << 64 for number in range(1000))


def test_half_a_surrogate_pair_has_a_fingerprint_too() -> None:
    assert fingerprint("cut \ud83d", 1) == fingerprint("cut \ud83d", 1)
    assert fingerprint("cut \ud83d", 1) != fingerprint("cut \ud83e", 1)


def test_the_documentation_shows_each_prefix() -> None:
    page = (Path(__file__).parents[2] / "docs" / "detection.md").read_text(encoding="utf-8")
    for prefix in (*PREFIXES, *PATH_PREFIXES):
        shown = prefix.example.replace("\t", "⇥").replace("|", r"\|")
        assert f"| {prefix.made_by} | `{shown}`" in page
