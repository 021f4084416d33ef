"""Search over the transcripts of all clients that have a memory: who is open, on which thread, and what is to be indexed.

Each open client has one worker thread, and all that touches its index runs there: memsearch's calls look asynchronous
and are not. One more thread, the keeper, hands the workers what was recorded, looks for what a person changed in the
folders, and closes what nobody used for a while. Databases open when they are first needed, never before.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from importlib import import_module
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from memory.conversations.embedding import Builtin, EmbeddingSettings
from memory.conversations.recall import Recalled
from memory.conversations.worker import Worker

if TYPE_CHECKING:  # importing it imports memsearch
    from memory.conversations.chunk_store import Place
    from memory.conversations.client_index import ClientIndex, IndexStatus

logger = logging.getLogger(__name__)

SETTLE = 1.0
"""Seconds from the first change of a file until it is indexed; what comes meanwhile is indexed with it."""
LOOK_EVERY = 30.0
IDLE = 900.0
MOST_OPEN = 32
SLICE = 0.5
"""Seconds that a worker indexes before it lets a search in between."""

CLOSED = "the memory of conversations is closed"
LIBRARIES = ("pandas", "grpc", "pymilvus", "milvus_lite.db")
"""What a database needs, in the order of its imports: more than a second together, of which who closes waits for one."""

type Progress = Callable[[int, int], None]
"""How many files are done, of how many."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """A Milvus server for all clients; `token` is the token itself."""

    uri: str
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """`server` None: a Milvus Lite database in each client's folder. `language` is one of `ranking.STOP_WORDS`."""

    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    server: ServerSettings | None = None
    language: str = "english"


class Engine:
    """One for a suite. `folder_of` says where a client's files are, for its slug.

    What searches and changes raise: `LockedElsewhereError`, `EmbeddingError`, `SettingsFileError`, OSError, and what
    pymilvus raises for a server that cannot be reached.
    """

    def __init__(self, folder_of: Callable[[str], Path], settings: EngineSettings = EngineSettings()) -> None:
        self._folder_of = folder_of
        self._settings = settings
        self._builtin = Builtin()
        self._workers: dict[str, Worker] = {}
        self._ending: dict[str, Future[None]] = {}
        """The last jobs of workers that were released."""
        self._changing = threading.Condition()
        """Guards `_workers`, their `used` and `due`, `_ending`, and `_is_closed`; wakes the keeper."""
        self._is_closed = False
        self._keeper: threading.Thread | None = None

    async def search(
        self,
        client: str,
        query: str,
        *,
        limit: int = 5,
        after: datetime | None = None,
        before: datetime | None = None,
        own: tuple[str, int] | None = None,
    ) -> Recalled:
        """The turns of this client that answer the query, best first.

        `after` and `before` bound when a turn began. `own` is the session and the number of the conversation that asks,
        which is left out.
        """

        def searched(index: ClientIndex) -> Recalled:
            from memory.conversations.searching import Own, Question  # noqa: PLC0415 - imports memsearch

            if index.pending:
                self._load()
            return index.search(Question(query, limit, after, before, Own(*own) if own else None))

        return await self._run(client, searched)

    def warm(self, client: str) -> None:
        """Open a client's index, where it is not: it may be asked soon. For any thread; what goes wrong is told to who asks."""
        with self._changing:
            if not self._is_closed:
                found = self._worker(client)
                found.submit(lambda: self._opened(client, found))

    def changed(self, client: str, path: Path) -> None:
        """Tell that a file of the client was written: it is searchable soon. For any thread; only takes note of it."""
        with self._changing:
            if self._is_closed:
                return
            self._worker(client).due.setdefault(str(path), time.monotonic())
            self._changing.notify()

    async def index(self, client: str, path: Path) -> int:
        """Index a file now; how many chunks it has in the index."""
        return await self._run(client, lambda index: index.index(str(path)))

    async def forget(self, client: str, path: Path) -> None:
        """Drop the chunks of a file that was deleted, or is about to be."""
        await self._run(client, lambda index: index.forget(str(path)))

    async def rebuild(self, client: str, progress: Progress | None = None) -> int:
        """Make a client's index anew; how many files it was made from. Searches go on meanwhile, over what is there."""
        total = left = await self._run(client, lambda index: self._begun_anew(client, index))
        while left:
            if progress is not None:
                progress(total - left, total)
            left = await self._run(client, self._worked)
        if progress is not None:
            progress(total, total)
        return total

    def _worked(self, index: ClientIndex) -> int:
        """How many files are left."""
        if index.pending:
            self._load()
        return index.work(SLICE)

    def _begun_anew(self, client: str, index: ClientIndex) -> int:
        """How many files are to be indexed. One job for the worker, so that the keeper gets nothing in between."""
        with self._changing:
            worker = self._workers[client]
        index.invalidate()
        worker.close_index()
        return self._opened(client, worker).pending

    async def status(self, client: str) -> IndexStatus:
        return await self._run(client, lambda index: index.status())

    async def discard[T](self, client: str, change: Callable[[], T]) -> T:
        """Close a client's index and remove it, then call `change`, which deletes files: a database holds what was deleted
        from it for long. What is left is indexed anew when the index is needed.
        """
        with self._changing:
            self._stop_if_closed()
            found = self._worker(client)
            future = found.submit(lambda: self._discarded(client, found, change))
        return await asyncio.wrap_future(future)

    def _discarded[T](self, client: str, worker: Worker, change: Callable[[], T]) -> T:
        from memory.conversations.client_index import discard  # noqa: PLC0415 - imports memsearch

        worker.close_index()
        folder = self._folder_of(client)
        discard(folder, self._place(folder))
        return change()

    def change_language(self, language: str) -> None:
        """For whatever is searched from now on."""
        with self._changing:
            self._settings = replace(self._settings, language=language)
            for worker in self._workers.values():
                worker.submit(worker.close_index)

    async def release(self, client: str) -> None:
        """Close a client's index and end its thread."""
        with self._changing:
            found = self._workers.pop(client, None)
            if found is None:
                return
            self._ending[client] = closing = found.submit(found.close_index)
        try:
            await asyncio.wrap_future(closing)
        finally:
            with self._changing:
                if self._ending.get(client) is closing:
                    del self._ending[client]
            await asyncio.to_thread(found.end)

    async def close(self) -> None:
        """Write and close everything. Nothing can be asked afterwards."""
        with self._changing:
            self._is_closed = True
            names = list(self._workers)
            self._changing.notify()
        for name in names:
            await self.release(name)
        if self._keeper is not None:
            await asyncio.to_thread(self._keeper.join)

    async def _run[T](self, client: str, job: Callable[[ClientIndex], T]) -> T:
        with self._changing:
            self._stop_if_closed()
            worker = self._worker(client)
            future = worker.submit(lambda: job(self._opened(client, worker)))
        return await asyncio.wrap_future(future)

    def _worker(self, client: str) -> Worker:
        """Called with the lock held."""
        worker = self._workers.get(client)
        if worker is None:
            worker = self._workers[client] = Worker(client, self._ending.get(client))
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, name="memory keeper", daemon=True)
            self._keeper.start()
        worker.used = time.monotonic()
        return worker

    def _opened(self, client: str, worker: Worker) -> ClientIndex:
        self._stop_if_closed()
        folder = self._folder_of(client)
        if worker.folder != folder:  # the client was deleted, and made again under the same name
            worker.close_index()
        if worker.index is None:
            from memory.conversations.chunk_store import quiet  # noqa: PLC0415 - as above
            from memory.conversations.client_index import ClientIndex, has_database  # noqa: PLC0415 - imports memsearch

            quiet()
            if has_database(folder):
                self._load()
            worker.index = ClientIndex(
                folder, self._settings.embedding, self._settings.language, self._builtin, self._place(folder)
            )
            worker.folder = folder
            worker.looked = -inf  # so that the keeper has indexed soon what was not
        return worker.index

    def _load(self) -> None:
        """Import what a database needs, unless this is closed meanwhile: nothing is lost, and nobody waits for it."""
        for library in LIBRARIES:
            self._stop_if_closed()
            import_module(library)
        self._stop_if_closed()

    def _stop_if_closed(self) -> None:
        if self._is_closed:
            raise RuntimeError(CLOSED)

    def _place(self, folder: Path) -> Place | None:
        server = self._settings.server
        if server is None:
            return None
        from memory.conversations.chunk_store import Place  # noqa: PLC0415 - imports memsearch

        return Place(server.uri, server.token, collection_of(folder))

    # The keeper

    def _keep(self) -> None:
        while True:
            with self._changing:
                if self._is_closed:
                    return
                now = time.monotonic()
                for client, worker in self._workers.items():
                    self._hand_over(client, worker, now)
                self._close_unused(now)
                self._changing.wait(self._pause(now))

    def _hand_over(self, client: str, worker: Worker, now: float) -> None:
        """Give the worker what is to be done, unless it is still at what it was given."""
        if worker.is_working:
            return
        due = [path for path, heard in worker.due.items() if heard + SETTLE <= now]
        looks = worker.index is not None and worker.looked + LOOK_EVERY <= now
        if not due and not looks:
            return
        for path in due:
            del worker.due[path]
        if looks:
            worker.looked = now
        worker.is_working = True
        worker.submit(lambda: self._work(client, worker, due, looks=looks))

    def _work(self, client: str, worker: Worker, due: list[str], *, looks: bool) -> None:
        """On the client's thread, a slice at a time."""
        is_done = True
        try:
            index = self._opened(client, worker)
            if looks and index.is_outdated:
                index.invalidate()
                worker.close_index()
                index = self._opened(client, worker)
            elif looks:
                index.look()
            index.changed(due)
            is_done = not self._worked(index)
        except Exception as error:  # noqa: BLE001 - the next look tries again; what is wrong is told to who searches
            if not self._is_closed:
                logger.warning("the memory of %s could not be indexed (%s)", client, type(error).__name__)
        with self._changing:
            # Of one that was released meanwhile, the index is closed by the next job: it must not be opened once more.
            if is_done or self._is_closed or self._workers.get(client) is not worker:
                worker.is_working = False
            else:
                worker.submit(lambda: self._work(client, worker, [], looks=False))

    def _close_unused(self, now: float) -> None:
        opened = sorted(
            (worker for worker in self._workers.values() if worker.index and not worker.is_working),
            key=lambda worker: worker.used,
        )
        too_many = len(opened) - MOST_OPEN
        for place, worker in enumerate(opened):
            if not worker.due and (worker.used + IDLE <= now or place < too_many):
                worker.submit(worker.close_index)

    def _pause(self, now: float) -> float:
        """Seconds until something is due."""
        due = [
            heard + SETTLE
            for worker in self._workers.values()
            if not worker.is_working
            for heard in worker.due.values()
        ]
        return max(0.01, min([*due, now + 5.0]) - now)


def collection_of(folder: Path) -> str:
    """The collection of a client on a Milvus server, which several people may share: letters, digits and `_`."""
    return f"mitmemory_{blake2b(str(folder.resolve()).encode('utf-8', 'surrogatepass'), digest_size=12).hexdigest()}"
