"""What the providers' own SDKs make of the bytes of an answer, in the words of `Answer`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx
import openai
from google import genai
from google.genai import errors, types

from addons.wire.answer import Answer, ToolCall
from memory.exchange import Usage

URL = "http://model.test/v1"
ASK: Any = {"model": "m", "messages": []}


def openai_chat(data: bytes, content_type: str, status: int = 200) -> Answer:
    client = openai_client(data, content_type, status)
    if "event-stream" not in content_type:
        try:
            return chat_answer(client.chat.completions.create(**ASK), complete=True)
        except openai.APIStatusError as error:
            return Answer(error=error.body["message"])  # type: ignore[call-overload,index]
    usage = None
    with client.chat.completions.stream(**ASK) as stream:
        try:
            for event in stream:
                usage = (event.chunk.usage if event.type == "chunk" else None) or usage
            failed = None
        except openai.APIError as error:
            failed = error.message
        snapshot = stream.current_completion_snapshot
    snapshot.usage = usage  # it forgets the usage where another chunk comes after it
    return chat_answer(snapshot, failed, complete=failed is None)


def chat_answer(completion: Any, error: str | None = None, *, complete: bool) -> Answer:
    choice = completion.choices[0]
    message, usage = choice.message, completion.usage
    details = usage and usage.prompt_tokens_details
    extra = message.model_extra or {}
    return Answer(
        (message.content or "") + (message.refusal or ""),
        extra.get("reasoning_content") or extra.get("reasoning") or "",
        tuple(ToolCall(one.id, one.function.name, one.function.arguments) for one in message.tool_calls or ()),
        Usage(usage.prompt_tokens, usage.completion_tokens, details and details.cached_tokens) if usage else Usage(),
        choice.finish_reason,
        error,
        completion.model,
        completion.id,
        complete,
    )


def openai_responses(data: bytes, content_type: str, status: int = 200) -> Answer:
    client = openai_client(data, content_type, status)
    response: Any
    if "event-stream" in content_type:
        with client.responses.stream(model="m", input="x") as stream:
            response = stream.get_final_response()
    else:
        response = client.responses.create(model="m", input="x")
    calls = [item for item in response.output if item.type in ("function_call", "custom_tool_call", "mcp_call")]
    summaries = [part.text for item in response.output if item.type == "reasoning" for part in item.summary]
    usage = response.usage
    return Answer(
        response.output_text,
        "\n".join(summaries),
        tuple(ToolCall(getattr(one, "call_id", one.id), one.name, said_to(one)) for one in calls),
        Usage(usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens),
        response.status,
        model=response.model,
        id=response.id,
        complete=True,
    )


def said_to(call: Any) -> str:
    given = call.input if call.type == "custom_tool_call" else call.arguments
    assert isinstance(given, str)
    return given


def gemini(data: bytes, content_type: str, status: int = 200) -> Answer:
    http = httpx.Client(transport=answering(data, content_type, status))
    client = genai.Client(api_key="x", http_options=types.HttpOptions(base_url=URL, httpx_client=http))
    try:
        if "event-stream" in content_type:
            return gemini_answer(list(client.models.generate_content_stream(model="m", contents="x")))
        return gemini_answer([client.models.generate_content(model="m", contents="x")])
    except errors.APIError as error:
        return Answer(error=error.message)


def gemini_answer(chunks: Sequence[types.GenerateContentResponse]) -> Answer:
    """The SDK puts no stream together: its chunks, joined."""
    candidates = [chunk.candidates[0] for chunk in chunks if chunk.candidates]
    parts = [part for one in candidates if one.content for part in one.content.parts or ()]
    calls = [part.function_call for part in parts if part.function_call]
    reasons = [one.finish_reason.value for one in candidates if one.finish_reason]
    usage = chunks[-1].usage_metadata
    assert usage is not None
    return Answer(
        "".join(part.text or "" for part in parts if not part.thought),
        "".join(part.text or "" for part in parts if part.thought),
        tuple(ToolCall(one.id or "", one.name or "", json.dumps(one.args, ensure_ascii=False)) for one in calls),
        Usage(
            usage.prompt_token_count,
            (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
            usage.cached_content_token_count,
        ),
        reasons[-1],
        model=chunks[-1].model_version or "",
        id=chunks[-1].response_id,
        complete=True,
    )


def openai_client(data: bytes, content_type: str, status: int) -> openai.OpenAI:
    http = httpx.Client(transport=answering(data, content_type, status))
    return openai.OpenAI(api_key="x", base_url=URL, max_retries=0, http_client=http)


def answering(data: bytes, content_type: str, status: int) -> httpx.MockTransport:
    headers = {"content-type": content_type}
    return httpx.MockTransport(lambda _request: httpx.Response(status, headers=headers, content=data))
