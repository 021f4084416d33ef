"""`mcp/{client}`: the recall tool for whoever holds the client's own token, by the client of the `mcp` package."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from memory.conversations.memories import UnusableError
from memory.conversations.recall_tool import DESCRIPTION, RecallTool
from memory.conversations.said import Call
from tests.own_time import OwnTime
from tests.web.remembering import CAKE, KEY, TAP, Remembering, remembering
from web import mcp_server
from web.client_tokens import ClientTokens

ADMIN, READ_ONLY = "admin-token-of-the-tests", "read-only-token-of-the-tests"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream"}
QUESTION = {"query": "Where did I put the spare key?"}


class Server:
    """A dashboard whose conversations are real, and the tokens of two clients."""

    def __init__(self, dashboard: Any, kept: Remembering) -> None:
        self.dashboard = dashboard
        self.kept = kept
        self.tokens = ClientTokens(kept)
        self.mine = self.others = ""

    def ask(self, token: str | None, *, client: str = "client", method: str = "POST", **more: Any) -> Any:
        headers = ACCEPT | more.pop("headers", {})
        return self.dashboard.ask(method, f"/mcp/{client}", token=token, headers=headers, json=LIST, **more)

    @asynccontextmanager
    async def connected(self, mode: str = "auto") -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {self.mine}"}
        async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=300) as http:
            url = f"{self.dashboard.origin}/mcp/client"
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                yield client


@pytest.fixture
def serving(open_dashboard: Any, tmp_path: Path) -> Callable[..., Any]:
    @asynccontextmanager
    async def served(**more: Any) -> AsyncIterator[Server]:
        async with remembering(tmp_path) as kept, open_dashboard(conversations=kept, **more) as dashboard:
            server = Server(dashboard, kept)
            server.mine = await server.tokens.make("client") or ""
            server.others = await server.tokens.make("other") or ""
            yield server

    return served


@pytest.fixture
async def server(serving: Callable[..., Any]) -> AsyncIterator[Server]:
    async with serving() as one:
        yield one


def text_of(result: Any) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    assert result.structured_content is None
    return content.text


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_tool_is_listed_and_finds_what_was_said(server: Server, mode: str) -> None:
    session = server.kept.say("client", KEY, TAP).session
    server.kept.say("other", CAKE)
    async with server.connected(mode) as client:
        said = client.server_info  # nobody asks for it where the version is agreed on beforehand
        assert (said and said.name) == (None if mode == "2026-07-28" else "_memory")
        [tool] = (await client.list_tools()).tools
        assert (tool.name, tool.description, tool.input_schema) == ("MemoryRecall", DESCRIPTION, RecallTool().schema)
        assert tool.annotations
        assert tool.annotations.read_only_hint is True
        found = await client.call_tool("MemoryRecall", QUESTION | {"limit": 1})
        assert not found.is_error
        assert f"[1] session [[{session}]], conversation 1," in text_of(found)
        assert "> Assistant: It hangs behind the clock in the hall." in text_of(found)
        assert "Novak" not in text_of(found)
        nothing = await client.call_tool("MemoryRecall", QUESTION | {"before": "2026-11-29"})
        assert text_of(nothing) == "No relevant memories found. 1 session is recorded, of 2026-11-30."


async def test_the_conversation_that_asks_is_left_out(server: Server) -> None:
    server.kept.say("client", KEY, at=datetime.now(UTC) - timedelta(minutes=20))
    async with server.connected() as client:
        assert "behind the clock" in text_of(await client.call_tool("MemoryRecall", QUESTION))
        before, call = (await server.kept.engine.status("client")).chunks, Call("1", "MemoryRecall", "{}")
        server.kept.say("client", ("Where is the key, again?", "Let me look."), at=datetime.now(UTC), calls=(call,))
        async with asyncio.timeout(60):
            while (await server.kept.engine.status("client")).chunks == before:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.05)
        text = text_of(await client.call_tool("MemoryRecall", QUESTION))
    assert "behind the clock" in text
    assert "Let me look." not in text


async def test_the_tool_has_the_name_of_the_configuration(serving: Callable[..., Any]) -> None:
    names = ["Remember"]
    async with serving(recall_tool=lambda: RecallTool(names[-1])) as server, server.connected() as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["Remember"]
        names.append("remember-2")
        assert not (await client.call_tool("remember-2", QUESTION)).is_error
        with pytest.raises(MCPError, match="there is no tool 'Remember'"):
            await client.call_tool("Remember", QUESTION)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "`query` must say what to look for"),
        ({"query": 7}, "`query` must say what to look for"),
        ({"query": "key", "after": "soon"}, "`after` must be a date like 2026-03-04, or a duration like 2d or 6h"),
    ],
)
async def test_arguments_that_mean_nothing_are_told_to_the_model(server: Server, arguments: Any, message: str) -> None:
    async with server.connected() as client:
        result = await client.call_tool("MemoryRecall", arguments)
    assert (result.is_error, text_of(result)) == (True, message)


async def test_an_index_that_cannot_be_used_is_told_to_the_model(server: Server, monkeypatch: Any) -> None:
    errors: list[Exception] = []

    async def unusable(*_: object, **__: object) -> None:
        raise errors[-1]

    monkeypatch.setattr(server.kept.memories, "recall", unusable)
    ends = "Go on without them, and tell the user"
    async with server.connected() as client:
        for error, why in (
            (UnusableError("it is made with another embedding"), "it is made with another embedding. "),
            (OSError(28, "No space left on device"), "the disk refuses (No space left on device). "),
        ):
            errors.append(error)
            result = await client.call_tool("MemoryRecall", QUESTION)
            assert result.is_error
            assert text_of(result).startswith(f"The conversations cannot be searched: {why}{ends}")
        server.kept.memories, server.kept.trouble = None, "Another mitmemory has them."
        result = await client.call_tool("MemoryRecall", QUESTION)
        assert (result.is_error, text_of(result)) == (True, "Another mitmemory has them.")


async def test_a_long_search_ends_and_holds_up_nobody(server: Server, monkeypatch: Any) -> None:
    began, over = asyncio.Event(), asyncio.Event()

    async def long(*_: object, **__: object) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            over.set()

    monkeypatch.setattr(server.kept.memories, "recall", long)
    async with server.connected() as client:
        calling = asyncio.create_task(client.call_tool("MemoryRecall", QUESTION))
        await began.wait()
        async with server.ask(server.mine) as answer:
            assert answer.status == 200
        async with server.dashboard.ask("GET", "/api/status") as answer:
            assert answer.status == 200
        calling.cancel()
        await asyncio.wait([calling])
        await asyncio.wait_for(over.wait(), 60)
        monkeypatch.setattr(mcp_server, "LONGEST_SEARCH", 0.05)
        result = await client.call_tool("MemoryRecall", QUESTION)
        assert (result.is_error, text_of(result)) == (True, mcp_server.TOO_LONG)


async def test_a_search_under_way_does_not_hold_up_the_end(serving: Callable[..., Any], monkeypatch: Any) -> None:
    began = asyncio.Event()

    async def long(*_: object, **__: object) -> None:
        began.set()
        await asyncio.Event().wait()

    async with serving() as server:
        monkeypatch.setattr(server.kept.memories, "recall", long)
        call = {"name": "MemoryRecall", "arguments": QUESTION}
        asking = asyncio.create_task(
            server.dashboard.session.post(
                f"{server.dashboard.origin}/mcp/client",
                headers=ACCEPT | {"Authorization": f"Bearer {server.mine}"},
                json=LIST | {"method": "tools/call", "params": call},
            )
        )
        await began.wait()
        time_since = OwnTime()
        await server.dashboard.sidecar.stop()
        assert time_since.seconds() < 5
        await asyncio.wait([asking])
        if not asking.cancelled() and asking.exception() is None:
            asking.result().release()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "mcp"]


# ---- who is let in


async def test_every_wrong_token_gets_the_same_answer(server: Server) -> None:
    off = await server.tokens.make("off") or ""
    cookie = await server.dashboard.log_in()
    answers = set()
    for client, token, headers in [
        ("client", None, {}),
        ("client", None, cookie | {"Origin": server.dashboard.origin}),
        ("client", "x", {}),
        ("client", "é", {}),
        ("client", server.mine[:-1], {}),
        ("client", server.others, {}),
        ("client", ADMIN, {}),
        ("client", READ_ONLY, {}),
        ("client", None, {"Authorization": f"Basic {server.mine}"}),
        ("client", None, {"Authorization": server.mine}),
        ("other", server.mine, {}),
        ("off", off, {}),
        ("nobody", server.mine, {}),
        ("Client", server.mine, {}),
    ]:
        for method in ("POST", "GET", "DELETE"):
            async with server.ask(token, client=client, method=method, headers=headers) as answer:
                sent = sorted((name, value) for name, value in answer.headers.items() if name != "Date")
                answers.add((answer.status, await answer.text(), tuple(sent)))
    [(status, text, headers_sent)] = answers
    assert status == 401
    assert json.loads(text)["error"]["code"] == "unauthorized"
    assert ("WWW-Authenticate", 'Bearer realm="mitmemory"') in headers_sent
    async with server.ask(server.mine) as answer:
        assert answer.status == 200


async def test_a_token_in_the_address_opens_nothing(server: Server) -> None:
    async with server.ask(None, params={"token": server.mine, "access_token": server.mine}) as answer:
        assert answer.status == 401


async def test_a_clients_token_opens_nothing_else(server: Server) -> None:
    for method, path in [("GET", "/"), ("GET", "/api/clients"), ("POST", "/api/clients/client/recall"), ("GET", "/no")]:
        async with server.dashboard.ask(method, path, token=server.mine) as answer:
            assert answer.status == 401


async def test_a_memory_that_is_switched_off_closes_it_at_once(server: Server) -> None:
    server.kept.clients["client"] = False
    async with server.ask(server.mine) as answer:
        assert answer.status == 401
    server.kept.clients["client"] = True
    async with server.ask(server.mine) as answer:
        assert answer.status == 200


async def test_a_client_that_needs_none_is_told_so_once_it_has_proved_itself(serving: Callable[..., Any]) -> None:
    async with serving(remembers_inside=lambda client: client == "client") as server:
        async with server.ask(server.mine) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (403, "mcp_via_llm")
        async with server.ask("wrong") as answer:
            assert answer.status == 401
        async with server.ask(server.others, client="other") as answer:
            assert answer.status == 200


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_there_is_no_stream_and_no_session(server: Server, method: str) -> None:
    async with server.ask(server.mine, method=method) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("host", ["rebound.example:{port}", "127.0.0.1.evil.example", ""])
async def test_another_name_is_misdirected(server: Server, host: str) -> None:
    async with server.ask(server.mine, headers={"Host": host.format(port=server.dashboard.port)}) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (421, "foreign_host")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_page_of_another_site_is_refused(server: Server, headers: dict[str, str], method: str) -> None:
    async with server.ask(server.mine, headers=headers, method=method) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (403, "foreign_origin")


async def test_a_body_that_is_none_of_the_protocol(server: Server, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    path = "/mcp/client"
    for body, status in [
        (b"secret words", 400),
        (b'{"jsonrpc": "2.0"}', 400),
        (BytesIO(b"x" * (2**20 + 1)), 413),
        (b"", 400),
    ]:
        headers = ACCEPT | {"Content-Type": "application/json"}
        async with server.dashboard.ask("POST", path, token=server.mine, headers=headers, data=body) as answer:
            assert answer.status == status
    for body, status in (
        ({"jsonrpc": "2.0", "method": "notifications/secret words"}, 202),
        (LIST | {"method": "tools/call", "params": {"name": "MemoryRecall", "arguments": "secret words"}}, 200),
        (LIST | {"method": "tools/call", "params": {"name": "secret words", "arguments": {}}}, 200),
    ):
        async with server.dashboard.ask("POST", path, token=server.mine, headers=ACCEPT, json=body) as answer:
            assert answer.status == status
    assert "secret words" not in caplog.text
    assert server.mine not in caplog.text


async def test_under_a_prefix(serving: Callable[..., Any]) -> None:
    async with serving(prefix="/m/") as server:
        server.dashboard.session.headers["Authorization"] = f"Bearer {server.mine}"
        for path, status in (("/m/mcp/client", 200), ("/mcp/client", 401)):
            async with server.dashboard.ask("POST", path, token=None, headers=ACCEPT, json=LIST) as answer:
                assert answer.status == status
