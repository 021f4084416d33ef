"""Which of several targets receives a body, which is counted, and what the client is told when none has answered."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from addons.config_values import Upstream
from addons.gateway import Failure
from addons.outgoing import LocatedTarget, Origin, locate
from memory.exchange import SentTo
from tests.addons.gateway_parts import ALL, BODY, answer, bench, request_of, target_at, until_left, upstream
from tests.harness import RawRequest, free_port


async def reset(_: RawRequest, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def close(_: RawRequest, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def reset_after_head(_: RawRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.transport.abort()


async def hang(_: RawRequest, writer: asyncio.StreamWriter) -> None:
    await until_left(writer)


async def hang_after_head(_: RawRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    await until_left(writer)


async def no_http(_: RawRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
    await writer.drain()


FAILING = {
    "reset": (reset, "closed the connection before it answered"),
    "close": (close, "closed the connection before it answered"),
    "reset after head": (reset_after_head, "closed the connection before it answered"),
    "hang": (hang, "gave no answer within 0.3 s"),
    "hang after head": (hang_after_head, "gave no answer within 0.3 s"),
    "no HTTP": (no_http, "did not answer in HTTP"),
    "500": (answer(b"{}", b"500 Oops"), "answered with status 500"),
    "503": (answer(b"{}", b"503 Busy"), "answered with status 503"),
    "redirect": (answer(b"", b"307 Go", b"Location: https://cloud.test/"), "answered with status 307"),
}


@pytest.mark.parametrize("way", FAILING)
async def test_a_target_that_took_the_body_and_failed_counts_and_the_next_answers(way: str) -> None:
    respond, reason = FAILING[way]
    async with bench() as running, upstream(respond) as first, upstream(answer(b"second")) as second:
        failing = target_at(first.port, "first", first_byte_timeout=0.3 if "hang" in way else 60)
        received = await running.ask(await running.open(failing, target_at(second.port, "second")))
        assert (received.status, received.body) == (200, b"second")
        assert running.reached == [f"127.0.0.1:{first.port}", f"127.0.0.1:{second.port}"]
        assert [one.body for one in (*first.requests, *second.requests)] == [BODY, BODY]
        # Alone, the client is told why.
        alone = await running.ask(await running.open(failing))
        assert json.loads(alone.body)["error"]["message"] == (
            f"mitmemory sent this request to no model, because no target could take it: first {reason}"
        )


async def test_a_target_that_refuses_the_connection_never_counts() -> None:
    async with bench() as running, upstream(answer(b"second")) as second:
        refusing = target_at(free_port(), "first")
        received = await running.ask(await running.open(refusing, target_at(second.port, "second")))
        assert received.body == b"second"
        assert running.reached == [f"127.0.0.1:{second.port}"]
        alone = await running.ask(await running.open(refusing))
        assert b"first refused the connection" in alone.body


async def test_a_target_that_cannot_be_connected_to_in_time_never_counts() -> None:
    async def greet_never(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await until_left(writer)
        writer.close()

    silent = await asyncio.start_server(greet_never, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with silent, bench() as running, upstream(answer(b"second")) as second:
        # It accepts, and then says nothing to the TLS hello.
        slow = target_at(port, "first", url=Upstream("https", "localhost", port), connect_timeout=0.3)
        received = await running.ask(await running.open(slow, target_at(second.port, "second")))
        assert (received.body, running.reached) == (b"second", [f"127.0.0.1:{second.port}"])
        alone = await running.ask(await running.open(slow))
        assert b"first could not be connected to within 0.3 s" in alone.body


async def test_a_target_of_another_protocol_is_not_dialled() -> None:
    async with bench() as running, upstream(answer()) as first, upstream(answer(b"second")) as second:
        others = tuple(protocol for protocol in ALL if protocol != "anthropic")
        received = await running.ask(
            await running.open(target_at(first.port, "first", protocols=others), target_at(second.port, "second"))
        )
        assert (received.body, first.connections) == (b"second", 0)
        alone = await running.ask(await running.open(target_at(first.port, "first", protocols=others)))
        assert (alone.status, first.connections) == (400, 0)
        assert b"first does not speak anthropic" in alone.body
        assert running.reached == [f"127.0.0.1:{second.port}"]


async def test_a_name_that_leads_nowhere_is_a_failure() -> None:
    async with bench() as running, upstream(answer(b"second")) as second:
        nowhere = LocatedTarget(target_at(1, "first", url=Upstream("http", "nowhere.invalid", 1)), "m", "cloud", ())
        door = running.gateway.open(
            request_of(), [nowhere, await locate(target_at(second.port), "m")], on_sent=running.sent.append
        )
        assert (await running.ask(door)).body == b"second"


async def test_what_is_said_then_is_asked_of_the_caller() -> None:
    asked: list[tuple[Failure, ...]] = []

    async def otherwise(failures: tuple[Failure, ...]) -> str:
        asked.append(failures)
        return "The rule “private” keeps Tides here."

    async with bench() as running:
        door = await running.open(
            target_at(free_port(), "one"), target_at(9, "two", protocols=("gemini",)), otherwise=otherwise
        )
        received = await running.ask(door)
        assert asked == [(Failure("one", "refused the connection"), Failure("two", "does not speak anthropic"))]
        assert (received.status, json.loads(received.body)) == (
            400,
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "The rule “private” keeps Tides here."},
            },
        )
        assert running.sent == []


async def test_it_may_go_to_its_provider_after_all_with_all_that_is_meant_for_it() -> None:
    headers = (
        ("Host", "api.anthropic.com"), ("X-Api-Key", "sk-1"), ("X-Odd", "kept"), ("Content-Length", "999"),
        ("Connection", "X-Hop"), ("X-Hop", "1"), ("Transfer-Encoding", "chunked"),
    )  # fmt: skip
    respond = answer(b"busy", b"529 Overloaded", b"Set-Cookie: a=b")
    async with bench() as running, upstream(respond) as cloud:
        address = (await locate(target_at(cloud.port), "")).addresses
        sent = SentTo("claude-test", "cloud", "api.anthropic.com:443")

        async def otherwise(_: tuple[Failure, ...]) -> Origin:
            return Origin("http", "api.anthropic.com", cloud.port, sent, address)

        door = await running.open(
            target_at(free_port()),
            request=request_of(path="/v1/messages?beta=true&x=%2F", headers=headers),
            otherwise=otherwise,
        )
        received = await running.ask(door)
        assert (received.status, received.body) == (529, b"busy")
        assert (b"Set-Cookie", b"a=b") in received.headers
        assert cloud.requests[0].body == BODY
        assert cloud.requests[0].header_lines == [
            b"POST /v1/messages?beta=true&x=%2F HTTP/1.1",
            b"Host: api.anthropic.com:%d" % cloud.port,
            b"X-Api-Key: sk-1",
            b"X-Odd: kept",
            b"Content-Length: %d" % len(BODY),
            b"Connection: close",
        ]
        assert running.sent == [sent]


async def test_a_provider_that_cannot_be_reached_then_may_be_tried_again() -> None:
    async def otherwise(_: tuple[Failure, ...]) -> Origin:
        return Origin("http", "127.0.0.1", free_port(), SentTo("m", "cloud", "a:1"))

    async with bench() as running:
        received = await running.ask(await running.open(otherwise=otherwise))
        assert received.status == 502
        assert json.loads(received.body)["error"]["message"] == "127.0.0.1 refused the connection"
        assert running.sent == []


# Faults of our own: nothing is sent, and the client can read why.


async def test_what_cannot_be_recorded_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    def on_sent(_: SentTo) -> None:
        raise OSError("the disk is full")

    async with bench() as running, upstream(answer()) as first, upstream(answer()) as second:
        door = await running.open(target_at(first.port, "first"), target_at(second.port, "second"), on_sent=on_sent)
        received = await running.ask(door)
        assert received.status == 400
        assert b"because of a fault of its own (NotRecordedError)" in received.body
        await asyncio.sleep(0.05)
        assert (first.requests, second.connections) == ([], 0)
        assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_fault_in_what_is_asked_then_ends_in_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    async def otherwise(_: tuple[Failure, ...]) -> str:
        raise KeyError("rule")

    async with bench() as running:
        received = await running.ask(await running.open(otherwise=otherwise))
        assert received.status == 400
        assert b"because of a fault of its own (KeyError)" in received.body
