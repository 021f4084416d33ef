"""The recall tool over MCP with real processes: a suite, and `mitmemory mcp` that asks it."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from mcp import types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from addons import cli
from addons.program import with_program
from tests.addons.test_recall_command import write_config
from tests.harness import MITMEMORY, SuiteProcess
from tests.own_time import patience
from tests.web.remembering import remembering

ME = {"name": "Me", "match": {"proxy_user": "me"}, "memory_enabled": True}
YOU = {"name": "you", "match": {"proxy_user": "you"}, "memory_enabled": True}
QUESTION = {"query": "What is the word for the gate?"}
PREFIXED = {"listen": "127.0.0.1:0", "prefix": "/notes"}

type Answered = tuple[list[str], tuple[bool, str]]
"""The tools; whether the call of the first failed, and what it said."""


@asynccontextmanager
async def over_http(url: str, token: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=300) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def asked_over_http(suite: SuiteProcess, token: str) -> Answered:
    async with over_http(f"{suite.dashboard}mcp/me", token) as client:
        return await asked(client)


async def asked_over_stdio(config: Path, folder: Path) -> Answered:
    """What the server says on stderr goes to a file there; its environment is nobody's."""
    parameters = StdioServerParameters(
        command=str(MITMEMORY), args=["mcp", "--client", "me", "--config", str(config)], cwd=folder
    )
    with (folder / "mcp.log").open("w") as errors:
        async with Client(stdio_client(parameters, errlog=errors)) as client:
            return await asked(client)


async def asked(client: Client) -> Answered:
    tools = [tool.name for tool in (await client.list_tools()).tools]
    result = await client.call_tool(tools[0], QUESTION)
    [content] = result.content
    assert isinstance(content, types.TextContent)
    rounded = re.sub(r"relevance (\d\.\d)\d", r"relevance \1", content.text)  # the API gives three decimals
    return tools, (result.is_error, rounded)


async def seed(directory: Path, *said: tuple[str, str, datetime]) -> None:
    """Each client and the word that its conversation told, at some time."""
    async with remembering(directory) as kept:
        kept.store.configure(["me", "you"])
        for client, word, at in said:
            kept.say(client, ("Which word opens the gate?", f"The word for the gate is {word}."), at=at)


def rewrite(suite: SuiteProcess, *clients: dict[str, Any]) -> None:
    """Change mitm.yaml; the suite picks it up."""
    config = yaml.safe_load(suite.config.read_text("utf-8"))
    suite.config.write_text(yaml.safe_dump(config | {"clients": list(clients)}), "utf-8")


def status(suite: SuiteProcess, client: str, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    return suite.api(f"mcp/{client}", method="POST", token=None, headers=headers, body=body).status


def new_token(suite: SuiteProcess, client: str) -> str:
    answer = suite.api(f"api/clients/{client}/token", method="POST")
    assert answer.status == 200, answer.body
    return str(answer.body["token"])


def test_both_ways_lead_to_what_this_client_remembers(tmp_path: Path) -> None:
    mine, yours = (secrets.token_hex(8) for _ in range(2))
    at = datetime.now(UTC)
    asyncio.run(seed(tmp_path / "state" / "memory", ("me", mine, at), ("you", yours, at)))
    config = {"clients": [ME, YOU], "conversations": {"recall_tool_name": "remember_that"}, "dashboard": PREFIXED}
    with SuiteProcess(tmp_path, config, inspector=True) as suite:
        token = new_token(suite, "me")
        [tool], found = asyncio.run(asked_over_http(suite, token))
        assert (tool, found[0]) == ("remember_that", False)
        [tool_there], found_there = asyncio.run(asked_over_stdio(suite.config, tmp_path))
        assert (tool_there, found_there) == (tool, found)
        assert f"> Assistant: The word for the gate is {mine}." in found[1]
        assert yours not in found[1]
        assert [status(suite, *to) for to in (("me", token), ("you", token), ("me", new_token(suite, "you")))] == [
            200,
            401,
            401,
        ]
    assert token not in suite.log
    assert mine not in suite.log


def test_a_token_lives_as_long_as_its_client(tmp_path: Path) -> None:
    with SuiteProcess(tmp_path, {"clients": [ME | {"memory_enabled": False}, YOU]}, inspector=True) as suite:
        assert suite.api("api/clients/me/token", method="POST").status == 409
        switched = suite.api("api/clients/me", method="PATCH", body={"memoryEnabled": True}).body
        token = switched["token"]
        assert (
            f"claude mcp add --transport http --scope user mitmemory {suite.dashboard}mcp/me "
            in switched["lines"][0]["text"]
        )
        assert status(suite, "me", token) == 200
        [mcp, _] = suite.api("api/clients", token="read_only").body["mcp"]
        assert (mcp["client"], mcp["inside"], mcp["hasToken"]) == ("me", False, True)
        for enabled, opens in ((False, 401), (True, 200)):
            switched = suite.api("api/clients/me", method="PATCH", body={"memoryEnabled": enabled}).body
            assert (switched["token"], status(suite, "me", token)) == (None, opens)
    kept = suite.config.read_text("utf-8")
    with SuiteProcess(tmp_path, {}) as suite:  # its configuration is there
        assert status(suite, "me", token) == 200, "kept over a restart"
        rewrite(suite, ME | {"mode": "mcp_via_llm"}, YOU)
        suite.wait_for(lambda: status(suite, "me", token) == 403, "the change")
        assert suite.api("api/clients/me/token", method="POST").body["error"]["code"] == "mcp_via_llm"
        rewrite(suite, YOU)
        suite.wait_for(lambda: status(suite, "me", token) == 401, "the change")
        rewrite(suite, ME, YOU)
        suite.wait_for(lambda: "me" in [one["client"] for one in suite.api("api/clients").body["mcp"]], "the change")
        assert status(suite, "me", token) == 401, "it is another client of the same name"
        assert status(suite, "me", new_token(suite, "me")) == 200
    assert token not in kept + suite.log


# ---- mitmemory mcp


def test_without_a_suite_the_tool_says_what_to_do(tmp_path: Path) -> None:
    config = write_config(tmp_path, ME)
    [_], (failed, text) = asyncio.run(asked_over_stdio(config, tmp_path))
    assert failed
    assert text == with_program(
        "mitmemory does not run, and it has the memories. Go on without them, and ask the user to start it with "
        "`mitmemory run`.",
        config,
    )


def test_on_stdout_is_the_protocol_alone_and_the_end_of_stdin_ends_it(tmp_path: Path) -> None:
    config = write_config(tmp_path, ME)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, "no message", {"jsonrpc": "2.0"}]
    command = [str(MITMEMORY), "mcp", "--client", "me", "--config", str(config)]
    given = "".join(f"{json.dumps(line)}\n" for line in lines)
    ran = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60 * patience(), check=True)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    [answer] = [one for one in answers if one.get("id") == 1]
    assert answer["result"]["serverInfo"]["name"] == "_memory"
    assert all(one["jsonrpc"] == "2.0" for one in answers)
    assert "no message" not in ran.stderr


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    off, inside = {"name": "off", "match": {"proxy_user": "off"}}, ME | {"name": "inside", "mode": "mcp_via_llm"}
    config = write_config(tmp_path, ME, off, inside)
    for client, message in [
        (
            "nobody",
            f"{config} names no client nobody: name one of me, inside, or add it under `clients`, with memory_enabled: true",
        ),
        ("off", f"off has no memory: set memory_enabled: true for it in {config}"),
        ("inside", "the memory of inside comes inside its conversations (mode mcp_via_llm): it needs no MCP server"),
    ]:
        assert cli.main(["mcp", "--config", str(config), "--client", client]) == 2
        assert capsys.readouterr() == ("", f"mitmemory: {message}\n")
    write_config(tmp_path, ME, state=None, conversations={"directory": "talks"})
    assert cli.main(["mcp", "--config", str(config), "--client", "me"]) == 2
    assert capsys.readouterr().err.startswith("mitmemory: state is null")
