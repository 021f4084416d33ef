"""The cases stand in cases/*.md: a name, a note, and what it says about itself, one thing a line.

`page` is a tag that is a link to a page if there is one.
"""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it.utils import read_fixture_file

from memory.dialects import DENDRON, LOGSEQ, OBSIDIAN, Dialect
from memory.frontmatter import plain_mapping, read_yaml
from memory.markdown import Parsed, parse
from memory.notes import Link
from memory.references import LONGEST_WIKILINK, MOST_BRACKETS, References, blocks

FOLDER = Path(__file__).parent / "cases"
FILES = {
    "links.md": OBSIDIAN,
    "frontmatter.md": OBSIDIAN,
    "tags.md": OBSIDIAN,
    "dendron.md": DENDRON,
    "logseq.md": LOGSEQ,
}
CASES = [
    pytest.param(note, expected, dialect, id=f"{file}:{line} {name}")
    for file, dialect in FILES.items()
    for line, name, note, expected in read_fixture_file(FOLDER / file)
]


def described(parsed: Parsed) -> str:
    lines = [
        *([f"title: {parsed.title}"] if parsed.title is not None else []),
        *(f"name: {name}" for name in parsed.names),
        *(f"alias: {alias}" for alias in parsed.aliases),
        *(f"tag: {tag}" for tag in parsed.tags),
        *(f"page: {link.target}" for link in parsed.links if link.tag),
        *(f"{'embed' if link.embed else 'link'}: {link.target}" for link in parsed.links if not link.tag),
        *([f"share: {parsed.share}"] if parsed.share else []),
        *([f"warning: {parsed.warning}"] if parsed.warning else []),
    ]
    return "".join(line + "\n" for line in lines)


@pytest.mark.parametrize(("note", "expected", "dialect"), CASES)
def test_cases(note: str, expected: str, dialect: Dialect) -> None:
    assert described(parse(note, dialect)) == expected


def test_there_are_cases_enough() -> None:
    """Each sentence of notes.md about what stands in a note has its own."""
    files = [*FILES, "resolution.md", "folders.md"]
    assert sum(len(read_fixture_file(FOLDER / file)) for file in files) >= 150


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


@given(st.lists(PIECES, max_size=60).map("".join) | st.text())
def test_no_text_raises(text: str) -> None:
    parsed = parse(text)

    assert all(isinstance(link.target, str) for link in parsed.links)
    assert len(set(parsed.links)) == len(parsed.links)
    assert not any(tag.startswith("#") for tag in parsed.tags)


LINES = st.lists(
    st.sampled_from(
        (
            *(
                "[[A]]",
                "#tag",
                "text [[B|b]] #c",
                "![[D]]",
                "[e](E.md)",
                "[f",
                "g](F.md)",
                "[[",
                "]]",
                "`",
                "``",
                "$x$",
            ),
            *("- ", "  - ", "    ", "\t", "1. ", "> ", ">", "# ", "   ", "-     ", "|", "|#t|", "- [ ] ", "* ", " "),
            *("\n", "\n", "\n\n", "\n \n", "\n\n\n", "\n---\n", "\n|-|-|\n", "| a | [[b]] |", "===\n", "\n- a\n\n"),
            *(
                "```\n",
                "\n```\n",
                "~~~\n",
                "\n~~~~\n",
                "\n````x\n",
                "\n   ```\n",
                "\n  ```\n",
                "\n\t```\n",
                "\n- ```\n",
                "``` a`\n",
            ),
            *("<div>", "</div>", "<!-- ", " -->", "<b>", "\n<!--\n", "\n-->\n", "$$", "\n$$\n", "<pre>", "%%", "\\"),
            *("\u00a0", "\u2028", "\x0b", "\x1c", "word", "12", "#12", "!", "[^1]: ", "\u3000#x"),
        )
    ),
    max_size=40,
).map("".join)


@settings(deadline=None, max_examples=300)
@given(LINES, st.sampled_from([OBSIDIAN, LOGSEQ]))
def test_a_body_read_in_pieces_says_what_it_says_in_one(body: str, dialect: Dialect) -> None:
    """The pieces and the regular expression are a way around markdown-it-py, and may find nothing else than it does."""
    whole = References(dialect)
    for content in blocks(body, dialect):
        whole.read_inline(content)
    parts = References(dialect)

    parts.read_body(body)

    assert (list(parts.links), parts.tags) == (list(whole.links), whole.tags)


YAML_LINES = st.lists(
    st.sampled_from(
        (
            *("title: ", "tags:", "aliases: ", "a-b:", "null: ", "2024: ", "k :", "key: ", "- ", "  - ", "-", " "),
            *(
                "word",
                "two words",
                "null",
                "Null",
                "~",
                "12",
                "1.10",
                "2024-01-02",
                "yes",
                "a/b",
                "-",
                ".",
                "a -",
                "é",
                "標",
            ),
            *(
                '"quoted"',
                '"[[Home]]"',
                '""',
                "'single'",
                "''",
                "'it''s'",
                '"a\\"b"',
                "[a, b]",
                "[]",
                "[ a ,b c ]",
                "[a,]",
            ),
            *("[null, x]", "[", "]", ",", ":", " #c", "#", "&a ", "*a", "{", "}", "|", ">", "%", "@", "\t", "!x "),
            *("\n", "\n", "\n", "\n\n", "\n  ", "\u2028", "\u00a0", "\x85", "\ufeff", "\x7f", "...", "---", "<<: "),
        )
    ),
    max_size=16,
).map("".join)


@settings(deadline=None, max_examples=300)
@given(YAML_LINES)
def test_a_plain_block_is_read_as_pyyaml_reads_it(block: str) -> None:
    plain = plain_mapping(block)

    if plain is not None:
        loaded = read_yaml(block)
        assert loaded == plain
        assert list(loaded or {}) == list(plain)
