"""The links and tags in a note's body, as CommonMark reads it and no dearer than it must be.

markdown-it-py decides what is code, math, a comment, a table; we add rules for `[[wikilinks]]` and `#tags`. It reads 1-2
MB/s, and most of a note holds nothing that it is asked for. So the body is cut where CommonMark cannot carry anything
over: at fences in the first column, and at blank lines before a line that begins in the first column (what is left
open there is closed). Only pieces that may hold a link or a tag are read, and those without code, math, HTML and
escapes by one regular expression, which finds in them what markdown-it-py would: the tests compare the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from memory.dialects import Dialect
from memory.notes import Link

LONGEST_WIKILINK = 2_000
"""Characters between `[[` and `]]`; longer is no link. Keeps a line of brackets from costing its length squared."""

MOST_BRACKETS = 1_000
"""Single `[` in one block. CommonMark's link rule looks to the end of the block from each; beyond this many only
wikilinks and tags are read there."""

# The characters of an Obsidian tag: anything but white space and punctuation, `-`, `_` and `/` excepted.
_TAG_NAME = r"[^\u2000-\u206F\u2E00-\u2E7F'!\"#$%&()*+,.:;<=>?@^`{|}~\[\]\\\s]+"
_TAG = re.compile(rf"#({_TAG_NAME})")

# A text without one of these holds no link and no tag. `>#tag` and `|#tag` begin a quote and a cell.
_MAY_BE_TAG = re.compile(r"(?:^|[\s>|])#[^\s#]")

_FENCE = re.compile(r"^(?:(`{3,})[^`\n]*|(~{3,})[^\n]*)$", re.MULTILINE)
_OPEN_HTML = re.compile(r"<(?:[!?]|script|pre|style|textarea)", re.IGNORECASE)
_HTML_LINE = re.compile(r"^[^\w\n]*<", re.MULTILINE)
_BETWEEN_PIECES = re.compile(r"\n(?:[ \t]*\n)+(?=[^ \t\n])")
# Code, math, HTML, escapes, Markdown links, indented code, a tag at the start of a quote, a row that makes a table.
_NEEDS_PARSER = re.compile(r"[`$<\\\t]|\]\(|>#| {4}|^[^\w\n]*-[^\w\n]*$", re.MULTILINE)
_REFERENCE = re.compile(rf"(!?)\[\[(?!\[)((?:(?!\[\[|\]\])[^\n]){{1,{LONGEST_WIKILINK}}})\]\]|(?<!\S)#({_TAG_NAME})")
_HEADING = re.compile(r"^ {0,3}(?:#[ \t]|=+[ \t]*$)", re.MULTILINE)

_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_PLACE_IN_NOTE = re.compile(r"[#^]")


class References:
    """Collects the links and tags of one note, each once, in the order of the note."""

    def __init__(self, dialect: Dialect) -> None:
        self.links: dict[Link, None] = {}
        self._tags: dict[str, str] = {}
        self._dialect = dialect

    @property
    def tags(self) -> tuple[str, ...]:
        """Without `#`, each once whatever its case, in its first form."""
        return tuple(self._tags.values())

    def add_tag(self, name: str) -> None:
        name = name.lstrip("#")
        if not name:
            return
        self._tags.setdefault(name.lower(), name)
        if self._dialect.tag_page:
            self.links.setdefault(Link(self._dialect.tag_page(name), tag=True))

    def read_body(self, body: str) -> None:
        if not _is_worth_reading(body):
            return
        for piece in pieces(body, self._dialect):
            if not _is_worth_reading(piece):
                continue
            if _NEEDS_PARSER.search(piece):
                for content in blocks(piece, self._dialect):
                    self.read_inline(content)
            else:
                self._read_plain(piece)

    def read_inline(self, content: str, *, tags: bool = True) -> None:
        """Read the text of one block, or of a value in the frontmatter (where `#` begins no tag)."""
        if not _is_worth_reading(content):
            return
        reader = _READER if content.count("[") <= MOST_BRACKETS else _LEAN_READER
        tokens: list[Token] = []
        # The space: dollarmath looks at the character before the first one, which in Python is the last one.
        reader.inline.parse(" " + content, reader, {}, tokens)
        for token in tokens:
            if token.type == "wikilink":
                self._add_wikilink(token.content, embed=token.meta["embed"], hash_before=tags and token.meta["hash"])
            elif token.type == "link_open":
                self._add_markdown_link(str(token.attrs["href"]), embed=False)
            elif token.type == "image":
                self._add_markdown_link(str(token.attrs["src"]), embed=True)
            elif token.type == "tag" and tags:
                self.add_tag(token.content)

    def _read_plain(self, piece: str) -> None:
        for match in _REFERENCE.finditer(piece):
            embed, inner, tag = match.groups()
            if inner is None:
                if name := _tag_name(tag):
                    self.add_tag(name)
            elif inner.strip():
                self._add_wikilink(inner, embed=bool(embed), hash_before=piece[: match.start()].endswith("#"))

    def _add_wikilink(self, inner: str, *, embed: bool, hash_before: bool = False) -> None:
        target = _PLACE_IN_NOTE.split(self._dialect.target(inner), maxsplit=1)[0].strip()
        self.links.setdefault(Link(target, embed))
        if hash_before and self._dialect.page_properties and target:
            self._tags.setdefault(target.lower(), target)  # Logseq's tag of several words: `#[[two words]]`

    def _add_markdown_link(self, destination: str, *, embed: bool) -> None:
        """The link of `[text](destination)`; none for an address outside the notes and for an empty one."""
        if destination.startswith("[[") and destination.endswith("]]"):
            self._add_wikilink(destination[2:-2], embed=embed)  # Logseq's label, `[text]([[page]])`
        elif destination.startswith("((") and self._dialect.page_properties:
            return  # `[text](((block)))`: which page it is on, only Logseq knows
        elif destination and not _EXTERNAL.match(destination):
            self.links.setdefault(Link(unquote(destination.partition("#")[0]).strip(), embed))


def pieces(body: str, dialect: Dialect) -> Iterator[str]:
    """The body without the code between fences in the first column, in parts that CommonMark reads each for itself."""
    fences = "```" in body or "~~~" in body
    indents = " {,3}" if dialect.indented_code else r"[ \t]*"
    outside = list(_outside_fences(body, indents)) if fences else [body]
    if any(_may_stay_open(part, indents, fences=fences) for part in outside):
        yield body
        return
    for part in outside:
        yield from _BETWEEN_PIECES.split(part)


def blocks(text: str, dialect: Dialect) -> Iterator[str]:
    """The inline text of each block that is neither code, math nor HTML."""
    for token in _block_reader(dialect).parse(text):
        if token.type == "inline":
            yield token.content
        elif token.type == "html_block" and token.content.lstrip().startswith("<!--"):
            # CommonMark gives the whole line that ends a comment to the comment; a reader sees only `<!-- … -->` go.
            yield token.content.partition("-->")[2]


def first_heading(body: str, dialect: Dialect) -> str | None:
    """The text of the first heading of the first level that stands in no list or quote."""
    for piece in pieces(body, dialect):
        if not _HEADING.search(piece):
            continue
        tokens = _block_reader(dialect).parse(piece)
        for opening, content in pairwise(tokens):
            if opening.type == "heading_open" and opening.tag == "h1" and not opening.level and content.content:
                return content.content
    return None


def _is_worth_reading(text: str) -> bool:
    """Whether a text may hold a link or a tag."""
    return "[[" in text or "](" in text or ("#" in text and _MAY_BE_TAG.search(text) is not None)


def _may_stay_open(part: str, indents: str, *, fences: bool) -> bool:
    """Whether something in a body's part may reach over its blank lines, or (HTML) over the fence after it.

    That is math, HTML of some kinds, and an indented fence, which may or may not stand in a list.
    """
    if fences and (re.search(rf"^(?=[ \t]){indents}(?:```|~~~)", part, re.MULTILINE) or _HTML_LINE.search(part)):
        return True
    return "$$" in part or ("<" in part and _OPEN_HTML.search(part) is not None)


def _outside_fences(body: str, indents: str) -> Iterator[str]:
    position = 0
    while match := _FENCE.search(body, position):
        yield body[position : match.start()]
        mark = match[1] or match[2]
        closing = re.compile(rf"^{indents}{mark[0]}{{{len(mark)},}}[ \t]*$", re.MULTILINE).search(body, match.end())
        if closing is None:
            return
        position = closing.end()
    yield body[position:]


def _tag_name(name: str) -> str:
    """The name of a tag; empty for what is none: `#123`."""
    name = name.strip("/")
    return "" if name.isdecimal() else name


class _NoteReader(MarkdownIt):
    """CommonMark and tables, cut down to what decides whether something is a link or a tag."""

    def __init__(self) -> None:
        super().__init__("commonmark")
        self.enable("table")
        # Obsidian indexes no reference links; the rule would also swallow `[^1]: [[a footnote]]`.
        self.disable(["reference", "emphasis", "entity", "inline", "text_join"])
        self.use(dollarmath_plugin, allow_labels=False, allow_space=False, allow_digits=False, double_inline=True)
        self.inline.ruler.before("link", "wikilink", _wikilink)
        self.inline.ruler.before("link", "tag", _tag)

    def normalizeLink(self, url: str) -> str:  # noqa: N802  # markdown-it's name
        return url

    def validateLink(self, url: str) -> bool:  # noqa: ARG002, N802  # markdown-it's name
        """Links are resolved here, never rendered: none is dangerous."""
        return True


def _wikilink(state: StateInline, silent: bool) -> bool:
    """`[[target]]`, `[[target#heading|label]]`, `[[target^block]]` and `![[embed]]`, within one line."""
    source, position = state.src, state.pos
    embed = source[position] == "!"
    start = position + embed
    if not source.startswith("[[", start):
        return False
    end = source.find("]]", start + 2, min(start + LONGEST_WIKILINK + 4, state.posMax))
    inner = source[start + 2 : end] if end > 0 else ""
    if not inner.strip() or inner.startswith("[") or "[[" in inner or "\n" in inner:
        return False
    if not silent:
        token = state.push("wikilink", "", 0)
        token.content = inner
        token.meta = {"embed": embed, "hash": source[position - 1] == "#"}
    state.pos = end + 2
    return True


def _tag(state: StateInline, silent: bool) -> bool:
    """`#tag` or `#tag/nested` after white space or at the start, with one character that is no digit."""
    source, position = state.src, state.pos
    if source[position] != "#" or (position and not source[position - 1].isspace()):
        return False
    match = _TAG.match(source, position, state.posMax)
    name = _tag_name(match[1]) if match else ""
    if match is None or not name:
        return False
    if not silent:
        state.push("tag", "", 0).content = name
    state.pos = match.end()
    return True


def _block_reader(dialect: Dialect) -> MarkdownIt:
    return _READER if dialect.indented_code else _READER_WITHOUT_INDENTED_CODE


_READER = _NoteReader()
_READER_WITHOUT_INDENTED_CODE = _NoteReader().disable("code")
_LEAN_READER = _NoteReader().disable(["link", "image"])
