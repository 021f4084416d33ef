"""The loop inside a running gateway, with a search that the test answers; and the connections that it keeps."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from addons.flows import Offering
from addons.loop.answering import Loop
from addons.loop.anthropic import AnthropicLoop
from addons.loop.anthropic_weave import AnthropicWeave
from addons.loop.dialect import Ask, Offered, Request
from addons.loop.searcher import Found
from addons.outgoing import Origin, Outgoing
from addons.refusals import STATUS
from memory.conversations.recall_tool import RecallTool
from memory.exchange import SentTo
from tests.addons.gateway_parts import Bench, Received, answer, bench, request_of, target_at, upstream
from tests.addons.loop.anthropic_says import Says, recall, text
from tests.addons.loop.weaving import Kept
from tests.addons.looping import asked, kinds, said
from tests.harness import RawRequest, RawUpstream, Respond

CLOUD = SentTo("tide-1", "cloud", "api.anthropic.com:443")
SEARCHES = Says([text("Let me see."), recall("call-1")], "tool_use")
ANSWERS = Says([text("It is tern.")])


@dataclass
class Search:
    """Answers each search with these words."""

    says: str = "tern"
    waits: float = 0
    fault: Exception | None = None
    places: list[Outgoing] = field(default_factory=list)
    handed: list[tuple[list[str], SentTo]] = field(default_factory=list)

    async def search(self, ask: Ask, outgoing: Outgoing) -> Found:
        self.places.append(outgoing)
        await asyncio.sleep(self.waits)
        return Found(self.says, (), 1)

    def hand_over(self, found: Sequence[Found], sent: SentTo) -> None:
        if self.fault is not None:
            raise self.fault
        self.handed.append(([one.text for one in found], sent))

    def keep(self, found: Sequence[Found]) -> None:
        raise AssertionError


@dataclass
class Desk:
    """A gateway before an upstream that gives one answer after the other."""

    bench: Bench
    upstream: RawUpstream
    search: Search = field(default_factory=Search)
    refused: int = 0

    def _refuse(self) -> None:
        self.refused += 1

    async def ask(
        self, *, stream: bool = True, without: bool = False, sent: str | None = None, target: Any = None, **more: Any
    ) -> Received:
        dialect, tool = AnthropicLoop(), RecallTool()
        body = json.dumps(asked(stream=stream))
        offered = dialect.offer(Request("/v1/messages", body), tool, Kept())
        assert offered
        if without:
            offered = Offered(offered.text, offered.is_streamed, without_tool=body)
        loop = Loop(
            Offering(dialect, offered, tool),
            "anthropic",
            self.search,
            keep=lambda _passages: None,
            refused=self._refuse,
            largest_answer=10**6,
            **more,
        )

        async def to_origin(_failures: object) -> Origin:
            return Origin("http", "127.0.0.1", self.upstream.port, CLOUD)

        request = request_of((sent or offered.text).encode(), model="tide-1")
        targets = [target] if target else []
        door = await self.bench.open(*targets, request=request, otherwise=to_origin, answering=loop)
        return await self.bench.ask(door)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(one.body) for one in self.upstream.requests]


def giving(*answers: Any) -> Respond:
    """One after the other: `Says`, or a whole answer."""
    left = list(answers)

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        one = left.pop(0)
        if callable(one):
            await one(request, writer)
            return
        streamed = json.loads(request.body).get("stream") is True
        kind = b"Content-Type: text/event-stream" if streamed else b"Content-Type: application/json"
        await answer(one.bytes(streamed=streamed), b"200 OK", kind)(request, writer)

    return respond


@pytest.fixture
async def desk() -> Any:
    async with bench() as one:
        running: list[Any] = []

        async def make(*answers: Any, respond: Respond | None = None, **more: Any) -> Desk:
            running.append(upstream(respond or giving(*answers)))
            return Desk(one, await running[-1].__aenter__(), Search(**more))

        yield make
        for server in running:
            await server.__aexit__(None, None, None)


@pytest.mark.parametrize("stream", [True, False])
async def test_the_next_request_goes_to_the_same_target_under_its_name(desk: Any, stream: bool) -> None:
    one = await desk(SEARCHES, ANSWERS)
    received = await one.ask(stream=stream, target=target_at(one.upstream.port, model="own-1"))
    assert (received.status, said(received.body)) == (200, "Let me see.It is tern.")
    assert [body["model"] for body in one.bodies] == ["own-1", "own-1"]
    here = SentTo("own-1", "local", f"127.0.0.1:{one.upstream.port}")
    assert ([place.name for place in one.search.places], one.search.handed) == (["ollama"], [(["tern"], here)])
    assert not any(b"sk-of" in request.head or b"proof" in request.head for request in one.upstream.requests)
    assert one.bench.sent == [here]


@pytest.mark.parametrize("status", [b"400 Bad Request", b"404 Not Found", b"422 Unprocessable Entity"])
async def test_a_provider_that_refuses_the_tool_is_asked_once_more_without(desk: Any, status: bytes) -> None:
    one = await desk(answer(b"{}", status), ANSWERS)
    received = await one.ask(stream=False, without=True)
    assert (said(received.body), one.refused, one.bench.sent) == ("It is tern.", 1, [CLOUD])
    assert one.bodies[1] == asked(stream=False)


@pytest.mark.parametrize("status", [b"401 Unauthorized", b"429 Too Many Requests", b"500 Oh"])
async def test_a_refusal_that_the_tool_has_no_part_in_passes_at_once(desk: Any, status: bytes) -> None:
    one = await desk(answer(b"{}", status))
    received = await one.ask(stream=False, without=True)
    assert (received.status, one.refused, len(one.bodies)) == (int(status[:3]), 0, 1)


async def test_what_was_withheld_stays_withheld_without_the_tool(desk: Any) -> None:
    one = await desk(answer(b"{}", b"400 Bad"), ANSWERS)
    offered = AnthropicLoop().offer(Request("/v1/messages", json.dumps(asked(stream=False))), RecallTool(), Kept())
    assert offered
    await one.ask(stream=False, without=True, sent=offered.text.replace("tide gate", "[withheld]"))
    assert one.bodies[1] == asked("Which word opens the [withheld]?", stream=False)


async def test_a_request_that_is_wrong_without_the_tool_too_is_no_refusal_of_it(desk: Any) -> None:
    one = await desk(answer(b"{}", b"400 Bad"), answer(b'{"oh": "no"}', b"400 Bad"))
    received = await one.ask(without=True)
    assert (received.status, received.body, one.refused) == (400, b'{"oh": "no"}', 0)


@pytest.mark.parametrize("stream", [True, False])
async def test_what_cannot_be_recorded_is_not_sent(desk: Any, stream: bool) -> None:
    one = await desk(SEARCHES, fault=OSError(28, "tern"))
    received = await one.ask(stream=stream)
    assert len(one.upstream.requests) == 1
    assert b"could not write that down" in received.body
    assert b"tern" not in received.body
    assert (kinds(received.body)[-1] if stream else received.status) == ("error" if stream else STATUS)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_is_encoded_all_the_same_is_read(desk: Any, stream: bool) -> None:
    def encoded(says: Says) -> Respond:
        kind = b"Content-Type: text/event-stream" if stream else b"Content-Type: application/json"
        return answer(gzip.compress(says.bytes(streamed=stream)), b"200 OK", kind, b"Content-Encoding: gzip")

    one = await desk(encoded(SEARCHES), encoded(ANSWERS))
    received = await one.ask(stream=stream)
    assert said(received.body) == "Let me see.It is tern."
    assert b"content-encoding" not in [name.lower() for name, _ in received.headers]


@pytest.mark.parametrize(
    ("body", "header"),
    [(b"no JSON", b"X-Own: 1"), (b"\x00\x01", b"Content-Encoding: gzip"), (b"{}", b"Content-Encoding: secret")],
)
async def test_a_first_answer_that_cannot_be_read_passes_as_it_is(desk: Any, body: bytes, header: bytes) -> None:
    one = await desk(answer(body, b"200 OK", b"Content-Type: application/json", header))
    received = await one.ask(stream=False)
    assert received.body == body
    assert tuple(header.split(b": ")) in received.headers


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("later", [False, True])
async def test_an_answer_that_breaks_off(desk: Any, stream: bool, later: bool) -> None:
    async def breaks_off(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        data = Says([text("It was")]).bytes(streamed=stream)
        data = data[: data.index(b"event: message_delta") if stream else -30]
        kind = b"text/event-stream" if stream else b"application/json"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: 9999\r\n\r\n%s" % (kind, data))
        await writer.drain()
        writer.close()

    one = await desk(*([SEARCHES] if later else []), breaks_off)
    received = await one.ask(stream=stream)
    if not later:  # as without the loop
        assert (received.whole, received.body[:5]) == (False, Says([]).bytes(streamed=stream)[:5])
    elif stream:
        assert (said(received.body), kinds(received.body)[-1], received.whole) == ("Let me see.It was", "error", True)
    else:
        assert (received.status, b"127.0.0.1 broke off" in received.body.replace(b"the answer of ", b"")) == (502, True)


async def test_a_connection_that_breaks_after_the_call_is_no_matter_of_the_answer(desk: Any) -> None:
    async def breaks_off(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        data = SEARCHES.bytes(streamed=True)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n%s" % data)
        await writer.drain()
        writer.close()

    received = await (await desk(breaks_off, ANSWERS)).ask()
    assert (said(received.body), kinds(received.body)[-1], received.whole) == (
        "Let me see.It is tern.",
        "message_stop",
        True,
    )


async def test_a_server_that_answers_with_a_document_where_a_stream_was_asked_for(desk: Any) -> None:
    kind = b"Content-Type: application/json; charset=utf-8"
    one = await desk(*(answer(each.bytes(streamed=False), b"200 OK", kind) for each in (SEARCHES, ANSWERS)))
    received = await one.ask(stream=True)
    assert (said(received.body), len(one.bodies), received.body.count(b"MemoryRecall")) == (
        "Let me see.It is tern.",
        2,
        0,
    )


@pytest.mark.parametrize("begins", [b"", b"\xef\xbb\xbf", b"\r\n", b": hello\n\n", b"id: 1\n"])
async def test_a_stream_whose_head_does_not_say_what_it_is(desk: Any, begins: bytes) -> None:
    one = await desk(*(answer(begins + each.bytes(streamed=True), b"200 OK") for each in (SEARCHES, ANSWERS)))
    received = await one.ask()
    assert (said(received.body), len(one.bodies), received.body.count(b"MemoryRecall")) == (
        "Let me see.It is tern.",
        2,
        0,
    )
    assert b"content-type" not in [name.lower() for name, _ in received.headers]


async def test_a_document_whose_head_does_not_say_what_it_is(desk: Any) -> None:
    one = await desk(*(answer(each.bytes(streamed=False), b"200 OK") for each in (SEARCHES, ANSWERS)))
    assert (said((await one.ask()).body), len(one.bodies)) == ("Let me see.It is tern.", 2)


@pytest.mark.parametrize("body", [b"", b"tern", b"<html>", b"[1]"])
@pytest.mark.parametrize("head", [[], [b"Content-Type: text/html"]])
async def test_what_is_neither_a_stream_nor_a_document_passes_as_it_comes(
    desk: Any, body: bytes, head: list[bytes]
) -> None:
    received = await (await desk(answer(body, b"200 OK", *head))).ask()
    assert (received.status, received.body) == (200, body)
    assert (b"Content-Length", b"%d" % len(body)) in received.headers


async def test_an_answer_of_another_kind_is_not_looked_into(desk: Any) -> None:
    data = SEARCHES.bytes(streamed=True)
    one = await desk(answer(data, b"200 OK", b"Content-Type: text/plain"))
    assert ((await one.ask()).body, len(one.bodies)) == (data, 1)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_that_cannot_be_gone_on_with_is_told_of(desk: Any, stream: bool) -> None:
    received = await (await desk(SEARCHES)).ask(stream=stream, sent=json.dumps({"stream": stream}))
    assert b"could not go on" in received.body
    assert (kinds(received.body)[-1] if stream else received.status) == ("error" if stream else STATUS)
    assert received.whole


@pytest.mark.parametrize(("size", "aside"), [(10, False), (100_000, True)])
async def test_a_long_history_is_gone_on_with_beside_the_streams_of_others(
    desk: Any, monkeypatch: pytest.MonkeyPatch, size: int, aside: bool
) -> None:
    go_on, where = AnthropicWeave.go_on, list[bool]()

    def noting(weave: AnthropicWeave, results: Mapping[str, str]) -> str:
        where.append(threading.current_thread() is not threading.main_thread())
        return go_on(weave, results)

    monkeypatch.setattr(AnthropicWeave, "go_on", noting)
    one = await desk(SEARCHES, ANSWERS)
    offered = AnthropicLoop().offer(Request("/v1/messages", json.dumps(asked("x" * size))), RecallTool(), Kept())
    assert offered
    assert said((await one.ask(sent=offered.text)).body) == "Let me see.It is tern."
    assert where == [aside]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("size", "aside"), [(10, False), (100_000, True)])
async def test_a_long_answer_is_read_beside_the_streams_of_others(
    desk: Any, monkeypatch: pytest.MonkeyPatch, stream: bool, size: int, aside: bool
) -> None:
    where: dict[str, bool] = {}

    def noting(name: str) -> Any:
        work = getattr(AnthropicWeave, name)

        def noted(weave: AnthropicWeave, *given: Any) -> Any:
            where[name] = threading.current_thread() is not threading.main_thread()
            return work(weave, *given)

        return noted

    for name in ("whole", "over", "finish"):
        monkeypatch.setattr(AnthropicWeave, name, noting(name))
    says = Says([text("x" * size)])
    assert said((await (await desk(says)).ask(stream=stream)).body) == "x" * size
    assert where == dict.fromkeys(["over", "finish"] if stream else ["whole", "over", "finish"], aside)


async def test_a_model_that_does_not_go_on_is_not_waited_for_forever(desk: Any) -> None:
    over = asyncio.Event()

    async def says_nothing(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    one = await desk(SEARCHES, says_nothing)
    received = await one.ask(ping_seconds=0.02, longest_wait=0.5)
    over.set()
    assert (kinds(received.body)[-1], b"no answer within 0.5 s" in received.body) == ("error", True)


async def test_there_are_no_pings_once_the_model_goes_on(desk: Any) -> None:
    async def falls_silent(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        start = ANSWERS.stream().partition(b"\n\n")[0]  # of which the client sees nothing
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n%s\n\n" % start
        )
        await asyncio.sleep(0.8)
        writer.close()

    received = await (await desk(SEARCHES, falls_silent)).ask(ping_seconds=0.01)
    assert (kinds(received.body)[-1], received.body.count(b"event: ping") < 40) == ("error", True)


async def test_pings_go_on_as_long_as_nothing_else_does(desk: Any) -> None:
    one = await desk(SEARCHES, ANSWERS, waits=0.5)
    received = await one.ask(ping_seconds=0.02)
    own = SEARCHES.stream().count(b"event: ping")
    assert received.body.count(b"event: ping") >= own + 3
    assert said(received.body) == "Let me see.It is tern."


@pytest.mark.parametrize("stream", [True, False])
async def test_a_kept_connection_that_is_dead_is_replaced(desk: Any, stream: bool) -> None:
    async def once(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        """Each connection answers once, and is cut off with the second request."""
        if getattr(writer, "was_used", False):
            writer.transport.abort()
            return
        writer.was_used = True  # type: ignore[attr-defined]
        await giving(ANSWERS)(request, writer)

    one = await desk(respond=once)
    for _ in range(2):
        assert said((await one.ask(stream=stream)).body) == "It is tern."
    assert (one.upstream.connections, len(one.upstream.requests)) == (2, 3)
    assert one.bench.sent == [CLOUD, CLOUD]


async def test_a_new_connection_that_breaks_is_no_reason_to_ask_again(desk: Any) -> None:
    async def dies(_: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    one = await desk(dies)
    assert ((await one.ask()).status, len(one.upstream.requests)) == (502, 1)
