"""`mitmemory mcp`: a client's recall as an MCP server on stdin and stdout, for programs that start servers themselves.

It searches nothing itself: the suite has the index, and is asked each time, so that it may be started and ended meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime
from typing import Any
from urllib.parse import quote

from addons.config import Config, config_to_name
from addons.exits import OK, WRONG_INPUT
from addons.program import with_program
from addons.remembered_client import NotRememberedError, remembered_client
from addons.suite_api import ApiError, running_api
from memory.conversations.recall import Holdings, Memory, Recalled
from memory.conversations.recall_tool import NotRecalledError, RecallQuery, RecallTool
from memory.exchange import timestamp


def serve(config: Config, name: str) -> int:
    """Serve until stdin ends. `name` is that of a client, or its slug. On stdout is the protocol, and nothing else."""
    try:
        client = remembered_client(config, name)
    except NotRememberedError as error:
        return _wrong(str(error))
    if client.mode == "mcp_via_llm":
        return _wrong(f"the memory of {name} comes inside its conversations (mode mcp_via_llm): it needs no MCP server")
    if config.state is None:
        return _wrong("state is null, and the suite that is asked is found there: set state to a folder")
    asyncio.run(_serve(config, client.slug))
    return OK


async def _serve(config: Config, client: str) -> None:
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - it takes a second, which a wrong name shall not

    from web.mcp_server import make_server  # noqa: PLC0415 - as well

    async def recall(_: object, query: RecallQuery) -> Recalled:
        return await asyncio.to_thread(_asked, config, client, query)

    server = make_server(lambda: RecallTool(config.conversations.recall_tool_name), recall)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def _asked(config: Config, client: str, query: RecallQuery) -> Recalled:
    """What the suite finds. Raises NotRecalledError."""
    api = running_api(config)
    if api is None:
        raise NotRecalledError(
            with_program(
                "mitmemory does not run, and it has the memories. Go on without them, and ask the user to start it with "
                "`mitmemory run`.",
                config_to_name(config.file),
            )
        )
    body = {
        "query": query.query,
        "after": query.after and timestamp(query.after),
        "before": query.before and timestamp(query.before),
        "limit": query.limit,
        "withoutCurrent": True,
    }
    try:
        return recalled_of(api.post(f"clients/{quote(client, safe='')}/recall", body))
    except ApiError as error:
        raise NotRecalledError(
            f"The conversations cannot be searched: {error}. Go on without them, and tell the user."
        ) from None


def recalled_of(answer: dict[str, Any]) -> Recalled:
    """What `POST api/clients/{client}/recall` gave (docs/api.md)."""
    holdings = answer["holdings"]
    return Recalled(
        tuple(
            Memory(
                source=one["source"],
                session=one["session"],
                conversation=one["conversation"],
                heading=one["heading"],
                started_at=_time(one["startedAt"]),
                score=one["score"],
                text=one["text"],
            )
            for one in answer["results"]
        ),
        Holdings(holdings["sessions"], _time(holdings["first"]), _time(holdings["last"])),
    )


def _time(written: str | None) -> datetime | None:
    return datetime.fromisoformat(written) if written else None


def _wrong(message: str) -> int:
    print(f"mitmemory: {message}", file=sys.stderr)
    return WRONG_INPUT
