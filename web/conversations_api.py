"""`api/clients/{client}/memory` and what belongs to it: conversations read, searched and deleted, for an admin alone.

Transcripts are the one kind of text that the API gives.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from aiohttp import web

from memory.conversations.compaction import Compactor
from memory.conversations.deleting import Deleted, NotGoneError
from memory.conversations.memories import Memories, RebuildingError, UnusableError
from memory.conversations.reading import NotThereError
from memory.conversations.recall import MOST_RESULTS
from memory.conversations.recorder import Recorder
from memory.conversations.store import Store
from memory.since import parse_since
from web.api import read_object
from web.conversations_json import (
    conversation_json,
    deleted_json,
    holdings_json,
    listed_json,
    overview_json,
    progress_json,
    session_json,
)
from web.errors import Refusal

RECALL_KEYS = frozenset({"query", "after", "before", "limit", "withoutCurrent"})
THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "[::1]"})
FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")
"""What a server in between adds: then nobody knows where the browser is."""

NO_COMPACTION: dict[str, Any] = {"pending": 0, "working": None, "failures": []}

type OpenFolder = Callable[[Path], Awaitable[bool]]
"""Shows a folder in a window of this machine; whether it could."""


class Conversations(Protocol):
    """What keeps the conversations: the suite."""

    @property
    def memories(self) -> Memories | None:
        """None: nothing is kept, or it could not be opened."""

    @property
    def store(self) -> Store | None:
        """As `memories`."""

    @property
    def recorder(self) -> Recorder | None:
        """As `memories`."""

    @property
    def compactor(self) -> Compactor | None:
        """As `memories`."""

    @property
    def summariser(self) -> dict[str, Any] | None:
        """`{enabled, provider, model, upstream}` of who summarises; None: nobody is named."""

    @property
    def trouble(self) -> str | None:
        """Why nothing is kept, although it should be."""

    @property
    def directory(self) -> Path | None:
        """Where the folders of all clients are; None: there is no place for them."""

    def is_on(self, client: str) -> bool | None:
        """Whether a client, by its slug, has a memory; None: there is no such client."""


class NoConversations:
    """Of a suite that keeps none."""

    memories = store = recorder = compactor = summariser = trouble = directory = None

    def is_on(self, client: str) -> bool | None:  # noqa: ARG002 - whoever it is
        return None


async def cannot_open(_: Path) -> bool:
    return False


class ConversationsApi:
    """Of one client each, but for `open_folder`. A client whose memory is off keeps what it has, and is searched no more."""

    def __init__(self, conversations: Conversations, open_folder: OpenFolder) -> None:
        self._conversations = conversations
        self._open_folder = open_folder

    async def get(self, request: web.Request) -> web.Response:
        """`GET …/memory`: sizes and state."""
        client, is_on = self._client(request)
        memories = self._kept()
        with _refused():
            found = await memories.overview(client) if memories else None
        rebuilding = memories.rebuilding(client) if memories else None
        compactor, compaction = self._conversations.compactor, self._conversations.summariser
        if compaction is not None:
            compaction |= await asyncio.to_thread(compactor.state, client) if compactor else NO_COMPACTION
        told = {"client": client, "memoryEnabled": is_on} | overview_json(found)
        return web.json_response(told | {"rebuilding": progress_json(rebuilding), "compaction": compaction})

    async def sessions(self, request: web.Request) -> web.Response:
        """`GET …/memory/sessions`: `{sessions[]}`, the newest first."""
        client, _ = self._client(request)
        memories = self._kept()
        with _refused():
            found = await memories.sessions(client) if memories else []
        return web.json_response({"sessions": [listed_json(one) for one in found]})

    async def session(self, request: web.Request) -> web.Response:
        """`GET …/sessions/{session}`: all that was said in it."""
        client, memories = self._memories(request)
        with _refused():
            read = await memories.session(client, request.match_info["session"])
        return web.json_response(await asyncio.to_thread(lambda: {"client": client} | session_json(read)))

    async def conversation(self, request: web.Request) -> web.Response:
        """`GET …/conversations/{n}`: one of them."""
        client, memories = self._memories(request)
        session, number = request.match_info["session"], _number(request, "n")
        with _refused():
            read = await memories.session(client, session)
        for chat in read.transcript.conversations:
            if chat.number == number:
                return web.json_response({"client": client, "session": session} | conversation_json(chat))
        raise Refusal(404, "not_found", f"there is no conversation {number} in session {session}")

    async def delete_all(self, request: web.Request) -> web.Response:
        """`DELETE …/memory`: everything of the client, its index too."""
        await read_object(request)
        client, _ = self._client(request)
        memories = self._kept()
        with _refused():
            deleted = await memories.delete_all(client) if memories else Deleted()
        return web.json_response(deleted_json(deleted))

    async def delete_session(self, request: web.Request) -> web.Response:
        await read_object(request)
        client, memories = self._memories(request)
        with _refused():
            deleted = await memories.delete_session(client, request.match_info["session"])
        return web.json_response(deleted_json(deleted))

    async def delete_conversation(self, request: web.Request) -> web.Response:
        await read_object(request)
        client, memories = self._memories(request)
        with _refused():
            deleted = await memories.delete_conversation(client, request.match_info["session"], _number(request, "n"))
        return web.json_response(deleted_json(deleted))

    async def delete_turn(self, request: web.Request) -> web.Response:
        await read_object(request)
        client, memories = self._memories(request)
        session, number, turn = request.match_info["session"], _number(request, "n"), _number(request, "m")
        with _refused():
            deleted = await memories.delete_turn(client, session, number, turn)
        return web.json_response(deleted_json(deleted))

    async def recall(self, request: web.Request) -> web.Response:
        """`POST …/recall` `{query, after, before, limit, withoutCurrent}`: `{results[], holdings}`, the best first."""
        client, memories = self._memories(request, must_be_on=True)
        asked = await read_object(request)
        if unknown := sorted(asked.keys() - RECALL_KEYS):
            raise Refusal(400, "bad_request", f"there is no key {unknown[0]!r} here")
        query, limit = asked.get("query"), asked.get("limit")
        if not isinstance(query, str) or not query.strip():
            raise Refusal(400, "bad_request", "query must say what to look for")
        if limit is not None and not (type(limit) is int and 1 <= limit <= MOST_RESULTS):
            raise Refusal(400, "bad_request", f"limit must be a number from 1 to {MOST_RESULTS}")
        after, before = _time(asked, "after"), _time(asked, "before")
        without_current = asked.get("withoutCurrent", False)
        if not isinstance(without_current, bool):
            raise Refusal(400, "bad_request", "withoutCurrent must be true or false")
        recorder = self._conversations.recorder
        with _refused():
            own = recorder.asking(client) if without_current and recorder else None
            found = await memories.recall(client, query, limit=limit, after=after, before=before, own=own)
        return web.json_response({"results": found.as_json(), "holdings": holdings_json(found.holdings)})

    async def rebuild(self, request: web.Request) -> web.Response:
        """`POST …/rebuild`: begin to make the index anew; `get` says how far it is."""
        await read_object(request)
        client, memories = self._memories(request, must_be_on=True)
        with _refused():
            progress = memories.rebuild(client)
        return web.json_response({"rebuilding": progress_json(progress)}, status=202)

    async def open_folder(self, request: web.Request) -> web.Response:
        """`POST api/conversations/open` `{client?}`: `{path, opened}`; what is opened is never said by the request."""
        asked = await read_object(request)
        if unknown := sorted(asked.keys() - {"client"}):
            raise Refusal(400, "bad_request", f"there is no key {unknown[0]!r} here")
        folder = await self._folder(asked.get("client"))
        opened = is_of_this_machine(request) and await self._open_folder(folder)
        return web.json_response({"path": str(folder), "opened": opened})

    async def _folder(self, client: Any) -> Path:
        directory = self._conversations.directory
        if client is not None:
            if not isinstance(client, str) or self._conversations.is_on(client) is None:
                raise _unknown()
            memories = self._kept()
            with _refused():
                directory = await asyncio.to_thread(memories.folder, client) if memories else None
        if directory is None or not await asyncio.to_thread(directory.is_dir):
            raise Refusal(404, "not_found", "nothing has been recorded yet")
        return directory

    def _client(self, request: web.Request) -> tuple[str, bool]:
        client = request.match_info["client"]
        is_on = self._conversations.is_on(client)
        if is_on is None:
            raise _unknown()
        return client, is_on

    def _kept(self) -> Memories | None:
        """None: nothing was ever recorded."""
        memories, trouble = self._conversations.memories, self._conversations.trouble
        if memories is None and trouble is not None:
            raise Refusal(409, "not_open", trouble)
        return memories

    def _memories(self, request: web.Request, *, must_be_on: bool = False) -> tuple[str, Memories]:
        client, is_on = self._client(request)
        if must_be_on and not is_on:
            raise Refusal(409, "memory_off", "this client has no memory: switch it on first")
        memories = self._kept()
        if memories is None:
            raise Refusal(404, "not_found", "nothing has been recorded yet")
        return client, memories


def is_of_this_machine(request: web.Request) -> bool:
    """Whether the browser runs here, as far as can be told: where it does not, a window would open before nobody."""
    try:
        is_near = ipaddress.ip_address(request.remote or "").is_loopback
    except ValueError:
        return False
    host = request.host.lower()
    name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
    return is_near and name in THIS_MACHINE and not any(header in request.headers for header in FORWARDED)


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except NotThereError as error:
        raise Refusal(404, "not_found", str(error)) from None
    except RebuildingError as error:
        raise Refusal(409, "rebuilding", str(error)) from None
    except UnusableError as error:
        raise Refusal(409, "index_unusable", str(error)) from None
    except NotGoneError as error:
        raise Refusal(503, "not_gone", str(error)) from None
    except OSError as error:
        raise Refusal(503, "disk", f"the conversations cannot be used ({error.strerror})") from None


def _unknown() -> Refusal:
    return Refusal(404, "not_found", "mitm.yaml names no such client")


def _number(request: web.Request, name: str) -> int:
    text = request.match_info[name]
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise Refusal(404, "not_found", "conversations and turns have numbers")
    return int(text)


def _time(asked: dict[str, Any], key: str) -> datetime | None:
    written = asked.get(key)
    if written is None:
        return None
    try:
        return parse_since(written if isinstance(written, str) else "", datetime.now(UTC))
    except ValueError:
        raise Refusal(
            400, "bad_request", f"{key} must be a duration like 2d, or a time like 2026-03-04T05:06:07Z"
        ) from None
