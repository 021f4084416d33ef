"""HTTP/2 at its worst, through a real proxy with real TLS: connections that go away, streams that are reset."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from h2.errors import ErrorCodes

from addons.demo.authority import AuthorityPaths
from tests.addons.hostile import (
    ALL,
    SECONDS,
    START,
    UNKNOWN,
    WHOLE,
    ask,
    asked_for,
    client_of,
    entry_of,
    question,
    tells,
)
from tests.addons.http2_peers import Call
from tests.addons.http2_stage import FIRST, REST, SSE, Stage, over, staged
from tests.harness import Loop


@pytest.fixture(scope="module")
def stage(
    background: Loop, tmp_path_factory: pytest.TempPathFactory, vault: Path, authority: AuthorityPaths
) -> Iterator[Stage]:
    yield from staged(background, tmp_path_factory.mktemp("http2"), vault, authority)


@pytest.mark.parametrize("begins", [False, True], ids=["before", "midst"])
async def test_a_server_that_goes_away_finishes_its_answer(stage: Stage, begins: bool) -> None:
    """As servers do that end a connection after so many requests. The next request needs a new connection."""
    model = f"leaving-{begins}"
    go_on = asyncio.Event()

    async def leave(call: Call) -> None:
        if begins:
            call.begin(content_type=SSE)
            await call.send(FIRST)
        call.go_away()
        await asyncio.wait_for(go_on.wait(), SECONDS)
        if not begins:
            call.begin(content_type=SSE)
            await call.send(FIRST)
        await call.send(REST, end=True)

    stage.scripts[model] = leave
    async with await stage.client() as client:
        reply = await client.ask(question(model))
        if begins:
            await reply.has(len(FIRST))
        await stage.goes_on(client, f"beside-{model}")
        stage.let(go_on)
        await over(reply.over)
        assert reply.told == (200, FIRST + REST, "")
        assert stage.connection(f"beside-{model}") != stage.connection(model)
        await stage.goes_on(client, f"after-{model}")
    assert tells(await entry_of(stage.suite, model)) == (200, "answered", ALL, len(WHOLE))


@pytest.mark.parametrize(
    ("name", "begins", "act"),
    [
        ("not-taken", False, lambda call: call.go_away(0)),
        ("failed", False, lambda call: call.go_away(code=ErrorCodes.INTERNAL_ERROR)),
        ("failed-midst", True, lambda call: call.go_away(code=ErrorCodes.ENHANCE_YOUR_CALM)),
        ("not-taken-midst", True, lambda call: call.go_away(0)),
        ("refused", False, lambda call: call.peer.reset(call.stream, ErrorCodes.REFUSED_STREAM)),
        ("reset", True, lambda call: call.peer.reset(call.stream, ErrorCodes.INTERNAL_ERROR)),
        ("lost", False, lambda call: call.peer.abort()),
        ("lost-midst", True, lambda call: call.peer.abort()),
        ("left-and-lost", True, lambda call: (call.go_away(), call.peer.abort())),
    ],
)
async def test_an_answer_that_breaks_off(stage: Stage, name: str, begins: bool, act: Callable[[Call], object]) -> None:
    go_on = asyncio.Event()

    async def break_off(call: Call) -> None:
        if begins:
            call.begin(content_type=SSE)
            await call.send(FIRST)
            await asyncio.wait_for(go_on.wait(), SECONDS)
        act(call)

    stage.scripts[name] = break_off
    async with await stage.client() as client:
        reply = await client.ask(question(name))
        if begins:
            await reply.has(len(FIRST))
            stage.let(go_on)
        await over(reply.over)
        assert reply.status == (200 if begins else 502)
        if begins:
            assert (bytes(reply.data), bool(reply.fault)) == (FIRST, True)
        await stage.goes_on(client, f"after-{name}")
    assert len(stage.calls(name)) == 1
    expected = (200, "failed", START, len(FIRST)) if begins else (None, "failed", UNKNOWN, 0)
    assert tells(await entry_of(stage.suite, name)) == expected


@pytest.mark.parametrize("who", ["server", "client", "client-gone"])
async def test_the_stream_beside_one_that_is_reset_goes_on(stage: Stage, who: str) -> None:
    go_on, has_begun = asyncio.Event(), asyncio.Event()
    name, beside = f"reset-by-{who}", f"beside-{who}"

    async def wait(call: Call) -> None:
        call.begin(content_type=SSE)
        await call.send(FIRST)
        if asked_for(bytes(call.body)) == beside:
            await asyncio.wait_for(go_on.wait(), SECONDS)
            await call.send(REST, end=True)
        elif who == "server":
            await asyncio.wait_for(has_begun.wait(), SECONDS)
            call.peer.reset(call.stream, ErrorCodes.CANCEL)
        else:
            await asyncio.wait_for(call.reset.wait(), SECONDS)

    stage.scripts[name] = stage.scripts[beside] = wait
    async with await stage.client() as client, await stage.client() as other:
        second = await (other if who == "client-gone" else client).ask(question(beside))
        first = await client.ask(question(name))
        await first.has(len(FIRST))
        await second.has(len(FIRST))
        stage.let(has_begun)
        if who == "client":
            client.reset(first.stream)
        elif who == "client-gone":
            client.abort()
        entry = await entry_of(stage.suite, name)
        stage.let(go_on)
        await over(second.over)
        assert second.told == (200, FIRST + REST, "")
        await stage.goes_on(other, f"after-{who}")
    assert tells(entry) == (200, "failed" if who == "server" else "aborted", START, len(FIRST))
    assert tells(await entry_of(stage.suite, beside)) == (200, "answered", ALL, len(WHOLE))
    (call,) = stage.calls(name)
    if who != "server":
        await asyncio.to_thread(stage.suite.wait_for, call.reset.is_set, "word of the reset")


async def test_trailers_and_early_hints(stage: Stage) -> None:
    """And an interim answer, which mitmproxy leaves out."""

    async def trail(call: Call) -> None:
        call.begin(103, link="</tide>")
        call.begin(content_type=SSE)
        await call.send(WHOLE)
        call.trail(tide="high")

    stage.scripts |= {"trailers-h2": trail, "trailers-h1": trail}
    async with await stage.client() as client, client_of(stage.suite, http2=False, offers_both=True) as old:
        reply = await client.ask(question("trailers-h2"))
        got = await ask(old, question("trailers-h1"))
        await over(reply.over)
        assert (reply.told, reply.trailers) == ((200, WHOLE, ""), {"x-tide": "high"})
        assert (got.status, got.data, got.whole) == (200, WHOLE, True)
        assert got.version == "HTTP/1.1"
    for name in ("trailers-h2", "trailers-h1"):
        assert tells(await entry_of(stage.suite, name)) == (200, "answered", ALL, len(WHOLE))


@pytest.mark.parametrize("more", [5, -5])
async def test_a_length_that_lies(stage: Stage, more: int) -> None:
    """h2 takes it for a fault of the connection: what came before it is passed on."""
    go_on = asyncio.Event()

    async def lie(call: Call) -> None:
        call.begin(content_type=SSE, content_length=str(len(WHOLE) + more))
        await call.send(FIRST)
        await asyncio.wait_for(go_on.wait(), SECONDS)
        await call.send(REST, end=True)

    stage.scripts[f"lies-{more}"] = lie
    async with await stage.client() as client:
        reply = await client.ask(question(f"lies-{more}"))
        await reply.has(len(FIRST))
        stage.let(go_on)
        await over(reply.over)
        assert reply.fault
        assert (FIRST + REST).startswith(bytes(reply.data))
        await stage.goes_on(client, f"after-lies-{more}")
    entry = await entry_of(stage.suite, f"lies-{more}")
    assert (entry["outcome"], entry["bytes"]["response"]) == ("failed", len(reply.data))
    assert len(stage.calls(f"lies-{more}")) == 1


async def test_an_answer_before_the_body_is_read(
    background: Loop, tmp_path: Path, vault: Path, authority: AuthorityPaths
) -> None:
    """A server that refuses by the headers alone, and then resets what it will not read (RFC 9113, 8.1)."""

    async def refuse(call: Call) -> None:
        call.begin(413, content_type="application/json")
        await call.send(b'{"type": "error"}', end=True)
        call.peer.reset(call.stream, ErrorCodes.NO_ERROR)

    for stage in staged(background, tmp_path, vault, authority, at_once=True):
        stage.upstream.script = refuse
        async with await stage.client() as client:
            for name in ("large", "larger"):
                reply = await client.ask(question(name, padding="x" * 300_000))
                await over(reply.over)
                assert reply.told == (413, b'{"type": "error"}', "")
                assert tells(await entry_of(stage.suite, name)) == (413, "failed", UNKNOWN, 17)
        assert len(stage.upstream.calls) == 2
