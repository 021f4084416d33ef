"""What the dashboard shows and changes of the configuration: between its routes and mitm.yaml."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from addons.config import Config, SourceConfig
from addons.config_checks import KINDS
from addons.config_editing import Entry
from addons.config_values import expand_path
from addons.config_writing import ConfigFile, NotWrittenError, Written, client_memory
from addons.process_settings import refused
from memory.sources.claude_code import DEFAULT_FOLDER
from web.settings import NotChangedError

SOURCES = ("memory", "sources")
CLIENTS = ("clients",)


class FileSettings:
    """Changes mitm.yaml for the dashboard, one change after the other.

    `allow_process_settings` is that of the start: it is no key that counts at once. `take_over` makes the running suite
    use the file that was written.
    """

    def __init__(
        self, file: ConfigFile, *, allow_process_settings: bool, take_over: Callable[[Path], Awaitable[None]]
    ) -> None:
        self._file = file
        self._allowed = allow_process_settings
        self._take_over = take_over
        self._one_by_one = asyncio.Lock()

    async def sources(self) -> dict[str, Any]:
        try:
            return self._to_json(await asyncio.to_thread(self._file.read))
        except NotWrittenError as error:
            raise NotChangedError(error.reason, str(error)) from None

    async def change_sources(self, sources: Sequence[Mapping[str, Any]], version: str | None) -> dict[str, Any]:
        async with self._one_by_one:
            try:
                after = await asyncio.to_thread(self._write, sources, version)
            except NotWrittenError as error:
                raise NotChangedError(error.reason, str(error)) from None
            await self._take_over(after.file)
        return self._to_json(after)

    async def switch_memory(self, client: str, *, enabled: bool) -> None:
        async with self._one_by_one:
            try:
                after = await asyncio.to_thread(self._switch, client, enabled=enabled)
            except NotWrittenError as error:
                raise NotChangedError(error.reason, str(error)) from None
            await self._take_over(after.file)

    def _switch(self, client: str, *, enabled: bool) -> Written:
        before = self._file.read()
        try:
            entries = client_memory(before.config, client, enabled=enabled)
        except KeyError:
            raise NotChangedError(
                "unknown", f"{before.file} names no such client: add it under clients, with what it is told by"
            ) from None
        after = self._file.edit(before, CLIENTS, entries)
        if after.data != before.data:
            self._file.replace(before, after)
        return after

    def _write(self, sources: Sequence[Mapping[str, Any]], version: str | None) -> Written:
        before = self._file.read()
        if version is not None and version != before.version:
            raise NotChangedError(
                "changed", f"{before.file} was changed meanwhile: load the page again, then try again"
            )
        after = self._file.edit(before, SOURCES, entries_for(before.config, sources, self._file.target))
        if not self._allowed:
            why = refused(before.config.memory.sources, after.config.memory.sources, _places(before.config))
            if why is not None:
                raise NotChangedError("refused", why)
        if after.data != before.data:
            self._file.replace(before, after)
        return after

    def _to_json(self, written: Written) -> dict[str, Any]:
        claude_code = _claude_code()
        return {
            "sources": [
                {
                    "name": source.name,
                    "kind": source.kind,
                    "path": str(source.path),
                    "exclude": list(source.exclude),
                    "extensions": list(source.extensions),
                    "enabled": source.enabled,
                }
                for source in written.config.memory.sources
            ],
            "version": written.version,
            "file": str(self._file.target.absolute()),
            "allowProcessSettings": self._allowed,
            "claudeCode": str(claude_code) if claude_code else None,
        }


def entries_for(config: Config, sources: Sequence[Mapping[str, Any]], file: Path) -> list[Entry]:
    """The entries of mitm.yaml for these sources: those that stand there stay as they are written, but for what differs.

    Told again are they by their name, else by their kind and place (a new name).
    """
    before = config.memory.sources
    paths = [_path(source, file, _places(config)) for source in sources]
    left = dict(enumerate(before))
    found: dict[int, int] = {}
    for same in (_same_name, _same_place):
        for number, source in enumerate(sources):
            at = next(
                (at for at, one in left.items() if number not in found and same(one, source, paths[number])), None
            )
            if at is not None:
                found[number] = at
                del left[at]
    return [
        Entry(found[number], _differences(before[found[number]], source, paths[number]))
        if number in found
        else Entry(None, _new(source))
        for number, source in enumerate(sources)
    ]


def _same_name(one: SourceConfig, source: Mapping[str, Any], _: Path | None) -> bool:
    return one.name.lower() == str(source["name"]).lower()


def _same_place(one: SourceConfig, source: Mapping[str, Any], path: Path | None) -> bool:
    return (one.kind, one.path) == (_kind(source), path)


def _differences(one: SourceConfig, source: Mapping[str, Any], path: Path | None) -> dict[str, object]:
    changes: dict[str, object] = {}
    if source["name"] != one.name:
        changes["name"] = source["name"]
    if _kind(source) != one.kind:
        changes["type"] = source["kind"]
    if path != one.path:
        changes["path"] = source["path"]
    for key, old in (("exclude", one.exclude), ("extensions", one.extensions)):
        if tuple(source[key]) != old:
            changes[key] = source[key] or None
    if source["enabled"] != one.enabled:
        changes["enabled"] = source["enabled"]
    return changes


def _new(source: Mapping[str, Any]) -> dict[str, object]:
    made: dict[str, object] = {"name": source["name"], "type": source["kind"]}
    if source["path"] is not None:
        made["path"] = source["path"]
    made |= {key: source[key] for key in ("exclude", "extensions") if source[key]}
    return made if source["enabled"] else made | {"enabled": False}


def _kind(source: Mapping[str, Any]) -> str:
    written = str(source["kind"])
    return KINDS.get(written, written)


def _path(source: Mapping[str, Any], file: Path, places: Mapping[str, Path | None]) -> Path | None:
    """None: it names no place; the checks of mitm.yaml say so."""
    if source["path"] is None:
        return places.get(_kind(source))
    try:
        return expand_path(source["path"], file.absolute().parent, os.environ)
    except ValueError:
        return None


def _places(config: Config) -> dict[str, Path | None]:
    """Where the kinds of sources are that need not say so; None: nowhere."""
    return {"claude_code": _claude_code(), "conversations": config.conversations_directory}


def _claude_code() -> Path | None:
    """Where Claude Code keeps its memory unless told otherwise; None: this account has no home folder."""
    try:
        return expand_path(DEFAULT_FOLDER, Path.cwd(), os.environ)
    except ValueError:
        return None
