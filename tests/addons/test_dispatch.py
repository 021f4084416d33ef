"""Rules with a real proxy process and real TLS: what is blocked reaches nobody, not even as a connection."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
import yaml
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import serve as serve_sockets
from websockets.exceptions import InvalidStatus

from addons.demo.authority import AuthorityPaths
from tests.addons.conftest import GARDEN, HARBOUR, configuration
from tests.addons.test_websocket import turn
from tests.harness import RawUpstream, SuiteProcess
from tests.own_time import patience

RULE = {"name": "the garden stays home", "when": {"note": "vault/Garden.md", "to": "cloud"}, "then": "block"}
TOLD = 'mitmemory blocked this request: "the garden stays home" keeps "Garden" from tide-1 (cloud)'
GOOGLE = "https://generativelanguage.googleapis.com/v1beta/models/tide-1"
CLOUDS = ("anthropic", "openai", "google", "bedrock")


def asked(protocol: str, text: str) -> tuple[str, dict[str, Any]]:
    """Where a request in each protocol goes, and its body."""
    messages = [{"role": "user", "content": text}]
    match protocol:
        case "anthropic":
            return "https://api.anthropic.com/v1/messages", {"model": "tide-1", "messages": messages}
        case "openai-chat":
            return "https://api.openai.com/v1/chat/completions", {"model": "tide-1", "messages": messages}
        case "openai-responses":
            return "https://api.openai.com/v1/responses", {"model": "tide-1", "input": text}
        case "gemini":
            return f"{GOOGLE}:generateContent", {"contents": [{"role": "user", "parts": [{"text": text}]}]}
        case _:
            url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/tide-1/converse"
            return url, {"messages": [{"role": "user", "content": [{"text": text}]}]}


ERRORS = {
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": TOLD}},
    "openai-chat": {
        "error": {"message": TOLD, "type": "invalid_request_error", "param": None, "code": "blocked_by_mitmemory"}
    },
    "gemini": {"error": {"code": 400, "message": TOLD, "status": "INVALID_ARGUMENT"}},
    "bedrock": {"message": TOLD},
}
ERRORS["openai-responses"] = ERRORS["openai-chat"]


@pytest.fixture
def suite(tmp_path: Path, vault: Path, upstream: RawUpstream, authority: AuthorityPaths) -> Iterator[SuiteProcess]:
    ways = dict.fromkeys(CLOUDS, f"https://127.0.0.1:{upstream.port}")
    with SuiteProcess(tmp_path, configuration(vault, ways, rules=[RULE]), trust=authority.authority) as running:
        yield running


def curl(suite: SuiteProcess, url: str, body: Any, *flags: str) -> tuple[int, Any]:
    """Status and decoded answer, by a connection of its own."""
    command = ["curl", "-sS", "--max-time", "60", "--proxy", suite.proxy, "--noproxy", "", "--cacert", str(suite.ca)]
    command += ["-H", "Content-Type: application/json", "--data-binary", "@-", "-w", "\n%{http_code}", *flags, url]
    ran = subprocess.run(command, input=json.dumps(body).encode(), capture_output=True, check=True)
    answer, _, status = ran.stdout.rpartition(b"\n")
    return int(status), json.loads(answer)


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_what_is_blocked_reaches_nobody(suite: SuiteProcess, upstream: RawUpstream, version: str) -> None:
    connections, requests = upstream.connections, len(upstream.requests)
    for protocol, error in ERRORS.items():
        for stream in (False, True):
            url, body = asked(protocol, f"Look:\n{GARDEN}")
            assert curl(suite, url, body | ({"stream": True} if stream else {}), version) == (400, error)
    assert (upstream.connections, len(upstream.requests)) == (connections, requests)
    entries = suite.activity(2 * len(ERRORS))
    assert {entry["protocol"] for entry in entries} == set(ERRORS)
    for entry in entries:
        assert (entry["outcome"], entry["status"], entry["sentTo"]) == ("blocked", 400, [])
        assert entry["decision"] == {
            "action": "block",
            "rule": RULE["name"],
            "rules": [{"name": RULE["name"], "action": "block", "notes": ["vault/Garden.md"]}],
        }
    assert suite.api("api/memory").body["exposure"] == {}


def test_what_no_rule_keeps_goes_its_way_also_after_a_block_on_the_same_connection(
    suite: SuiteProcess, upstream: RawUpstream
) -> None:
    with httpx2.Client(
        proxy=suite.proxy, verify=ssl.create_default_context(cafile=str(suite.ca)), timeout=60
    ) as client:
        statuses = []
        for text in (HARBOUR, GARDEN, HARBOUR, GARDEN):
            url, body = asked("anthropic", text)
            statuses.append(client.post(url, json=body).status_code)
    assert statuses == [200, 400, 200, 400]
    entries = suite.activity(4)
    assert [entry["outcome"] for entry in entries] == ["blocked", "answered", "blocked", "answered"]
    assert [bool(entry["sentTo"]) for entry in entries] == [False, True, False, True]
    exposure = suite.api("api/memory").body["exposure"]
    assert {note: counts["cloudContent"] for note, counts in exposure.items()} == {"vault/projects/Harbour.md": 2}


def test_sdks_show_why_and_do_not_try_again(suite: SuiteProcess, upstream: RawUpstream) -> None:
    requests = len(upstream.requests)
    context = ssl.create_default_context(cafile=str(suite.ca))
    with httpx2.Client(proxy=suite.proxy, verify=context, timeout=60) as client:
        claude = anthropic.Anthropic(api_key="k", http_client=client)
        gpt = openai.OpenAI(api_key="k", http_client=client)
        with pytest.raises(anthropic.BadRequestError) as first:
            claude.messages.create(model="tide-1", max_tokens=9, messages=[{"role": "user", "content": GARDEN}])
        with pytest.raises(openai.BadRequestError) as second:
            gpt.responses.create(model="tide-1", input=GARDEN, stream=True)
    assert TOLD in str(first.value)
    assert TOLD in str(second.value)
    assert (len(suite.activity(2)), len(upstream.requests)) == (2, requests)


def test_a_changed_rule_counts_from_the_next_request_on(suite: SuiteProcess) -> None:
    url, body = asked("anthropic", GARDEN)
    written = yaml.safe_load(suite.config.read_text("utf-8"))
    for rules, status in (([], 200), ([RULE], 400)):
        suite.config.write_text(yaml.safe_dump(written | {"rules": rules}), "utf-8")
        suite.wait_for(lambda status=status: curl(suite, url, body)[0] == status, f"status {status}")


async def test_a_websocket_is_refused_so_that_the_client_uses_https(suite: SuiteProcess) -> None:
    context = ssl.create_default_context(cafile=str(suite.ca))

    def opened() -> connect:
        return connect("wss://api.openai.com/v1/responses", proxy=suite.proxy, ssl=context, open_timeout=60)

    with pytest.raises(InvalidStatus) as refused:
        async with opened():
            pass
    assert refused.value.response.status_code == 426


async def sent_until_told(socket: ClientConnection, message: str, received: list[str | bytes]) -> tuple[int, Any]:
    """Send it until it is answered instead of `received`: how often it was sent, and the answer."""
    answer, sent = asyncio.create_task(socket.recv()), 0
    async with asyncio.timeout(60 * patience()):
        while not answer.done():
            await socket.send(message)
            sent += 1
            while len(received) < sent and not answer.done():  # noqa: ASYNC110 - neither end has an event for both
                await asyncio.sleep(0.05)
    return sent, json.loads(await answer)


async def test_rules_that_come_later_judge_a_socket_that_is_open(
    tmp_path: Path, vault: Path, authority: AuthorityPaths
) -> None:
    received: list[str | bytes] = []

    async def keep(socket: Any) -> None:
        async for message in socket:
            received.append(message)  # noqa: PERF401 - it is looked at while more may come

    async with serve_sockets(keep, "127.0.0.1", 0, ssl=authority.server_context()) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        config = configuration(vault, {"openai": f"https://127.0.0.1:{port}"})
        with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
            context = ssl.create_default_context(cafile=str(suite.ca))
            async with connect(
                "wss://api.openai.com/v1/responses", proxy=suite.proxy, ssl=context, open_timeout=60
            ) as socket:
                written = yaml.safe_load(suite.config.read_text("utf-8"))
                suite.config.write_text(yaml.safe_dump(written | {"rules": [RULE]}), "utf-8")
                sent, told = await sent_until_told(socket, turn(GARDEN, model="tide-1"), received)
                assert told == {"type": "error", **ERRORS["openai-chat"]}
                await socket.send(turn(HARBOUR, model="tide-1"))
            blocked = [entry for entry in suite.activity(2) if entry["outcome"] == "blocked"]
            assert [entry["sentTo"] for entry in blocked] == [[]]
    assert received == [*[turn(GARDEN, model="tide-1")] * (sent - 1), turn(HARBOUR, model="tide-1")]
