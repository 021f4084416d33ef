"""Answers of OpenAI Responses as a test wants them, and what the real SDK makes of bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from openai.types.responses import Response

from tests.addons.sdk_answers import openai_client

PATH = "/v1/responses"


def used(said: int, out: int, cached: int = 0, thought: int = 0) -> dict[str, Any]:
    return {
        "input_tokens": said,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": out,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": said + out,
    }


@dataclass(frozen=True)
class Says:
    """One answer."""

    items: list[dict[str, Any]]
    id: str = "resp_1"
    status: str = "completed"
    usage: dict[str, Any] | None = field(default_factory=lambda: used(10, 5))
    created_at: int = 100
    previous: str | None = None
    names_output: bool = True

    def response(self, status: str, **more: Any) -> dict[str, Any]:
        return {
            "id": self.id, "object": "response", "created_at": self.created_at, "status": status, "error": None,
            "model": "gpt-test", "output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
            "previous_response_id": self.previous, "usage": None, **more,
        }  # fmt: skip

    def whole(self) -> dict[str, Any]:
        return self.response(self.status, output=self.items if self.names_output else [], usage=self.usage)

    def document(self) -> bytes:
        return json.dumps(self.whole(), ensure_ascii=False, indent=1).encode()

    def events(self) -> Iterator[dict[str, Any]]:
        yield {"type": "response.created", "response": self.response("in_progress")}
        yield {"type": "response.in_progress", "response": self.response("in_progress")}
        for place, item in enumerate(self.items):
            for one in _cut(item):
                yield {**one, "output_index": place}
        yield {"type": f"response.{self.status}", "response": self.whole()}

    def stream(self) -> bytes:
        return b"".join(event({**one, "sequence_number": n}) for n, one in enumerate(self.events()))

    def bytes(self, *, streamed: bool) -> bytes:
        return self.stream() if streamed else self.document()


def event(value: dict[str, Any]) -> bytes:
    return f"event: {value['type']}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def message(said: str, name: str = "msg_1") -> dict[str, Any]:
    part = {"type": "output_text", "text": said, "annotations": []}
    return {"id": name, "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def reasoning(name: str = "rs_1", content: str | None = "c2VjcmV0") -> dict[str, Any]:
    return {"id": name, "type": "reasoning", "summary": [], "encrypted_content": content}


def call(call_id: str, name: str = "tide", arguments: str = '{"port": "Elb"}') -> dict[str, Any]:
    return {
        "id": f"fc_{call_id}", "type": "function_call", "status": "completed",
        "call_id": call_id, "name": name, "arguments": arguments,
    }  # fmt: skip


def recall(call_id: str, query: str = "tides") -> dict[str, Any]:
    return call(call_id, "MemoryRecall", json.dumps({"query": query}))


def custom(call_id: str) -> dict[str, Any]:
    return {"id": f"ctc_{call_id}", "type": "custom_tool_call", "call_id": call_id, "name": "exec", "input": "ls"}


def output(call_id: str, said: str = "") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": said or f"found: {call_id}"}


def user(said: str) -> dict[str, Any]:
    return {"role": "user", "content": said}


def _cut(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    named = {"item_id": item["id"]}
    match item["type"]:
        case "message":
            yield {"type": "response.output_item.added", "item": {**item, "status": "in_progress", "content": []}}
            for place, part in enumerate(item["content"]):
                at = {**named, "content_index": place}
                said = part["text"]
                yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
                for half in (said[: len(said) // 2], said[len(said) // 2 :]):
                    yield {"type": "response.output_text.delta", **at, "delta": half, "logprobs": []}
                yield {"type": "response.output_text.done", **at, "text": said, "logprobs": []}
                yield {"type": "response.content_part.done", **at, "part": part}
        case "function_call":
            yield {"type": "response.output_item.added", "item": {**item, "status": "in_progress", "arguments": ""}}
            yield {"type": "response.function_call_arguments.delta", **named, "delta": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **named, "arguments": item["arguments"]}
        case _:
            yield {"type": "response.output_item.added", "item": item}
    yield {"type": "response.output_item.done", "item": item}


def events_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in data.decode().split("\n") if line.startswith("data: {")]


def sdk_reads(data: bytes, *, streamed: bool) -> Response:
    """The response as the SDK has it at the end."""
    with openai_client(data, "text/event-stream" if streamed else "application/json", 200) as client:
        if not streamed:
            return client.responses.create(model="m", input="x")
        with client.responses.stream(model="m", input="x") as stream:
            return stream.get_final_response()


def items_of(response: Response) -> list[dict[str, Any]]:
    """Its items as a program sends them back."""
    each: list[dict[str, Any]] = [
        item.model_dump(mode="json", exclude_none=True, exclude_unset=True) for item in response.output
    ]
    for item in each:
        item.pop("parsed_arguments", None)
        for part in item.get("content", ()):
            part.pop("parsed", None)
    return each
