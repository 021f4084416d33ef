"""`POST api/clients/{client}/compact`: sessions are summarised now, or once more."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from memory.conversations.compaction import Compacted, Compactor
from memory.conversations.reading import NotThereError
from memory.conversations.summary_calls import CompactionError, NotConfiguredError
from memory.conversations.summary_source import DoneError, NotOverError
from web.api import read_object
from web.conversations_api import Conversations
from web.errors import Refusal

COMPACT_KEYS = frozenset({"session", "again"})


class CompactionApi:
    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations

    async def compact(self, request: web.Request) -> web.Response:
        """`{session?, again?}`: answers when all of them are done, `{compacted[], failed[]}`.

        Without a session it is all that are over and not summarised; with `again` also those that are.
        """
        asked = await read_object(request)
        client, compactor = self._compactor(request)
        if unknown := sorted(asked.keys() - COMPACT_KEYS):
            raise Refusal(400, "bad_request", f"there is no key {unknown[0]!r} here")
        session, again = asked.get("session"), asked.get("again", False)
        if not isinstance(again, bool) or not isinstance(session, str | None):
            raise Refusal(400, "bad_request", "session must be the id of one, again true or false")
        if session is not None:
            return web.json_response({"compacted": [await self._one(compactor, client, session, again)], "failed": []})
        try:
            sessions = await asyncio.to_thread(_sessions, compactor, client, again=again)
        except OSError as error:
            raise Refusal(503, "disk", f"the conversations cannot be used ({error.strerror})") from None
        compacted, failed = [], []
        for each in sessions:
            try:
                compacted.append(await self._one(compactor, client, each, again))
            except Refusal as refusal:
                if refusal.code == "not_configured":
                    raise
                failed.append({"session": each, "message": refusal.message})
        return web.json_response({"compacted": compacted, "failed": failed})

    @staticmethod
    async def _one(compactor: Compactor, client: str, session: str, again: bool) -> dict[str, Any]:
        try:
            # It goes on when the browser leaves: a model may need minutes.
            return _json(await asyncio.shield(compactor.start(client, session, again=again)))
        except NotThereError as error:
            raise Refusal(404, "not_found", str(error)) from None
        except NotOverError as error:
            raise Refusal(409, "not_over", str(error)) from None
        except DoneError as error:
            raise Refusal(409, "summarised", str(error)) from None
        except NotConfiguredError as error:
            raise Refusal(409, "not_configured", str(error)) from None
        except CompactionError as error:
            raise Refusal(502, "not_summarised", str(error)) from None

    def _compactor(self, request: web.Request) -> tuple[str, Compactor]:
        client = request.match_info["client"]
        is_on = self._conversations.is_on(client)
        if is_on is None:
            raise Refusal(404, "not_found", "mitm.yaml names no such client")
        if not is_on:
            raise Refusal(409, "memory_off", "this client has no memory: switch it on first")
        if self._conversations.compactor is None:
            if (trouble := self._conversations.trouble) is not None:
                raise Refusal(409, "not_open", trouble)
            raise Refusal(404, "not_found", "nothing has been recorded yet")
        return client, self._conversations.compactor


def _sessions(compactor: Compactor, client: str, *, again: bool) -> list[str]:
    pending = compactor.pending(client)
    return [*compactor.archived(client), *pending] if again else pending


def _json(compacted: Compacted) -> dict[str, Any]:
    return {"session": compacted.session, "turns": compacted.turns, "leftOut": compacted.left_out}
