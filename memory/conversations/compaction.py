"""Compaction: a session that is over becomes a summary that is searched in its place (docs/conversations.md).

The steps are those of `archive.py`; the model is asked before the first of them, and each looks at what is there. So a
crash between any two is mended at the next start, by `archive.mend` and by the index, which follows the files.

What a rule keeps from the model is not sent to it: the turn is left out, and the summary says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from memory.conversations.archive import put_away, put_summary
from memory.conversations.failures import Failures
from memory.conversations.reading import NotThereError, State, path_of, sessions
from memory.conversations.store import ClientMemory, Store
from memory.conversations.summarising import Progress, Summarise
from memory.conversations.summary_calls import CompactionError, NotConfiguredError
from memory.conversations.summary_source import DoneError, NotOverError, Source, as_file, content_of, source_of

logger = logging.getLogger(__name__)

type MaySend = Callable[[str, Sequence[str]], Awaitable[Sequence[bool]]]
"""Given a client and texts: which of them may be sent to the model."""


class Index(Protocol):
    """What is needed of the engine."""

    async def index(self, client: str, path: Path) -> int: ...
    async def forget(self, client: str, path: Path) -> None: ...


@dataclass(frozen=True, slots=True)
class Compacted:
    """What came of a session: how many of its turns were summarised, and how many a rule has kept back."""

    session: str
    turns: int
    left_out: int


async def everything(_: str, texts: Sequence[str]) -> Sequence[bool]:
    """Where no rule says otherwise."""
    return [True] * len(texts)


class Compactor:
    """Summarises one session at a time. Methods belong to the event loop; files are read and written in threads."""

    def __init__(
        self,
        store: Store,
        index: Index,
        summarise: Summarise,
        *,
        may_send: MaySend = everything,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._index = index
        self._summarise = summarise
        self._may_send = may_send
        self._clock = clock
        self._working = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._round: asyncio.Task[None] | None = None
        self._failures = Failures(store)
        self._at_work: tuple[str, str] | None = None

    async def compact(
        self, client: str, session: str, *, again: bool = False, progress: Progress = lambda *_: None
    ) -> Compacted:
        """Summarise a session that is over; `again`: also one that is summarised already.

        Raises NotThereError and CompactionError; then the transcript is searched as before.
        """
        async with self._working:
            self._at_work = client, session
            try:
                compacted = await self._compact(client, session, again=again, progress=progress)
            except (NotOverError, DoneError, NotThereError, NotConfiguredError):
                await self._forget(client, session)
                raise
            except CompactionError as error:
                raise await self._failed(client, session, str(error)) from error
            except OSError as error:
                raise await self._failed(client, session, f"the disk refuses ({error.strerror or error})") from None
            except Exception as error:
                # The libraries of the index have errors of their own: whatever it is, it is tried again.
                why = f"it could not be indexed ({type(error).__name__})"
                raise await self._failed(client, session, why) from error
            finally:
                self._at_work = None
            await self._forget(client, session)
            return compacted

    def start(self, client: str, session: str, *, again: bool = False) -> asyncio.Task[Compacted]:
        """`compact`, which goes on when whoever asked for it has left."""
        return self._started(self.compact(client, session, again=again))

    def start_pending(self, clients: Iterable[str]) -> None:
        """`compact_pending`, unless that is still under way."""
        if self._round is None or self._round.done():
            self._round = self._started(self.compact_pending(sorted(clients)))

    async def aclose(self) -> None:
        """End what is under way; the next start goes on with it."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def compact_pending(self, clients: Iterable[str]) -> None:
        """Summarise all sessions of these clients that are over, but for those that failed a moment ago."""
        for client in clients:
            pending = await asyncio.to_thread(self.pending, client)
            if self._failures.keep(client, pending):
                await asyncio.to_thread(self._failures.save, client)
            for session in pending:
                failure = self._failures.of(client).get(session)
                if failure is not None and failure.waits(self._clock()):
                    continue
                try:
                    await self.compact(client, session)
                except (CompactionError, NotThereError) as error:
                    logger.warning("a session of %s was not summarised: %s", client, error)

    def pending(self, client: str) -> list[str]:
        """Sessions of a client that are over and not summarised, the oldest first. Reads the disk."""
        try:
            return self._in_state(client, "closed")
        except OSError:  # said by whoever records
            return []

    def archived(self, client: str) -> list[str]:
        """Sessions of a client that are summarised, the oldest first. Reads the disk; raises OSError."""
        return self._in_state(client, "archived")

    def _in_state(self, client: str, state: State) -> list[str]:
        memory = self._store.existing(client)
        return [] if memory is None else [info.id for info in reversed(sessions(memory)) if info.state == state]

    def state(self, client: str) -> dict[str, Any]:
        """What the API tells of it: `{pending, working, failures: [{session, message, tries, nextAt}]}`. Reads the disk."""
        working = self._at_work
        return {
            "pending": len(self.pending(client)),
            "working": working[1] if working is not None and working[0] == client else None,
            "failures": [
                {"session": session, "message": failure.message, "tries": failure.tries, "nextAt": _z(failure.next_at)}
                for session, failure in self._failures.of(client).items()
            ],
        }

    @property
    def warnings(self) -> list[str]:
        """For the status line: a line for each client and reason."""
        reasons = dict.fromkeys((client, failure.message) for (client, _), failure in self._failures.all().items())
        return [f"Sessions of {client} could not be summarised, and are tried again: {why}" for client, why in reasons]

    def _started[T](self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name="compaction")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Whoever asked may have left: what failed is in `state` all the same."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, CompactionError | NotThereError):
            logger.error("compaction has failed (%s)", type(error).__name__)

    async def _compact(self, client: str, session: str, *, again: bool, progress: Progress) -> Compacted:
        memory = await asyncio.to_thread(self._store.existing, client)
        if memory is None:
            raise NotThereError(f"nothing has been recorded of {client[:40]}")
        source = await asyncio.to_thread(source_of, memory, session, again=again)
        turns = left_out = 0
        if source is not None:
            allowed = await self._may_send(client, [said for _, said in source.turns])
            sent = [text for (text, _), may in zip(source.turns, allowed, strict=True) if may]
            turns, left_out = len(sent), len(source.turns) - len(sent)
            if not sent:
                why = "rules keep all of its turns from the model" if left_out else "nothing is said in it"
                raise CompactionError(why)
            summary = as_file(session, await self._summarise(sent, progress), left_out)
            await asyncio.to_thread(_put, memory, session, source, summary)
        await self._put_away(client, memory, session)
        return Compacted(session, turns, left_out)

    async def _put_away(self, client: str, memory: ClientMemory, session: str) -> None:
        """Everything after the summary is there."""
        summary = memory.sessions / f"{session}-summary.md"
        if not await self._index.index(client, summary):
            raise CompactionError("the summary could not be indexed yet")
        await asyncio.to_thread(_archive, memory, session)
        await self._index.forget(client, memory.transcript(session))

    async def _failed(self, client: str, session: str, message: str) -> CompactionError | NotThereError:
        """What is to be raised. A session that was deleted meanwhile has not failed, and is not tried again."""
        if await asyncio.to_thread(self._is_gone, client, session):
            await self._forget(client, session)
            return NotThereError(f"session {session[:40]} was deleted while it was summarised")
        self._failures.failed(client, session, message, self._clock())
        await asyncio.to_thread(self._failures.save, client)
        return CompactionError(message)

    async def _forget(self, client: str, session: str) -> None:
        if self._failures.forget(client, session):
            await asyncio.to_thread(self._failures.save, client)

    def _is_gone(self, client: str, session: str) -> bool:
        try:
            memory = self._store.existing(client)
            return memory is None or not path_of(memory, session)
        except NotThereError:
            return True
        except OSError:
            return False


def _put(memory: ClientMemory, session: str, source: Source, summary: str) -> None:
    """Raises CompactionError where something was deleted or changed meanwhile: the summary would tell of it."""
    with memory.lock:
        if memory.left or any(content_of(memory, one) != content for one, content in source.contents):
            raise CompactionError("it was changed while it was summarised")
        put_summary(memory.folder, session, summary)


def _archive(memory: ClientMemory, session: str) -> None:
    """Raises CompactionError where the summary was deleted meanwhile: then the transcript stays."""
    with memory.lock:
        if not (memory.sessions / f"{session}-summary.md").exists():
            raise CompactionError("it was changed while it was summarised")
        put_away(memory.folder, session)


def _z(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
