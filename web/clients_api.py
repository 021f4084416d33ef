"""`api/clients`: the programs that use the proxy, and the lines that point one at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from memory.activity import Activity
from web.api import read_object
from web.errors import Refusal
from web.settings import NotChangedError, Settings
from web.sources_api import refusal_of

type Clients = Callable[[], dict[str, Any]]
"""Gives the JSON of `GET api/clients`; `lastSeen` is None for a client that sent nothing since the start."""


def no_clients() -> dict[str, Any]:
    return {"clients": [], "lines": [], "conversations": None}


class ClientsApi:
    """What is known of each client. Never an API key, nor what stands for one."""

    def __init__(self, clients: Clients, activity: Activity, settings: Settings) -> None:
        self._clients = clients
        self._activity = activity
        self._settings = settings

    async def get(self, _: web.Request) -> web.Response:
        """`GET api/clients`: `{clients[], lines[], conversations}`."""
        answer = self._clients()
        for client in answer["clients"]:
            if client["lastSeen"] is None:
                client["lastSeen"] = await self._last_seen(client["client"])
        return web.json_response(answer)

    async def patch(self, request: web.Request) -> web.Response:
        """`PATCH api/clients/{client}` `{memoryEnabled}`: written to mitm.yaml, and true from then on."""
        client, body = request.match_info["client"], await read_object(request)
        enabled = body.get("memoryEnabled")
        if set(body) != {"memoryEnabled"} or not isinstance(enabled, bool):
            raise Refusal(400, "bad_request", "send memoryEnabled, true or false, and nothing else")
        try:
            await self._settings.switch_memory(client, enabled=enabled)
        except NotChangedError as error:
            raise refusal_of(error) from None
        return web.json_response({"client": client, "memoryEnabled": enabled})

    async def _last_seen(self, client: str) -> str | None:
        """When an earlier run of the suite saw it last, as far as the activity reaches."""
        entries, _ = await self._activity.page(client=client, limit=1)
        return str(entries[0]["startedAt"]) if entries else None
