"""Chat completions as a test wants them, and what the real SDK makes of bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httpx
import openai

PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Says:
    """One answer."""

    text: str | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    stop: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    """What other servers add to a message: texts."""
    usage: dict[str, Any] = field(default_factory=lambda: used(10, 5))
    id: str = "chatcmpl-1"
    model: str = "chat-test"

    @property
    def reason(self) -> str:
        return self.stop or ("tool_calls" if self.calls else "stop")

    @property
    def message(self) -> dict[str, Any]:
        """As it has to stand in a request."""
        calls = {"tool_calls": self.calls} if self.calls else {}
        return {"role": "assistant", "content": self.text, **calls, **self.more}

    def document(self) -> bytes:
        choice = {"index": 0, "message": self.message, "finish_reason": self.reason, "logprobs": None}
        named = {"id": self.id, "object": "chat.completion", "created": 1, "model": self.model}
        return json.dumps({**named, "choices": [choice], "usage": self.usage}).encode()

    def stream(self) -> bytes:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "" if self.text else None}]
        for key, value in self.more.items():
            deltas += [{key: half} for half in _halves(value)]
        deltas += [{"content": half} for half in _halves(self.text or "") if half]
        for index, call in enumerate(self.calls):
            function = {**call["function"], "arguments": ""}
            deltas.append({"tool_calls": [{"index": index, **call, "function": function}]})
            for half in _halves(call["function"]["arguments"]):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": half}}]})
        chunks = [self._chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
        chunks.append(self._chunk([{"index": 0, "delta": {}, "finish_reason": self.reason}]))
        chunks.append({**self._chunk([]), "usage": self.usage})
        return b"".join(event(chunk) for chunk in chunks) + b"data: [DONE]\n\n"

    def bytes(self, *, streamed: bool) -> bytes:
        return self.stream() if streamed else self.document()

    def _chunk(self, choices: list[Any]) -> dict[str, Any]:
        named = {"id": self.id, "object": "chat.completion.chunk", "created": 1, "model": self.model}
        return {**named, "choices": choices, "usage": None}


def event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def used(asked: int, said: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said, **more}


def recall(call: str, query: str = "tides") -> dict[str, Any]:
    function = {"name": "MemoryRecall", "arguments": json.dumps({"query": query})}
    return {"id": call, "type": "function", "function": function}


def read(call: str) -> dict[str, Any]:
    return {"id": call, "type": "function", "function": {"name": "Read", "arguments": '{"path": "a.md"}'}}


def _halves(said: str) -> tuple[str, str]:
    return said[: len(said) // 2], said[len(said) // 2 :]


def sdk_reads(data: bytes, *, streamed: bool) -> Any:
    """The completion as the SDK has it at the end; with the usage of the last chunk that says one."""
    kind = "text/event-stream" if streamed else "application/json"
    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-type": kind}, stream=httpx.ByteStream(data))
    )
    with (
        httpx.Client(transport=transport) as http,
        openai.OpenAI(api_key="k", base_url="http://model.test/v1", http_client=http, max_retries=0) as client,
    ):
        ask: Any = {"model": "m", "messages": []}
        if not streamed:
            return client.chat.completions.create(**ask)
        with client.chat.completions.stream(**ask) as stream:
            usage = None
            for one in stream:
                usage = (one.chunk.usage if one.type == "chunk" else None) or usage
            found = stream.current_completion_snapshot
    found.usage = usage
    return found


def message_of(completion: Any) -> dict[str, Any]:
    """Its message as a program sends it back."""
    message: dict[str, Any] = completion.choices[0].message.model_dump(exclude_none=True)
    message.pop("parsed", None)
    for call in message.get("tool_calls") or ():
        call.pop("index", None)
        call["function"].pop("parsed_arguments", None)
    return {"content": None, **message}
