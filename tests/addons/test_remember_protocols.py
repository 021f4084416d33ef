"""What is recorded of each protocol, plain and streamed, with tools in the turn: through the real proxy, in one process."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import options
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from addons.clients import ClientConfig, MatchConfig
from addons.config import Address, Config, DashboardConfig, ProxyConfig
from addons.launcher import Running, _master, claim_ports
from addons.providers import ProviderConfig
from addons.suite import Suite
from memory.conversations.said import Call, Message, Result, Said
from tests.addons.answers import event_frame
from tests.addons.recording import Notebook
from tests.addons.wires import sse

FREE = Address("127.0.0.1", 0)
SECONDS = 60
REMINDER = "<system-reminder>\nToday is Monday.\n</system-reminder>"
ARGUMENTS = {"path": "tides.md"}
WRITTEN = json.dumps(ARGUMENTS)


def messages(call: str = "t1", *, last: str = "And low tide?") -> tuple[Message, ...]:
    """The conversation that each request holds: a question, a call of a tool and its result, an answer, a question."""
    return (
        Message("user", "When is high tide?"),
        Message("assistant", "I look.", (Call(call, "read", WRITTEN),)),
        Message("tool", results=(Result(call, "High tide: 12:00"),)),
        Message("assistant", "At noon."),
        Message("user", last),
    )


@dataclass(frozen=True, slots=True)
class Case:
    """A request, and its answer in both forms. `stream` holds the events; what comes with the last must not be waited for."""

    path: str
    request: dict[str, Any]
    plain: bytes
    stream: tuple[bytes, ...]
    said: tuple[Message, ...]
    answer: Message
    streamed_path: str = ""
    content_type: str = "text/event-stream"
    model: str = "tide-1"
    answer_id: str | None = "a1"


ANSWER = Message("assistant", "Let me see.", (Call("t2", "read", WRITTEN),))


def events(*each: Any) -> tuple[bytes, ...]:
    return tuple(sse([event]) for event in each)


def _anthropic() -> Case:
    message = {"id": "a1", "type": "message", "role": "assistant", "model": "tide-1"}
    tool = {"type": "tool_use", "id": "t2", "name": "read"}
    return Case(
        "/v1/messages",
        {
            "model": "tide",
            "system": "Be brief.",
            "tools": [{"name": "read"}],
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": REMINDER}, {"type": "text", "text": "When is high tide?"}],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "t1", "name": "read", "input": ARGUMENTS},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "content": "High tide: 12:00"},
                        {"type": "text", "text": REMINDER},
                    ],
                },
                {"role": "assistant", "content": "At noon."},
                {"role": "system", "content": "Tools have changed."},
                {"role": "user", "content": "And low tide?"},
            ],
        },
        json.dumps(
            message
            | {
                "content": [{"type": "text", "text": "Let me see."}, tool | {"input": ARGUMENTS}],
                "stop_reason": "tool_use",
            }
        ).encode(),
        events(
            {"type": "message_start", "message": message | {"content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me "}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "see."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": tool | {"input": {}}},
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": WRITTEN[:5]},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": WRITTEN[5:]},
            },
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        ),
        messages(),
        ANSWER,
    )


def _chat() -> Case:
    function = {"name": "read", "arguments": WRITTEN}
    answer = {"id": "a1", "object": "chat.completion", "model": "tide-1"}

    def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
        return answer | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    return Case(
        "/v1/chat/completions",
        {
            "model": "tide",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "When is high tide?"},
                {
                    "role": "assistant",
                    "content": "I look.",
                    "tool_calls": [{"id": "t1", "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": "t1", "content": "High tide: 12:00"},
                {"role": "assistant", "content": "At noon."},
                {"role": "user", "content": [{"type": "text", "text": "And low tide?"}]},
            ],
        },
        json.dumps(
            answer
            | {
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "tool_calls",
                        "message": {
                            "role": "assistant",
                            "content": "Let me see.",
                            "tool_calls": [{"id": "t2", "type": "function", "function": function}],
                        },
                    }
                ]
            }
        ).encode(),
        events(
            chunk(role="assistant", content="Let me "),
            chunk(content="see."),
            chunk(
                tool_calls=[{"index": 0, "id": "t2", "type": "function", "function": {"name": "read", "arguments": ""}}]
            ),
            chunk(tool_calls=[{"index": 0, "function": {"arguments": WRITTEN}}]),
            chunk("tool_calls"),
        ),
        messages(),
        ANSWER,
    )


def _responses(**more: Any) -> Case:
    call = {"type": "function_call", "name": "read", "arguments": WRITTEN}
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]}
    response = {"id": "a1", "object": "response", "model": "tide-1"}
    done = response | {"status": "completed", "output": [text, call | {"call_id": "t2"}]}
    said = messages()
    return Case(
        "/v1/responses",
        {
            "model": "tide",
            "instructions": "Be brief.",
            "input": [
                {"role": "developer", "content": "Be kind."},
                {
                    "role": "user",
                    "content": [{"type": "input_text", "text": "<environment_context>\n</environment_context>"}],
                },
                {"role": "user", "content": [{"type": "input_text", "text": "When is high tide?"}]},
                {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                call | {"call_id": "t1"},
                {"type": "function_call_output", "call_id": "t1", "output": "High tide: 12:00"},
                {"role": "assistant", "content": [{"type": "output_text", "text": "At noon."}]},
                {"role": "user", "content": [{"type": "input_text", "text": "And low tide?"}]},
            ],
            **more,
        },
        json.dumps(done).encode(),
        events(
            {"type": "response.created", "response": response | {"status": "in_progress", "output": []}},
            {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Let me see."},
            {"type": "response.output_item.done", "output_index": 0, "item": text},
            {"type": "response.output_item.done", "output_index": 1, "item": call | {"call_id": "t2"}},
            {"type": "response.completed", "response": done},
        ),
        (said[0], Message("assistant", "I look."), Message("assistant", "", said[1].calls), *said[2:]),
        ANSWER,
    )


def _gemini() -> Case:
    def piece(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        candidate = {"content": {"role": "model", "parts": list(parts)}, **({"finishReason": finish} if finish else {})}
        return {"candidates": [candidate], "modelVersion": "tide-1", "responseId": "a1"}

    call = {"functionCall": {"name": "read", "args": ARGUMENTS}}
    said = messages("")
    return Case(
        "/v1beta/models/tide:generateContent",
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "<session_context>\nA folder.\n</session_context>"}]},
                {"role": "user", "parts": [{"text": "When is high tide?"}]},
                {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "I look."}, call]},
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"name": "read", "response": {"output": "High tide: 12:00"}}}],
                },
                {"role": "model", "parts": [{"text": "At noon."}]},
                {"role": "user", "parts": [{"text": "And low tide?"}]},
            ],
        },
        json.dumps(piece({"text": "Let me see."}, call, finish="STOP")).encode(),
        events(piece({"text": "Let me "}), piece({"text": "see."}), piece(call, finish="STOP")),
        said,
        Message("assistant", "Let me see.", (Call("", "read", WRITTEN),)),
        streamed_path="/v1beta/models/tide:streamGenerateContent?alt=sse",
    )


def _ollama() -> Case:
    call = {"function": {"name": "read", "arguments": ARGUMENTS}}

    def line(*, done: bool = False, **message: Any) -> dict[str, Any]:
        return {"model": "tide-1", "message": {"role": "assistant", "content": "", **message}, "done": done}

    return Case(
        "/api/chat",
        {
            "model": "tide",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "When is high tide?"},
                {"role": "assistant", "content": "I look.", "tool_calls": [call]},
                {"role": "tool", "content": "High tide: 12:00"},
                {"role": "assistant", "content": "At noon."},
                {"role": "user", "content": "And low tide?"},
            ],
        },
        json.dumps(line(content="Let me see.", tool_calls=[call], done=True)).encode(),
        tuple(
            json.dumps(one).encode() + b"\n"
            for one in (line(content="Let me "), line(content="see."), line(tool_calls=[call]), line(done=True))
        ),
        messages(""),
        Message("assistant", "Let me see.", (Call("", "read", WRITTEN),)),
        content_type="application/x-ndjson",
        answer_id=None,
    )


def _bedrock() -> Case:
    tool = {"toolUseId": "t2", "name": "read"}
    events = (
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Let me see."}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("contentBlockStart", {"contentBlockIndex": 1, "start": {"toolUse": tool}}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": WRITTEN}}}),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        ("messageStop", {"stopReason": "tool_use"}),
    )
    content = [{"text": "Let me see."}, {"toolUse": tool | {"input": ARGUMENTS}}]
    return Case(
        "/model/tide-1/converse",
        {
            "system": [{"text": "Be brief."}],
            "messages": [
                {"role": "user", "content": [{"text": "When is high tide?"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"text": "I look."},
                        {"toolUse": {"toolUseId": "t1", "name": "read", "input": ARGUMENTS}},
                    ],
                },
                {
                    "role": "user",
                    "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "High tide: 12:00"}]}}],
                },
                {"role": "assistant", "content": [{"text": "At noon."}]},
                {"role": "user", "content": [{"text": "And low tide?"}]},
            ],
        },
        json.dumps(
            {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use"}
        ).encode(),
        tuple(event_frame(name, payload) for name, payload in events),
        messages(),
        ANSWER,
        streamed_path="/model/tide-1/converse-stream",
        content_type="application/vnd.amazon.eventstream",
        answer_id=None,
    )


CASES = {
    "anthropic": _anthropic(),
    "openai-chat": _chat(),
    "openai-responses": _responses(),
    "gemini": _gemini(),
    "ollama": _ollama(),
    "bedrock": _bedrock(),
}


@dataclass
class Model:
    """Answers with `case`. A stream is kept open after its last event until `release` is set."""

    case: Case = field(default_factory=_anthropic)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            if b"x-streamed: yes" in head.lower():
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n"
                    % self.case.content_type.encode()
                )
                for event in self.case.stream:
                    writer.write(b"%x\r\n%s\r\n" % (len(event), event))
                await writer.drain()
                await self.release.wait()
                writer.write(b"0\r\n\r\n")
            else:
                plain = self.case.plain
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(plain)
                )
                writer.write(plain)
            await writer.drain()
        writer.close()

    async def speak(self, socket: ServerConnection) -> None:
        async for _ in socket:
            for event in self.case.stream:
                await socket.send(event.decode().removeprefix("data: ").strip())


@dataclass
class Stage:
    suite: Suite
    proxy: Address
    model: Model
    http: str
    sockets: str
    notebook: Notebook
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def ask(self, path: str, *, streamed: bool, user: bytes = b"bWU6eA==") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(*self.proxy)
        self.writers.append(writer)
        body = json.dumps(self.model.case.request).encode()
        writer.write(
            b"POST http://%s%s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic %s\r\nContent-Type: application/json\r\n"
            b"X-Streamed: %s\r\nContent-Length: %d\r\n\r\n%s"
            % (
                self.http.encode(),
                path.encode(),
                self.http.encode(),
                user,
                b"yes" if streamed else b"no",
                len(body),
                body,
            )
        )
        await writer.drain()
        return reader

    def check(self, client: str = "me", *, key: str | None = None) -> None:
        """Exactly this was recorded, and once."""
        case = self.model.case
        [(recorded_for, said)] = self.notebook.said
        assert recorded_for == client
        assert said == Said(
            key=key,
            messages=case.said,
            answer=case.answer,
            model=said.model,
            at=said.at,
            answered_at=said.answered_at,
            complete=True,
            answer_id=case.answer_id,
        )
        assert said.model == case.model
        assert said.at <= said.answered_at


@pytest.fixture
def _log_handlers() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:]
    yield
    root.handlers[:] = before


@pytest.fixture
async def stage(tmp_path: Path, _log_handlers: None) -> AsyncIterator[Stage]:
    model = Model()
    server = await asyncio.start_server(model.respond, "127.0.0.1", 0)
    sockets = await serve(model.speak, "127.0.0.1", 0)
    hosts = tuple(f"127.0.0.1:{one.sockets[0].getsockname()[1]}" for one in (server, sockets))  # type: ignore[index]
    wanted = Config(
        proxy=ProxyConfig(listen=FREE, inspector=None),
        dashboard=DashboardConfig(listen=FREE),
        providers=(ProviderConfig("lab", hosts=hosts),),
        clients=(
            ClientConfig("Me", MatchConfig(proxy_user="me"), memory_enabled=True),
            ClientConfig("you", MatchConfig(proxy_user="you")),
        ),
        state=tmp_path,
    )
    config, dashboard = claim_ports(wanted)
    up = asyncio.Event()
    end: list[Callable[[], None]] = []

    def running(_: Running, shutdown: Callable[[], None]) -> None:
        end.append(shutdown)
        up.set()

    made: Any = _master(config, dashboard, tmp_path, running)
    master = made(options.Options())
    task = asyncio.create_task(master.run())
    try:
        async with asyncio.timeout(SECONDS):
            await up.wait()
        suite = master.mitmemory
        suite.conversations.recorder = notebook = Notebook()
        stage = Stage(suite, config.proxy.listen, model, *hosts, notebook)
        yield stage
        for writer in stage.writers:
            writer.close()
    finally:
        model.release.set()
        await master.addons.get("proxyserver").servers.update([])  # mitmproxy leaves them to the end of the process
        end[0]()
        await task
        dashboard.close()
        server.close()
        sockets.close()


async def test_what_each_protocol_says_is_recorded_before_the_client_has_it(stage: Stage) -> None:
    for case in CASES.values():
        stage.model.case = case
        async with asyncio.timeout(SECONDS):
            reader = await stage.ask(case.path, streamed=False)
            await reader.readuntil(case.plain)
        stage.check()
        stage.notebook.said.clear()

        stage.model.release.clear()
        async with asyncio.timeout(SECONDS):
            reader = await stage.ask(case.streamed_path or case.path, streamed=True)
            await reader.readuntil(case.stream[-1])  # the answer goes on: nothing has said that it is over but this
        stage.check()
        stage.model.release.set()
        async with asyncio.timeout(SECONDS):
            await reader.readuntil(b"0\r\n\r\n")
        stage.check()
        stage.notebook.said.clear()
    assert stage.suite.status()["warnings"] == []


async def test_responses_over_a_websocket(stage: Stage) -> None:
    stage.model.case = case = _responses(prompt_cache_key="tulip")
    async with connect(
        f"ws://{stage.sockets}/v1/responses", proxy=f"http://me:x@{stage.proxy}", open_timeout=SECONDS
    ) as socket:
        await socket.send(json.dumps({"type": "response.create", **case.request}))
        while '"response.completed"' not in str(await asyncio.wait_for(socket.recv(), SECONDS)):
            pass
        stage.check(key="tulip")


async def test_another_client_leaves_nothing(stage: Stage) -> None:
    stage.model.case = case = _anthropic()
    async with asyncio.timeout(SECONDS):
        reader = await stage.ask(case.path, streamed=False, user=b"eW91Ong=")
        await reader.readuntil(case.plain)
    assert (stage.notebook.said, stage.notebook.prepared) == ([], 0)
