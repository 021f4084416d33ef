"""Conversations: opens and closes the memory of the clients that have one, keeps its index informed, ends their sessions.

Nothing is opened before a client has a memory, or had one: most suites never do. An index is opened when it is first
needed: when a turn was recorded, or somebody searches.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from errno import ENOENT
from functools import partial
from pathlib import Path
from typing import Any

from addons.compaction import ConfiguredSummariser, summariser_json
from addons.config import Config, ConversationsConfig
from memory.conversations.compaction import Compactor, MaySend, everything
from memory.conversations.embedding import EmbeddingSettings
from memory.conversations.engine import Engine, EngineSettings, ServerSettings
from memory.conversations.memories import Memories
from memory.conversations.recorder import Recorder
from memory.conversations.sessions import Limits
from memory.conversations.store import CLIENTS_FILE, DamagedError, InUseError, Store

logger = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
"""How often sessions are looked at (conversation-memory.md, "Sessions and conversations")."""


class Conversations:
    """The memories in the directory that the configuration names at the start.

    `apply` takes over all else that changes. Its hooks are plain functions that schedule the work, as those of the
    sidecar; whoever can, awaits `stopped`.
    """

    name = "mitmemory_conversations"

    def __init__(
        self,
        config: Config,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        every: float = EVERY_SECONDS,
        may_send: MaySend = everything,
    ) -> None:
        self._directory = config.conversations_directory
        self._config = config
        self._clock = clock
        self._every = every
        self._remembered = config.remembered
        self._clients = _slugs(config)
        self._trouble: str | None = None
        self._watching: asyncio.Task[None] | None = None
        self.store: Store | None = None
        """None: no client has a memory, or it could not be opened."""
        self.recorder: Recorder | None = None
        self.memories: Memories | None = None
        """As `store`."""
        self.compactor: Compactor | None = None
        """As `store`."""
        self._summarise = ConfiguredSummariser(lambda: self._config.conversations.compaction)
        self._may_send = may_send
        self._engine: Engine | None = None
        self.on_deleted: list[Callable[[str], None]] = []
        """Called with the client of whose memory something was deleted."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.stopped: asyncio.Task[None] | None = None

    @property
    def warnings(self) -> list[str]:
        return [*([self._trouble] if self._trouble else []), *(self.compactor.warnings if self.compactor else [])]

    @property
    def trouble(self) -> str | None:
        """Why nothing is recorded, although it should be."""
        return self._trouble

    @property
    def summariser(self) -> dict[str, Any] | None:
        """Who summarises, as the API gives it."""
        return summariser_json(self._config.conversations.compaction)

    @property
    def directory(self) -> Path | None:
        """None: there is no place for conversations."""
        return self._directory

    def is_on(self, client: str) -> bool | None:
        """Whether a client, by its slug, has a memory; None: there is no such client."""
        return client in self._remembered if client in self._clients else None

    def recorder_of(self, client: str) -> Recorder | None:
        """What records a client, by its slug; None: it has no memory."""
        return self.recorder if client in self._remembered else None

    def apply(self, config: Config) -> None:
        before, self._config, self._remembered = self._config, config, config.remembered
        gone = self._clients - _slugs(config)
        self._clients = _slugs(config)
        if self.store is None:
            if self._watching is not None:
                self._open()
            return
        self.store.limits = _limits(config.conversations)
        if self.recorder:
            self.recorder.redact_secrets = config.conversations.redact_secrets
            self.recorder.recall_tool = config.conversations.recall_tool_name
        try:
            self.store.configure(self._clients)
        except OSError as error:
            self._tell(self._why(error))
        else:
            self._schedule(self._make_folders(self.store))
        if self.memories and self._engine:
            self.memories.results = config.conversations.search_top_k
            if config.conversations.language != before.conversations.language:
                self._engine.change_language(config.conversations.language)
            for client in gone:
                self._schedule(self._engine.release(client))

    def running(self) -> None:
        self._open()
        self._watching = asyncio.get_running_loop().create_task(self._watch(), name="sessions")
        self._watching.add_done_callback(_ended)

    def done(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        store, memories, compactor = self.store, self.memories, self.compactor
        self.store = self.recorder = self.memories = self.compactor = self._engine = None
        if store is not None and memories is not None and compactor is not None:
            closing = self._close(store, memories, compactor)
            self.stopped = asyncio.get_running_loop().create_task(closing, name="memories close")

    async def _close(self, store: Store, memories: Memories, compactor: Compactor) -> None:
        """The directory is another's only once nothing of it is open."""
        await compactor.aclose()
        if self._tasks:
            await asyncio.wait(self._tasks)
        try:
            await memories.aclose()
        except Exception as error:  # noqa: BLE001 - each layer of Milvus has errors of its own; the suite ends all the same
            logger.warning("an index could not be closed (%s): it is made anew", type(error).__name__)
        finally:
            store.close()

    async def _watch(self) -> None:
        while True:
            if self.store is None:
                self._open()  # who has it may have ended
            if self.store is not None:
                await asyncio.to_thread(self.store.expire, self._clock())
            if self.compactor is not None and self._config.conversations.compaction.enabled:
                self.compactor.start_pending(self._remembered)
            await asyncio.sleep(self._every)

    def _open(self) -> None:
        """Open the store, where it is needed: also to learn that a client of former times is gone."""
        directory = self._directory
        if directory is None or not (self._remembered or (directory / CLIENTS_FILE).exists()):
            return
        store = Store(directory, _limits(self._config.conversations))
        try:
            store.open()
        except (InUseError, DamagedError) as error:
            self._tell(f"Conversations are not recorded: {error}")
            return
        except OSError as error:
            self._tell(self._why(error))
            return
        try:
            store.configure(self._clients)
        except OSError as error:
            store.close()
            self._tell(self._why(error))
            return
        self._trouble = None
        settings = self._config.conversations
        recorder = Recorder(store, redact_secrets=settings.redact_secrets, recall_tool=settings.recall_tool_name)
        engine = Engine(partial(_folder_of, store), engine_settings(settings, os.environ))
        recorder.on_recorded.append(engine.changed)
        self.store, self.recorder, self._engine = store, recorder, engine
        self.memories = Memories(store, engine, results=settings.search_top_k)
        self.memories.on_deleted += self.on_deleted
        self.compactor = Compactor(store, engine, self._summarise, may_send=self._may_send, clock=self._clock)
        self._schedule(self._make_folders(store))

    async def _make_folders(self, store: Store) -> None:
        """A person who has switched a memory on finds the place of it."""
        try:
            for client in sorted(self._remembered):
                if client in self._remembered:  # still
                    await asyncio.to_thread(store.folder_of, client)
        except OSError as error:
            self._tell(self._why(error))

    def _schedule(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._scheduled)

    def _scheduled(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("the index of a client that is gone could not be closed (%s)", type(error).__name__)

    def _why(self, error: OSError) -> str:
        return (
            f"Conversations are not recorded: {self._directory} cannot be used ({error.strerror}): "
            f"mend that, or set conversations.directory to another folder"
        )

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            logger.warning("%s", trouble)
        self._trouble = trouble


def engine_settings(config: ConversationsConfig, environment: Mapping[str, str]) -> EngineSettings:
    """What the index is made with. A token that is named, but not set, is none: the server says what it thinks of that."""
    embedding, milvus = config.embedding, config.milvus
    return EngineSettings(
        EmbeddingSettings(embedding.provider, embedding.model, embedding.base_url, embedding.api_key_env),
        ServerSettings(milvus.uri, environment.get(milvus.token_env) if milvus.token_env else None) if milvus else None,
        config.language,
    )


def _folder_of(store: Store, client: str) -> Path:
    """Of a client that has a folder: whoever looks for what has changed makes none. Raises OSError."""
    memory = store.existing(client)
    if memory is None:
        raise FileNotFoundError(ENOENT, "there is no such client any more", client)
    return memory.folder


def _slugs(config: Config) -> frozenset[str]:
    return frozenset(client.slug for client in config.clients)


def _limits(config: ConversationsConfig) -> Limits:
    return Limits(timedelta(seconds=config.session_inactivity), timedelta(seconds=config.max_session))


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("sessions are no longer looked after", exc_info=error)
