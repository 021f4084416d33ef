"""A target receives none of the provider's credentials, its own key, its own model's name, and the body as it was."""

from __future__ import annotations

import gzip

import brotli
import pytest
import zstandard

from addons.credentials import ALLOWED_HEADERS
from memory.exchange import Protocol
from tests.addons.gateway_parts import BODY, answer, bench, header_of, request_of, target_at, upstream
from tests.addons.test_credentials import CREDENTIALS, HARMLESS

PATHS: dict[Protocol, tuple[str, str, str]] = {
    "anthropic": ("/v1/messages?beta=true&key=sk-q", "/v1/messages?beta=true", "/v1/messages?beta=true"),
    "openai-chat": ("/v1/chat/completions?api_key=sk-q", "/v1/chat/completions", "/v1/chat/completions"),
    "openai-responses": ("/backend-api/codex/responses", "/v1/responses", "/v1/responses"),
    "gemini": (
        "/v1beta/models/gemini-x:streamGenerateContent?key=sk-q&alt=sse",
        "/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
        "/v1beta/models/qwen3%3A8b:streamGenerateContent?alt=sse",
    ),
    "ollama": ("/api/chat", "/api/chat", "/api/chat"),
    "bedrock": (
        "/model/us.claude%3A0/converse?X-Amz-Signature=sk-q",
        "/model/us.claude%3A0/converse",
        "/model/qwen3%3A8b/converse",
    ),
}
KEYS = {"anthropic": (b"x-api-key", b"own-key"), "gemini": (b"x-goog-api-key", b"own-key")}
WITH_MODEL = BODY.replace(b'"claude-test"', b'"qwen3:8b"')
OWN = {"Host", "Content-Length", "Connection"}


@pytest.mark.parametrize("protocol", PATHS)
@pytest.mark.parametrize("model", [None, "qwen3:8b"])
@pytest.mark.parametrize("key", [None, "LAB_KEY"])
async def test_nothing_that_was_meant_for_the_provider(protocol: Protocol, model: str | None, key: str | None) -> None:
    path, as_it_is, with_model = PATHS[protocol]
    harmless = tuple(one for one in HARMLESS if one[0] != "Content-Encoding")
    request = request_of(path=path, headers=(*CREDENTIALS, *harmless), protocol=protocol)
    async with bench(environ={"LAB_KEY": "own-key"}) as running, upstream(answer()) as server:
        await running.ask(await running.open(target_at(server.port, model=model, api_key_env=key), request=request))
        (received,) = server.requests
        assert received.head.split(b" ")[1].decode() == (with_model if model else as_it_is)
        names = [line.partition(b":")[0].decode() for line in received.header_lines[1:]]
        name, value = KEYS.get(protocol, (b"authorization", b"Bearer own-key"))
        assert header_of(received, name) == (value if key else None)
        assert set(names) - OWN - ({name.decode()} if key else set()) == {one for one, _ in harmless}
        assert {one.lower() for one, _ in harmless} <= ALLOWED_HEADERS
        assert b"sk-" not in received.head
        in_body = model is not None and protocol not in {"gemini", "bedrock"}
        assert received.body == (WITH_MODEL if in_body else BODY)
        assert running.sent[0].model == (model or "claude-test")


ENCODED = {
    "gzip": gzip.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "gzip, br": lambda body: brotli.compress(gzip.compress(body)),
}


@pytest.mark.parametrize("encoding", ENCODED)
async def test_an_encoded_body_is_decoded_only_where_it_must_be(encoding: str) -> None:
    body = ENCODED[encoding](BODY)
    headers = (("Content-Type", "application/json"), ("Content-Encoding", encoding))
    async with bench() as running, upstream(answer()) as server:
        request = request_of(body, headers=headers)
        await running.ask(await running.open(target_at(server.port), request=request))
        await running.ask(await running.open(target_at(server.port, model="qwen3:8b"), request=request))
        raw, named = server.requests
        assert (raw.body, header_of(raw, b"Content-Encoding")) == (body, encoding.encode())
        assert (named.body, header_of(named, b"Content-Encoding")) == (WITH_MODEL, None)


@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [
        (b"no json", "", b"lab cannot be told its model: the body is no JSON object"),
        (b"no gzip", "gzip", b"lab cannot be told its model: the body is not gzip, as its Content-Encoding says"),
        (b"{}", "rot13", b"lab cannot be told its model: the Content-Encoding 'rot13' is not known"),
        (gzip.compress(b" " * (1 << 23)), "gzip", b"lab cannot be told its model: the body decodes to more than"),
    ],
)
async def test_a_body_that_cannot_be_read_goes_to_no_target_with_a_model(
    body: bytes, encoding: str, reason: bytes
) -> None:
    async with bench() as running, upstream(answer()) as server:
        request = request_of(body, headers=(("Content-Encoding", encoding),) if encoding else ())
        received = await running.ask(
            await running.open(target_at(server.port, "lab", model="qwen3:8b"), request=request)
        )
        assert (received.status, server.connections, running.sent) == (400, 0, [])
        assert reason in received.body


async def test_a_large_body_is_named_off_the_loop() -> None:
    body = b'{"a": "' + b"x" * 2_000_000 + b'", "model": "claude-test"}'
    async with bench() as running, upstream(answer()) as server:
        door = await running.open(target_at(server.port, model="qwen3:8b"), request=request_of(body))
        await running.ask(door)
        assert server.requests[0].body == body.replace(b'"claude-test"', b'"qwen3:8b"')


async def test_a_target_without_its_key_is_not_dialled() -> None:
    async with bench(environ={"OTHER": "k"}) as running, upstream(answer()) as first, upstream(answer(b"2")) as second:
        received = await running.ask(
            await running.open(
                target_at(first.port, "first", api_key_env="LAB_KEY"),
                target_at(second.port, "second", api_key_env="OTHER"),
            )
        )
        assert (received.body, first.connections) == (b"2", 0)


async def test_what_the_gateway_keeps_and_says_shows_no_credential() -> None:
    request = request_of(path="/v1/messages?key=sk-1", headers=CREDENTIALS, body=b'{"api_key": "sk-1"}')
    assert "sk-" not in repr(request)
