"""What one Markdown note says about itself: title, aliases, tags and links, in Obsidian's and Foam's dialect.

`parse` is pure: text in, `Parsed` out, whatever the text is. The body is read with markdown-it-py (CommonMark and
tables, math from mdit-py-plugins, and two rules of our own: `[[wikilinks]]` and `#tags`), so that code, math and
`<!-- -->` are ignored where Markdown says they are code, math and comments. The rules are those of notes.md,
"Markdown"; where that is silent, Obsidian's help (https://help.obsidian.md, "Internal links", "Tags", "Properties").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import yaml
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from memory.notes import Link

LONGEST_WIKILINK = 2_000
"""Characters between `[[` and `]]`; longer is no link. Keeps a line of brackets from costing its length squared."""

MOST_BRACKETS = 1_000
"""Single `[` in one block. CommonMark's link rule looks to the end of the block from each; beyond this many only
wikilinks and tags are read there."""

_FRONTMATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)

# A block without one of these holds no link and no tag: it is not worth reading inside.
_WORTH_READING = re.compile(r"\[\[|\]\(|(?:^|\s)#[^\s#]")

# The characters of an Obsidian tag: anything but white space and punctuation, `-`, `_` and `/` excepted.
_TAG = re.compile(r"#([^\u2000-\u206F\u2E00-\u2E7F'!\"#$%&()*+,.:;<=>?@^`{|}~\[\]\\\s]+)")

_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_PLACE_IN_NOTE = re.compile(r"[#^]")


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a note says about itself.

    `frontmatter` is the YAML mapping at the note's start with every scalar as it is written (a title `2024-01-02`,
    `1.10` or `Yes` stays those characters); None where there is none, or none that can be read: `warning` then says
    why, without quoting the note. `links` hold each target once, in the order of the note. `tags` have no `#`.
    """

    title: str | None = None
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    frontmatter: Mapping[str, Any] | None = None
    warning: str | None = None


def parse(text: str) -> Parsed:
    """Read one note. Raises nothing that a text can cause, RecursionError included."""
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    frontmatter, body, warning = _split_frontmatter(text)
    links: dict[Link, None] = {}
    tags: dict[str, str] = {}
    values = {str(key).lower(): value for key, value in (frontmatter or {}).items()}
    for tag in _names(values.get("tags"), r"[,\s]+") + _names(values.get("tag"), r"[,\s]+"):
        tags.setdefault(tag.lstrip("#").lower(), tag.lstrip("#"))
    for value in _strings(frontmatter):
        _read_inline(value, links, tags=None)
    for content in _blocks(body):
        _read_inline(content, links, tags)
    return Parsed(
        title=_title(values.get("title")),
        aliases=tuple(dict.fromkeys(_names(values.get("aliases"), ",") + _names(values.get("alias"), ","))),
        tags=tuple(tag for tag in tags.values() if tag),
        links=tuple(links),
        frontmatter=frontmatter,
        warning=warning,
    )


# --- frontmatter ------------------------------------------------------------------------------------------------------


class _AsWritten(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen when libyaml is there
    """PyYAML's safe loader without the types that change how a scalar is written, and without `<<`.

    A title `1.10` must not become 1.1, nor `No` False; a date that is no date is still text. Merge keys can make a
    short text into gigabytes, and no note needs one. A key that is itself a mapping is left out, as in Obsidian: a
    template's `created: {{date}}` is YAML for that, and costs the template nothing else.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        node.value = [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


_AsWritten.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _split_frontmatter(text: str) -> tuple[dict[str, Any] | None, str, str | None]:
    """(mapping or None, body, warning). Frontmatter begins with the note's first character, as Obsidian has it."""
    match = _FRONTMATTER.match(text)
    if match is None:
        return None, text, None
    body = text[match.end() :]
    try:
        loaded = yaml.load(match[1], _AsWritten)  # noqa: S506  # a subclass of the safe loader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        return None, body, f"the frontmatter is not valid YAML (line {line}); read without it"
    except Exception as error:  # noqa: BLE001  # PyYAML lets ValueError, RecursionError and others of its parts through
        return None, body, f"the frontmatter cannot be read ({type(error).__name__}); read without it"
    if loaded is None:
        return {}, body, None
    if not isinstance(loaded, dict):
        # Text between two rules, not properties: it belongs to the body.
        return None, text, "the block between the first two --- is no YAML mapping; read as text"
    return loaded, body, None


def _title(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _names(value: Any, separator: str) -> list[str]:
    """The names in `aliases` or `tags`: a string holding several, or a list; what is no string is left out."""
    if isinstance(value, str):
        value = re.split(separator, value)
    if not isinstance(value, list):
        return []
    return [one.strip() for one in value if isinstance(one, str) and one.strip()]


def _strings(value: Any) -> Iterator[str]:
    """Every string in a frontmatter value, each container once: YAML anchors can make loops and huge repetitions."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict | list) and id(one) not in seen:
            seen.add(id(one))
            waiting.extend(reversed(one.values() if isinstance(one, dict) else one))


# --- body -------------------------------------------------------------------------------------------------------------


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
        # `\|` is how a table writes the bar; elsewhere Obsidian reads it as the bar all the same.
        name = inner.partition("|")[0].removesuffix("\\")
        target = _PLACE_IN_NOTE.split(name, maxsplit=1)[0].strip()
        state.push("wikilink", "", 0).meta = {"link": Link(target, embed)}
    state.pos = end + 2
    return True


def _tag(state: StateInline, silent: bool) -> bool:
    """`#tag` or `#tag/nested` after white space or at the start, with one character that is no digit."""
    source, position = state.src, state.pos
    if source[position] != "#" or (position and not source[position - 1].isspace()):
        return False
    match = _TAG.match(source, position, state.posMax)
    name = match[1].strip("/") if match else ""
    if not name or name.isdecimal():
        return False
    if not silent:
        state.push("tag", "", 0).content = name
    state.pos = position + 1 + len(match[1]) if match else position
    return True


_READER = _NoteReader()
_LEAN_READER = _NoteReader().disable(["link", "image"])


def _blocks(body: str) -> Iterator[str]:
    """The inline text of each block that is neither code, math nor HTML, where it may hold a link or a tag."""
    if not _WORTH_READING.search(body):
        return
    for token in _READER.parse(body):
        if token.type == "inline":
            yield token.content
        elif token.type == "html_block" and token.content.lstrip().startswith("<!--"):
            # CommonMark gives the whole line that ends a comment to the comment; a reader sees only `<!-- … -->` go.
            yield token.content.partition("-->")[2]


def _read_inline(content: str, links: dict[Link, None], tags: dict[str, str] | None) -> None:
    """Add the links and tags of one block; `tags` None: links only."""
    if not _WORTH_READING.search(content):
        return
    reader = _READER if content.count("[") <= MOST_BRACKETS else _LEAN_READER
    tokens: list[Token] = []
    # The space: dollarmath looks at the character before the first one, which in Python is the last one.
    reader.inline.parse(" " + content, reader, {}, tokens)
    for token in tokens:
        link: Link | None = None
        if token.type == "wikilink":
            link = token.meta["link"]
        elif token.type == "link_open":
            link = _markdown_link(str(token.attrs["href"]), embed=False)
        elif token.type == "image":
            link = _markdown_link(str(token.attrs["src"]), embed=True)
        elif token.type == "tag" and tags is not None:
            tags.setdefault(token.content.lower(), token.content)
        if link is not None:
            links.setdefault(link)


def _markdown_link(destination: str, *, embed: bool) -> Link | None:
    """The link of `[text](destination)`; None for an address outside the notes and for an empty one."""
    if not destination or _EXTERNAL.match(destination):
        return None
    return Link(unquote(destination.partition("#")[0]).strip(), embed)
