"""What happens to a note's text on its way into a request: 33 transforms of a passage, as today's clients make them."""

from __future__ import annotations

import html
import json
import random
import re
import textwrap
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

SENTENCE_ENDS = re.compile(r"(?<=[.?!])\s+|(?<=[。\uff01\uff1f])")
_PLAIN = re.compile(r"[^\W\d_]|[“\"'\u2018「『\uff08(]")
_LIST_OR_HEADING = re.compile(r"\s*(?:[#>|`~!*+-]|\d+[.)]|$)")
_FRONTMATTER = re.compile(r"---\r?\n.*?\n---[ \t]*\r?\n", re.DOTALL)
_NAME = re.compile(r"\w+://[!#-&*-;=?-Z^_a-z~]+|\[\[[^\[\]]{1,200}\]\]")
BLOCK = 4_000
"""Characters of a note that are sent as a whole block, at most."""


class Passage(NamedTuple):
    """Parts of one note: its first lines after the frontmatter, its longest paragraph, one sentence."""

    block: str
    paragraph: str
    sentence: str

    @classmethod
    def of(cls, text: str) -> Passage | None:
        """None: the note has no paragraph of 150 characters, or no sentence of 45 to 110 (a wide character is 3).

        Addresses and links do not count: they are looked for by other rules.
        """
        body = _FRONTMATTER.sub("", text, count=1).strip("\n")
        paragraphs = _paragraphs(body)
        longest = max(paragraphs, key=width, default="")
        sentences = [
            sentence.strip()
            for paragraph in paragraphs
            for sentence in SENTENCE_ENDS.split(paragraph)
            if 45 <= width(_NAME.sub("", sentence.strip())) <= 110
        ]
        if width(_NAME.sub("", longest)) <= 150 or not sentences:
            return None
        return cls(body[:BLOCK].rpartition("\n")[0] or body[:BLOCK], longest, sentences[len(sentences) // 2])


def width(text: str) -> int:
    return len(text) + 2 * sum(1 for character in text if unicodedata.east_asian_width(character) in "WF")


def _paragraphs(body: str) -> list[str]:
    found: list[list[str]] = [[]]
    for line in body.split("\n"):
        if _PLAIN.match(line) and not _LIST_OR_HEADING.match(line):
            found[-1].append(line.strip())
        elif found[-1]:
            found.append([])
    return [" ".join(lines) for lines in found if lines]


class Transform(NamedTuple):
    name: str
    apply: Callable[[Passage], str]
    is_found: bool = True
    """False: it is no longer the note's text, and finding it would be wrong."""


def _each_line(form: str) -> Callable[[Passage], str]:
    """Each line of the block as `form` has it: `{number}`, `{line}`, `{letters}` (two of them)."""

    def apply(passage: Passage) -> str:
        return "\n".join(
            form.format(number=number, line=line, letters="PWZKXB"[number % 5 :][:2])
            for number, line in enumerate(passage.block.split("\n"), 1)
        )

    return apply


def _reminder(passage: Passage) -> str:
    numbered = _each_line("{number:6d}\t{line}")(passage)
    said = json.dumps(numbered, ensure_ascii=False)
    return f"<system-reminder>\nResult of calling the Read tool: {said}\n</system-reminder>"


def _smart(passage: Passage) -> str:
    return passage.block.replace('"', "”").replace("'", "’").replace("...", "…").replace("-", "–")  # meant


def _head_and_tail(passage: Passage) -> str:
    lines = passage.block.split("\n")
    return "\n".join([*lines[:3], "[... omitted ...]", *lines[-4:]])


def _edited(passage: Passage) -> str:
    """One word in ten is another; where there are no spaces, one character in twenty."""
    if _is_wide(passage.paragraph):
        return "".join("某" if at % 20 == 19 else character for at, character in enumerate(passage.paragraph))
    words = passage.paragraph.split()
    return " ".join("changed" if at % 10 == 9 else word for at, word in enumerate(words))


def _shuffled(text: str) -> str:
    parts = list(text) if _is_wide(text) else text.split()
    random.Random(text).shuffle(parts)
    return ("" if _is_wide(text) else " ").join(parts)


def _is_wide(text: str) -> bool:
    return width(text) > 2 * len(text)


def _sentences_shuffled(passage: Passage) -> str:
    return " ".join(sorted(SENTENCE_ENDS.split(passage.paragraph), key=lambda sentence: sentence[::-1]))


TRANSFORMS = (
    Transform("lines as they are", lambda it: it.block),
    Transform("a sentence in a longer line", lambda it: f"As you said earlier, {it.sentence} and so we went on"),
    Transform("a sentence in quotes", lambda it: f'The note says "{it.sentence}", fine.'),
    Transform("a paragraph re-wrapped at 60", lambda it: "\n".join(textwrap.wrap(it.paragraph, 60))),
    Transform("all lines joined to one", lambda it: " ".join(it.block.split("\n"))),
    Transform(
        "re-wrapped at 50 and quoted, `> `", lambda it: "\n".join(f"> {x}" for x in textwrap.wrap(it.paragraph, 50))
    ),
    Transform("`> ` before each line", _each_line("> {line}")),
    Transform("`- ` before each line", _each_line("- {line}")),
    Transform("`+` before each line (patch)", _each_line("+{line}")),
    Transform("indented by four spaces", _each_line("    {line}")),
    Transform("`12→` (Claude Code, older)", _each_line("{number:6d}→{line}")),
    Transform("`12⇥` (Claude Code)", _each_line("{number}\t{line}")),
    Transform("`12\\|` (Cursor)", _each_line("{number:6d}|{line}")),
    Transform("`00012\\| ` (opencode, older)", _each_line("{number:05d}| {line}")),
    Transform("`12: ` (opencode)", _each_line("{number}: {line}")),
    Transform("`L12: ` (Codex)", _each_line("L{number}: {line}")),
    Transform("`path:12:` (grep)", _each_line("projects/Plan.md:{number}:{line}")),
    Transform("`12:` (grep in one file)", _each_line("{number}:{line}")),
    Transform("`12#PW\\|` (oh-my-opencode)", _each_line("{number}#{letters}|{line}")),
    Transform("JSON in the string", lambda it: json.dumps({"content": it.block})),
    Transform("JSON in JSON in the string", lambda it: json.dumps(json.dumps({"content": it.block}))),
    Transform("numbered, as JSON inside a reminder", _reminder),
    Transform("HTML entities", lambda it: html.escape(it.block)),
    Transform("accents in two characters (NFD)", lambda it: unicodedata.normalize("NFD", it.block)),
    Transform("typographic quotes and dashes", _smart),
    Transform("UPPER CASE", lambda it: it.block.upper()),
    Transform("CRLF", lambda it: it.block.replace("\n", "\r\n")),
    Transform("words of a sentence made bold", lambda it: re.sub(r"\b(\w{7,})\b", r"**\1**", it.sentence)),
    Transform("a paragraph cut at 60 %", lambda it: f"{it.paragraph[: len(it.paragraph) * 6 // 10]}... [truncated]"),
    Transform("head and tail, the middle left out", _head_and_tail),
    Transform("one word in ten changed", _edited),
    Transform("sentences in another order", _sentences_shuffled),
    Transform("words in another order", lambda it: _shuffled(it.paragraph), is_found=False),
)
