"""Conversations: opens and closes the memory of the clients that have one, and ends their sessions.

Nothing is opened before a client has a memory, or had one: most suites never do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from addons.config import Config, ConversationsConfig
from memory.conversations.recorder import Recorder
from memory.conversations.sessions import Limits
from memory.conversations.store import CLIENTS_FILE, DamagedError, InUseError, Store

logger = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
"""How often sessions are looked at (conversation-memory.md, "Sessions and conversations")."""


class Conversations:
    """The memories in the directory that the configuration names at the start.

    `apply` takes over all else that changes. Its hooks are plain functions, as those of the sidecar.
    """

    name = "mitmemory_conversations"

    def __init__(
        self,
        config: Config,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        every: float = EVERY_SECONDS,
    ) -> None:
        self._directory = config.conversations_directory
        self._config = config
        self._clock = clock
        self._every = every
        self._remembered = config.remembered
        self._trouble: str | None = None
        self._watching: asyncio.Task[None] | None = None
        self.store: Store | None = None
        """None: no client has a memory, or it could not be opened."""
        self.recorder: Recorder | None = None

    @property
    def warnings(self) -> list[str]:
        return [self._trouble] if self._trouble else []

    def recorder_of(self, client: str) -> Recorder | None:
        """What records a client, by its slug; None: it has no memory."""
        return self.recorder if client in self._remembered else None

    def apply(self, config: Config) -> None:
        before, self._config, self._remembered = self._config, config, config.remembered
        if self.store is None:
            if self._watching is not None:
                self._open()
            return
        self.store.limits = _limits(config.conversations)
        if self.recorder and config.conversations.redact_secrets != before.conversations.redact_secrets:
            self.recorder.redact_secrets = config.conversations.redact_secrets
        try:
            self.store.configure(client.slug for client in config.clients)
        except OSError as error:
            self._tell(self._why(error))

    def running(self) -> None:
        self._open()
        self._watching = asyncio.get_running_loop().create_task(self._watch(), name="sessions")
        self._watching.add_done_callback(_ended)

    def done(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        self.recorder = None
        if self.store is not None:
            self.store.close()
            self.store = None

    async def _watch(self) -> None:
        while True:
            if self.store is None:
                self._open()  # who has it may have ended
            if self.store is not None:
                await asyncio.to_thread(self.store.expire, self._clock())
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
            store.configure(client.slug for client in self._config.clients)
        except OSError as error:
            store.close()
            self._tell(self._why(error))
            return
        self._trouble = None
        self.store, self.recorder = store, Recorder(store, redact_secrets=self._config.conversations.redact_secrets)

    def _why(self, error: OSError) -> str:
        return (
            f"Conversations are not recorded: {self._directory} cannot be used ({error.strerror}): "
            f"mend that, or set conversations.directory to another folder"
        )

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            logger.warning("%s", trouble)
        self._trouble = trouble


def _limits(config: ConversationsConfig) -> Limits:
    return Limits(timedelta(seconds=config.session_inactivity), timedelta(seconds=config.max_session))


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("sessions are no longer looked after", exc_info=error)
