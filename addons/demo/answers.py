"""From a request to an answer, with no socket in it: which dialect a path belongs to, and what goes back.

The server in `model.py` sends what comes out of here, and any other server can.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from addons.demo.dialects import anthropic, gemini, ollama, openai_chat, openai_responses
from addons.demo.reply import Moment, Reply, Script
from memory.exchange import Protocol

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"

MODELS = {
    "anthropic": ["claude-sonnet-4-5", "claude-haiku-4-5"],
    "openai": ["gpt-5.2", "gpt-5-mini"],
    "gemini": ["gemini-2.5-pro", "gemini-2.5-flash"],
    "ollama": ["llama3.2:3b"],
}
GEMINI_CALL = re.compile(r"/v1(?:alpha|beta)?/models/([^/:]+):(\w+)")
GEMINI_ACTIONS = ("generateContent", "streamGenerateContent", "countTokens")
POSTS: dict[str, Protocol] = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/api/chat": "ollama",
    "/api/generate": "ollama",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """`chunks` are sent one by one; `delay` is the pause in seconds before each of them but the first."""

    status: int
    content_type: str
    chunks: Iterable[bytes]
    streamed: bool = False
    delay: float = 0.0


def answer(
    method: str, target: str, headers: Mapping[str, str], body: bytes, *, script: Script, moment: Moment
) -> Answer:
    """`target` is path and query as in the request line; `headers` by lower-case name; `body` without encoding.

    Never raises for what a client sent: a body that is no JSON object is the provider's 400, any other path its 404.
    """
    parts = urlsplit(target)
    path = unquote(parts.path)
    if method == "GET":
        return listing(path, headers, moment)
    if method != "POST":
        return refusal(path, headers, moment, 404)
    try:
        request = json.loads(body)
    except ValueError:
        request = None
    if not isinstance(request, dict):
        return refusal(path, headers, moment, 400)
    if path == "/v1/messages/count_tokens":
        return once(anthropic.count(request))
    if (call := GEMINI_CALL.fullmatch(path)) and call[2] in GEMINI_ACTIONS:
        sse = "sse" in parse_qs(parts.query).get("alt", [])
        return gemini_answer(call[2], {**request, "model": call[1]}, script, moment, sse=sse)
    protocol = POSTS.get(path)
    if protocol is None:
        return refusal(path, headers, moment, 404)
    return speak(protocol, request, script(protocol, request), moment)


def speak(protocol: Protocol, request: dict[str, Any], reply: Reply, moment: Moment) -> Answer:
    """The reply in the words of one of the protocols that name the model in the body."""
    dialect = {
        "anthropic": anthropic,
        "openai-chat": openai_chat,
        "openai-responses": openai_responses,
        "ollama": ollama,
    }[protocol]
    if not request.get("stream", protocol == "ollama"):
        return once(dialect.whole(request, reply, moment))
    content_type = "application/x-ndjson" if protocol == "ollama" else EVENTS
    return flowing(dialect.stream(request, reply, moment), content_type, reply)


def gemini_answer(action: str, request: dict[str, Any], script: Script, moment: Moment, *, sse: bool) -> Answer:
    if action == "countTokens":
        return once(gemini.count(request))
    reply = script("gemini", request)
    if action == "generateContent":
        return once(gemini.whole(request, reply, moment), "application/json; charset=UTF-8")
    if sse:
        return flowing(gemini.stream(request, reply, moment), "text/event-stream", reply)
    return flowing(gemini.array(request, reply, moment), "application/json; charset=UTF-8", reply)


def listing(path: str, headers: Mapping[str, str], moment: Moment) -> Answer:
    if path == "/v1/models":
        if "anthropic-version" in headers:
            return once(anthropic.models(MODELS["anthropic"]))
        return once(openai_chat.models(MODELS["openai"]))
    if path == "/v1beta/models":
        return once(gemini.models(MODELS["gemini"]))
    if path == "/api/tags":
        return once(ollama.models(MODELS["ollama"]))
    if path == "/v1/responses" and "upgrade" in headers:
        # Codex asks for a WebSocket first and goes on with POST at once when it hears this, and only this, status.
        return Answer(426, JSON, [openai_chat.error("invalid_request_error", "WebSocket is not served here.", None)])
    return refusal(path, headers, moment, 404)


def refusal(path: str, headers: Mapping[str, str], moment: Moment, status: int) -> Answer:
    """400 or 404 as the provider of this path (or, for an unknown path, of these headers) says it."""
    missing = status == 404
    message = f"{path} is not served here." if missing else "The body is not a JSON object."
    if path.startswith("/v1/messages") or "anthropic-version" in headers:
        kind = "not_found_error" if missing else "invalid_request_error"
        return Answer(status, JSON, [anthropic.error(kind, message, moment)])
    if path.startswith(("/v1beta/", "/v1alpha/")) or "x-goog-api-key" in headers:
        state = "NOT_FOUND" if missing else "INVALID_ARGUMENT"
        return Answer(status, "application/json; charset=UTF-8", [gemini.error(status, state, message)])
    if path.startswith("/api/"):
        return Answer(status, JSON, [ollama.error(message)])
    return Answer(status, JSON, [openai_chat.error("invalid_request_error", message, None)])


def once(body: bytes, content_type: str = JSON) -> Answer:
    return Answer(200, content_type, [body])


def flowing(chunks: Iterator[bytes], content_type: str, reply: Reply) -> Answer:
    return Answer(200, content_type, chunks, streamed=True, delay=reply.delay)
