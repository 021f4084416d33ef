"""The MCP server `_memory`, which has one tool: recall. The official `mcp` package does the protocol.

Importing this imports that package, which takes a second: it is done when somebody first asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from aiohttp import web
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from memory.conversations.recall import Recalled
from memory.conversations.recall_tool import ArgumentsError, NotRecalledError, RecallQuery, RecallTool, read_arguments
from web import mcp_bridge

NAME = "_memory"
LONGEST_SEARCH = 50.0
"""Seconds. Most clients give a call of a tool a minute."""

TOO_LONG = "The search takes too long, as when the index is made anew. Go on without it, or ask again in a minute."

type Asked = ServerRequestContext[Any, Any]
type Recall = Callable[[Asked, RecallQuery], Awaitable[Recalled]]
"""Searches for whoever asked. Raises NotRecalledError."""


def make_server(tool: Callable[[], RecallTool], recall: Recall) -> Server[Any]:
    """The server, for any transport. `tool` is asked each time: its name may change while it runs."""
    # What goes wrong in the package is logged with what was sent, and that is a conversation's.
    for library in ("mcp", "mcp_types"):
        logging.getLogger(library).setLevel(logging.CRITICAL)

    async def list_tools(_: Asked, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool())])

    async def call_tool(asked: Asked, called: types.CallToolRequestParams) -> types.CallToolResult:
        if called.name != tool().name:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {called.name[:64]!r}")
        try:
            query = read_arguments(called.arguments, datetime.now(UTC))
            async with asyncio.timeout(LONGEST_SEARCH):
                found = await recall(asked, query)
        except (ArgumentsError, NotRecalledError) as error:
            return _told(str(error), is_error=True)
        except TimeoutError:
            return _told(TOO_LONG, is_error=True)
        return _told(found.as_text())

    return Server(
        NAME,
        version=metadata.version("mitmemory"),
        title="mitmemory",
        instructions=tool().description,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


class McpEndpoint:
    """The server over streamable HTTP, for all clients: `recall` is given the client's slug.

    Each request stands for itself and is answered with JSON: there are no sessions to be kept, and none that a restart
    of the suite ends.
    """

    def __init__(
        self, tool: Callable[[], RecallTool], recall: Callable[[str, RecallQuery], Awaitable[Recalled]]
    ) -> None:
        async def recall_for(asked: Asked, query: RecallQuery) -> Recalled:
            return await recall(asked.request.state.client, query)  # type: ignore[union-attr] # it came by HTTP

        self._manager = StreamableHTTPSessionManager(make_server(tool, recall_for), json_response=True, stateless=True)
        self._ready, self._over = asyncio.Event(), asyncio.Event()
        self._running = asyncio.get_running_loop().create_task(self._run(), name="mcp")

    async def answer(self, request: web.Request, client: str) -> web.StreamResponse:
        await self._ready.wait()
        return await mcp_bridge.answer(request, self._manager.handle_request, {"client": client})

    async def aclose(self) -> None:
        """End what is under way."""
        self._over.set()
        await asyncio.wait({self._running})

    async def _run(self) -> None:
        """In a task of its own: what the package begins in one, it must end in that."""
        async with self._manager.run():
            self._ready.set()
            await self._over.wait()


def _described(tool: RecallTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title="Recall past conversations",
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )


def _told(text: str, *, is_error: bool = False) -> types.CallToolResult:
    """Text alone: clients that are given structured content too show models only that, where nothing is quoted."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)
