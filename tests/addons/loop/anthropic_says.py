"""Answers of Anthropic Messages as a test wants them, and what the real SDK makes of bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2

PATH = "/v1/messages"


@dataclass(frozen=True)
class Says:
    """One answer."""

    blocks: list[dict[str, Any]]
    stop: str = "end_turn"
    usage: dict[str, Any] = field(default_factory=lambda: {"input_tokens": 10, "output_tokens": 5})
    id: str = "msg_1"
    model: str = "claude-test"

    def document(self) -> bytes:
        whole = {
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": self.blocks,
            "stop_reason": self.stop, "stop_sequence": None, "usage": self.usage,
        }  # fmt: skip
        return json.dumps(whole).encode()

    def stream(self) -> bytes:
        start = {
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {**self.usage, "output_tokens": 1},
        }  # fmt: skip
        events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
        for index, block in enumerate(self.blocks):
            begun, deltas = _cut(block)
            events.append({"type": "content_block_start", "index": index, "content_block": begun})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        delta = {"stop_reason": self.stop, "stop_sequence": None}
        events += [
            {"type": "message_delta", "delta": delta, "usage": {"output_tokens": self.usage["output_tokens"]}},
            {"type": "message_stop"},
        ]
        return b"".join(event(one) for one in events)

    def bytes(self, *, streamed: bool) -> bytes:
        return self.stream() if streamed else self.document()


def event(value: dict[str, Any]) -> bytes:
    return f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode()


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def thinking(thought: str, signature: str = "c2ln") -> dict[str, Any]:
    return {"type": "thinking", "thinking": thought, "signature": signature}


def recall(call: str, query: str = "tides") -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "MemoryRecall", "input": {"query": query}}


def read(call: str, path: str = "a.md") -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "Read", "input": {"path": path}}


def _halves(said: str) -> tuple[str, str]:
    return said[: len(said) // 2], said[len(said) // 2 :]


def _cut(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": half} for half in _halves(block["text"])]
            return {**block, "text": ""}, deltas if block["text"] else []
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": half} for half in _halves(block["thinking"])]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
        case "tool_use" if block["input"]:
            deltas = [
                {"type": "input_json_delta", "partial_json": half} for half in _halves(json.dumps(block["input"]))
            ]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": ""}, *deltas]
    return block, []


def sdk_reads(data: bytes, *, streamed: bool) -> anthropic.types.Message:
    """The message as the SDK has it at the end."""
    kind = "text/event-stream" if streamed else "application/json"
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers={"content-type": kind}, stream=httpx2.ByteStream(data))
    )
    with (
        httpx2.Client(transport=transport) as http,
        anthropic.Anthropic(api_key="k", http_client=http, max_retries=0) as client,
    ):
        ask: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
        if not streamed:
            return client.messages.create(**ask)
        with client.messages.stream(**ask) as stream:
            return stream.get_final_message()


def content_of(message: anthropic.types.Message) -> list[dict[str, Any]]:
    """Its blocks as a program sends them back."""
    return [block.model_dump(exclude_none=True) for block in message.content]
