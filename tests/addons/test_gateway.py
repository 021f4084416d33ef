"""The gateway against real servers on loopback: what they receive, and what the client gets."""

from __future__ import annotations

import asyncio
import re

import pytest

from memory.exchange import SentTo
from tests.addons.gateway_parts import BODY, answer, bench, request_of, target_at, upstream
from tests.harness import RawRequest

SSE = [b"event: a\ndata: {}\n\n", b"data:\xc3", b"\xa9\r\n\r\n", b": ping\n\n", b"data: [DONE]\n\n"]


async def test_the_target_gets_the_body_as_it_was_and_the_client_the_answer_as_it_came() -> None:
    body = bytes(range(256)) * 20_000
    said = bytes(reversed(range(256))) * 20_000
    respond = answer(said, b"201 Made So", b"X-ODD-Case: yes", b"Content-Encoding: br", b"X-Twice: 1", b"X-Twice: 2")
    async with bench() as running, upstream(respond) as server:
        received = await running.ask(await running.open(target_at(server.port), request=request_of(body)), b"ignored")
        assert [one.body for one in server.requests] == [body]
        assert received.status_line == b"HTTP/1.1 201 Made So"
        assert received.headers == [
            (b"Content-Length", b"%d" % len(said)),
            (b"X-ODD-Case", b"yes"),
            (b"Content-Encoding", b"br"),
            (b"X-Twice", b"1"),
            (b"X-Twice", b"2"),
        ]
        assert received.body == said
        assert running.sent == [SentTo("claude-test", "local", f"127.0.0.1:{server.port}")]


async def test_the_request_at_the_target_to_the_byte() -> None:
    async with bench() as running, upstream(answer()) as server:
        await running.ask(await running.open(target_at(server.port)))
        assert server.requests[0].header_lines == [
            b"POST /v1/messages?beta=true HTTP/1.1",
            b"Host: 127.0.0.1:%d" % server.port,
            b"Content-Type: application/json",
            b"anthropic-version: 2023-06-01",
            b"Content-Length: %d" % len(BODY),
            b"Connection: close",
        ]


async def test_the_first_piece_is_passed_on_before_the_second_is_made() -> None:
    go_on = asyncio.Semaphore(0)

    async def respond(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in SSE:
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            await writer.drain()
            await go_on.acquire()
        writer.write(b"0\r\n\r\n")

    async with bench() as running, upstream(respond) as server, running.connect() as connection:
        door = await running.open(target_at(server.port))
        await connection.send(door.path, door.proof)
        async with asyncio.timeout(60):
            head = await connection.head()
            assert head.headers == [(b"Content-Type", b"text/event-stream"), (b"Transfer-Encoding", b"chunked")]
            for part in SSE:
                assert await connection.chunk() == part
                go_on.release()
            assert await connection.chunk() == b""


async def test_an_answer_without_a_length_ends_where_its_connection_does() -> None:
    async def respond(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + b"".join(SSE))
        writer.close()

    async with bench() as running, upstream(respond) as server:
        received = await running.ask(await running.open(target_at(server.port)))
        assert (received.headers, received.body) == ([(b"Transfer-Encoding", b"chunked")], b"".join(SSE))


@pytest.mark.parametrize(
    "status", [b"200 OK", b"204 No Content", b"400 Bad Request", b"401 Unauthorized", b"429 Slow Down"]
)
async def test_what_is_no_failure_is_the_answer(status: bytes) -> None:
    body = b"" if status.startswith(b"204") else b'{"error": "own words"}'
    async with bench() as running, upstream(answer(body, status)) as first, upstream(answer()) as second:
        received = await running.ask(
            await running.open(target_at(first.port, "first"), target_at(second.port, "second"))
        )
        assert received.status_line == b"HTTP/1.1 " + status
        assert received.body == body
        assert second.connections == 0


async def test_headers_of_the_connection_and_of_the_host_stay_behind() -> None:
    headers = (
        b"Connection: X-Own",
        b"X-Own: 1",
        b"Keep-Alive: timeout=5",
        b"Set-Cookie: a=b",
        b'Alt-Svc: h3=":443"',
        b"X-Kept: 1",
    )
    async with bench() as running, upstream(answer(b"{}", b"200 OK", *headers)) as server:
        received = await running.ask(await running.open(target_at(server.port)))
        assert received.headers == [(b"Content-Length", b"2"), (b"X-Kept", b"1")]


@pytest.mark.parametrize("length", [b"Transfer-Encoding: chunked", b"Content-Length: 1000"])
async def test_an_answer_that_breaks_off_does_not_look_whole(length: bytes) -> None:
    part = b"5\r\nhello\r\n" if b"chunked" in length else b"hello"

    async def respond(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + part)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()

    async with bench() as running, upstream(respond) as first, upstream(answer()) as second:
        received = await running.ask(
            await running.open(target_at(first.port, "first"), target_at(second.port, "second"))
        )
        assert (received.status, received.body, received.whole) == (200, b"hello", False)
        assert second.connections == 0


async def test_an_answer_that_goes_on_in_no_http_does_not_look_whole(caplog: pytest.LogCaptureFixture) -> None:
    async def respond(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(b"no size at all\r\n")

    async with bench() as running, upstream(respond) as server:
        received = await running.ask(await running.open(target_at(server.port)))
        assert (received.body, received.whole) == (b"hello", False)
        assert [record.getMessage() for record in caplog.records] == ["The answer of a target broke off"]


async def test_twenty_streams_at_once_do_not_mix() -> None:
    started = asyncio.Barrier(20)

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        number = re.search(rb"\d+", request.body)
        assert number
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in (b"a", b"b", b"c"):
            writer.write(b"%x\r\n%s%s\r\n" % (len(number[0]) + 1, part, number[0]))
            await writer.drain()
            await started.wait()  # all of them are under way
        writer.write(b"0\r\n\r\n")

    async with bench() as running, upstream(respond) as server, asyncio.timeout(60):
        doors = [await running.open(target_at(server.port), request=request_of(b"%d" % number)) for number in range(20)]
        answers = await asyncio.gather(*(running.ask(door) for door in doors))
        assert [one.body for one in answers] == [b"a%db%dc%d" % (number, number, number) for number in range(20)]
        assert len(running.sent) == 20


async def test_the_clients_connection_is_used_again() -> None:
    async with bench() as running, upstream(answer(b"one")) as server, running.connect() as connection:
        for _ in range(3):
            door = await running.open(target_at(server.port))
            await connection.send(door.path, door.proof)
            assert (await connection.answer()).body == b"one"
        refused = await running.open()
        await connection.send(refused.path, refused.proof)
        assert (await connection.answer()).status == 400
        # The target's is not: a kept one may be dead, take the body, and be counted.
        assert server.connections == 3
