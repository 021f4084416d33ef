"""The kinds of sources and how one is made from the configuration. One file per kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from memory.notes import LoadReport, MemorySource
from memory.sources.markdown import MEGABYTE, MarkdownSource

KINDS: tuple[str, ...] = (MarkdownSource.kind,)
"""The kinds that `make_source` can make."""


@runtime_checkable
class BuiltInSource(MemorySource, Protocol):
    """What our own sources offer beside the four names that a user's source must have."""

    enabled: bool
    report: LoadReport
    """Filled by each `load`."""
    on_progress: Callable[[int, int], None] | None
    """Called during `load` with (done, total), on whatever thread reads; what it raises ends the load."""

    async def stamp(self) -> object:
        """Cheap to make, and equal to the last one as long as nothing changed."""


def make_source(
    name: str,
    kind: str,
    path: Path | str,
    *,
    exclude: Sequence[str] = (),
    extensions: Sequence[str] = (),
    max_notes: int = 5000,
    max_note_bytes: int = MEGABYTE,
    enabled: bool = True,
) -> MemorySource:
    """A source as the configuration describes it; `path` has `~` and variables expanded already.

    Raises ValueError for a kind that is not one of `KINDS`, and for an `exclude` pattern that is none (`!` alone).
    """
    if kind == MarkdownSource.kind:
        return MarkdownSource(
            name,
            path,
            exclude=exclude,
            extensions=extensions,
            max_notes=max_notes,
            max_note_bytes=max_note_bytes,
            enabled=enabled,
        )
    raise ValueError(f"{kind!r} is no kind of source; there is: {', '.join(KINDS)}")
