"""Ollama's own API, one JSON document per line: https://docs.ollama.com/api/chat and …/generate."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from addons.demo.dialects.encode import compact
from addons.demo.reply import Moment, Reply, pieces, rough_tokens


def whole(request: dict[str, Any], reply: Reply, moment: Moment) -> bytes:
    return compact(
        {**heading(request, moment), **said(request, reply.text, reply), "done": True, **ending(request, reply)}
    )


def stream(request: dict[str, Any], reply: Reply, moment: Moment) -> Iterator[bytes]:
    head = heading(request, moment)
    for piece in pieces(reply.text):
        yield compact({**head, **said(request, piece), "done": False}) + b"\n"
    if reply.tool_calls:
        yield compact({**head, **said(request, "", reply), "done": False}) + b"\n"
    yield compact({**head, **said(request, ""), "done": True, **ending(request, reply)}) + b"\n"


def models(names: list[str]) -> bytes:
    """The answer of `GET /api/tags`."""
    return compact({"models": [{"name": name, "model": name, "size": 2019393189} for name in names]})


def error(message: str) -> bytes:
    return compact({"error": message})


def heading(request: dict[str, Any], moment: Moment) -> dict[str, Any]:
    created = datetime.fromtimestamp(moment.seconds, UTC).isoformat(timespec="microseconds")
    return {"model": request.get("model", ""), "created_at": created.replace("+00:00", "Z")}


def said(request: dict[str, Any], text: str, reply: Reply | None = None) -> dict[str, Any]:
    """`/api/chat` answers with a message, `/api/generate` (its request has no messages) with a bare text."""
    if "messages" not in request:
        return {"response": text}
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reply and reply.tool_calls:
        calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in reply.tool_calls]
        message["tool_calls"] = calls
    return {"message": message}


def ending(request: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """Durations are nanoseconds."""
    given = reply.usage
    prompt = given.input if given and given.input is not None else rough_tokens(str(request))
    answered = given.output if given and given.output is not None else rough_tokens(reply.text)
    return {
        "done_reason": "stop",
        "total_duration": 182_402_125,
        "load_duration": 41_005_250,
        "prompt_eval_count": prompt,
        "prompt_eval_duration": 61_000_000,
        "eval_count": answered,
        "eval_duration": 79_000_000,
    }
