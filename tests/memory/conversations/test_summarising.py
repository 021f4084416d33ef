"""What a model is asked when it summarises, on the wire, and what becomes of whatever it answers."""

from __future__ import annotations

import inspect
import logging
import re
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from memsearch import compact  # type: ignore[import-untyped]

from memory.conversations import summarising, summary_calls
from memory.conversations.summarising import LARGEST_OWN, PROMPT, Summariser, split
from memory.conversations.summary_calls import CompactionError, SummarySettings
from tests.memory.conversations.scripted import Scripted, scripted

KEY = "sk-a-key-of-the-tests"


@pytest.fixture
async def model() -> AsyncIterator[Scripted]:
    async with scripted() as running:
        yield running


def settings(model: Scripted, **more: Any) -> SummarySettings:
    return SummarySettings("openai", **{"model": "tide-1", "base_url": model.base_url, **more})


async def summary(model: Scripted, *turns: str, **more: Any) -> str:
    return await Summariser(settings(model, **more))(turns or ("Where is the key?",), lambda *_: None)


async def test_the_request_to_the_byte(model: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-this-server")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    braces = "## User\n\nWhat is {chunks} in f'{name!r}' and {}?"
    assert await summary(model, braces, "Turn two") == "- The key hangs behind the clock."
    [request] = model.requests
    assert request.head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert model.bodies == [
        {
            "model": "tide-1",
            "messages": [{"role": "user", "content": PROMPT.replace("{chunks}", f"{braces}\n\n---\n\nTurn two")}],
            "temperature": 0,
            "reasoning_effort": "none",
        }
    ]
    assert re.findall(rb"(?i)^authorization: (.*)\r$", request.head, re.MULTILINE) == [b"Bearer none"]


async def test_the_key_goes_to_the_endpoint_and_into_no_log(model: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    made = settings(model, api_key=KEY)
    await Summariser(made)(["Where is the key?"], lambda *_: None)
    assert f"Bearer {KEY}".encode() in model.requests[0].head
    model.reply = lambda _: (401, {"error": {"message": f"Incorrect API key provided: {KEY}"}})
    with pytest.raises(CompactionError) as refused:
        await summary(model, api_key=KEY)
    assert str(refused.value) == "the endpoint refused the key (HTTP 401): check compaction.api_key_env"
    told = caplog.text + repr(made)
    assert KEY not in told
    assert "Where is the key" not in told


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("", "the model gave an empty answer"),
        (" \n", "the model gave an empty answer"),
        ("<think>\nWhere may it be?</think>\n", "the model gave an empty answer"),
        ((500, {"error": {"message": "no"}}), "the endpoint answered HTTP 500"),
        ((307, {}), "the endpoint answered HTTP 307"),
        ((404, {"error": {"message": "no such model"}}), "the endpoint knows no such model or address (HTTP 404)"),
        ((429, {}), "the endpoint takes no more requests for now (HTTP 429)"),
        ((200, {"hello": 1}), "the endpoint's answer cannot be read: does it speak OpenAI's protocol?"),
        ((200, {"choices": []}), "the endpoint's answer cannot be read: does it speak OpenAI's protocol?"),
        ((200, [1]), "the endpoint's answer cannot be read: does it speak OpenAI's protocol?"),
    ],
)
async def test_what_is_no_summary_says_why_and_is_asked_for_once(model: Scripted, reply: Any, message: str) -> None:
    model.reply = lambda _: reply
    with pytest.raises(CompactionError) as error:
        await summary(model)
    assert str(error.value) == message
    assert len(model.requests) == 1


async def test_an_endpoint_that_does_not_answer(model: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_calls, "ANSWER_SECONDS", 0.2)
    model.reply = lambda _: None
    with pytest.raises(CompactionError, match="the endpoint gave no answer within 0 s"):
        await summary(model)
    assert len(model.requests) == 1


async def test_an_endpoint_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(CompactionError, match=f"^http://127.0.0.1:{port}/v1 cannot be reached$"):
        await summary(Scripted(port=port))


async def test_thinking_is_no_part_of_the_summary(model: Scripted) -> None:
    model.reply = lambda _: "<think>\nHm.\n</think>\n\n## Key\nBehind the clock.\n"
    assert await summary(model) == "## Key\nBehind the clock."


async def test_what_a_model_refuses_is_not_wished_for(model: Scripted) -> None:
    def reply(body: dict[str, Any]) -> Any:
        for name in ("reasoning_effort", "temperature"):
            if name in body:
                return 400, {"error": {"message": f"Unsupported parameter: '{name}'", "param": name}}
        return "Behind the clock."

    model.reply = reply
    assert await summary(model) == "Behind the clock."
    assert [sorted(body.keys() - {"model", "messages"}) for body in model.bodies] == [
        ["reasoning_effort", "temperature"],
        ["temperature"],
        [],
    ]


async def test_a_long_session_is_split_by_turns_and_its_summaries_are_summarised(model: Scripted) -> None:
    turns = [f"Turn {number}: {'word ' * 1000}" for number in range(5)]
    model.reply = lambda body: f"summary of {', '.join(re.findall('Turn [0-9]', body['messages'][0]['content']))}"
    told: list[tuple[int, int]] = []
    assert await Summariser(settings(model))(turns, lambda *so_far: told.append(so_far)) == (
        "summary of Turn 0, Turn 1, Turn 2, Turn 3, Turn 4"
    )
    assert [re.findall("Turn [0-9]", prompt) for prompt in model.prompts] == [
        ["Turn 0", "Turn 1"],
        ["Turn 2", "Turn 3"],
        ["Turn 4"],
        [f"Turn {number}" for number in range(5)],
    ]
    assert all(len(prompt) <= LARGEST_OWN + len(PROMPT) for prompt in model.prompts)
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3), (0, 1), (1, 1)]


@pytest.mark.parametrize("how", ["error", "cut", "length"])
async def test_what_does_not_fit_is_cut_smaller(model: Scripted, how: str) -> None:
    """Some servers say so, some cut the prompt and count fewer tokens, some stop in the middle of the answer."""

    def reply(body: dict[str, Any]) -> Any:
        long = len(body["messages"][0]["content"]) > LARGEST_OWN / 2 + len(PROMPT)
        if long and how == "error":
            told = "This model's maximum context length is 4096 tokens."
            return 400, {"error": {"message": told, "code": "context_length_exceeded"}}
        model.usage = {
            "prompt_tokens": 100 if long and how == "cut" else 4000,
            "completion_tokens": 1,
            "total_tokens": 1,
        }
        model.finish_reason = "length" if long and how == "length" else "stop"
        return "in short"

    model.reply = reply
    summariser = Summariser(settings(model))
    assert await summariser(["word " * 2000], lambda *_: None) == "in short"
    assert len(model.requests) == 1 + 2 + 1
    await summariser(["word " * 2000], lambda *_: None)
    assert len(model.requests) == 4 + 3  # it has learned


async def test_a_model_without_room_is_said_to_have_none(model: Scripted) -> None:
    model.reply = lambda _: (413, {})
    with pytest.raises(CompactionError, match="the model has no room for 2,000 characters: name one with a larger"):
        await summary(model)


async def test_a_model_that_does_not_shorten_is_not_asked_for_ever(model: Scripted) -> None:
    model.reply = lambda _: "word " * 2300
    with pytest.raises(CompactionError, match="do not get any shorter"):
        await summary(model, *["word " * 2300] * 3)
    assert len(model.requests) == 3 * summarising.MOST_ROUNDS


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        ([], [[]]),
        (["one", "two"], [["one", "two"]]),
        (["a" * 60, "b" * 60], [["a" * 60], ["b" * 60]]),
        (["x\n" * 60], [["x\n" * 50], ["x\n" * 10]]),
        (["a" * 250], [["a" * 100], ["a" * 100], ["a" * 50]]),
    ],
)
def test_splitting(texts: list[str], parts: list[list[str]]) -> None:
    assert split(texts, 100) == parts


@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
async def test_the_other_providers(model: Scripted, monkeypatch: pytest.MonkeyPatch, provider: Any) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setitem(summary_calls.ADDRESSES, provider, f"http://127.0.0.1:{model.port}")  # type: ignore[arg-type]
    summariser = Summariser(SummarySettings(provider, "tide-1"))
    prompt = PROMPT.replace("{chunks}", "Where is the key?")
    text = "Behind the clock."
    if provider == "anthropic":
        answer: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": "tide-1"}
        answer |= {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
        answer |= {"usage": {"input_tokens": 1, "output_tokens": 1}}
        sent: dict[str, Any] = {"model": "tide-1", "max_tokens": summary_calls.MOST_ANSWER_TOKENS}
        sent |= {"messages": [{"role": "user", "content": prompt}]}
    else:
        answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}]}
        sent = {"contents": [{"role": "user", "parts": [{"text": prompt}]}], "generationConfig": {"temperature": 0}}
    model.reply = lambda _: (200, answer)
    assert await summariser(["Where is the key?"], lambda *_: None) == text
    assert model.bodies == [sent]
    for status, message in ((401, "refused the key"), (500, "answered HTTP 500"), (302, "answered HTTP 302")):
        model.reply = lambda _, status=status: (status, {"error": {"message": KEY}})  # type: ignore[misc]
        with pytest.raises(CompactionError, match=message) as error:
            await summariser(["Where is the key?"], lambda *_: None)
        assert KEY not in str(error.value)
    assert len(model.requests) == 4
    monkeypatch.setitem(summary_calls.ADDRESSES, provider, "http://127.0.0.1:1")  # type: ignore[arg-type]
    with pytest.raises(CompactionError, match="cannot be reached"):
        await summariser(["Where is the key?"], lambda *_: None)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("GOOGLE_API_KEY")
    with pytest.raises(CompactionError, match=r"cannot be asked: is \w+_API_KEY set"):
        await summariser(["Where is the key?"], lambda *_: None)


def test_what_is_relied_on_of_memsearch() -> None:
    assert list(inspect.signature(compact.compact_chunks).parameters) == [
        "chunks",
        "llm_provider",
        "model",
        "prompt_template",
        "base_url",
        "api_key",
    ]
    source = inspect.getsource(compact.compact_chunks)
    assert '_compact_openai(prompt, model or "gpt-5-mini", base_url=base_url, api_key=api_key)' in source
    assert '_compact_anthropic(prompt, model or "' in source
    assert '_compact_gemini(prompt, model or "' in source
    assert PROMPT.format(chunks="{}") == PROMPT.replace("{chunks}", "{}")
