"""`mitmemory recall`: search what a client said and was told. Asks the suite where one runs, else opens the index itself."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Console

from addons.config import Config
from addons.conversations import engine_settings
from addons.exits import FAILED, OK, WRONG_INPUT
from addons.remembered_client import NotRememberedError, remembered_client
from addons.suite_api import ApiError, SuiteApi, running_api
from memory.conversations.engine import Engine
from memory.conversations.memories import Memories, UnusableError
from memory.conversations.recall import MOST_RESULTS, NOTHING, Recalled, told
from memory.conversations.store import CLIENTS_FILE, DamagedError, InUseError, Store
from memory.exchange import timestamp
from memory.since import parse_since
from web.conversations_json import holdings_json

INDEXING_PAUSE = 0.1
OF_THE_INPUT = frozenset({"bad_request", "not_found"})
"""What the API says where the command line is wrong."""


class RecallError(Exception):
    """The message is for a person; `code` is what the command ends with."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def recall(
    config: Config, client: str, query: str, *, after: str | None, before: str | None, limit: int | None, as_json: bool
) -> int:
    """Print what answers the query, the best first. `client` is a name or a slug."""
    try:
        found = _recalled(config, client, query, _time("--after", after), _time("--before", before), limit)
    except RecallError as error:
        print(f"mitmemory: {error}", file=sys.stderr)
        return error.code
    print(json.dumps(found) if as_json else _text(found))
    return OK


def _recalled(
    config: Config, name: str, query: str, after: datetime | None, before: datetime | None, limit: int | None
) -> dict[str, Any]:
    """As the API gives it. Raises RecallError."""
    try:
        client = remembered_client(config, name).slug
    except NotRememberedError as error:
        raise RecallError(str(error), WRONG_INPUT) from None
    if limit is not None and not 1 <= limit <= MOST_RESULTS:
        raise RecallError(f"--limit must be a number from 1 to {MOST_RESULTS}", WRONG_INPUT)
    if not query.strip():
        raise RecallError("say what to look for", WRONG_INPUT)
    api = running_api(config)
    if api is not None:
        return _asked(api, client, query, after, before, limit)
    return asyncio.run(_searched(config, client, query, after, before, limit))


def _asked(
    api: SuiteApi, client: str, query: str, after: datetime | None, before: datetime | None, limit: int | None
) -> dict[str, Any]:
    body = {
        "query": query,
        "after": after and timestamp(after),
        "before": before and timestamp(before),
        "limit": limit,
    }
    try:
        found: dict[str, Any] = api.post(f"clients/{quote(client, safe='')}/recall", body)
    except ApiError as error:
        raise RecallError(str(error), WRONG_INPUT if error.code in OF_THE_INPUT else FAILED) from None
    return found


async def _searched(
    config: Config, client: str, query: str, after: datetime | None, before: datetime | None, limit: int | None
) -> dict[str, Any]:
    directory = config.conversations_directory
    assert directory is not None, "a client with a memory has a place for it"
    if not (directory / CLIENTS_FILE).exists():
        return _json(Recalled())
    store = Store(directory)
    try:
        store.open()
    except (InUseError, DamagedError) as error:
        raise RecallError(str(error)) from None
    except OSError as error:
        raise _disk(directory, error) from None
    engine = Engine(store.folder_of, engine_settings(config.conversations, os.environ))
    memories = Memories(store, engine, results=config.conversations.search_top_k)
    try:
        await _indexed(memories, client)
        return _json(await memories.recall(client, query, limit=limit, after=after, before=before))
    except UnusableError as error:
        raise RecallError(str(error)) from None
    except OSError as error:
        raise _disk(directory, error) from None
    finally:
        await memories.aclose()
        store.close()


async def _indexed(memories: Memories, client: str) -> None:
    """What was recorded or edited since the index was last open."""
    with Console(stderr=True).status("The index is opened") as status:
        while (found := await memories.overview(client)) and found.index and found.index.pending:
            status.update(f"{found.index.pending:,} files are yet to be indexed")
            await asyncio.sleep(INDEXING_PAUSE)


def _json(found: Recalled) -> dict[str, Any]:
    return {"results": found.as_json(), "holdings": holdings_json(found.holdings)}


def _text(found: dict[str, Any]) -> str:
    if not found["results"]:
        holdings = found["holdings"]
        return f"{NOTHING} {told(holdings['sessions'], _date(holdings['first']), _date(holdings['last']))}"
    return "\n\n".join(_memory(number, one) for number, one in enumerate(found["results"], 1))


def _memory(number: int, one: dict[str, Any]) -> str:
    conversation = one["conversation"]
    what = "summary" if conversation is None else f"conversation {conversation}"
    when = f", {one['startedAt'][:16].replace('T', ' ')} UTC" if one["startedAt"] else ""
    lines = "\n".join(f"    {line}".rstrip() for line in _shown(one["text"]).split("\n"))
    return f"[{number}] session {_shown(one['session'])}, {what}{when} (relevance {one['score']:.2f})\n{lines}"


def _date(moment: str | None) -> str | None:
    return moment and moment[:10]


def _shown(text: str) -> str:
    """Nothing that was said may move the cursor or write into the clipboard."""
    return "".join(sign if sign in "\n\t" or sign.isprintable() else "�" for sign in text)


def _time(flag: str, written: str | None) -> datetime | None:
    if written is None:
        return None
    try:
        return parse_since(written, datetime.now(UTC))
    except ValueError:
        raise RecallError(
            f"{flag} must be a duration like 2d, or a time like 2026-03-04T05:06:07Z", WRONG_INPUT
        ) from None


def _disk(directory: Path, error: OSError) -> RecallError:
    return RecallError(f"{directory} cannot be used ({error.strerror})")
