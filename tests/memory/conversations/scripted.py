"""A model that speaks OpenAI's protocol on loopback and says what a test wants; it keeps every request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.harness import RawRequest, RawUpstream

type Reply = str | tuple[int, Any] | None
"""What the model says; a status with a body; or nothing ever."""


@dataclass
class Scripted:
    """`reply` is given each request's decoded body."""

    reply: Callable[[dict[str, Any]], Reply] = lambda _: "- The key hangs behind the clock."
    usage: dict[str, int] | None = None
    finish_reason: str = "stop"
    requests: list[RawRequest] = field(default_factory=list)
    port: int = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in self.requests]

    @property
    def prompts(self) -> list[str]:
        return [body["messages"][0]["content"] for body in self.bodies]

    async def respond(self, request: RawRequest, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        reply = self.reply(json.loads(request.body))
        if reply is None:
            await asyncio.sleep(3600)
        status, body = (200, self._completion(reply)) if isinstance(reply, str) else reply  # type: ignore[misc]
        content = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        await writer.drain()

    def _completion(self, text: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        return {
            "id": "c",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [choice],
            "usage": self.usage,
        }


@asynccontextmanager
async def scripted(script: Scripted | None = None) -> AsyncIterator[Scripted]:
    script = script or Scripted()
    upstream = RawUpstream(script.respond)
    await upstream.start()
    script.port = upstream.port
    try:
        yield script
    finally:
        await upstream.stop()
