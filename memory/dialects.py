"""The dialects of Markdown that note tools write, and how a folder shows which one it is.

Obsidian's rules are the ground, and Foam's are the same. Dendron and Logseq differ in what the parts of a wikilink mean,
in where a note's name comes from, and in tags that are links. Rules: notes.md, "Markdown"; where that is silent, the
tools' documentation: https://wiki.dendron.so ("Links", "Tags"), https://docs.logseq.com ("Logseq file and folder naming
rules", "Properties").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one dialect does otherwise than Obsidian."""

    name: str
    target: Callable[[str], str]
    """What stands between `[[` and `]]` -> what it links to, heading and block still on it."""
    heading_is_title: bool = False
    """Whether a note without a title is called by its first heading of the first level."""
    tag_page: Callable[[str], str] | None = None
    """Tag -> the name of the note that it links to; None: a tag is no link."""
    indented_code: bool = True
    """Whether text that is indented is code, as in CommonMark. In an outliner everything is indented."""
    page_properties: bool = False
    """Whether a note may begin with `alias::`, `title::` and `tags::` lines."""
    page_names: Callable[[str], tuple[str, ...]] | None = None
    """Path -> the names that links call the note by, the one to show first; None: links call it by its path."""


def _before_the_bar(inner: str) -> str:
    # `\|` is how a table writes the bar; elsewhere Obsidian reads it as the bar all the same.
    return inner.partition("|")[0].removesuffix("\\")


def _after_the_bar(inner: str) -> str:
    """Dendron puts the label first; the target may begin with the name of its vault, `dendron://vault/`."""
    target = inner.rpartition("|")[2].strip()
    return target.removeprefix("dendron://").partition("/")[2] if target.startswith("dendron://") else target


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_JOURNAL = re.compile(r"(?:^|/)journals/(\d{4})[_-](\d\d)[_-](\d\d)\.\w+$")


def _logseq_names(path: str) -> tuple[str, ...]:
    """A journal by its day as Logseq writes it (`Sep 14th, 2020`) and as ISO 8601; a page by its decoded file name."""
    name = path.rpartition("/")[2]
    name = unquote((name.rpartition(".")[0] or name).replace("___", "/"))
    if match := _JOURNAL.search(path):
        try:
            day = date(*map(int, match.groups()))
        except ValueError:  # 2020_13_45 is a name like any other
            return (name,)
        return f"{_MONTHS[day.month - 1]} {day.day}{_ordinal(day.day)}, {day.year}", day.isoformat(), name
    return (name,)


def _ordinal(day: int) -> str:
    return "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


OBSIDIAN = Dialect("obsidian", _before_the_bar)
DENDRON = Dialect("dendron", _after_the_bar, heading_is_title=True, tag_page=lambda tag: f"tags.{tag}")
LOGSEQ = Dialect(
    "logseq",
    _before_the_bar,
    heading_is_title=True,
    tag_page=lambda tag: tag,
    indented_code=False,
    page_properties=True,
    page_names=_logseq_names,
)


DIALECTS = {dialect.name: dialect for dialect in (OBSIDIAN, DENDRON, LOGSEQ)}

LOGSEQ_FOLDER = "logseq"
"""A Logseq graph keeps its settings and backups of its pages in it: no notes."""


def recognise(folders: Collection[str], files: Collection[str], *, has_logseq_settings: bool) -> Dialect | None:
    """The dialect of a folder by the names of what lies in it; None: nothing tells, and what holds above it holds.

    The tools' own marks come first: `dendron.yml` in a workspace, `root.schema.yml` in a vault of it; `logseq/` with
    its `config.edn`; `.obsidian/` and `.foam/`. A copy may have lost some: a `logseq/` beside notes, `pages/` beside
    `journals/`, and `root.md` among names that are mostly dotted, which is Dendron's.
    """
    if "dendron.yml" in files or "root.schema.yml" in files:
        return DENDRON
    if LOGSEQ_FOLDER in folders and has_logseq_settings:
        return LOGSEQ
    if ".obsidian" in folders or ".foam" in folders:
        return OBSIDIAN
    if "journals" in folders and ("pages" in folders or LOGSEQ_FOLDER in folders):
        return LOGSEQ
    if "root.md" in files:
        notes = [name for name in files if name.endswith(".md")]
        if 2 * sum(name.count(".") > 1 for name in notes) > len(notes):
            return DENDRON
    return None
