"""The cases stand in cases/*.md: a name, a note, and what it says about itself, one thing a line."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it.utils import read_fixture_file

from memory.markdown import LONGEST_WIKILINK, MOST_BRACKETS, Parsed, parse
from memory.notes import Link

CASES = [
    pytest.param(note, expected, id=f"{file}:{line} {name}")
    for file in ("links.md", "frontmatter.md", "tags.md")
    for line, name, note, expected in read_fixture_file(Path(__file__).parent / "cases" / file)
]


def described(parsed: Parsed) -> str:
    lines = [
        *([f"title: {parsed.title}"] if parsed.title is not None else []),
        *(f"alias: {alias}" for alias in parsed.aliases),
        *(f"tag: {tag}" for tag in parsed.tags),
        *(f"{'embed' if link.embed else 'link'}: {link.target}" for link in parsed.links),
        *([f"warning: {parsed.warning}"] if parsed.warning else []),
    ]
    return "".join(line + "\n" for line in lines)


@pytest.mark.parametrize(("note", "expected"), CASES)
def test_cases(note: str, expected: str) -> None:
    assert described(parse(note)) == expected


def test_frontmatter_is_kept_as_written() -> None:
    parsed = parse("---\ndate: 2024-02-31\nrating: 1.10\ndone: yes\nnothing: null\nlist: [1, {a: 2}]\n---\n")

    assert parsed.frontmatter == {
        "date": "2024-02-31",
        "rating": "1.10",
        "done": "yes",
        "nothing": None,
        "list": ["1", {"a": "2"}],
    }
    assert parse("---\n---\n").frontmatter == {}
    assert parse("text").frontmatter is None


@pytest.mark.parametrize(
    "note",
    [
        "---\r\ntitle: T\r\n---\r\n[[A]]\r\n#tag\r\n",
        "---\rtitle: T\r---\r[[A]]\r#tag\r",
        "\ufeff---\ntitle: T\n---\n[[A]]\n#tag",
        "\ufeff---\r\ntitle: T\r\n---\r\n[[A]]\r\n#tag",
    ],
    ids=["CRLF", "CR", "BOM", "BOM and CRLF"],
)
def test_line_ends_and_byte_order_mark(note: str) -> None:
    assert described(parse(note)) == "title: T\ntag: tag\nlink: A\n"


def test_other_line_separators_end_no_line() -> None:
    """U+2028 and NEL end a line for str.splitlines, not for Markdown."""
    assert parse("one\u2028    [[A]]\u0085```\u2028[[B]]").links == (Link("A"), Link("B"))
    assert parse("---\u2028title: no\u2028---\u2028[[A]]").title is None


def test_nul_bytes() -> None:
    assert described(parse("a\0b [[A]] \0[[B]]")) == "link: A\nlink: B\n"
    assert described(parse("---\ntitle: a\0b\n---\n[[A]]")) == (
        "link: A\nwarning: the frontmatter cannot be read (ReaderError); read without it\n"
    )


def test_a_warning_quotes_nothing_of_the_note() -> None:
    for secret in ("title: [hunter2", "title: *hunter2", "title: !hunter2 x", "{{hunter2}} x", "a: b: hunter2"):
        warning = parse(f"---\n{secret}\n---\n").warning
        assert warning
        assert "hunter2" not in warning


def test_deep_and_self_repeating_yaml_ends() -> None:
    assert parse(f"---\na: {'[' * 100_000}\n---\n[[A]]").links == (Link("A"),)
    doubled = "".join(f"b{i}: &b{i} [*b{i - 1}, *b{i - 1}]\n" for i in range(1, 60))
    assert parse(f'---\nb0: &b0 ["[[A]]"]\n{doubled}---\n').links == (Link("A"),)
    merged = "".join(f"b{i}: &b{i} {{<<: [*b{i - 1}, *b{i - 1}]}}\n" for i in range(1, 60))
    assert parse(f"---\nb0: &b0 {{a: b}}\n{merged}title: T\n---\n").title == "T"


@pytest.mark.parametrize(
    "line",
    ["[", "[[a ", "![", "`a", "<a", "$a", "> ", "- ", " #a", "\\[", "<!-- ", "|a"],
)
def test_one_line_of_200_000_characters(line: str) -> None:
    started = time.process_time()
    links = parse("[[A]] " + line * (200_000 // len(line)) + "\n\n[[B]]").links

    assert Link("A") in links
    assert time.process_time() - started < 10  # quadratic would be minutes


def test_limits() -> None:
    longest = "n" * LONGEST_WIKILINK
    assert parse(f"[[{longest}]] [[{longest}n]]").links == (Link(longest),)
    crowded = "[ ] " * MOST_BRACKETS + "[[A]] [b](B.md) #tag"
    assert described(parse(crowded)) == "tag: tag\nlink: A\n"


PIECES = st.sampled_from(
    (
        *(
            "---\n",
            "\n",
            "[[",
            "]]",
            "|",
            "#",
            "^",
            "![",
            "](",
            ")",
            "`",
            "```\n",
            "~~~",
            "$",
            "$$",
            "<!--",
            "-->",
            "%%",
        ),
        *(
            ":",
            "- ",
            "  ",
            "\t",
            "> ",
            "title",
            "aliases",
            "tags",
            "&a ",
            "*a",
            "{",
            "}",
            "[",
            "]",
            "!",
            "\\",
            "\0",
            "\r",
        ),
        *("a", "Ü", "\u2028", "\ufeff", "\ud800", "<div>", "|-|-|\n", "12", "?", "!!binary ", "!!set ", "<<"),
    )
)


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(PIECES, max_size=60).map("".join) | st.text())
def test_no_text_raises(text: str) -> None:
    parsed = parse(text)

    assert all(isinstance(link.target, str) for link in parsed.links)
    assert len(set(parsed.links)) == len(parsed.links)
    assert not any(tag.startswith("#") for tag in parsed.tags)
