"""Anthropic Messages: https://docs.claude.com/en/api/messages and …/messages-streaming."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from addons.demo.dialects.encode import compact, event
from addons.demo.reply import Moment, Reply, pieces, rough_tokens
from memory.exchange import Usage


def whole(request: dict[str, Any], reply: Reply, moment: Moment) -> bytes:
    usage = usage_of(request, reply)
    message = opening(request, moment, usage)
    message["content"] = blocks(reply, moment)
    message["stop_reason"] = stop_reason(reply)
    message["usage"]["output_tokens"] = usage.output
    return compact(message)


def stream(request: dict[str, Any], reply: Reply, moment: Moment) -> Iterator[bytes]:
    usage = usage_of(request, reply)
    yield padded({"type": "message_start", "message": opening(request, moment, usage)}, moment)
    for index, block in enumerate(blocks(reply, moment)):
        is_text = block["type"] == "text"
        empty: dict[str, Any] = {"text": ""} if is_text else {"input": {}}
        yield padded({"type": "content_block_start", "index": index, "content_block": {**block, **empty}}, moment)
        if index == 0:
            yield event("ping", b'{"type": "ping"}')
        for delta in text_deltas(block["text"]) if is_text else input_deltas(block["input"]):
            yield padded({"type": "content_block_delta", "index": index, "delta": delta}, moment)
        yield padded({"type": "content_block_stop", "index": index}, moment)
    yield padded(
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason(reply), "stop_sequence": None},
            "usage": {
                "input_tokens": usage.input,
                "cache_creation_input_tokens": usage.cache_write,
                "cache_read_input_tokens": usage.cache_read,
                "output_tokens": usage.output,
            },
        },
        moment,
    )
    yield padded({"type": "message_stop"}, moment)


def count(request: dict[str, Any]) -> bytes:
    """The answer of `POST /v1/messages/count_tokens`."""
    return compact({"input_tokens": rough_tokens(str(request))})


def models(names: list[str]) -> bytes:
    data = [{"type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z"} for name in names]
    return compact({"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]})


def error(kind: str, message: str, moment: Moment) -> bytes:
    request_id = f"req_011{moment.token('request', 21)}"
    return compact({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id})


def opening(request: dict[str, Any], moment: Moment, usage: Usage) -> dict[str, Any]:
    return {
        "model": request.get("model", ""),
        "id": f"msg_01{moment.token('message', 22)}",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation": {"ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 1,
            "service_tier": "standard",
            "inference_geo": "not_available",
        },
    }


def blocks(reply: Reply, moment: Moment) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": reply.text}] if reply.text else []
    calls = [
        {
            "type": "tool_use",
            "id": f"toolu_01{moment.token(f'call {position}', 22)}",
            "name": call.name,
            "input": call.arguments,
        }
        for position, call in enumerate(reply.tool_calls)
    ]
    return text + calls


def text_deltas(text: str) -> Iterator[dict[str, Any]]:
    for piece in pieces(text):
        yield {"type": "text_delta", "text": piece}


def input_deltas(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The first one is empty, as the provider's is; the others cut the JSON anywhere."""
    encoded = compact(arguments).decode()
    for piece in ["", *(encoded[start : start + 7] for start in range(0, len(encoded), 7))]:
        yield {"type": "input_json_delta", "partial_json": piece}


def stop_reason(reply: Reply) -> str:
    return "tool_use" if reply.tool_calls else "end_turn"


def usage_of(request: dict[str, Any], reply: Reply) -> Usage:
    given = reply.usage or Usage()
    said = reply.text + "".join(str(call.arguments) for call in reply.tool_calls)
    return Usage(
        input=rough_tokens(str(request)) if given.input is None else given.input,
        output=rough_tokens(said) if given.output is None else given.output,
        cache_read=given.cache_read or 0,
        cache_write=given.cache_write or 0,
    )


def padded(data: dict[str, Any], moment: Moment) -> bytes:
    """The provider puts a varying number of spaces before an event's last brace."""
    encoded = compact(data)
    spaces = (moment.serial + len(encoded)) * 7 % 16
    return event(data["type"], encoded[:-1] + b" " * spaces + b"}")
