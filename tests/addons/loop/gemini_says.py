"""Answers of Gemini as a test wants them, and what the real SDK makes of bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from google import genai
from google.genai import types

PLAIN = "/v1beta/models/gemini-test:generateContent"
STREAMED = "/v1beta/models/gemini-test:streamGenerateContent?alt=sse"
EVENTS = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}


def path(*, streamed: bool) -> str:
    return STREAMED if streamed else PLAIN


def used(said: int, out: int, thought: int = 0, cached: int = 0) -> dict[str, Any]:
    return {
        "promptTokenCount": said,
        "cachedContentTokenCount": cached,
        "candidatesTokenCount": out,
        "thoughtsTokenCount": thought,
        "totalTokenCount": said + out + thought,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": said}],
    }


@dataclass(frozen=True)
class Says:
    """One answer. `finishes_apart`: its stop reason comes in a piece of its own, as a text of nothing."""

    parts: list[dict[str, Any]]
    id: str = "r1"
    model: str = "gemini-test-1"
    finish: str = "STOP"
    usage: dict[str, Any] = field(default_factory=lambda: used(10, 5))
    finishes_apart: bool = True

    def answer(self, parts: list[dict[str, Any]], finish: str | None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        return {
            "candidates": [candidate],
            "usageMetadata": self.usage,
            "modelVersion": self.model,
            "responseId": self.id,
        }

    def document(self) -> bytes:
        return json.dumps(self.answer(self.parts, self.finish), ensure_ascii=False, indent=2).encode()

    def stream(self) -> bytes:
        pieces = [[part] for part in self.parts] + ([[{"text": ""}]] if self.finishes_apart or not self.parts else [])
        last = len(pieces) - 1
        return b"".join(event(self.answer(one, self.finish if n == last else None)) for n, one in enumerate(pieces))

    def bytes(self, *, streamed: bool) -> bytes:
        return self.stream() if streamed else self.document()


def event(value: Any) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}\r\n\r\n".encode()


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"text": said, **more}


def call(name: str, args: dict[str, Any], **more: Any) -> dict[str, Any]:
    """`id` belongs to the call, anything else to the part."""
    named = {"id": more.pop("id")} if "id" in more else {}
    return {"functionCall": {**named, "name": name, "args": args}, **more}


def recall(query: str = "tides", **more: Any) -> dict[str, Any]:
    return call("MemoryRecall", {"query": query}, **more)


def result(name: str, response: dict[str, Any], **named: Any) -> dict[str, Any]:
    return {"functionResponse": {**named, "name": name, "response": response}}


def found(ask: str, **named: Any) -> dict[str, Any]:
    return result("MemoryRecall", {"output": f"found: {ask}"}, **named)


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def events_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in data.decode().split("\n") if line.startswith("data: {")]


def sdk(handle: Callable[[httpx.Request], httpx.Response]) -> genai.Client:
    http = httpx.Client(transport=httpx.MockTransport(handle))
    return genai.Client(api_key="x", http_options=types.HttpOptions(base_url="http://model.test", httpx_client=http))


def sdk_reads(data: bytes, *, streamed: bool) -> list[types.GenerateContentResponse]:
    client = sdk(lambda _request: httpx.Response(200, headers=EVENTS if streamed else JSON, content=data))
    if streamed:
        return list(client.models.generate_content_stream(model="m", contents="x"))
    return [client.models.generate_content(model="m", contents="x")]


def parts_of(chunks: list[types.GenerateContentResponse]) -> list[dict[str, Any]]:
    """All parts, without those that say nothing."""
    candidates = [one for chunk in chunks for one in chunk.candidates or ()]
    each = [part for one in candidates if one.content for part in one.content.parts or ()]
    dumped = [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in each]
    return [part for part in dumped if part != {"text": ""}]
