"""What each target gets through the gateway where not every one may have the whole body."""

from __future__ import annotations

import gzip

import pytest

from addons.gateway import Failure
from addons.outgoing import LocatedTarget, Origin, UnsuitableError
from memory.exchange import SentTo
from tests.addons.gateway_parts import BODY, answer, bench, header_of, request_of, target_at, upstream

LESS = b'{"model": "claude-test", "messages": []}'
ENCODED = request_of(gzip.compress(BODY), headers=(("Content-Type", "application/json"), ("Content-Encoding", "gzip")))


@pytest.mark.parametrize(("model", "received"), [(None, LESS), ("own-1", LESS.replace(b"claude-test", b"own-1"))])
async def test_a_target_gets_the_body_that_is_for_it(model: str | None, received: bytes) -> None:
    asked: list[str] = []

    async def body_for(there: LocatedTarget) -> bytes:
        asked.append(there.target.name)
        return LESS

    async with bench() as running, upstream(answer()) as server:
        target = target_at(server.port, "home", model=model)
        door = await running.open(target, target_at(server.port, "spare"), request=ENCODED, body_for=body_for)
        assert (await running.ask(door)).status == 200
        [request] = server.requests
        assert (request.body, header_of(request, b"content-encoding")) == (received, None)
        assert header_of(request, b"content-length") == b"%d" % len(received)
        assert asked == ["home"]


async def test_without_a_body_of_its_own_a_target_gets_all_of_it() -> None:
    async def body_for(_: LocatedTarget) -> None:
        return None

    async with bench() as running, upstream(answer()) as server:
        await running.ask(await running.open(target_at(server.port), request=ENCODED, body_for=body_for))
        [request] = server.requests
        assert (request.body, header_of(request, b"content-encoding")) == (ENCODED.body, b"gzip")


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(BODY) + b"more", gzip.compress(bytes(1 << 24))])
async def test_what_is_not_as_its_encoding_says_reaches_the_target_all_the_same(body: bytes) -> None:
    """Whether it may is for the rules to say, which have seen that it could not be looked at."""
    request = request_of(body, headers=(("Content-Encoding", "gzip"),))
    async with bench() as running, upstream(answer()) as server, running.connect() as connection:
        door = await running.open(target_at(server.port), request=request)
        await connection.send(door.path, door.proof, body, encoding="gzip")
        assert (await connection.answer()).status == 200
        assert [received.body for received in server.requests] == [body]


async def test_a_target_that_may_not_have_it_is_followed_by_the_next() -> None:
    async def body_for(there: LocatedTarget) -> bytes | None:
        if there.target.name == "first":
            raise UnsuitableError('may not have it ("stay")')
        return None

    async with bench() as running, upstream(answer()) as first, upstream(answer()) as second:
        targets = target_at(first.port, "first"), target_at(second.port, "second")
        assert (await running.ask(await running.open(*targets, body_for=body_for))).status == 200
        assert (first.connections, [request.body for request in second.requests]) == (0, [BODY])

        refused = await running.ask(await running.open(targets[0], body_for=body_for))
        assert (refused.status, first.connections) == (400, 0)
        assert rb"first may not have it (\"stay\")" in refused.body


async def test_the_provider_gets_on_the_way_back_what_is_for_it() -> None:
    async with bench() as running, upstream(answer()) as server:

        async def otherwise(_: tuple[Failure, ...]) -> Origin:
            return Origin("http", "127.0.0.1", server.port, SentTo("m", "cloud", "a:1"), body=LESS)

        await running.ask(await running.open(request=ENCODED, otherwise=otherwise))
        [request] = server.requests
        assert (request.body, header_of(request, b"content-encoding")) == (LESS, None)


async def test_a_fault_in_what_it_gets_sends_nothing() -> None:
    async def body_for(_: LocatedTarget) -> bytes:
        raise ZeroDivisionError

    async with bench() as running, upstream(answer()) as server:
        received = await running.ask(await running.open(target_at(server.port), body_for=body_for))
        assert (received.status, server.connections, running.sent) == (400, 0, [])
        assert b"because of a fault of its own (ZeroDivisionError)" in received.body
