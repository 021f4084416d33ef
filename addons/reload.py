"""Reload: picks up changes of mitm.yaml while the suite runs (design.md, "mitm.yaml").

The file is looked at once a second; that costs one `stat`, works on every file system, and needs no library. It is read
once two looks in a row find it the same: an editor may be in the middle of it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from addons.config import Config, ConfigError, load_config

logger = logging.getLogger(__name__)

EVERY_SECONDS = 1.0

LIVE = ("memory.", "clients", "providers", "rules", "targets", "unscanned", "conversations.")
"""What the keys that change at once begin with; the others wait for the next start."""
AT_START = ("conversations.directory", "conversations.embedding", "conversations.milvus")
"""Among these, what waits all the same: where all memories are, and what their index is made with."""
LISTENERS = "clients[].match.listen"
"""Of the clients, only what they are told by changes at once: a listener is opened at the start."""


class Reload:
    """Calls `apply` with the configuration whenever the file holds another one.

    A file with faults changes nothing. `warnings` say what is wrong with it now, and what waits for the next start.
    """

    name = "mitmemory_reload"

    def __init__(self, started: Config, apply: Callable[[Config], None], *, every: float = EVERY_SECONDS) -> None:
        self._file = started.file
        self._read = _stamp(started.file) if started.file else None
        self._started = _as_written(started)
        self._apply = apply
        self._every = every
        self._faults: tuple[str, ...] = ()
        self._waiting: tuple[str, ...] = ()
        self._taking = asyncio.Lock()
        """What was read last is taken over last, too."""
        self._watching: asyncio.Task[None] | None = None

    @property
    def warnings(self) -> list[str]:
        waiting = f"{', '.join(self._waiting)} changed in {self._file}: restart mitmemory for it to count"
        return [*self._faults, *([waiting] if self._waiting else [])]

    def running(self) -> None:
        if self._file is not None:
            self._watching = asyncio.get_running_loop().create_task(self._watch(), name="reload")
            self._watching.add_done_callback(_ended)

    def done(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def look_now(self, file: Path) -> None:
        """Take over `file`, which we have just written and which is watched from now on."""
        self._file = file
        await self._look(file, await asyncio.to_thread(_stamp, file))

    async def _watch(self) -> None:
        self._take(self._started)
        seen = self._read
        while (file := self._file) is not None:
            await asyncio.sleep(self._every)
            stamp = await asyncio.to_thread(_stamp, file)
            if file == self._file and stamp == seen != self._read:
                await self._look(file, stamp)
            seen = stamp

    async def _look(self, file: Path, stamp: tuple[int, ...] | None) -> None:
        async with self._taking:
            self._read = stamp
            if (config := await self._load(file)) is not None:
                self._take(config)

    async def _load(self, file: Path) -> Config | None:
        try:
            config = await asyncio.to_thread(load_config, file)
        except ConfigError as error:
            faults = tuple(str(fault) for fault in error.faults)
            if faults != self._faults:
                logger.warning("%s\nThe configuration of before stays in use.", error)
            self._faults = faults
            return None
        self._faults = ()
        return config

    def _take(self, config: Config) -> None:
        changed = [
            key for key in changed_keys(self._started, config) if not key.startswith(LIVE) or key.startswith(AT_START)
        ]
        if set(config.client_listeners) != set(self._started.client_listeners):
            changed.append(LISTENERS)
        waiting = tuple(changed)
        if waiting != self._waiting:
            self._waiting = waiting
            for warning in self.warnings:
                logger.warning("%s", warning)
        self._apply(config)


def changed_keys(old: Any, new: Any, prefix: str = "") -> Iterator[str]:
    """The keys, like `proxy.listen`, in which two configurations differ. A list is one key."""
    for field in dataclasses.fields(old):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if not field.compare or before == after:
            continue
        if dataclasses.is_dataclass(before) and type(before) is type(after):
            yield from changed_keys(before, after, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def _as_written(started: Config) -> Config:
    """What the file says, and not what the launcher made of it: a real port for port 0 is no change."""
    try:
        return load_config(started.file) if started.file else started
    except ConfigError:  # broken since the start: the next look says so
        return started


def _stamp(file: Path) -> tuple[int, ...] | None:
    """Changes with the file; None: it is not there, or may not be looked at."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("changes of the configuration are no longer picked up", exc_info=error)
