"""Where the notes come from: the sources that the configuration names, those added in code, and the library of both."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from addons.config import Config, MemoryConfig, SourceConfig
from addons.config_checks import KINDS
from addons.config_values import expand_path
from memory.note_library import LibraryOptions, NoteLibrary
from memory.notes import MemorySource
from memory.sources import make_source
from memory.sources.own import make_own

logger = logging.getLogger(__name__)

type SourceKey = tuple[SourceConfig, int, int]
"""All that a source is made of: one that is configured as before stays the same object, and knows what it has read."""


class NoteSources:
    """The sources of a suite. Nothing is read here."""

    def __init__(self, memory: MemoryConfig) -> None:
        self._memory = memory
        self._configured = make_sources(memory)
        self._added: list[MemorySource] = []

    def configure(self, memory: MemoryConfig) -> None:
        """Take over the sources of another configuration; those added in code stay."""
        self._memory = memory
        self._configured = make_sources(memory, self._configured)

    def add(self, source: object) -> None:
        """Add one in code, as `Suite.add_source` says. Raises ValueError."""
        added = _from_tuple(source, self._memory) if isinstance(source, tuple) else make_own(source)
        if added.name.lower() in {one.name.lower() for one in (*self._configured.values(), *self._added)}:
            raise ValueError(f"there is a source {added.name!r} already: give each a name of its own")
        self._added.append(added)

    def in_use(self) -> list[MemorySource]:
        """Those configured, then those added whose name none of them has taken since."""
        configured = list(self._configured.values())
        taken = {source.name.lower() for source in configured}
        for source in self._added:
            if source.name.lower() in taken:
                logger.warning("the source %s of the configuration stands in for the one added in code", source.name)
            else:
                configured.append(source)
        return configured


def make_sources(
    memory: MemoryConfig, known: Mapping[SourceKey, MemorySource] | None = None
) -> dict[SourceKey, MemorySource]:
    """The sources that the configuration names, those that are `known` among them; nothing is read yet."""
    sources: dict[SourceKey, MemorySource] = {}
    for source in memory.sources:
        key = source, memory.max_notes_per_source, memory.max_note_bytes
        sources[key] = (known or {}).get(key) or make_source(
            source.name,
            source.kind,
            source.path,
            exclude=source.exclude,
            extensions=source.extensions,
            max_notes=memory.max_notes_per_source,
            max_note_bytes=memory.max_note_bytes,
            enabled=source.enabled,
        )
    return sources


def library_options(memory: MemoryConfig) -> LibraryOptions:
    return LibraryOptions(
        memory.minimum_line_length, memory.mentions, quotes=memory.quotes, refresh_interval=memory.refresh_interval
    )


def make_library(config: Config, sources: NoteSources | None = None) -> NoteLibrary:
    """The notes that the configuration names; nothing is read yet. What spares the next start work lies in `state`."""
    return NoteLibrary(
        (sources or NoteSources(config.memory)).in_use(),
        options=library_options(config.memory),
        cache=config.state / "notes" if config.state else None,
    )


def _from_tuple(source: tuple[object, ...], memory: MemoryConfig) -> MemorySource:
    if not 2 <= len(source) <= 3 or not all(isinstance(part, str | Path | None) for part in source):
        raise ValueError("a source in code is an instance, a class, or (name, type, path)")
    name, kind, path = (*source, None)[:3]
    written = str(kind)
    return make_source(
        str(name),
        KINDS.get(written, written),
        None if path is None else expand_path(str(path), Path.cwd(), os.environ),
        max_notes=memory.max_notes_per_source,
        max_note_bytes=memory.max_note_bytes,
    )
