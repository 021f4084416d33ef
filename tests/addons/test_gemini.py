"""What is read from Gemini: AI Studio, Vertex, and the wrapper of Gemini CLI's host."""

from __future__ import annotations

from typing import Any

import pytest

from addons.wire import wire_for
from addons.wire.answer import MOST_TEXT, Answer, ToolCall
from addons.wire.content import Message, RequestContent, ToolResult
from addons.wire.gemini import Gemini, GeminiParts
from memory.exchange import Usage
from tests.addons.wires import added, said_whole

PATH = "/v1beta/models/gemini-test:streamGenerateContent"


def event(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-test-1", "responseId": "r1", **more}


STREAM = [
    event({"text": "The moon ", "thought": True}, usageMetadata={"promptTokenCount": 169, "totalTokenCount": 169}),
    event({"text": "pulls.", "thought": True}, {"text": "High "}),
    event({"text": "tide is at noon."}, {"inlineData": {"mimeType": "image/png", "data": "aGFyYm91cg=="}}),
    event({"functionCall": {"name": "tide", "args": {"port": "nörd"}, "id": "f1"}, "thoughtSignature": "c2lnbmVk"}),
    event(
        {"functionCall": {"name": "moon"}},
        finish="STOP",
        usageMetadata={
            "promptTokenCount": 79,
            "cachedContentTokenCount": 64,
            "candidatesTokenCount": 12,
            "thoughtsTokenCount": 30,
            "totalTokenCount": 121,
        },
    ),
]
ANSWER = Answer(
    "High tide is at noon.",
    "The moon pulls.",
    (ToolCall("f1", "tide", '{"port": "nörd"}'), ToolCall("", "moon", "{}")),
    Usage(79, 42, 64),
    "STOP",
    model="gemini-test-1",
    id="r1",
    complete=True,
)


def test_a_stream() -> None:
    parts = GeminiParts()
    assert added(parts, *STREAM[:2]) == Answer(
        "High ", "The moon pulls.", usage=Usage(169), model="gemini-test-1", id="r1"
    )
    assert not parts.done
    assert added(parts, *STREAM[2:]) == ANSWER
    assert parts.done


def test_one_document() -> None:
    every = [part for one in STREAM for part in one["candidates"][0]["content"]["parts"]]
    assert said_whole(GeminiParts(), event(*every, finish="STOP", usageMetadata=STREAM[-1]["usageMetadata"])) == ANSWER
    assert said_whole(GeminiParts(), STREAM) == ANSWER


def test_the_wrapper_of_gemini_clis_host() -> None:
    assert added(GeminiParts(), *[{"response": one, "traceId": "t1"} for one in STREAM]) == ANSWER
    unnamed = {"response": event({"text": "At noon."}) | {"responseId": None}, "traceId": "t1"}
    assert added(GeminiParts(), unnamed).id == "t1"
    broken = {"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}}
    assert added(GeminiParts(), broken).error == "Quota exceeded"


def test_of_several_candidates_the_first_is_the_answer() -> None:
    one, two = event({"text": "first"})["candidates"][0], event({"text": "second"}, finish="STOP")["candidates"][0]
    answer = said_whole(GeminiParts(), {"candidates": [{**two, "index": 1}, one]})
    assert (answer.text, answer.stop_reason) == ("first", None)
    del one["index"]
    assert said_whole(GeminiParts(), {"candidates": [one]}).text == "first"


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        ({"promptTokenCount": 5}, Usage(5)),
        ({"promptTokenCount": 5, "candidatesTokenCount": 7}, Usage(5, 7)),
        ({"promptTokenCount": 5, "thoughtsTokenCount": 3}, Usage(5, 3)),
        ({"promptTokenCount": -5, "thoughtsTokenCount": "3"}, Usage()),
        ([], Usage()),
    ],
)
def test_usage(counted: Any, usage: Usage) -> None:
    assert added(GeminiParts(), event(usageMetadata=counted)).usage == usage


@pytest.mark.parametrize(
    ("feedback", "error"),
    [({"blockReason": "SAFETY"}, None), ({"blockReason": "SAFETY", "blockReasonMessage": "Not here"}, "Not here")],
)
def test_a_blocked_prompt(feedback: dict[str, Any], error: str | None) -> None:
    parts = GeminiParts()
    answer = said_whole(parts, {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 4}})
    assert answer == Answer(usage=Usage(4), stop_reason="SAFETY", error=error, complete=error is None)
    assert parts.done


@pytest.mark.parametrize(
    "body", [{"error": {"code": 503, "message": "Overloaded"}}, [{"error": {"message": "Overloaded"}}]]
)
def test_errors(body: Any) -> None:
    assert said_whole(GeminiParts(), body) == Answer(error="Overloaded")
    parts = GeminiParts()
    added(parts, event({"text": "High"}))
    assert said_whole(parts, body) == Answer("High", error="Overloaded", model="gemini-test-1", id="r1")
    assert parts.done


def test_counting_is_no_answer() -> None:
    assert said_whole(GeminiParts(), {"totalTokens": 31}) == Answer()


def test_a_call_without_a_name_is_none() -> None:
    """Where the arguments of a call are streamed, pieces of it come without a name."""
    pieces = [{"functionCall": {"name": "tide"}}, {"functionCall": {"partialArgs": [{"jsonPath": "$.port"}]}}]
    assert added(GeminiParts(), event(*pieces), event({"functionCall": {}})).tool_calls == (ToolCall("", "tide", "{}"),)


def test_an_answer_is_kept_to_its_limit() -> None:
    piece = {"text": "x" * 100_000}
    answer = added(GeminiParts(), event(piece | {"thought": True}), *[event(piece) for _ in range(50)])
    assert (len(answer.thinking), len(answer.text)) == (100_000, MOST_TEXT - 100_000)
    calls = [{"functionCall": {"name": "t", "args": {"a": "x" * 10_000}}} for _ in range(1000)]
    assert sum(len(call.arguments) for call in added(GeminiParts(), event(*calls)).tool_calls) < MOST_TEXT


@pytest.mark.parametrize(
    "odd", [None, [], "x", {"candidates": {}}, {"candidates": [1]}, {"candidates": [{"content": 3}]}]
)
def test_an_event_of_another_shape_is_passed_over(odd: Any) -> None:
    assert added(GeminiParts(), event({"text": "High"}), odd) == Answer("High", model="gemini-test-1", id="r1")


# ---- requests


def request(*, snake: bool) -> dict[str, Any]:
    system, call, result, declared = (
        ("system_instruction", "function_call", "function_response", "function_declarations")
        if snake
        else ("systemInstruction", "functionCall", "functionResponse", "functionDeclarations")
    )
    return {
        system: {"parts": [{"text": "Be brief."}, {"text": "Use metres."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "When is"}, {"inlineData": {"data": "x"}}, {"text": "high tide?"}]},
            {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "I look it up."}]},
            {"role": "model", "parts": [{call: {"name": "tide", "args": {"port": "north"}, "id": "f1"}}]},
            {"role": "user", "parts": [{result: {"name": "tide", "id": "f1", "response": {"output": "noon"}}}]},
            {"role": "function", "parts": [{result: {"name": "moon", "response": {"full": True, "by": "noon"}}}]},
            {"role": "user", "parts": [{result: {"name": "sun", "response": {"up": 1}}}, {"text": "And then?"}]},
            {"role": "critic", "parts": [{"text": "left out"}]},
        ],
        "tools": [{declared: [{"name": "tide"}, {"name": "moon"}]}, {"googleSearch": {}}],
    }


CONTENT = RequestContent(
    "Be brief.\nUse metres.",
    (
        Message("user", "When is\nhigh tide?"),
        Message("assistant", "I look it up."),
        Message("assistant", "", (ToolCall("f1", "tide", '{"port": "north"}'),)),
        Message("tool", tool_results=(ToolResult("f1", "noon"),)),
        Message("tool", tool_results=(ToolResult("", '{"full": true, "by": "noon"}'),)),
        Message("user", "And then?", (), (ToolResult("", '{"up": 1}'),)),
    ),
    ("tide", "moon", "googleSearch"),
)


@pytest.mark.parametrize("snake", [True, False])
def test_the_content_of_a_request(snake: bool) -> None:
    body = request(snake=snake)
    assert Gemini().content(PATH, body) == CONTENT
    assert Gemini().content("/v1internal:generateContent", {"model": "g", "project": "p", "request": body}) == CONTENT
    assert Gemini().content("/v1/models/g:countTokens", {"generateContentRequest": body}) == CONTENT


@pytest.mark.parametrize(
    ("body", "system", "messages"),
    [
        ({"contents": "High tide?"}, "", [Message("user", "High tide?")]),
        ({"contents": ["High", "tide?"]}, "", [Message("user", "High"), Message("user", "tide?")]),
        ({"contents": {"parts": {"text": "High tide?"}}}, "", [Message("user", "High tide?")]),
        ({"contents": {"parts": [{"text": "High tide?"}]}}, "", [Message("user", "High tide?")]),
        ({"systemInstruction": "Be brief."}, "Be brief.", []),
        ({"systemInstruction": {"text": "Be brief."}}, "Be brief.", []),
        ({"systemInstruction": [{"text": "Be"}, {"text": "brief."}]}, "Be\nbrief.", []),
        ({"contents": [{"role": "system", "parts": [{"text": "Be brief."}]}]}, "Be brief.", []),
    ],
)
def test_short_ways_to_say_it(body: dict[str, Any], system: str, messages: list[Message]) -> None:
    assert Gemini().content(PATH, body) == RequestContent(system, tuple(messages))


@pytest.mark.parametrize("body", [None, [], 7, "x", {}, {"contents": 3}, {"contents": [{"role": 3, "parts": 4}]}])
def test_a_request_of_another_shape_says_nothing(body: Any) -> None:
    content = wire_for(PATH).content(PATH, body)
    assert (content.system, content.tools, {message.text for message in content.messages}) in (
        ("", (), set()),
        ("", (), {""}),
    )


CLI = {"user-agent": "GeminiCLI-tui/0.61.0/gemini-test (linux; x64; terminal)"}


@pytest.mark.parametrize(
    ("path", "headers", "side"),
    [
        ("/v1beta/models/gemini-small:generateContent", CLI, True),
        ("/v1internal:generateContent", CLI, True),
        ("/v1beta/models/gemini-test:streamGenerateContent", CLI, False),
        ("/v1beta/models/gemini-test:countTokens", {}, True),
        ("/v1beta/models/gemini-test:generateContent", {"user-agent": "google-genai-sdk/3.6.1"}, False),
        ("/v1beta/models/gemini-test:generateContent", {}, False),
    ],
)
def test_side_requests(path: str, headers: dict[str, str], side: bool) -> None:
    schema = {"responseMimeType": "application/json", "responseJsonSchema": {"required": ["model_choice"]}}
    assert Gemini().read(path, headers, {"generationConfig": schema}).side_request is side
