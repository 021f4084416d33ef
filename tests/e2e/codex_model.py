"""The scripted model as Codex meets it at OpenAI: a WebSocket at `/v1/responses`, and its custom tool `exec`."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any

from aiohttp import WSMsgType, web

from addons.demo.answers import EVENTS, Answer
from addons.demo.dialects import openai_responses
from addons.demo.dialects.encode import compact, event
from addons.demo.model import Received, ScriptedModel
from addons.demo.reply import Moment, Reply, Script, ToolCall, friendly, pieces
from memory.exchange import Usage

EXEC = "exec"
WARMED_UP = Reply("", usage=Usage(input=0, output=0))
"""Codex opens its WebSocket with a request that it wants no answer to: `generate` is false."""


def exec_call(javascript: str) -> ToolCall:
    """Codex runs commands by JavaScript that the model writes. The tool takes that as it is, not as JSON."""
    return ToolCall(EXEC, {"input": javascript})


class CodexModel(ScriptedModel):
    """`sockets` False: it refuses the WebSocket with 426, the one status that makes Codex go on with POST at once."""

    def __init__(self, script: Script = friendly, *, sockets: bool, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(script, tls=tls)
        self.messages: list[str] = []
        """What came in over WebSockets, as it came."""
        self.deflated: list[bool] = []
        """Of each WebSocket, whether permessage-deflate was agreed on."""
        self._sockets = sockets

    def reply_to(self, request: Received) -> Answer:
        if (request.method, request.target) != ("POST", "/v1/responses"):
            return super().reply_to(request)
        self.received.append(request)
        body = json.loads(request.body)
        reply = self.script("openai-responses", body)
        chunks = (event(data["type"], compact(data)) for data in self._events(body, reply))
        return Answer(200, EVENTS, chunks, streamed=True)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._sockets and request.path == "/v1/responses" and "Upgrade" in request.headers:
            return await self._talk(request)
        return await super()._handle(request)

    async def _talk(self, request: web.BaseRequest) -> web.WebSocketResponse:
        """Answer each `response.create` with the events that the stream over HTTP has, a message for each."""
        headers = tuple(request.headers.items())
        self.received.append(Received("GET", request.raw_path, "1.1", headers, b"", secure=request.secure))
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.deflated.append(bool(socket.compress))
        async for message in socket:
            assert message.type is WSMsgType.TEXT
            self.messages.append(message.data)
            body = json.loads(message.data)
            assert body["type"] == "response.create"
            # The first one only warms the connection up and wants no words.
            reply = self.script("openai-responses", body) if body.get("generate", True) else WARMED_UP
            for data in self._events(body, reply):
                await socket.send_str(compact(data).decode())
        return socket

    def _events(self, request: dict[str, Any], reply: Reply) -> Iterator[dict[str, Any]]:
        moment = Moment(len(self.received) + len(self.messages), int(self._clock()))
        for number, data in enumerate(response_events(request, reply, moment)):
            yield {"type": data["type"], "sequence_number": number, **data}


def response_events(request: dict[str, Any], reply: Reply, moment: Moment) -> Iterator[dict[str, Any]]:
    started = openai_responses.response(request, moment, "in_progress", [], None)
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    items = [custom_call(item) for item in openai_responses.output(reply, moment)]
    for index, item in enumerate(items):
        if item["type"] == "custom_tool_call":
            yield from custom_call_events(index, item)
        else:
            yield from openai_responses.item_events(index, item)
    usage = openai_responses.usage_of(request, reply)
    finished = openai_responses.response(request, moment, "completed", items, usage)
    yield {"type": "response.completed", "response": finished}


def custom_call(item: dict[str, Any]) -> dict[str, Any]:
    """A call of `exec` as that of a custom tool; whatever else as it is."""
    if item.get("name") != EXEC:
        return item
    return {
        "id": item["id"].replace("fc_", "ctc_", 1),
        "type": "custom_tool_call",
        "status": item["status"],
        "call_id": item["call_id"],
        "input": json.loads(item["arguments"])["input"],
        "name": item["name"],
    }


def custom_call_events(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    where = {"item_id": item["id"], "output_index": index}
    opened = {**item, "status": "in_progress", "input": ""}
    yield {"type": "response.output_item.added", "output_index": index, "item": opened}
    for piece in pieces(item["input"]):
        yield {"type": "response.custom_tool_call_input.delta", **where, "delta": piece}
    yield {"type": "response.custom_tool_call_input.done", **where, "input": item["input"]}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}
