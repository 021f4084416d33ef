"""The conversations of all clients as people and programs use them: read, searched and deleted, in files and index alike.

Reading and deleting work without the index, and also for a client whose memory was switched off.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memory.conversations import deleting, reading
from memory.conversations.deleting import Deleted
from memory.conversations.embedding import EmbeddingError
from memory.conversations.engine import Engine
from memory.conversations.owner import LockedElsewhereError
from memory.conversations.reading import NotThereError, SessionInfo, Sizes
from memory.conversations.recall import LONGEST_QUERY, Recalled
from memory.conversations.settings_file import SettingsFileError
from memory.conversations.store import ClientMemory, Store
from memory.conversations.transcript import Transcript, parse

if TYPE_CHECKING:  # importing it imports memsearch
    from memory.conversations.client_index import IndexStatus

logger = logging.getLogger(__name__)

LONGEST_TITLE = 80
REMEMBERED_TITLES = 2000

type Progress = tuple[int, int]
"""How many files are done, of how many."""


class UnusableError(RuntimeError):
    """The index cannot be used. The message tells a person why."""


class RebuildingError(RuntimeError):
    """The client's index is being made anew; what was asked for has to wait until that is done."""

    def __init__(self) -> None:
        super().__init__("the index is being made anew: wait until that is done")


@dataclass(frozen=True, slots=True)
class Listed:
    """A session in a list. `title` is how its first message begins; None: nobody said a word in it."""

    info: SessionInfo
    title: str | None
    conversations: int


@dataclass(frozen=True, slots=True)
class SessionRead:
    """A session with all that was said in it. `summary` None: it was not summarised."""

    info: SessionInfo
    transcript: Transcript
    summary: str | None


@dataclass(frozen=True, slots=True)
class Overview:
    """What there is of a client. `index` is None where it cannot be told; `problem` says why then."""

    folder: Path
    sessions: int
    sizes: Sizes
    index: IndexStatus | None = None
    problem: str | None = None


class Memories:
    """Over an open store, for one event loop. `results` is how many a search gives unless it is told.

    Methods raise NotThereError for what does not exist, OSError where the disk refuses, and UnusableError.
    """

    def __init__(self, store: Store, engine: Engine, *, results: int = 5) -> None:
        self.results = results
        self.on_deleted: list[Callable[[str], None]] = []
        """Called with the client of which something was deleted, on the event loop."""
        self._store = store
        self._engine = engine
        self._titles: OrderedDict[tuple[Path, int, int], tuple[str | None, int]] = OrderedDict()
        self._rebuilding: dict[str, Progress] = {}
        self._rebuilds: set[asyncio.Task[None]] = set()
        self._failed: dict[str, str] = {}
        """Why the last rebuild of a client came to nothing."""

    def has(self, client: str) -> bool:
        """Whether it has a folder."""
        return client in self._store.clients()

    def folder(self, client: str) -> Path:
        """Blocks."""
        return self._memory(client).folder

    async def overview(self, client: str) -> Overview | None:
        """None: nothing was ever kept of it."""
        if not self.has(client):
            return None
        memory, count, sizes = await asyncio.to_thread(self._counted, client)
        try:
            index = await _usable(self._engine.status(client))
        except (UnusableError, OSError) as error:
            return Overview(memory.folder, count, sizes, problem=_why(error))
        return Overview(memory.folder, count, sizes, index, self._failed.get(client))

    async def sessions(self, client: str) -> list[Listed]:
        """The newest first."""
        return await asyncio.to_thread(self._listed, client) if self.has(client) else []

    async def session(self, client: str, session: str) -> SessionRead:
        return await asyncio.to_thread(self._read, self._memory(client), session)

    async def recall(
        self,
        client: str,
        query: str,
        *,
        limit: int | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        own: tuple[str, int] | None = None,
    ) -> Recalled:
        """The turns of this client that answer the query's first LONGEST_QUERY characters, best first; see `Engine.search`."""
        if not self.has(client):  # its memory was just switched on, or all of it deleted
            return Recalled()
        limit = self.results if limit is None else limit
        query = query.strip()[:LONGEST_QUERY]
        return await _usable(self._engine.search(client, query, limit=limit, after=after, before=before, own=own))

    def warm(self, client: str) -> None:
        """Get ready for a question of this client's that may come soon; returns at once."""
        if self.has(client):
            self._engine.warm(client)

    # Deleting. Raises RebuildingError, too

    async def delete_turn(self, client: str, session: str, number: int, turn: int) -> Deleted:
        return await self._delete(
            client,
            lambda memory: reading.turn(memory, session, number, turn),
            lambda memory: deleting.delete_turn(memory, session, number, turn),
        )

    async def delete_conversation(self, client: str, session: str, number: int) -> Deleted:
        return await self._delete(
            client,
            lambda memory: reading.conversation(memory, session, number),
            lambda memory: deleting.delete_conversation(memory, session, number),
        )

    async def delete_session(self, client: str, session: str) -> Deleted:
        return await self._delete(
            client,
            lambda memory: reading.path_of(memory, session),
            lambda memory: deleting.delete_session(memory, session),
        )

    async def delete_all(self, client: str) -> Deleted:
        """Everything of the client, its index too. What is recorded later has another folder."""
        if not self.has(client):
            return Deleted()
        deleted = await self._discard(client, lambda: deleting.delete_client(self._store, client))
        await _usable(self._engine.release(client))
        self._failed.pop(client, None)
        return deleted

    async def _delete(
        self, client: str, find: Callable[[ClientMemory], object], delete: Callable[[ClientMemory], Deleted]
    ) -> Deleted:
        memory = self._memory(client)
        await asyncio.to_thread(find, memory)  # for nothing the index need not go
        deleted = await self._discard(client, lambda: delete(memory))
        for path in (*deleted.gone, *deleted.changed):
            self._engine.changed(client, path)
        return deleted

    async def _discard(self, client: str, delete: Callable[[], Deleted]) -> Deleted:
        """A database holds what was deleted from it for long: so it goes, and is made anew of what is left."""
        if client in self._rebuilding:
            raise RebuildingError
        deleted = await _usable(self._engine.discard(client, delete))
        for callback in self.on_deleted:
            callback(client)
        return deleted

    # Making the index anew

    def rebuilding(self, client: str) -> Progress | None:
        """How far it is; None: the index is not being made anew."""
        return self._rebuilding.get(client)

    def rebuild(self, client: str) -> Progress:
        """Begin to make the client's index anew; searches go on meanwhile. Raises RebuildingError."""
        self._memory(client)
        if client in self._rebuilding:
            raise RebuildingError
        self._rebuilding[client] = (0, 0)
        task = asyncio.get_running_loop().create_task(self._rebuild(client), name="rebuild")
        self._rebuilds.add(task)
        task.add_done_callback(self._rebuilds.discard)
        return self._rebuilding[client]

    async def _rebuild(self, client: str) -> None:
        def progress(done: int, total: int) -> None:
            self._rebuilding[client] = (done, total)

        self._failed.pop(client, None)
        try:
            await _usable(self._engine.rebuild(client, progress))
        except (UnusableError, OSError) as error:
            self._failed[client] = _why(error)
            logger.warning("the index of %s could not be made anew: %s", client, self._failed[client])
        finally:
            del self._rebuilding[client]

    async def aclose(self) -> None:
        """End what is under way, and close the engine."""
        for task in self._rebuilds:
            task.cancel()
        if self._rebuilds:
            await asyncio.wait(self._rebuilds)
        await self._engine.close()

    # Reading

    def _memory(self, client: str) -> ClientMemory:
        """Of a client that has one: nobody who only asks gets a folder."""
        if not self.has(client):
            raise NotThereError(f"nothing has been recorded of {client[:40]}")
        return self._store.memory_of(client)

    def _counted(self, client: str) -> tuple[ClientMemory, int, Sizes]:
        memory = self._memory(client)
        return memory, len(reading.sessions(memory)), reading.sizes(memory)

    def _listed(self, client: str) -> list[Listed]:
        memory = self._memory(client)
        return [Listed(info, *self._title(memory, info)) for info in reading.sessions(memory)]

    def _title(self, memory: ClientMemory, info: SessionInfo) -> tuple[str | None, int]:
        """How its first message begins, and how many conversations it has."""
        try:
            path = reading.path_of(memory, info.id)
            status = path.stat()
            key = (path, status.st_mtime_ns, status.st_size)
            if key not in self._titles:
                self._titles[key] = _title_of(reading.read(memory, info.id))
        except (NotThereError, FileNotFoundError):  # deleted meanwhile
            return None, 0
        if len(self._titles) > REMEMBERED_TITLES:
            self._titles.popitem(last=False)
        return self._titles.get(key, (None, 0))

    @staticmethod
    def _read(memory: ClientMemory, session: str) -> SessionRead:
        with memory.lock:
            content = reading.path_of(memory, session).read_bytes()
            summary = reading.summary(memory, session)
            info = next((one for one in reading.sessions(memory) if one.id == session), None)
        if info is None:  # a person's file, of a day that does not exist
            raise NotThereError(f"there is no session {session}")
        return SessionRead(info, parse(content), summary)


def _title_of(transcript: Transcript) -> tuple[str | None, int]:
    texts = (
        piece
        for chat in transcript.conversations
        for turn in chat.turns
        for part in turn.parts
        for piece in part.pieces
        if part.model is None and isinstance(piece, str) and piece.strip()
    )
    first = next(texts, None)
    if first is None:
        return None, len(transcript.conversations)
    line = " ".join(first[: LONGEST_TITLE * 4].split())
    return line if len(line) <= LONGEST_TITLE else f"{line[:LONGEST_TITLE]}…", len(transcript.conversations)


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


async def _usable[T](asked: Awaitable[T]) -> T:
    try:
        return await asked
    except (NotThereError, OSError):
        raise
    except (LockedElsewhereError, EmbeddingError, SettingsFileError) as error:
        raise UnusableError(str(error)) from error
    except Exception as error:  # noqa: BLE001 - the libraries' errors are of many kinds, and may hold what was said
        raise UnusableError(f"the index cannot be used ({type(error).__name__}): is its server there?") from None
