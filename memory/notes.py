"""What the rest of the suite knows about notes: the words of the project as plain data.

A source hands over `MemoryDocument`s; the library turns them into `Note`s with a stable id. Nothing here reads
a file or keeps a note's text longer than its caller does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args, runtime_checkable

type Share = Literal["never", "local", "ask"]
"""How a note may be shared, as it says itself (dispatch.md): with no model, with local ones only, when a person agrees."""

SHARES: tuple[Share, ...] = get_args(Share.__value__)


@dataclass(frozen=True, slots=True)
class Link:
    """One link as it stands in a note, before it is resolved.

    `target` is the path or name that is linked to, without label, heading or block (`Bar`, `a/b`, `../x.md`);
    empty for a link to a place in the note itself. `embed` marks `![[…]]`; `tag` a tag that its dialect reads as a link:
    nothing is missing when no note has that name.
    """

    target: str
    embed: bool = False
    tag: bool = False


@dataclass(frozen=True, slots=True)
class MemoryDocument:
    """One document as a source loads it. `path` is relative to the source, with `/` between its parts."""

    path: str
    text: str
    title: str | None = None
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    links: tuple[Link | str, ...] = ()
    size: int | None = None
    """Bytes on disk; None: the length of `text` in UTF-8."""
    names: tuple[str, ...] = ()
    """What links call it beside its path and its aliases (a Logseq page: `a/b` for the file `a___b.md`)."""
    digest: bytes | None = None
    """Equal as long as the content is; None: nobody has made one."""
    unread: bool = False
    """The text is empty because it was not read: it is what it was at the last load."""
    share: Share | None = None
    """How the document may be shared, where it says so itself."""


@dataclass(frozen=True, slots=True)
class SourceWarning:
    """Something that kept one document (or a part of it) from loading. `path` is relative to the source."""

    path: str
    reason: str


@dataclass(slots=True)
class LoadReport:
    """What a built-in source says beside its documents. A user's own source need not fill one."""

    skipped: int = 0
    warnings: list[SourceWarning] = field(default_factory=list)


@runtime_checkable
class MemorySource(Protocol):
    """Something notes are loaded from. The user's own class needs exactly these four names.

    `load` may raise: the message becomes the source's error, and the other sources load all the same.
    """

    name: str
    kind: str
    location: str

    async def load(self) -> Iterable[MemoryDocument]: ...


@dataclass(frozen=True, slots=True)
class Note:
    """One document of a source. `id` is `source/relative/path.md`, stable across rescans."""

    id: str
    source: str
    path: str
    title: str
    text: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    links: tuple[Link, ...]
    size: int
    names: tuple[str, ...] = ()
    """What links call it beside its path and its aliases."""
    unread: bool = False
    """The text is empty because it was not read: it is what it was at the last scan."""
    share: Share | None = None
    """How it may be shared, as it says itself; None: it says nothing, and rules decide."""

    @property
    def folder(self) -> str:
        """The source's name and the folder below it: `vault/projects`."""
        return self.id.rpartition("/")[0]
