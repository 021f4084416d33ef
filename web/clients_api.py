"""`api/clients`: the programs that use the proxy, the lines that point one at it, and those that give it its memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from memory.activity import Activity
from web.api import read_object
from web.client_tokens import ClientTokens
from web.errors import Refusal
from web.mcp_api import INSIDE
from web.mcp_lines import http_lines
from web.settings import NotChangedError, Settings
from web.sources_api import refusal_of

type Clients = Callable[[], dict[str, Any]]
"""Gives the JSON of `GET api/clients`; `lastSeen` is None for a client that sent nothing since the start."""


def no_clients() -> dict[str, Any]:
    return {"clients": [], "lines": [], "mcp": [], "conversations": None}


@dataclass(frozen=True, slots=True)
class McpPlace:
    """Where clients reach their memory over MCP: at `address` and their slug. `is_inside`: that client needs no MCP."""

    address: str
    is_inside: Callable[[str], bool]


class ClientsApi:
    """What is known of each client. Never an API key, nor what stands for one."""

    def __init__(
        self, clients: Clients, activity: Activity, settings: Settings, tokens: ClientTokens, mcp: McpPlace
    ) -> None:
        self._clients = clients
        self._activity = activity
        self._settings = settings
        self._tokens = tokens
        self._mcp = mcp

    async def get(self, _: web.Request) -> web.Response:
        """`GET api/clients`: `{clients[], lines[], mcp[], conversations}`."""
        answer = self._clients()
        for entry in answer["mcp"]:
            entry["hasToken"] = self._tokens.has(entry["client"])
        for client in answer["clients"]:
            if client["lastSeen"] is None:
                client["lastSeen"] = await self._last_seen(client["client"])
        return web.json_response(answer)

    async def patch(self, request: web.Request) -> web.Response:
        """`PATCH api/clients/{client}` `{memoryEnabled}`: written to mitm.yaml, and true from then on.

        A client that gets a memory gets a token with it, unless it has one, or needs none.
        """
        client, body = request.match_info["client"], await read_object(request)
        enabled = body.get("memoryEnabled")
        if set(body) != {"memoryEnabled"} or not isinstance(enabled, bool):
            raise Refusal(400, "bad_request", "send memoryEnabled, true or false, and nothing else")
        try:
            await self._settings.switch_memory(client, enabled=enabled)
        except NotChangedError as error:
            raise refusal_of(error) from None
        answer: dict[str, Any] = {"client": client, "memoryEnabled": enabled, "token": None, "lines": []}
        if enabled and not self._mcp.is_inside(client) and not self._tokens.has(client):
            with suppress(OSError):  # the memory is on all the same, and a token can be made later
                answer |= self._shown(client, await self._tokens.make(client))
        return web.json_response(answer)

    async def make_token(self, request: web.Request) -> web.Response:
        """`POST api/clients/{client}/token`: `{token, lines[]}`, shown this once. The one before opens nothing any more."""
        await read_object(request)
        client = request.match_info["client"]
        is_on = self._tokens.is_on(client)
        if is_on is None:
            raise Refusal(404, "not_found", "mitm.yaml names no such client")
        if not is_on:
            raise Refusal(409, "memory_off", "this client has no memory: switch it on first")
        if self._mcp.is_inside(client):
            raise Refusal(409, "mcp_via_llm", INSIDE)
        try:
            token = await self._tokens.make(client)
        except OSError as error:
            raise Refusal(503, "disk", f"the token cannot be kept ({error.strerror})") from None
        if token is None:
            raise Refusal(409, "not_open", self._tokens.trouble or "there is no place for conversations")
        return web.json_response(self._shown(client, token))

    def _shown(self, client: str, token: str | None) -> dict[str, Any]:
        lines = http_lines(self._mcp.address + client, token) if token else ()
        return {"token": token, "lines": [line.to_json() for line in lines]}

    async def _last_seen(self, client: str) -> str | None:
        """When an earlier run of the suite saw it last, as far as the activity reaches."""
        entries, _ = await self._activity.page(client=client, limit=1)
        return str(entries[0]["startedAt"]) if entries else None
