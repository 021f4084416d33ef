"""Many streams of HTTP/2 at once, through a real proxy with real TLS: none is mixed up, none is forgotten."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from h2.settings import SettingCodes

from addons.demo.authority import AuthorityPaths
from tests.addons.conftest import configuration
from tests.addons.hostile import SECONDS, WHOLE, asked_for, begun, ended, entry_of, question, said, usage
from tests.addons.http2_peers import Call, Client, Reply
from tests.addons.http2_stage import ANTHROPIC, FIRST, REST, SSE, Stage, over, staged
from tests.harness import Loop, RawRequest, RawUpstream, SuiteProcess
from tests.own_time import OwnTime

MANY = 40


@pytest.fixture(scope="module")
def stage(
    background: Loop, tmp_path_factory: pytest.TempPathFactory, vault: Path, authority: AuthorityPaths
) -> Iterator[Stage]:
    yield from staged(background, tmp_path_factory.mktemp("crowds"), vault, authority)


@pytest.mark.parametrize("graceful", [True, False])
async def test_requests_that_wait_for_their_turn_are_told(
    background: Loop, tmp_path: Path, vault: Path, authority: AuthorityPaths, graceful: bool
) -> None:
    """The server takes two streams at a time, and is gone with four requests waiting."""
    limit = {SettingCodes.MAX_CONCURRENT_STREAMS: 2}
    for stage in staged(background, tmp_path, vault, authority, settings=limit):
        go_on = asyncio.Event()

        async def leave(call: Call, stage: Stage = stage, go_on: asyncio.Event = go_on) -> None:
            call.begin(content_type=SSE)
            await call.send(FIRST)
            await asyncio.wait_for(go_on.wait(), SECONDS)
            if graceful:
                call.go_away(5)
                await call.send(REST, end=True)
            else:
                call.peer.abort()

        async with await stage.client() as client:
            await stage.goes_on(client, "first")
            stage.scripts |= {f"waits-{number}": leave for number in range(6)}
            replies = [await client.ask(question(f"waits-{number}")) for number in range(6)]
            await asyncio.gather(*(reply.has(len(FIRST)) for reply in replies[:2]))
            stage.let(go_on)
            await asyncio.gather(*(over(reply.over) for reply in replies))
            for reply in replies[2:]:
                assert reply.status == 502
            for number in range(6):
                entry = await entry_of(stage.suite, f"waits-{number}")
                assert entry["outcome"] == ("answered" if graceful and number < 2 else "failed")
            await stage.goes_on(client, "last")
        assert sorted(asked_for(bytes(call.body)) for call in stage.upstream.calls) == [
            "first",
            "last",
            "waits-0",
            "waits-1",
        ]


async def test_a_client_of_http2_does_not_wait_for_a_server_of_http1(
    background: Loop, tmp_path: Path, vault: Path, authority: AuthorityPaths
) -> None:
    """All of one connection's requests are answered together: the server waits for the last of them."""
    came, all_here = [], asyncio.Event()

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        came.append(asked_for(request.body))
        if len(came) == MANY:
            all_here.set()
        await asyncio.wait_for(all_here.wait(), SECONDS)
        answer = WHOLE.replace(b"noon", asked_for(request.body).encode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(answer), answer))
        await writer.drain()

    server = RawUpstream(respond, authority.server_context())
    background.run(server.start())
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{server.port}"})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        async with await Client.connect(suite, ANTHROPIC) as client:
            replies = [await client.ask(question(f"side-{number}")) for number in range(MANY)]
            await asyncio.gather(*(over(reply.over) for reply in replies))
    background.run(server.stop())
    for number, reply in enumerate(replies):
        assert reply.told == (200, WHOLE.replace(b"noon", f"side-{number}".encode()), "")
    assert sorted(came) == sorted(f"side-{number}" for number in range(MANY))


CROWD, CLIENTS = 1000, 10
MOST_SECONDS = 2.0
"""The longest silence of another stream, on a machine with nothing else to do."""


async def test_a_thousand_streams_at_once(stage: Stage) -> None:
    """Each waits for the last to come, so that all are under way together; meanwhile another ticks on."""
    stop, all_here = asyncio.Event(), asyncio.Event()
    came: list[str] = []

    def text(number: int) -> str:
        return f"The answer to {number} is {number * number}. 🌊"

    async def answer(call: Call) -> None:
        name = asked_for(bytes(call.body))
        number = int(name.rpartition("-")[2])
        call.begin(content_type=SSE)
        await call.send(begun(number))
        came.append(name)
        if len(came) == CROWD:
            all_here.set()
        await all_here.wait()
        said_now = said(text(number))
        await call.send(said_now[:40])
        await asyncio.sleep(0)
        await call.send(said_now[40:] + ended(number + 1), end=True)

    async def tick(call: Call) -> None:
        call.begin(content_type=SSE)
        while not stop.is_set():
            await call.send(b": tick\n\n")
            await asyncio.sleep(0.05)
        await call.send(WHOLE, end=True)

    stage.scripts |= {f"crowd-{number}": answer for number in range(CROWD)} | {"ticks": tick}
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await stage.client()) for _ in range(CLIENTS + 1)]
        steady = await clients.pop().ask(question("ticks"))
        await steady.has(1)
        gaps = asyncio.create_task(longest_gap(stage.suite, steady))
        replies = await asyncio.gather(
            *(clients[number % CLIENTS].ask(question(f"crowd-{number}"), agent="crowd/1") for number in range(CROWD))
        )
        await asyncio.gather(*(over(reply.over) for reply in replies))
        stage.let(stop)
        await over(steady.over)
        assert steady.told[2] == ""
        gap = await gaps
    for number, reply in enumerate(replies):
        assert reply.told == (200, begun(number) + said(text(number)) + ended(number + 1), ""), number
    assert sorted(came) == sorted(f"crowd-{number}" for number in range(CROWD))
    entries = stage.suite.api("api/activity?client=crowd&limit=1000").body["entries"]
    assert {entry["model"]: (entry["outcome"], entry["usage"]) for entry in entries} == {
        f"crowd-{number}": ("answered", usage(number, number + 1)) for number in range(CROWD)
    }
    assert gap < MOST_SECONDS


async def longest_gap(suite: SuiteProcess, reply: Reply) -> float:
    """Seconds between two pieces of a reply, at most."""
    clock, longest, last = OwnTime(suite.process.pid, os.getpid()), 0.0, 0.0
    while not reply.over.is_set():
        reply.more.clear()
        await reply.more.wait()
        now = clock.seconds()
        longest, last = max(longest, now - last), now
    return longest
