"""OpenAI Responses: https://platform.openai.com/docs/api-reference/responses and …/responses-streaming."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from addons.demo.dialects.encode import compact, event, indented
from addons.demo.dialects.openai_chat import usage_of as chat_usage
from addons.demo.reply import Moment, Reply, pieces


def whole(request: dict[str, Any], reply: Reply, moment: Moment) -> bytes:
    return indented(response(request, moment, "completed", output(reply, moment), usage_of(request, reply)))


def stream(request: dict[str, Any], reply: Reply, moment: Moment) -> Iterator[bytes]:
    for number, data in zip(count(), events(request, reply, moment), strict=False):
        numbered = {"type": data["type"], "sequence_number": number, **data}
        yield event(data["type"], compact(numbered))


def events(request: dict[str, Any], reply: Reply, moment: Moment) -> Iterator[dict[str, Any]]:
    started = response(request, moment, "in_progress", [], None)
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    items = output(reply, moment)
    for index, item in enumerate(items):
        yield from item_events(index, item)
    finished = response(request, moment, "completed", items, usage_of(request, reply))
    yield {"type": "response.completed", "response": finished}


def item_events(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return message_events(index, item) if item["type"] == "message" else call_events(index, item)


def message_events(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    text = item["content"][0]["text"]
    where = {"item_id": item["id"], "output_index": index, "content_index": 0}
    opened = {**item, "status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", "output_index": index, "item": opened}
    yield {"type": "response.content_part.added", **where, "part": text_part("")}
    for piece in pieces(text):
        yield {"type": "response.output_text.delta", **where, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **where, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **where, "part": text_part(text)}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def call_events(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    arguments = item["arguments"]
    where = {"item_id": item["id"], "output_index": index}
    opened = {**item, "status": "in_progress", "arguments": ""}
    yield {"type": "response.output_item.added", "output_index": index, "item": opened}
    for start in range(0, len(arguments), 7):
        part = arguments[start : start + 7]
        yield {"type": "response.function_call_arguments.delta", **where, "delta": part}
    done = {**where, "arguments": arguments, "name": item["name"]}
    yield {"type": "response.function_call_arguments.done", **done}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def output(reply: Reply, moment: Moment) -> list[dict[str, Any]]:
    message = {
        "id": f"msg_{moment.token('message', 40)}",
        "type": "message",
        "status": "completed",
        "content": [text_part(reply.text)],
        "role": "assistant",
    }
    calls = [
        {
            "id": f"fc_{moment.token(f'item {position}', 40)}",
            "type": "function_call",
            "status": "completed",
            "arguments": compact(call.arguments).decode(),
            "call_id": f"call_{moment.token(f'call {position}', 24)}",
            "name": call.name,
        }
        for position, call in enumerate(reply.tool_calls)
    ]
    return ([message] if reply.text else []) + calls


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def response(
    request: dict[str, Any], moment: Moment, status: str, items: list[dict[str, Any]], usage: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "id": f"resp_{moment.token('response', 48)}",
        "object": "response",
        "created_at": moment.seconds,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "max_tool_calls": None,
        "model": request.get("model", ""),
        "output": items,
        "parallel_tool_calls": request.get("parallel_tool_calls", True),
        "previous_response_id": request.get("previous_response_id"),
        "prompt_cache_key": request.get("prompt_cache_key"),
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default" if status == "completed" else "auto",
        "store": request.get("store", True),
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": request.get("tool_choice", "auto"),
        "tools": request.get("tools", []),
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": None,
        "metadata": request.get("metadata") or {},
    }


def usage_of(request: dict[str, Any], reply: Reply) -> dict[str, Any]:
    counted = chat_usage(request, reply)
    return {
        "input_tokens": counted["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": counted["prompt_tokens_details"]["cached_tokens"]},
        "output_tokens": counted["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counted["total_tokens"],
    }
