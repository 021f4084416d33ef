"""Requests on hold, in a real proxy process: nothing is sent while they wait, and then what was decided is done."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from addons.demo.authority import AuthorityPaths
from tests.addons.conftest import ANSWER, GARDEN, HARBOUR, Serve, configuration
from tests.addons.hostile import client_of
from tests.addons.http2_peers import Client
from tests.addons.test_dispatch import CLOUDS, asked, curl
from tests.harness import RawUpstream, SuiteProcess
from tests.own_time import OwnTime, patience

ASK = {"name": "ask me", "when": {"note": "vault/Garden.md", "to": "cloud"}, "then": "hold", "hold_for": "10m"}
PROTOCOLS = ("anthropic", "openai-chat", "openai-responses", "gemini", "bedrock")
VERSIONS = ("--http1.1", "--http2")
EXPIRY = [
    {"name": "block in the end", "when": {"note": "vault/Garden.md"}, "then": "hold", "hold_for": "200ms"},
    {
        "name": "allow in the end",
        "when": {"note": "vault/projects/Harbour.md"},
        "then": "hold",
        "hold_for": "200ms",
        "otherwise": "allow",
    },
]

type Held = dict[str, Any]


@pytest.fixture(scope="module")
def cloud(serve: Serve) -> RawUpstream:
    """Stands in for all providers; without TLS, since Bedrock has a host for each region."""
    return serve(tls=False)


@pytest.fixture(scope="module")
def target(serve: Serve) -> RawUpstream:
    """A model of the user's own that speaks Anthropic."""
    return serve(tls=False)


@pytest.fixture(scope="module")
def suite(
    tmp_path_factory: pytest.TempPathFactory,
    vault: Path,
    cloud: RawUpstream,
    target: RawUpstream,
    authority: AuthorityPaths,
) -> Iterator[SuiteProcess]:
    config = configuration(
        vault,
        dict.fromkeys(CLOUDS, f"http://127.0.0.1:{cloud.port}"),
        rules=[ASK],
        targets=[
            {"name": "near", "url": f"http://127.0.0.1:{target.port}", "protocols": ["anthropic"], "model": "tide-2"},
            {"name": "dead", "url": "http://127.0.0.1:9", "protocols": ["anthropic"], "connect_timeout": "1s"},
        ],
    )
    folder = tmp_path_factory.mktemp("hold")
    with SuiteProcess(folder, config, trust=authority.authority, inspector=True) as running:
        yield running


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def held(suite: SuiteProcess) -> list[Held]:
    listed: list[Held] = suite.api("api/held").body["held"]
    return listed


def waiting(suite: SuiteProcess, count: int = 1) -> list[Held]:
    """Those on hold, once there are so many."""
    suite.wait_for(lambda: len(held(suite)) == count, f"{count} on hold")
    return held(suite)


def decide(suite: SuiteProcess, one: Held, action: str, **more: str) -> None:
    answer = suite.api(f"api/held/{one['id']}", method="POST", body={"action": action, **more})
    assert answer.status == 200, answer.body


def entry_of(suite: SuiteProcess, one: Held) -> dict[str, Any]:
    """The activity entry of one that was on hold, once it is over."""

    def found() -> list[dict[str, Any]]:
        entries = suite.api("api/activity?limit=1000").body["entries"]
        return [entry for entry in entries if entry["id"] == one["id"] and entry["outcome"]]

    suite.wait_for(lambda: bool(found()), f"the end of {one['id']}")
    return found()[0]


def received(upstream: RawUpstream) -> tuple[int, int]:
    return upstream.connections, len(upstream.requests)


def outcome(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry["decision"]["action"], entry["outcome"], entry["status"], [one["model"] for one in entry["sentTo"]]


def ask(threads: ThreadPoolExecutor, suite: SuiteProcess, protocol: str, *flags: str) -> Future[tuple[int, Any]]:
    return threads.submit(curl, suite, *asked(protocol, f"Look:\n{GARDEN}"), *flags)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_released_is_sent_as_it_came_and_not_before(
    suite: SuiteProcess, cloud: RawUpstream, threads: ThreadPoolExecutor, version: str
) -> None:
    for protocol in PROTOCOLS:
        before = received(cloud)
        answer = ask(threads, suite, protocol, version)
        [one] = waiting(suite)
        entry = one["entry"]
        assert (entry["protocol"], entry["finishedAt"], entry["outcome"], entry["sentTo"]) == (protocol, None, None, [])
        assert entry["decision"] == {
            "action": "hold",
            "rule": "ask me",
            "rules": [{"name": "ask me", "action": "hold", "notes": ["vault/Garden.md"]}],
        }
        assert [note["id"] for note in entry["notes"]] == ["vault/Garden.md"]
        assert one["targets"] == (["near", "dead"] if protocol == "anthropic" else [])
        shown = suite.api("api/activity?limit=1").body["entries"]
        assert shown == [entry]
        assert received(cloud) == before
        decide(suite, one, "release")
        assert answer.result() == (200, ANSWER)
        assert received(cloud) == (before[0] + 1, before[1] + 1)
        assert cloud.requests[-1].body == json.dumps(asked(protocol, f"Look:\n{GARDEN}")[1]).encode()
        assert outcome(entry_of(suite, one)) == ("allow", "answered", 200, ["tide-1"])
    assert held(suite) == []


def test_what_other_rules_withhold_is_withheld_whatever_a_person_says(
    tmp_path: Path, vault: Path, serve: Serve, threads: ThreadPoolExecutor, authority: AuthorityPaths
) -> None:
    strip = {
        "name": "strip the harbour",
        "when": {"note": "vault/projects/Harbour.md", "to": "cloud"},
        "then": "redact",
    }
    cloud, near = serve(tls=False), serve(tls=False)
    config = configuration(
        vault,
        {"anthropic": f"http://127.0.0.1:{cloud.port}"},
        rules=[ASK, strip],
        targets=[{"name": "near", "url": f"http://127.0.0.1:{near.port}", "protocols": ["anthropic"]}],
    )
    url, whole = asked("anthropic", f"Look:\n{GARDEN}\n{HARBOUR}\nDone.")
    kept = "\n".join("[withheld]" if any(map(str.isalnum, row)) else row for row in HARBOUR.split("\n"))
    _, less = asked("anthropic", f"Look:\n{GARDEN}\n{kept}\nDone.")
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        for version, action, more in (("--http1.1", "release", {}), ("--http2", "redirect", {"target": "near"})):
            answer = threads.submit(curl, suite, url, whole, version)
            [one] = waiting(suite)
            assert [note["id"] for note in one["entry"]["notes"]] == ["vault/Garden.md", "vault/projects/Harbour.md"]
            assert received(cloud) == ((0, 0) if action == "release" else (1, 1))
            decide(suite, one, action, **more)
            assert answer.result() == (200, ANSWER)
            assert outcome(entry_of(suite, one))[1:] == ("answered", 200, ["tide-1"])
        assert [request.body for request in (*cloud.requests, *near.requests)] == [json.dumps(less).encode()] * 2
        shared = suite.api("api/memory").body["exposure"]
    assert {note: (one["cloudContent"], one["localContent"]) for note, one in shared.items()} == {
        "vault/Garden.md": (1, 1)
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_person_blocks_reaches_nobody(
    suite: SuiteProcess, cloud: RawUpstream, threads: ThreadPoolExecutor, version: str
) -> None:
    before = received(cloud)
    for protocol in PROTOCOLS:
        answer = ask(threads, suite, protocol, version)
        [one] = waiting(suite)
        decide(suite, one, "block")
        status, error = answer.result()
        assert status == 400
        assert "mitmemory blocked this request" in json.dumps(error)
        assert outcome(entry_of(suite, one)) == ("block", "blocked", 400, [])
    assert received(cloud) == before


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_person_sends_to_a_target_goes_there_only(
    suite: SuiteProcess, cloud: RawUpstream, target: RawUpstream, threads: ThreadPoolExecutor, version: str
) -> None:
    before = received(cloud)
    answer = ask(threads, suite, "anthropic", version, "-H", "x-api-key: cloud-key")
    [one] = waiting(suite)
    decide(suite, one, "redirect", target="near")
    assert answer.result() == (200, ANSWER)
    assert received(cloud) == before
    got = target.requests[-1]
    assert json.loads(got.body) == asked("anthropic", f"Look:\n{GARDEN}")[1] | {"model": "tide-2"}
    assert b"cloud-key" not in got.head
    assert outcome(entry_of(suite, one)) == ("redirect", "answered", 200, ["tide-2"])


def test_a_target_that_does_not_answer_ends_in_a_refusal(
    suite: SuiteProcess, cloud: RawUpstream, threads: ThreadPoolExecutor
) -> None:
    before = received(cloud)
    answer = ask(threads, suite, "anthropic")
    [one] = waiting(suite)
    decide(suite, one, "redirect", target="dead")
    assert answer.result()[0] == 400
    assert received(cloud) == before
    assert outcome(entry_of(suite, one)) == ("block", "blocked", 400, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_when_the_time_runs_out_what_the_rule_says_otherwise_is_done(
    tmp_path: Path, vault: Path, upstream: RawUpstream, authority: AuthorityPaths, version: str
) -> None:
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"}, rules=EXPIRY)
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        before = received(upstream)
        assert curl(suite, *asked("anthropic", GARDEN), version)[0] == 400
        assert received(upstream) == before
        assert curl(suite, *asked("anthropic", HARBOUR), version) == (200, ANSWER)
        assert received(upstream) == (before[0] + 1, before[1] + 1)
        allowed, blocked = suite.activity(2)
        assert outcome(blocked) == ("block", "blocked", 400, [])
        assert outcome(allowed) == ("allow", "answered", 200, ["tide-1"])
        for entry, rule in ((blocked, "block in the end"), (allowed, "allow in the end")):
            assert [part["name"] for part in entry["decision"]["rules"]] == [rule]
        late = suite.api(f"api/held/{blocked['id']}", method="POST", body={"action": "release"})
        assert (late.status, late.body["error"]["message"]) == (
            404,
            "this request no longer waits: its time has run out",
        )


def question(text: str = GARDEN) -> bytes:
    return json.dumps(asked("anthropic", text)[1]).encode()


async def when(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + 60 * patience()
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < deadline, f"no {what}"
        await asyncio.sleep(0.02)


async def one_waiting(suite: SuiteProcess) -> Held:
    await when(lambda: len(held(suite)) == 1, "one on hold")
    return held(suite)[0]


@asynccontextmanager
async def http1(suite: SuiteProcess) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that speaks HTTP/1.1 through the proxy, on which the request is sent."""
    host = "api.anthropic.com"
    reader, writer = await asyncio.open_connection("127.0.0.1", int(suite.proxy.rpartition(":")[2]))
    writer.write(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    context = ssl.create_default_context(cafile=str(suite.ca))
    await writer.start_tls(context, server_hostname=host)
    body = question()
    head = f"POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


def was_left(suite: SuiteProcess, one: Held) -> None:
    assert outcome(entry_of(suite, one)) == ("hold", "aborted", None, [])
    late = suite.api(f"api/held/{one['id']}", method="POST", body={"action": "release"})
    assert (late.status, late.body["error"]["message"]) == (404, "this request no longer waits: its client has left")


@pytest.mark.parametrize("how", ["closes", "resets"])
async def test_a_client_that_leaves_ends_it_http1(suite: SuiteProcess, cloud: RawUpstream, how: str) -> None:
    before = received(cloud)
    async with http1(suite) as (_, writer):
        one = await one_waiting(suite)
        if how == "closes":
            writer.close()
        else:
            writer.transport.abort()
        await when(lambda: not held(suite), "its end")
    await asyncio.to_thread(was_left, suite, one)
    assert received(cloud) == before


@pytest.mark.parametrize("how", ["resets the stream", "goes away", "is lost"])
async def test_a_client_that_leaves_ends_it_http2(suite: SuiteProcess, cloud: RawUpstream, how: str) -> None:
    before = received(cloud)
    async with await Client.connect(suite, "api.anthropic.com") as client:
        reply = await client.ask(question())
        one = await one_waiting(suite)
        if how == "resets the stream":
            client.reset(reply.stream)
        elif how == "goes away":
            client.http.close_connection()
            client.flush()
        else:
            client.abort()
        await when(lambda: not held(suite), "its end")
    await asyncio.to_thread(was_left, suite, one)
    assert received(cloud) == before


async def test_other_streams_of_the_connection_go_on(suite: SuiteProcess, cloud: RawUpstream) -> None:
    async with await Client.connect(suite, "api.anthropic.com") as client:
        asked_first = [await client.ask(question()) for _ in range(3)]
        await when(lambda: len(held(suite)) == 3, "three on hold")
        other = await client.ask(question(HARBOUR))
        await other.over.wait()
        assert (other.status, json.loads(other.data)) == (200, ANSWER)
        first, second, third = await asyncio.to_thread(held, suite)
        client.reset(asked_first[1].stream)
        await when(lambda: len(held(suite)) == 2, "two on hold")
        await asyncio.to_thread(decide, suite, third, "release")
        await asyncio.to_thread(decide, suite, first, "block")
        for reply, status in ((asked_first[0], 400), (asked_first[2], 200)):
            await reply.over.wait()
            assert reply.status == status
    await asyncio.to_thread(was_left, suite, second)


async def test_other_clients_go_on_while_many_wait(suite: SuiteProcess) -> None:
    async with client_of(suite, http2=False) as client:
        url = "https://api.anthropic.com/v1/messages"
        waits = [asyncio.create_task(client.post(url, content=question())) for _ in range(20)]
        await when(lambda: len(held(suite)) == 20, "twenty on hold")
        time_since = OwnTime(suite.process.pid, os.getpid())
        assert (await client.post(url, content=question(HARBOUR))).status_code == 200
        assert time_since.seconds() < 5
        for one in await asyncio.to_thread(held, suite):
            await asyncio.to_thread(decide, suite, one, "release")
        assert [(await answer).status_code for answer in waits] == [200] * 20


XSRF = "0" * 32
"""A page proves with it that it can read its own cookies."""


class Mitmweb:
    """The inspector as its page uses it."""

    def __init__(self, suite: SuiteProcess) -> None:
        address, _, token = suite.inspector.partition("?token=")
        self.client = httpx.Client(
            base_url=address,
            headers={"Authorization": f"Bearer {token}", "X-XSRFToken": XSRF},
            cookies={"_mitmproxy_xsrf": XSRF},
            trust_env=False,
            timeout=60,
        )

    def paused(self) -> dict[str, Any]:
        [flow] = [flow for flow in self.client.get("/flows").json() if flow["intercepted"]]
        return flow  # type: ignore[no-any-return]

    def post(self, path: str, body: Any = None) -> None:
        self.client.post(path, json=body).raise_for_status()

    def command(self, name: str, *arguments: str) -> None:
        self.post(f"/commands/{name}", {"arguments": arguments})


@pytest.fixture
def mitmweb(suite: SuiteProcess) -> Iterator[Mitmweb]:
    made = Mitmweb(suite)
    yield made
    made.client.close()


@pytest.mark.parametrize("way", ["button", "command"])
@pytest.mark.parametrize("does", ["resume", "kill"])
def test_mitmweb_shows_it_as_paused_and_decides(
    suite: SuiteProcess, cloud: RawUpstream, threads: ThreadPoolExecutor, mitmweb: Mitmweb, does: str, way: str
) -> None:
    before = received(cloud)
    answer = ask(threads, suite, "anthropic")
    [one] = waiting(suite)
    flow = mitmweb.paused()
    assert flow["comment"] == "1 note -> tide-1 (cloud)"
    assert flow["marked"] == "⌛"
    if way == "button":
        mitmweb.post(f"/flows/{flow['id']}/{does}")
    else:
        mitmweb.command(f"flow.{does}", "~u /v1/messages & ~comment tide-1 & ~marker hourglass")
    status, body = answer.result()
    if does == "resume":
        assert (status, body) == (200, ANSWER)
        assert received(cloud) == (before[0] + 1, before[1] + 1)
        assert outcome(entry_of(suite, one)) == ("allow", "answered", 200, ["tide-1"])
    else:
        assert status == 400
        assert "mitmemory blocked this request" in json.dumps(body)
        assert received(cloud) == before
        assert outcome(entry_of(suite, one)) == ("block", "blocked", 400, [])
    [shown] = [one for one in mitmweb.client.get("/flows").json() if one["id"] == flow["id"]]
    assert (shown["intercepted"], shown["response"]["status_code"]) == (False, status)
    assert held(suite) == []


def test_a_release_elsewhere_is_shown_in_mitmweb(
    suite: SuiteProcess, threads: ThreadPoolExecutor, mitmweb: Mitmweb
) -> None:
    answer = ask(threads, suite, "anthropic")
    [one] = waiting(suite)
    flow = mitmweb.paused()
    decide(suite, one, "release")
    answer.result()
    [shown] = [one for one in mitmweb.client.get("/flows").json() if one["id"] == flow["id"]]
    assert (shown["intercepted"], shown["marked"]) == (False, "🧠")


async def test_the_end_of_the_suite_lets_nothing_go(
    tmp_path: Path, vault: Path, upstream: RawUpstream, authority: AuthorityPaths
) -> None:
    config = configuration(
        vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"}, rules=[ASK | {"otherwise": "allow"}]
    )
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        before = received(upstream)
        async with await Client.connect(suite, "api.anthropic.com") as client, http1(suite) as (reader, _):
            reply = await client.ask(question())
            await when(lambda: len(held(suite)) == 2, "two on hold")
            assert await asyncio.to_thread(suite.stop) == 0
            await reply.over.wait()
            assert reply.data == b""
            assert await reader.read() == b""
        assert received(upstream) == before
