"""`mcp/{client}`: the recall tool over MCP, for whoever holds that client's token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from aiohttp import web

from memory.conversations.recall import Recalled
from memory.conversations.recall_tool import RecallQuery, RecallTool
from web.client_tokens import ClientTokens
from web.conversations_api import Conversations
from web.errors import Refusal
from web.recalling import recalled

if TYPE_CHECKING:  # importing it imports mcp
    from web.mcp_server import McpEndpoint

INSIDE = "the memory of this client comes inside its conversations (mode mcp_via_llm): it needs no MCP server"


class McpApi:
    """Lets in the holder of the client's own token. Nothing is loaded and nothing runs before the first one comes.

    `is_inside` says whether a client's conversations are given the tool as they pass.
    """

    def __init__(
        self,
        conversations: Conversations,
        tokens: ClientTokens,
        tool: Callable[[], RecallTool],
        is_inside: Callable[[str], bool],
    ) -> None:
        self._conversations = conversations
        self._tokens = tokens
        self._tool = tool
        self._is_inside = is_inside
        self._opening = asyncio.Lock()
        self._endpoint: McpEndpoint | None = None
        self._closed = False

    async def serve(self, request: web.Request) -> web.StreamResponse:
        client = request.match_info["client"]
        if not self._tokens.proves(client, _token(request)):  # one answer, whatever is wrong
            raise Refusal(
                401,
                "unauthorized",
                "send the token of this client, which the Setup page makes, as Authorization: Bearer TOKEN",
                {"WWW-Authenticate": 'Bearer realm="mitmemory"'},
            )
        if self._is_inside(client):
            raise Refusal(403, "mcp_via_llm", INSIDE)
        if request.method != "POST":  # the protocol's answer of a server that begins no stream and keeps no session
            raise Refusal(405, "method_not_allowed", "this address takes only POST", {"Allow": "POST"})
        endpoint = await self._opened()
        return await endpoint.answer(request, client)

    async def aclose(self) -> None:
        self._closed = True
        async with self._opening:
            if self._endpoint is not None:
                await self._endpoint.aclose()

    async def _opened(self) -> McpEndpoint:
        async with self._opening:
            if self._closed:
                raise Refusal(503, "stopping", "mitmemory is about to end")
            if self._endpoint is None:
                made = await asyncio.to_thread(_load)
                self._endpoint = made(self._tool, self._recall)
            return self._endpoint

    async def _recall(self, client: str, query: RecallQuery) -> Recalled:
        return await recalled(self._conversations, client, query)


def _load() -> type[McpEndpoint]:
    from web.mcp_server import McpEndpoint  # noqa: PLC0415 - see there

    return McpEndpoint


def _token(request: web.Request) -> str:
    """Empty: none was sent. No cookie counts, nor a token in the address."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
