"""A suite whose client searches its memory without knowing of it: the model, scripted answer by answer, and the client."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.addons.loop.anthropic_says import Says, recall, text
from tests.harness import RawRequest, SuiteProcess

HOST = "api.anthropic.com"
URL = f"https://{HOST}/v1/messages"
KEEPER = {"name": "keeper", "match": {"user_agent": "keeper*"}, "memory_enabled": True, "mode": "mcp_via_llm"}
QUESTION = "Which word opens the tide gate?"
NO_WORD = "Nobody has told me."

type Step = Callable[[dict[str, Any]], bytes | None]
"""What the model answers to a body, with head and all; None: it hangs up."""


def asked(*messages: Any, stream: bool = True, **more: Any) -> dict[str, Any]:
    """A request of a client. Texts are those of the user and of the assistant in turns."""
    said = [
        {"role": "assistant" if at % 2 else "user", "content": one} if not isinstance(one, dict) else one
        for at, one in enumerate(messages or (QUESTION,))
    ]
    return {"model": "tide-1", "max_tokens": 100, "messages": said, **({"stream": True} if stream else {}), **more}


def wrapped(body: bytes, kind: str, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def says(*blocks: dict[str, Any], stop: str = "end_turn", **more: Any) -> Step:
    def step(body: dict[str, Any]) -> bytes:
        streamed = body.get("stream") is True
        kind = "text/event-stream" if streamed else "application/json"
        return wrapped(Says(list(blocks), stop, **more).bytes(streamed=streamed), kind)

    return step


def searches(*queries: str, first: str = "Let me see.") -> Step:
    """The model says something, and searches the memory."""
    calls = [recall(f"call-{number}", query) for number, query in enumerate(queries or ("tide gate",), 1)]
    return says(text(first), *calls, stop="tool_use", id="msg_first")


def fails(status: str, body: bytes = b'{"type":"error","error":{"type":"rate_limit_error","message":"Slow."}}') -> Step:
    return lambda _body: wrapped(body, "application/json", status, "retry-after: 7")


def results_of(body: Mapping[str, Any]) -> list[str]:
    """The texts of the tool results in the last message."""
    content = body["messages"][-1]["content"]
    return (
        [block["content"] for block in content if block["type"] == "tool_result"] if isinstance(content, list) else []
    )


def knows(word: str) -> Step:
    """The model says the word, if it stands in what it was just told."""

    def step(body: dict[str, Any]) -> bytes | None:
        found = any(word in result for result in results_of(body))
        return says(text(f"It is {word}." if found else NO_WORD))(body)

    return step


@dataclass
class Model:
    """Answers each request with the next step."""

    steps: deque[Step | Slowly] = field(default_factory=deque)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    requests: list[RawRequest] = field(default_factory=list)

    def will(self, *steps: Step | Slowly) -> None:
        self.steps = deque(steps)
        self.bodies, self.requests = [], []

    async def __call__(self, request: RawRequest, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        self.bodies.append(json.loads(request.body))
        step = self.steps.popleft()
        if isinstance(step, Slowly):
            await step(request, writer)
            return
        answer = step(self.bodies[-1])
        if answer is None:
            writer.transport.abort()
        else:
            writer.write(answer)
            await writer.drain()


class Slowly:
    """An answer whose head is there at once, and that goes on when the test lets it. `left`: the other side has gone."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.begun, self.left, self._goes_on = (threading.Event() for _ in range(3))

    async def __call__(self, request: RawRequest, writer: asyncio.StreamWriter) -> None:
        answer = self.step(json.loads(request.body))
        assert answer is not None
        head = answer.index(b"\r\n\r\n") + 4
        writer.write(answer[:head])
        await writer.drain()
        self.begun.set()
        gone = asyncio.ensure_future(writer._reader.read())  # type: ignore[attr-defined]
        while not gone.done() and not self._goes_on.is_set():
            await asyncio.wait([gone], timeout=0.02)
        if gone.done():
            self.left.set()
            return
        gone.cancel()
        await asyncio.wait([gone])
        writer.write(answer[head:])
        await writer.drain()

    def go_on(self) -> None:
        self._goes_on.set()

    @staticmethod
    def wait(event: threading.Event) -> None:
        assert event.wait(60)


class Client:
    """A connection of a client through the proxy, which is kept open."""

    def __init__(self, suite: SuiteProcess, host: str = HOST, agent: str = "keeper/1") -> None:
        self.agent = agent
        context = ssl.create_default_context(cafile=suite.ca)
        proxy = suite.proxy.rpartition("/")[2].rpartition(":")
        self.connection = http.client.HTTPSConnection(proxy[0], int(proxy[2]), context=context, timeout=60)
        self.connection.set_tunnel(host, 443)

    def begin(self, body: Mapping[str, Any], path: str = "/v1/messages") -> http.client.HTTPResponse:
        """The answer, once its head is there."""
        headers = {
            "User-Agent": self.agent, "Content-Type": "application/json", "x-api-key": "secret", "Accept-Encoding": "gzip",
        }  # fmt: skip
        self.connection.request("POST", path, json.dumps(body).encode(), headers)
        return self.connection.getresponse()

    def ask(self, body: Mapping[str, Any], path: str = "/v1/messages") -> tuple[int, bytes]:
        answer = self.begin(body, path)
        return answer.status, answer.read()

    def leave(self) -> None:
        if self.connection.sock:
            self.connection.sock.close()
        self.connection.close()


@contextmanager
def client(suite: SuiteProcess, **more: Any) -> Iterator[Client]:
    one = Client(suite, **more)
    try:
        yield one
    finally:
        one.leave()


def until(answer: http.client.HTTPResponse, mark: bytes) -> bytes:
    """What comes of a stream up to these bytes."""
    got = b""
    while mark not in got:
        piece = answer.read1()
        assert piece, got
        got += piece
    return got


def told(data: bytes) -> list[dict[str, Any]]:
    """The events of a stream."""
    return [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: ")]


def said(data: bytes) -> str:
    """All the text in a stream or a document."""
    if data.startswith(b"{"):
        return "".join(block.get("text", "") for block in json.loads(data)["content"])
    return "".join(one["delta"].get("text", "") for one in told(data) if one["type"] == "content_block_delta")


def kinds(data: bytes) -> Sequence[str]:
    return [one["type"] for one in told(data)]
