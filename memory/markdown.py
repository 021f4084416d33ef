"""What one Markdown note says about itself: title, aliases, tags and links, in the dialect of its folder.

`parse` is pure: text in, `Parsed` out, whatever the text is. The rules are those of notes.md, "Markdown"; where that is
silent, Obsidian's help (https://help.obsidian.md, "Internal links", "Tags", "Properties").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory.dialects import OBSIDIAN, Dialect
from memory.frontmatter import names_in, share_in, share_line, split_frontmatter, strings_in, title_in
from memory.notes import Link, Share
from memory.references import References, first_heading


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a note says about itself.

    `frontmatter` is the YAML mapping at the note's start with every scalar as it is written (a title `2024-01-02`,
    `1.10` or `Yes` stays those characters); None where there is none, or none that can be read: `warning` then says
    why, without quoting the note. `links` hold each target once, in the order of the note. `tags` have no `#`.
    `names` are what links call the note instead of its file name, where the dialect lets it choose. `share` is the note's own
    word on where it may go, which counts even when the rest of the frontmatter cannot be read.
    """

    title: str | None = None
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    frontmatter: Mapping[str, Any] | None = None
    warning: str | None = None
    names: tuple[str, ...] = ()
    share: Share | None = None


def parse(text: str, dialect: Dialect = OBSIDIAN) -> Parsed:
    """Read one note. Raises nothing that a text can cause, RecursionError included."""
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    frontmatter, body, warning = split_frontmatter(text)
    body = body.replace("\0", "\ufffd")  # as CommonMark has it
    values = {str(key).lower(): value for key, value in (frontmatter or {}).items()}
    properties = page_properties(body) if dialect.page_properties else {}
    found = References(dialect)
    tags = names_in(values.get("tags"), r"[,\s]+") + names_in(values.get("tag"), r"[,\s]+")
    for tag in (*tags, *_page_names(properties.get("tags", ""))):
        found.add_tag(tag)
    for value in strings_in(frontmatter):
        found.read_inline(value, tags=False)
    found.read_body(body)
    aliases = names_in(values.get("aliases"), ",") + names_in(values.get("alias"), ",")
    title = title_in(values.get("title")) or title_in(properties.get("title"))
    names = (title,) if title and dialect.page_names else ()
    if title is None and dialect.heading_is_title:
        title = first_heading(body, dialect)
    share, unknown = share_in(values.get("share", properties.get("share")))
    if frontmatter is None and share is None:
        share = share_line(text)
    return Parsed(
        title=title,
        aliases=tuple(dict.fromkeys([*aliases, *_page_names(properties.get("alias", ""))])),
        tags=found.tags,
        links=tuple(found.links),
        frontmatter=frontmatter,
        warning=warning or unknown,
        names=names,
        share=share,
    )


_PROPERTY = re.compile(r"(?:- |\s*)([\w-]+)::(?:[ \t]+(.*))?")
_PAGE_NAME = re.compile(r"\s*#?\[\[(.+?)\]\]|([^,]+)")


def page_properties(body: str) -> dict[str, str]:
    """Logseq's properties of a page: the `name:: value` lines that it begins with, or that its first block is."""
    properties: dict[str, str] = {}
    for line in body.lstrip("\n").split("\n"):
        match = _PROPERTY.fullmatch(line)
        if match is None:
            break
        properties.setdefault(match[1].lower(), match[2] or "")
    return properties


def _page_names(value: str) -> list[str]:
    """The names in `alias:: one, [[two]]` and `tags:: #one, [[two, with a comma]]`."""
    names = [(match[1] or match[2]).strip().removeprefix("#") for match in _PAGE_NAME.finditer(value)]
    return [name for name in names if name]
