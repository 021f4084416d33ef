"""Gemini: https://ai.google.dev/api/generate-content. Streams are server-sent events with CRLF, or one JSON array."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from addons.demo.dialects.encode import event, indented
from addons.demo.reply import Moment, Reply, pieces, rough_tokens

WORDS_PER_EVENT = 4
"""This provider sends longer pieces than the others do."""


def whole(request: dict[str, Any], reply: Reply, moment: Moment) -> bytes:
    text = [{"text": reply.text}] if reply.text else []
    return indented(chunk(request, reply, moment, text + calls(reply), finished=True))


def stream(request: dict[str, Any], reply: Reply, moment: Moment) -> Iterator[bytes]:
    for data in chunks(request, reply, moment):
        yield event(None, json.dumps(data, ensure_ascii=False, separators=(",", ": ")).encode(), b"\r\n")


def array(request: dict[str, Any], reply: Reply, moment: Moment) -> Iterator[bytes]:
    """The stream of `:streamGenerateContent` without `alt=sse`: one array, an element at a time."""
    for position, data in enumerate(chunks(request, reply, moment)):
        yield (b",\r\n" if position else b"[") + indented(data)
    yield b"]\n"


def count(request: dict[str, Any]) -> bytes:
    """The answer of `:countTokens`."""
    tokens = rough_tokens(str(request))
    return indented({"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]})


def models(names: list[str]) -> bytes:
    methods = ["generateContent", "countTokens"]
    return indented(
        {
            "models": [
                {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods} for name in names
            ]
        }
    )


def error(code: int, status: str, message: str) -> bytes:
    return indented({"error": {"code": code, "message": message, "status": status}})


def chunks(request: dict[str, Any], reply: Reply, moment: Moment) -> Iterator[dict[str, Any]]:
    words = pieces(reply.text)
    for start in range(0, len(words), WORDS_PER_EVENT):
        part = {"text": "".join(words[start : start + WORDS_PER_EVENT])}
        last = start + WORDS_PER_EVENT >= len(words) and not reply.tool_calls
        yield chunk(request, reply, moment, [part], finished=last)
    if reply.tool_calls:
        yield chunk(request, reply, moment, calls(reply), finished=True)
    elif not words:
        yield chunk(request, reply, moment, [{"text": ""}], finished=True)


def calls(reply: Reply) -> list[dict[str, Any]]:
    return [{"functionCall": {"name": call.name, "args": call.arguments}} for call in reply.tool_calls]


def chunk(
    request: dict[str, Any], reply: Reply, moment: Moment, parts: list[dict[str, Any]], *, finished: bool
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}}
    if finished:
        candidate["finishReason"] = "STOP"
    candidate["index"] = 0
    return {
        "candidates": [candidate],
        "usageMetadata": usage_of(request, reply, finished=finished),
        "modelVersion": request.get("model", ""),
        "responseId": moment.token("response", 23),
    }


def usage_of(request: dict[str, Any], reply: Reply, *, finished: bool) -> dict[str, Any]:
    given = reply.usage
    prompt = given.input if given and given.input is not None else rough_tokens(str(request))
    said = reply.text + "".join(str(call.arguments) for call in reply.tool_calls)
    candidates = given.output if given and given.output is not None else rough_tokens(said)
    details = [{"modality": "TEXT", "tokenCount": prompt}]
    if not finished:
        return {"promptTokenCount": prompt, "totalTokenCount": prompt, "promptTokensDetails": details}
    counted = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": candidates,
        "totalTokenCount": prompt + candidates,
        "promptTokensDetails": details,
    }
    if given and given.cache_read:
        counted["cachedContentTokenCount"] = given.cache_read
    return counted
