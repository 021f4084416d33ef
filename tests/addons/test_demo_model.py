"""The scripted model against the providers' own SDKs, on loopback, over TLS and plain."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx
import openai
import pytest
from google import genai
from google.genai import types

from addons.demo.authority import AuthorityPaths, make_authority
from addons.demo.model import ScriptedModel
from addons.demo.reply import Moment, Reply, ToolCall, Turn, in_turn, pieces
from memory.exchange import Usage

TEXT = "Gern geschehen — das 🌱 wächst.\n\nZwei Zeilen weiter: fertig."
CALLS = (
    ToolCall("Read", {"file_path": "/vault/areas/Garden.md", "limit": 40}),
    ToolCall("Read", {"file_path": "/vault/people/Ödön.md"}),
)
USAGE = Usage(input=321, output=45, cache_read=7, cache_write=3)
SAY = Reply(TEXT, usage=USAGE)
CALL = Reply("Let me look.", CALLS, USAGE)
ASK: list[Any] = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> AuthorityPaths:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def model(authority: AuthorityPaths) -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel(tls=authority.server_context(), clock=lambda: 1_780_000_000) as running:
        yield running


@pytest.fixture
async def http(authority: AuthorityPaths) -> AsyncIterator[Any]:
    """An HTTP client of the package that the SDKs are built on (its name depends on their version)."""
    trust = ssl.create_default_context(cafile=str(authority.authority))
    async with openai.DefaultAsyncHttpxClient(verify=trust, trust_env=False) as client:
        yield client


def says(model: ScriptedModel, reply: Reply) -> None:
    model.script = lambda _protocol, _body: reply


async def test_anthropic_sdk_reads_text_and_usage_whole_and_streamed(model: ScriptedModel, http: Any) -> None:
    says(model, SAY)
    client = anthropic.AsyncAnthropic(api_key="k", base_url=model.url, http_client=http, max_retries=0)
    whole = await client.messages.create(model="claude-x", max_tokens=99, messages=ASK)
    async with client.messages.stream(model="claude-x", max_tokens=99, messages=ASK) as stream:
        heard = [text async for text in stream.text_stream]
        streamed = await stream.get_final_message()
    assert heard == pieces(TEXT)
    for message in (whole, streamed):
        assert [block.text for block in message.content if block.type == "text"] == [TEXT]
        assert (message.stop_reason, message.model, message.role) == ("end_turn", "claude-x", "assistant")
        assert (message.usage.input_tokens, message.usage.output_tokens) == (321, 45)
        assert (message.usage.cache_read_input_tokens, message.usage.cache_creation_input_tokens) == (7, 3)


async def test_anthropic_sdk_reads_tool_calls_whole_and_streamed(model: ScriptedModel, http: Any) -> None:
    says(model, CALL)
    client = anthropic.AsyncAnthropic(api_key="k", base_url=model.url, http_client=http, max_retries=0)
    whole = await client.messages.create(model="claude-x", max_tokens=99, messages=ASK)
    async with client.messages.stream(model="claude-x", max_tokens=99, messages=ASK) as stream:
        streamed = await stream.get_final_message()
    for message in (whole, streamed):
        assert [block.type for block in message.content] == ["text", "tool_use", "tool_use"]
        calls = [block for block in message.content if block.type == "tool_use"]
        assert [(call.name, call.input) for call in calls] == [(call.name, call.arguments) for call in CALLS]
        assert all(call.id.startswith("toolu_01") and len(call.id) == 30 for call in calls)
        assert calls[0].id != calls[1].id
        assert message.stop_reason == "tool_use"


async def test_anthropic_counts_tokens_and_lists_models(model: ScriptedModel, http: Any) -> None:
    client = anthropic.AsyncAnthropic(api_key="k", base_url=model.url, http_client=http, max_retries=0)
    counted = await client.messages.count_tokens(model="claude-x", messages=ASK)
    assert counted.input_tokens == len(str(json.loads(model.received[0].body))) // 4
    assert [one.id async for one in client.models.list()] == ["claude-sonnet-4-5", "claude-haiku-4-5"]


async def test_openai_sdk_reads_chat_text_and_usage_whole_and_streamed(model: ScriptedModel, http: Any) -> None:
    says(model, SAY)
    client = openai.AsyncOpenAI(api_key="k", base_url=f"{model.url}/v1", http_client=http, max_retries=0)
    whole = await client.chat.completions.create(model="gpt-x", messages=ASK)
    assert whole.usage
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == (TEXT, "stop")
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens) == (321, 45, 366)
    assert whole.created == 1_780_000_000
    stream = await client.chat.completions.create(
        model="gpt-x", messages=ASK, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert [chunk.choices[0].delta.content for chunk in chunks[1:-2]] == pieces(TEXT)
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage
    assert chunks[-1].usage.total_tokens == 366
    without = await client.chat.completions.create(model="gpt-x", messages=ASK, stream=True)
    assert [chunk.usage for chunk in [chunk async for chunk in without] if chunk.usage or not chunk.choices] == []


async def test_openai_sdk_reads_chat_tool_calls_whole_and_streamed(model: ScriptedModel, http: Any) -> None:
    says(model, CALL)
    client = openai.AsyncOpenAI(api_key="k", base_url=f"{model.url}/v1", http_client=http, max_retries=0)
    whole = (await client.chat.completions.create(model="gpt-x", messages=ASK)).choices[0]
    async with client.chat.completions.stream(model="gpt-x", messages=ASK) as stream:
        async for _ in stream:
            pass
        streamed = (await stream.get_final_completion()).choices[0]
    for choice in (whole, streamed):
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "Let me look."
        assert choice.message.tool_calls
        heard = [
            (call.function.name, json.loads(call.function.arguments))
            for call in choice.message.tool_calls
            if call.type == "function"
        ]
        assert heard == [(call.name, call.arguments) for call in CALLS]


@pytest.mark.parametrize("reply", [SAY, CALL, Reply("", CALLS, USAGE)])
async def test_openai_sdk_reads_responses_whole_and_streamed(model: ScriptedModel, http: Any, reply: Reply) -> None:
    says(model, reply)
    client = openai.AsyncOpenAI(api_key="k", base_url=f"{model.url}/v1", http_client=http, max_retries=0)
    whole = await client.responses.create(model="gpt-x", input="Hello")
    events = [event async for event in await client.responses.create(model="gpt-x", input="Hello", stream=True)]
    assert [event.type for event in events][:2] == ["response.created", "response.in_progress"]
    assert [getattr(event, "sequence_number", None) for event in events] == list(range(len(events)))
    last = events[-1]
    assert last.type == "response.completed"
    for response in (whole, last.response):
        assert response.status == "completed"
        assert response.output_text == reply.text
        calls = [item for item in response.output if item.type == "function_call"]
        assert [(call.name, json.loads(call.arguments)) for call in calls] == [
            (call.name, call.arguments) for call in reply.tool_calls
        ]
        assert response.usage
        assert (response.usage.input_tokens, response.usage.output_tokens) == (321, 45)
        assert response.usage.input_tokens_details.cached_tokens == 7
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert deltas == reply.text


@pytest.mark.parametrize("reply", [SAY, CALL, Reply("", CALLS, USAGE)])
async def test_google_sdk_reads_gemini_whole_and_streamed(model: ScriptedModel, http: Any, reply: Reply) -> None:
    says(model, reply)
    options = types.HttpOptions(base_url=model.url, httpx_async_client=http)
    client = genai.Client(api_key="k", http_options=options).aio
    whole = await client.models.generate_content(model="gemini-x", contents="Hello")
    stream = [one async for one in await client.models.generate_content_stream(model="gemini-x", contents="Hello")]
    for answer in (whole, stream[-1]):
        assert answer.candidates
        assert answer.candidates[0].finish_reason == types.FinishReason.STOP
        usage = answer.usage_metadata
        assert usage
        assert (usage.prompt_token_count, usage.candidates_token_count, usage.total_token_count) == (321, 45, 366)
        assert [(call.name, call.args) for call in answer.function_calls or []] == [
            (call.name, call.arguments) for call in reply.tool_calls
        ]
        assert answer.model_version == "gemini-x"
    for answers in ([whole], stream):
        parts = [
            part
            for one in answers
            if one.candidates and one.candidates[0].content
            for part in one.candidates[0].content.parts or []
        ]
        assert "".join(part.text or "" for part in parts) == reply.text


async def test_gemini_streams_are_crlf_events_or_one_array(model: ScriptedModel, http: Any) -> None:
    says(model, SAY)
    path = f"{model.url}/v1beta/models/gemini-x:streamGenerateContent"
    events = await http.post(path, params={"alt": "sse"}, json={"contents": []})
    array = await http.post(path, json={"contents": []})
    lines = events.content.split(b"\r\n\r\n")
    assert events.headers["content-type"] == "text/event-stream"
    assert lines.pop() == b""
    assert b"\n" not in b"".join(lines)
    assert lines[0].startswith(b'data: {"candidates": [{"content": {"parts": [{"text": "')
    assert array.content.startswith(b'[{\n  "candidates": [\n')
    assert array.content.endswith(b"}\n]\n")
    assert b"}\n,\r\n{" in array.content
    heard = [json.loads(line.removeprefix(b"data: ")) for line in lines]
    assert [one["candidates"] for one in heard] == [one["candidates"] for one in array.json()]


async def test_anthropic_stream_is_spelled_as_the_provider_spells_it(model: ScriptedModel) -> None:
    says(model, Reply("Hi there", usage=Usage(input=5, output=2)))
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(f"{model.plain_url}/v1/messages", json={"model": "claude-x", "stream": True})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = answer.text.split("\n\n")
    assert [one.partition("\n")[0] for one in events[:-1]] == [
        "event: message_start",
        "event: content_block_start",
        "event: ping",
        "event: content_block_delta",
        "event: content_block_delta",
        "event: content_block_stop",
        "event: message_delta",
        "event: message_stop",
    ]
    assert events[2] == 'event: ping\ndata: {"type": "ping"}'
    delta = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" there"}'
    name, _, data = events[4].partition("\n")
    assert (name, data.removesuffix("}").rstrip(" ")) == ("event: content_block_delta", f"data: {delta}")


async def test_openai_chat_stream_ends_with_done(model: ScriptedModel) -> None:
    says(model, Reply("Hi"))
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        body = {"model": "gpt-x", "stream": True}
        answer = await client.post(f"{model.plain_url}/v1/chat/completions", json=body)
    first, *_, last, end = answer.text.split("\n\n")
    assert first.startswith('data: {"id":"chatcmpl-')
    assert (last, end) == ("data: [DONE]", "")


@pytest.mark.parametrize(("path", "field"), [("/api/chat", "message"), ("/api/generate", "response")])
async def test_ollama_answers_lines_unless_told_not_to(model: ScriptedModel, path: str, field: str) -> None:
    says(model, SAY)
    body: dict[str, Any] = {"model": "llama3.2:3b"} | ({"messages": ASK} if path == "/api/chat" else {"prompt": "Hi"})
    async with httpx.AsyncClient(trust_env=False, base_url=model.plain_url, timeout=60) as client:
        lines = await client.post(path, json=body)
        whole = (await client.post(path, json={**body, "stream": False})).json()

    def text(answer: dict[str, Any]) -> str:
        said = answer[field]
        return str(said["content"] if field == "message" else said)

    answers = [json.loads(line) for line in lines.content.split(b"\n")[:-1]]
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [text(one) for one in answers] == [*pieces(TEXT), ""]
    assert [one["done"] for one in answers] == [False] * (len(answers) - 1) + [True]
    assert text(whole) == TEXT
    for last in (answers[-1], whole):
        assert (last["prompt_eval_count"], last["eval_count"], last["done_reason"]) == (321, 45, "stop")
        assert last["created_at"] == "2026-05-28T20:26:40.000000Z"


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/v1/messages/x", 404, {"type": "error", "error": {"type": "not_found_error"}}),
        ("GET", "/v1beta/x", 404, {"error": {"code": 404, "status": "NOT_FOUND"}}),
        ("POST", "/v1beta/models/m:embedContent", 404, {"error": {"code": 404, "status": "NOT_FOUND"}}),
        ("GET", "/v1/x", 404, {"error": {"type": "invalid_request_error", "param": None, "code": None}}),
        ("DELETE", "/api/x", 404, {"error": "/api/x is not served here."}),
        ("POST", "/v1/messages", 400, {"error": {"type": "invalid_request_error"}}),
        ("POST", "/v1beta/models/m:generateContent", 400, {"error": {"status": "INVALID_ARGUMENT"}}),
    ],
)
async def test_what_is_not_served_is_refused_as_the_provider_would(
    model: ScriptedModel, method: str, path: str, status: int, body: dict[str, Any]
) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        content = b"{}" if status == 404 else b"no json"
        answer = await client.request(method, model.plain_url + path, content=content)
    heard = answer.json()
    assert answer.status_code == status
    for key, value in body.items():
        assert heard[key] == value if not isinstance(value, dict) else heard[key] | value == heard[key]


async def test_codex_is_told_to_go_on_without_a_websocket(model: ScriptedModel) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
        assert (await client.get(f"{model.plain_url}/v1/responses", headers=headers)).status_code == 426


async def test_remembers_requests_raw_and_counts_connections(model: ScriptedModel, http: Any) -> None:
    seen: list[dict[str, Any]] = []

    def remember(_protocol: str, body: dict[str, Any]) -> Reply:
        seen.append(body)
        return Reply("ok")

    model.script = remember
    packed = gzip.compress(json.dumps({"model": "claude-x", "messages": ASK}).encode())
    for _ in range(2):
        headers = {"Content-Encoding": "gzip", "X-Probe": "1"}
        answer = await http.post(f"{model.url}/v1/messages?beta=true", content=packed, headers=headers)
        assert answer.json()["content"] == [{"type": "text", "text": "ok"}]
    async with httpx.AsyncClient(trust_env=False, timeout=60) as plain:
        await plain.get(f"{model.plain_url}/v1/models")
    assert model.connections == 2
    assert [(one.method, one.target, one.secure) for one in model.received] == [
        ("POST", "/v1/messages?beta=true", True),
        ("POST", "/v1/messages?beta=true", True),
        ("GET", "/v1/models", False),
    ]
    assert model.received[0].body == packed
    assert model.received[0].header("x-probe") == "1"
    assert model.received[0].http_version == "1.1"
    assert [body["messages"] for body in seen] == [ASK, ASK]


async def test_a_body_of_seventy_megabytes_arrives(model: ScriptedModel) -> None:
    body = json.dumps({"model": "claude-x", "messages": [{"role": "user", "content": "x" * 70_000_000}]}).encode()
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(f"{model.plain_url}/v1/messages", content=body)
    assert answer.status_code == 200
    assert len(model.received[0].body) == len(body)


async def test_delay_stands_between_events_and_not_before_the_first(model: ScriptedModel) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        body = {"model": "claude-x", "stream": True}
        says(model, Reply("one two", delay=0.05))
        began = time.monotonic()  # the first line may be read late, on a machine that is busy
        async with client.stream("POST", f"{model.plain_url}/v1/messages", json=body) as answer:
            assert [line async for line in answer.aiter_lines() if line.startswith("data: ")][7:]
        # Eight events, so seven pauses between the first line and the last.
        assert time.monotonic() - began >= 7 * 0.05 * 0.9
        says(model, Reply("one two", delay=3600))
        async with client.stream("POST", f"{model.plain_url}/v1/messages", json=body) as answer:
            async for line in answer.aiter_lines():
                assert line == "event: message_start"
                break


async def test_listens_on_sockets_that_were_opened_before(authority: AuthorityPaths) -> None:
    secure, plain = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    ports = [one.getsockname()[1] for one in (secure, plain)]
    async with ScriptedModel(tls=authority.server_context(), sock=secure, plain_sock=plain) as model:
        assert [model.port, model.plain_port] == ports
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            assert (await client.get(f"http://127.0.0.1:{ports[1]}/v1/models")).status_code == 200


async def test_a_client_that_leaves_does_not_disturb_the_next(
    model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    says(model, Reply("word " * 200, delay=0.01))
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        body = {"model": "claude-x", "stream": True}
        async with client.stream("POST", f"{model.plain_url}/v1/messages", json=body) as answer:
            async for _ in answer.aiter_raw():
                break
        await asyncio.sleep(0.05)
        says(model, Reply("ok"))
        again = await client.post(f"{model.plain_url}/v1/messages", json={"model": "claude-x"})
    assert again.json()["content"][0]["text"] == "ok"
    assert [record for record in caplog.records if record.name.startswith("aiohttp")] == []


def test_turns_are_given_once_to_the_first_request_that_suits() -> None:
    call, text, other = Reply("", CALLS), Reply("done"), Reply("other")
    script = in_turn(
        [Turn(call, "anthropic", lambda body: "tools" in body), Turn(text, "anthropic"), Turn(other)],
    )
    assert script("anthropic", {}) is text
    assert script("anthropic", {"tools": []}) is call
    assert script("gemini", {}) is other
    assert script("gemini", {}).text.startswith("Happy to help.")


def test_ids_depend_on_the_moment_and_the_purpose_only() -> None:
    assert Moment(1, 2).token("a", 22) == Moment(1, 2).token("a", 22)
    assert len({Moment(1, 2).token("a", 22), Moment(2, 2).token("a", 22), Moment(1, 2).token("b", 22)}) == 3
    assert pieces("") == []
    assert "".join(pieces("  a b\n\nc \n")) == "  a b\n\nc \n"


async def test_the_certificate_is_trusted_for_the_providers_names(
    authority: AuthorityPaths, model: ScriptedModel
) -> None:
    trust = ssl.create_default_context(cafile=str(authority.authority))
    for name in ("api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"):
        _, writer = await asyncio.open_connection("127.0.0.1", model.port, ssl=trust, server_hostname=name)
        writer.close()
        await writer.wait_closed()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection("127.0.0.1", model.port, ssl=trust, server_hostname="example.org")


def test_the_servers_key_is_for_its_owner_only(authority: AuthorityPaths) -> None:
    assert authority.key.stat().st_mode & 0o777 == 0o600
