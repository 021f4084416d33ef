"""The kinds of sources and how one is made from the configuration. One file per kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from memory.notes import LoadReport, MemoryDocument, MemorySource
from memory.sources.claude_code import ClaudeCodeSource
from memory.sources.conversations import ConversationsSource
from memory.sources.knowledge_graph import KnowledgeGraphSource
from memory.sources.limits import MEGABYTE, Limits
from memory.sources.markdown import MarkdownSource
from memory.sources.own import OwnSource, installed_kinds, is_import_path

KINDS: tuple[str, ...] = (
    MarkdownSource.kind,
    ClaudeCodeSource.kind,
    KnowledgeGraphSource.kind,
    ConversationsSource.kind,
)
"""The built-in kinds. Beside them `make_source` takes the import path of a class, and the name of an entry point."""


@runtime_checkable
class BuiltInSource(MemorySource, Protocol):
    """What our own sources offer beside the four names that a user's source must have."""

    enabled: bool
    report: LoadReport
    """Filled by each `load`."""
    on_progress: Callable[[int, int], None] | None
    """Called during `load` with (done, total), on whatever thread reads; what it raises ends the load."""

    async def stamp(self) -> object:
        """Cheap to make, and equal to the last one as long as nothing changed. None: only a load can tell."""


@runtime_checkable
class IncrementalSource(BuiltInSource, Protocol):
    """A source that reads again only what changed, and whose memory of it can be kept between runs."""

    async def load_since(self, known: Mapping[str, MemoryDocument]) -> Iterable[MemoryDocument]:
        """As `load`, but a document that is what it is in `known` (by path) is that very object, and is not read."""

    def restore(self, folder: Path) -> None:
        """Take over what an earlier run left in `folder`. Called before the first load, on any thread."""

    def save(self, folder: Path) -> None:
        """Leave in `folder` what spares the next run work; no text of a note. Called on any thread."""


def make_source(
    name: str,
    kind: str,
    path: Path | str | None = None,
    *,
    exclude: Sequence[str] = (),
    extensions: Sequence[str] = (),
    max_notes: int = 5000,
    max_note_bytes: int = MEGABYTE,
    enabled: bool = True,
) -> MemorySource:
    """A source as the configuration describes it; `path` has `~` and variables expanded already.

    `path` None is for `claude_code` only: `~/.claude`. A class of the user's own (`package.module:ClassName`, or an
    entry point) is imported at the first load; a class that cannot be used is an error of that load.

    Raises ValueError for a kind that there is not, for a `path` that is missing, for `extensions` where they mean
    nothing (all but `markdown`), and for an `exclude` pattern that is none (`!` alone).
    """
    if extensions and kind != MarkdownSource.kind:
        raise ValueError(f"a source of type {kind} has no extensions")
    if path is None and kind != ClaudeCodeSource.kind:
        raise ValueError(f"a source of type {kind} needs a path")
    if kind == MarkdownSource.kind:
        return MarkdownSource(
            name,
            path or "",
            exclude=exclude,
            extensions=extensions,
            max_notes=max_notes,
            max_note_bytes=max_note_bytes,
            enabled=enabled,
        )
    limits = Limits(exclude, max_notes, max_note_bytes)
    if kind == ClaudeCodeSource.kind:
        return ClaudeCodeSource(name, path, limits=limits, enabled=enabled)
    if kind == KnowledgeGraphSource.kind:
        return KnowledgeGraphSource(name, path or "", limits=limits, enabled=enabled)
    if kind == ConversationsSource.kind:
        return ConversationsSource(name, path or "", limits=limits, enabled=enabled)
    if is_import_path(kind) or kind in installed_kinds():
        return OwnSource(name, kind, path or "", limits=limits, enabled=enabled)
    raise ValueError(f"{kind!r} is no kind of source; there is: {', '.join((*KINDS, *installed_kinds()))}")
