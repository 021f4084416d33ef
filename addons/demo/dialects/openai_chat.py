"""OpenAI Chat Completions: https://platform.openai.com/docs/api-reference/chat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from addons.demo.dialects.encode import compact, event, indented
from addons.demo.reply import Moment, Reply, pieces, rough_tokens


def whole(request: dict[str, Any], reply: Reply, moment: Moment) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None, "annotations": []}
    if reply.tool_calls:
        message["tool_calls"] = calls(reply, moment)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(reply)}
    head = heading(request, moment, "chat.completion")
    return indented(
        {
            **head,
            "choices": [choice],
            "usage": usage_of(request, reply),
            "service_tier": "default",
            "system_fingerprint": "fp_a1b2c3d4e5",
        }
    )


def stream(request: dict[str, Any], reply: Reply, moment: Moment) -> Iterator[bytes]:
    """`usage` stands in the chunks only when the request asks for it: null until a last chunk without choices."""
    wants_usage = bool((request.get("stream_options") or {}).get("include_usage"))
    head = {
        **heading(request, moment, "chat.completion.chunk"),
        "service_tier": "default",
        "system_fingerprint": "fp_a1b2c3d4e5",
    }
    usage: dict[str, Any] = {"usage": None} if wants_usage else {}
    for number, (delta, finish) in enumerate(deltas(reply, moment)):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        yield chunk({**head, "choices": [choice], **usage}, moment, number)
    if wants_usage:
        yield chunk({**head, "choices": [], "usage": usage_of(request, reply)}, moment, -1)
    yield event(None, b"[DONE]")


def models(names: list[str]) -> bytes:
    data = [{"id": name, "object": "model", "created": 1735689600, "owned_by": "system"} for name in names]
    return indented({"object": "list", "data": data})


def error(kind: str, message: str, code: str | None) -> bytes:
    return indented({"error": {"message": message, "type": kind, "param": None, "code": code}})


def heading(request: dict[str, Any], moment: Moment, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{moment.token('completion', 29)}",
        "object": kind,
        "created": moment.seconds,
        "model": request.get("model", ""),
    }


def deltas(reply: Reply, moment: Moment) -> Iterator[tuple[dict[str, Any], str | None]]:
    yield {"role": "assistant", "content": "" if reply.text or not reply.tool_calls else None, "refusal": None}, None
    for piece in pieces(reply.text):
        yield {"content": piece}, None
    for index, call in enumerate(calls(reply, moment)):
        arguments = call["function"]["arguments"]
        opened = {**call, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [{"index": index, **opened}]}, None
        for start in range(0, len(arguments), 7):
            part = {"index": index, "function": {"arguments": arguments[start : start + 7]}}
            yield {"tool_calls": [part]}, None
    yield {}, finish_reason(reply)


def calls(reply: Reply, moment: Moment) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{moment.token(f'call {position}', 24)}",
            "type": "function",
            "function": {"name": call.name, "arguments": compact(call.arguments).decode()},
        }
        for position, call in enumerate(reply.tool_calls)
    ]


def finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.tool_calls else "stop"


def usage_of(request: dict[str, Any], reply: Reply) -> dict[str, Any]:
    given = reply.usage
    prompt = given.input if given and given.input is not None else rough_tokens(str(request))
    said = reply.text + "".join(str(call.arguments) for call in reply.tool_calls)
    completion = given.output if given and given.output is not None else rough_tokens(said)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": (given.cache_read if given else None) or 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def chunk(data: dict[str, Any], moment: Moment, number: int) -> bytes:
    """`obfuscation` is letters of varying length that hide how long a delta is."""
    length = 3 + len(moment.token(f"pad {number}", 13).rstrip("abcdefgh0123456789")) % 13
    return event(None, compact({**data, "obfuscation": moment.token(f"letters {number}", length)}))
