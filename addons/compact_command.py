"""`mitmemory compact`: summarise what a client said. The suite that runs does it, where one does; else this process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from addons.compaction import CompactionRules, ConfiguredSummariser
from addons.config import Config
from addons.conversations import engine_settings
from addons.exits import FAILED, OK, WRONG_INPUT
from addons.makers import make_rules
from addons.note_sources import make_library
from addons.providers import ProviderTable
from addons.remembered_client import NotRememberedError, remembered_client
from addons.suite_api import ApiError, SuiteApi, running_api
from memory.conversations.compaction import Compacted, Compactor
from memory.conversations.engine import Engine
from memory.conversations.reading import NotThereError
from memory.conversations.sessions import Limits
from memory.conversations.store import CLIENTS_FILE, DamagedError, InUseError, Store
from memory.conversations.summary_calls import CompactionError, NotConfiguredError
from memory.conversations.summary_source import DoneError, NotOverError

WRONG_CODES = frozenset({"not_found", "not_over", "summarised", "memory_off", "not_configured"})
"""What the API says no with where the command line or the configuration is to be mended."""


class _WrongError(Exception):
    """The command asks for what cannot be. The message says why."""


def compact(config: Config, client: str, session: str | None, *, again: bool) -> int:
    """`session` None: every one that is over, and with `again` those that are summarised already, too."""
    try:
        slug = remembered_client(config, client).slug
        api = running_api(config)
        failures = _through(api, slug, session, again) if api else asyncio.run(_alone(config, slug, session, again))
    except (_WrongError, NotRememberedError) as error:
        print(f"mitmemory: {error}", file=sys.stderr)
        return WRONG_INPUT
    except (ApiError, InUseError, DamagedError) as error:
        print(f"mitmemory: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        print(f"mitmemory: {config.conversations_directory} cannot be used ({error.strerror})", file=sys.stderr)
        return FAILED
    return FAILED if failures else OK


def _through(api: SuiteApi, client: str, session: str | None, again: bool) -> int:
    """Ask the suite for one session after the other; how many failed."""
    try:
        sessions = [session] if session else _listed(api.get(f"clients/{client}/memory/sessions"), again)
        failures = 0
        with _bar() as progress:
            for number, one in enumerate(sessions):
                progress(one, number, len(sessions))
                try:
                    asked = {"session": one, "again": again}
                    done = api.post(f"clients/{client}/compact", asked, seconds=None)["compacted"][0]
                except ApiError as error:
                    if error.code != "not_summarised":
                        raise
                    failures += _failed(one, str(error))
                else:
                    _done(done["session"], done["turns"], done["leftOut"])
    except ApiError as error:
        if error.code in WRONG_CODES:
            raise _WrongError(str(error)) from None
        raise
    return _ended(sessions, failures)


def _listed(answer: Any, again: bool) -> list[str]:
    states = {"closed", "archived"} if again else {"closed"}
    return [one["session"] for one in reversed(answer["sessions"]) if one["state"] in states]


async def _alone(config: Config, client: str, session: str | None, again: bool) -> int:
    """No suite runs: this process has the directory meanwhile."""
    async with _compactor(config) as compactor:
        if session:
            sessions = [session]
        else:
            sessions = [*(compactor.archived(client) if again else []), *compactor.pending(client)]
        failures = 0
        with _bar() as progress:
            for one in sessions:
                try:
                    _done_as(await compactor.compact(client, one, again=again, progress=partial(progress, one)))
                except (NotThereError, NotOverError, DoneError, NotConfiguredError) as error:
                    raise _WrongError(str(error)) from None
                except CompactionError as error:
                    failures += _failed(one, str(error))
    return _ended(sessions, failures)


@asynccontextmanager
async def _compactor(config: Config) -> AsyncIterator[Compactor]:
    directory = config.conversations_directory
    if directory is None or not (directory / CLIENTS_FILE).exists():
        raise _WrongError("nothing has been recorded yet")
    settings = config.conversations
    store = Store(
        directory, Limits(timedelta(seconds=settings.session_inactivity), timedelta(seconds=settings.max_session))
    )
    store.open()
    store.configure(client.slug for client in config.clients)
    store.expire(datetime.now(UTC))
    library = make_library(config)
    engine = Engine(store.folder_of, engine_settings(settings, os.environ))
    book = make_rules(config)
    rules = CompactionRules(lambda: settings.compaction, ProviderTable(config.providers), library, lambda: book)
    try:
        yield Compactor(store, engine, ConfiguredSummariser(lambda: settings.compaction), may_send=rules)
    finally:
        await engine.close()
        await library.aclose()
        store.close()


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """On stderr, where a person looks at it. It is told of what, how much is done, and of how much."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        yield lambda what, done, of: progress.update(task, completed=done, total=of, description=what)


def _done_as(compacted: Compacted) -> None:
    _done(compacted.session, compacted.turns, compacted.left_out)


def _done(session: str, turns: int, left_out: int) -> None:
    if not turns:  # a crash, or an index that could not be used, has left the rest to do
        print(f"{session}: summarised before, put away now")
        return
    kept = f", {left_out} left out by rules" if left_out else ""
    print(f"{session}: {turns} turn{'' if turns == 1 else 's'} summarised{kept}")


def _failed(session: str, message: str) -> int:
    print(f"mitmemory: {session}: {message}", file=sys.stderr)
    return 1


def _ended(sessions: list[str], failures: int) -> int:
    if not sessions:
        print("nothing is to be summarised")
    return failures
