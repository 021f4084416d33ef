"""WebSockets with a real proxy process and real TLS: each turn is an exchange, and no byte is changed on the way."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Request, Response

from addons.demo.authority import AuthorityPaths
from tests.addons.conftest import GARDEN, HARBOUR, configuration
from tests.harness import Loop, SuiteProcess

URL = "wss://api.openai.com/v1/responses"


def turn(*texts: str, **more: Any) -> str:
    given = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]} for text in texts]
    return json.dumps({"type": "response.create", "model": "gpt-test", "input": given, **more})


def answer(number: int, text: str) -> list[dict[str, Any]]:
    """The events of one answer, as the provider's API sends them."""
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
    item["content"] = [{"type": "output_text", "text": text, "annotations": []}]  # type: ignore[assignment]
    response = {"id": f"resp_{number}", "object": "response", "model": "gpt-test-2026", "status": "in_progress"}
    usage = {
        "input_tokens": 100 * number,
        "input_tokens_details": {"cached_tokens": 10 * number},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 100 * number + 7,
    }
    done = response | {"status": "completed", "output": [item], "usage": usage}
    return [
        {"type": "response.created", "response": response},
        {
            "type": "response.output_text.delta",
            "item_id": item["id"],
            "output_index": 0,
            "content_index": 0,
            "delta": text,
        },
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]


class Model:
    """Answers each `response.create`; other messages are kept and not answered. `stop_at` events it halts, or leaves."""

    def __init__(self) -> None:
        self.received: list[str | bytes] = []
        self.sent: list[str] = []
        self.stop_at: int | None = None
        self.leave = False
        self.turns = 0
        self.together = 0
        """So many turns are waited for, then answered at once: those with a `stream_id` by turns, event by event."""
        self.lengths: Counter[int] = Counter()
        """Bytes of the answer to each of these."""
        self._waiting: list[dict[str, Any]] = []

    async def serve(self, socket: ServerConnection) -> None:
        async for message in socket:
            self.received.append(message)
            if isinstance(message, bytes) or json.loads(message).get("type") != "response.create":
                continue
            self.turns += 1
            if self.together:
                self._waiting.append(json.loads(message))
                if len(self._waiting) == self.together:
                    await self._answer_together(socket)
                continue
            for event in answer(self.turns, "High tide is at noon.")[: self.stop_at]:
                self.sent.append(json.dumps(event))
                await socket.send(self.sent[-1])
            if self.leave:
                socket.transport.abort()

    async def _answer_together(self, socket: ServerConnection) -> None:
        lanes: dict[str | None, list[str]] = {}
        for number, asked in enumerate(self._waiting, 1):
            lane = asked.get("stream_id")
            named = {} if lane is None else {"stream_id": lane}
            events = [json.dumps(event | named) for event in answer(number, "At noon.")]
            self.lengths[number] = sum(map(len, events))
            lanes.setdefault(lane, []).extend(events)
        self.sent = [event for events in zip_longest(*lanes.values()) for event in events if event is not None]
        for event in self.sent:
            await socket.send(event)

    async def start(self, tls: ssl.SSLContext) -> int:
        self._server = await serve(self.serve, "127.0.0.1", 0, ssl=tls, process_request=_only_responses)
        port: int = next(iter(self._server.sockets)).getsockname()[1]
        return port

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()


def _only_responses(socket: ServerConnection, request: Request) -> Response | None:
    return None if request.path == "/v1/responses" else socket.respond(HTTPStatus.UPGRADE_REQUIRED, "not here")


@pytest.fixture
def model(background: Loop, authority: AuthorityPaths) -> Iterator[tuple[Model, int]]:
    scripted = Model()
    port = background.run(scripted.start(authority.server_context()))
    yield scripted, port
    background.run(scripted.stop())


@pytest.fixture
def suite(tmp_path: Path, vault: Path, model: tuple[Model, int], authority: AuthorityPaths) -> Iterator[SuiteProcess]:
    config = configuration(vault, {"openai": f"https://127.0.0.1:{model[1]}"})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as running:
        yield running


def opened(suite: SuiteProcess, url: str = URL) -> connect:
    return connect(
        url,
        proxy=suite.proxy,
        ssl=ssl.create_default_context(cafile=str(suite.ca)),
        additional_headers={"session-id": "tulip"},
        user_agent_header="codex_exec/0.171.0",
        open_timeout=60,
        max_size=None,
    )


async def _ask(socket: ClientConnection, message: str) -> list[str]:
    await socket.send(message)
    events: list[str] = []
    while not events or json.loads(events[-1])["type"] != "response.completed":
        events.append(str(await asyncio.wait_for(socket.recv(), 60)))
    return events


def notes_of(entry: dict[str, Any]) -> dict[str, tuple[str, int, int, bool]]:
    return {
        note["id"]: (note["grade"], note["matched"], note["distinctive"], note["resent"]) for note in entry["notes"]
    }


async def test_each_turn_is_an_exchange_and_nothing_is_changed(suite: SuiteProcess, model: tuple[Model, int]) -> None:
    first, second = turn(GARDEN, "When do I water?"), turn(GARDEN, HARBOUR, previous_response_id="resp_1")
    async with opened(suite) as socket:
        got = await _ask(socket, first) + await _ask(socket, second)
    scripted = model[0]
    assert (scripted.received, got) == ([first, second], scripted.sent)
    later, earlier = suite.activity(2)
    assert notes_of(earlier) == {"vault/Garden.md": ("line", 2, 2, False)}
    assert notes_of(later) == {
        "vault/Garden.md": ("line", 2, 2, True),
        "vault/projects/Harbour.md": ("line", 3, 3, False),
    }
    assert earlier["notes"][0]["evidence"] == [{"pointer": "/input/0/content/0/text", "lines": 2, "grade": "line"}]
    expected = {
        "provider": "openai",
        "protocol": "openai-responses",
        "model": "gpt-test",
        "client": "codex",
        "conversation": "tulip",
        "to": "cloud",
        "status": 101,
        "outcome": "answered",
        "sideRequest": False,
        "scan": {"state": "complete", "reasons": []},
        "sentTo": [{"model": "gpt-test", "to": "cloud", "upstream": "api.openai.com:443"}],
    }
    for entry, sent, events, number in ((earlier, first, got[:4], 1), (later, second, got[4:], 2)):
        assert {key: entry[key] for key in expected} == expected
        assert entry["bytes"] == {"request": len(sent), "response": sum(map(len, events))}
        assert entry["usage"] == {"input": 100 * number, "output": 7, "cacheRead": 10 * number, "cacheWrite": None}


@pytest.mark.parametrize("lanes", ["---", "abc", "aba", "-bb-", "b-"])
async def test_several_turns_at_once_have_their_own_answers(
    suite: SuiteProcess, model: tuple[Model, int], lanes: str
) -> None:
    """Those of a lane are answered one after the other, those of several lanes side by side. `-`: without a lane."""
    model[0].together = len(lanes)
    async with opened(suite) as socket:
        for number, lane in enumerate(lanes, 1):
            more = {} if lane == "-" else {"stream_id": lane}
            await socket.send(turn("Hello.", model=f"gpt-{number}", **more))
        got = [str(await asyncio.wait_for(socket.recv(), 60)) for _ in range(4 * len(lanes))]
        entries = suite.activity(len(lanes))
    assert got == model[0].sent
    told = {
        entry["model"]: (entry["outcome"], entry["usage"]["input"], entry["bytes"]["response"]) for entry in entries
    }
    assert told == {
        f"gpt-{number}": ("answered", 100 * number, model[0].lengths[number]) for number in range(1, len(lanes) + 1)
    }


async def test_messages_that_ask_for_no_answer_are_written_down_only_with_something_to_say(
    suite: SuiteProcess, model: tuple[Model, int]
) -> None:
    messages: list[str | bytes] = [
        '{"type": "session.update", "voice": "calm"}',
        json.dumps({"type": "conversation.item.create", "text": GARDEN}),
        b"\x00\x01\x02\xff",
        b"\x00\x01\x02\xfe",
    ]
    async with opened(suite) as socket:
        for message in messages:
            await socket.send(message)
        await _ask(socket, turn("Hello."))
    assert model[0].received[:4] == messages
    asked, sound, noted = suite.activity(3)
    assert (asked["sideRequest"], asked["notes"], asked["outcome"]) == (False, [], "answered")
    assert (sound["sideRequest"], sound["scan"]) == (True, {"state": "unscanned", "reasons": ["not text"]})
    assert (noted["sideRequest"], notes_of(noted)) == (True, {"vault/Garden.md": ("line", 2, 2, False)})


@pytest.mark.parametrize("who", ["server", "client"])
async def test_a_socket_that_ends_in_the_midst_of_an_answer(
    suite: SuiteProcess, model: tuple[Model, int], who: str
) -> None:
    model[0].stop_at, model[0].leave = 2, who == "server"
    async with opened(suite) as socket:
        await socket.send(turn(GARDEN))
        await socket.recv()
        if who == "server":
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(_ask(socket, "{}"), 60)
        else:
            socket.transport.abort()
    entry = suite.activity(1)[0]
    assert entry["outcome"] == ("failed" if who == "server" else "aborted")
    assert (notes_of(entry), entry["usage"]["output"]) == ({"vault/Garden.md": ("line", 2, 2, False)}, None)


async def test_an_upgrade_that_is_refused_is_no_exchange(suite: SuiteProcess) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with opened(suite, "wss://api.openai.com/nowhere"):
            pass
    assert refused.value.response.status_code == HTTPStatus.UPGRADE_REQUIRED
    assert suite.api("api/activity").body["entries"] == []
