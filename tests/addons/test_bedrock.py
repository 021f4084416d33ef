"""Amazon Bedrock: Converse and the invocation of Anthropic's models, as documents and as event streams."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mitmproxy.http import Headers

from addons.wire import bare_path
from addons.wire.answer import Answer, ToolCall
from addons.wire.anthropic import AnthropicAnswer
from addons.wire.bedrock import Bedrock, BedrockAnswer
from addons.wire.content import Message, RequestContent, ToolResult
from addons.wire.event_stream import EventStreamDecoder
from addons.wire.facts import RequestFacts
from memory.exchange import Usage
from tests.addons.answers import FRAMES, event_frames, frame, read_encoded, text_headers
from tests.addons.playback import ENCODERS
from tests.addons.test_anthropic import MESSAGE, TURN, TURN_ANSWER
from tests.addons.wires import SIZES, added, read_answer, said_whole

JSON = "application/json"
ARN = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-5-v1:0"
CONVERSED = [
    ("messageStart", {"role": "assistant", "p": "abc"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "The tide "}}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "turns."}}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "c2ln"}}}),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"reasoningContent": {"redactedContent": "b3Bh"}}}),
    ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"reasoningContent": {"text": "Ask."}}}),
    ("contentBlockDelta", {"contentBlockIndex": 3, "delta": {"text": "Die Flut 🌊 "}}),
    ("contentBlockDelta", {"contentBlockIndex": 3, "delta": {"text": "kommt."}}),
    ("contentBlockStop", {"contentBlockIndex": 3}),
    ("contentBlockStart", {"contentBlockIndex": 4, "start": {"toolUse": {"toolUseId": "tooluse_1", "name": "clock"}}}),
    ("contentBlockDelta", {"contentBlockIndex": 4, "delta": {"toolUse": {"input": '{"zone": '}}}),
    ("contentBlockDelta", {"contentBlockIndex": 4, "delta": {"toolUse": {"input": '"Büsum"}'}}}),
    ("contentBlockStop", {"contentBlockIndex": 4}),
    ("contentBlockStart", {"contentBlockIndex": 5, "start": {"toolUse": {"toolUseId": "tooluse_2", "name": "bell"}}}),
    ("contentBlockStop", {"contentBlockIndex": 5}),
    ("messageStop", {"stopReason": "tool_use"}),
    (
        "metadata",
        {
            "usage": {
                "inputTokens": 25,
                "outputTokens": 89,
                "totalTokens": 114,
                "cacheReadInputTokens": 8,
                "cacheWriteInputTokens": 0,
            },
            "metrics": {"latencyMs": 500},
            "trace": {"promptRouter": {"invokedModelId": "eu.anthropic.claude-haiku-4-5"}},
        },
    ),
]
ANSWER = Answer(
    text="Die Flut 🌊 kommt.",
    thinking="The tide turns.\nAsk.",
    tool_calls=(ToolCall("tooluse_1", "clock", '{"zone": "Büsum"}'), ToolCall("tooluse_2", "bell", "{}")),
    usage=Usage(input=25, output=89, cache_read=8, cache_write=0),
    stop_reason="tool_use",
    model="eu.anthropic.claude-haiku-4-5",
    complete=True,
)


@pytest.mark.parametrize(
    ("path", "model", "side_request"),
    [
        ("/model/amazon.nova-micro-v1%3A0/converse", "amazon.nova-micro-v1:0", False),
        ("/model/amazon.nova-micro-v1:0/converse-stream?x=1", "amazon.nova-micro-v1:0", False),
        ("/model/anthropic.claude-v2/invoke/", "anthropic.claude-v2", False),
        ("/model/anthropic.claude-v2/invoke-with-response-stream", "anthropic.claude-v2", False),
        ("/model/anthropic.claude-v2/count-tokens", "anthropic.claude-v2", True),
        (f"/model/{ARN.replace('/', '%2F').replace(':', '%3A')}/converse", ARN, False),
        (f"/model/{ARN}/converse", ARN, False),
        ("/gateway/bedrock/model/anthropic.claude-v2/converse", "anthropic.claude-v2", False),
        ("/model/%FF/converse", "\ufffd", False),
    ],
)
def test_the_path_names_the_model(path: str, model: str, side_request: bool) -> None:
    assert Bedrock().claims(bare_path(path))
    assert Bedrock().read(bare_path(path), Headers(), {}) == RequestFacts(model=model, side_request=side_request)


@pytest.mark.parametrize(
    "path",
    ["/model/x/async-invoke", "/model/converse", "/model//converse", "/model/x/converse/y", "/converse", "", "/"],
)
def test_other_paths_are_not_claimed(path: str) -> None:
    assert not Bedrock().claims(path)


def test_the_first_question_tells_conversations_apart_wherever_the_cache_point_is() -> None:
    point, question = {"cachePoint": {"type": "default"}}, {"text": "When is the tide?"}
    first = {"messages": [{"role": "user", "content": [question, point]}]}
    later = {
        "messages": [
            {"role": "user", "content": [question]},
            {"role": "assistant", "content": [{"text": "At four."}]},
            {"role": "user", "content": [{"text": "And today?"}, point]},
        ]
    }
    openings = [Bedrock().read("/model/m/converse", Headers(), body).opening for body in (first, later)]
    assert openings == ['{"content": [{"text": "When is the tide?"}], "role": "user"}'] * 2


def test_an_invocation_of_an_anthropic_model_is_read_as_anthropics() -> None:
    body = {
        "anthropic_version": "bedrock-2023-05-31",
        "metadata": {"user_id": '{"session_id": "s-1"}'},
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "When is the tide?"}],
        "tools": [{"name": "clock"}],
    }
    path = "/model/anthropic.claude-v2/invoke"
    assert Bedrock().read(path, Headers(), body) == RequestFacts(
        model="anthropic.claude-v2",
        conversation="s-1",
    )
    assert Bedrock().content(path, body) == RequestContent(
        "Be brief.", (Message("user", "When is the tide?"),), ("clock",)
    )
    other = {key: value for key, value in body.items() if key != "anthropic_version"}
    assert Bedrock().read(path, Headers(), other) == RequestFacts(model="anthropic.claude-v2")
    assert Bedrock().content(path, other) == RequestContent()


CONVERSE = {
    "system": [{"text": "You are Harbour Hand."}, {"cachePoint": {"type": "default"}}, {"text": "Be brief."}],
    "toolConfig": {"tools": [{"toolSpec": {"name": "clock", "inputSchema": {"json": {}}}}, {"cachePoint": {}}]},
    "messages": [
        {"role": "user", "content": [{"text": "When"}, {"image": {"format": "png"}}, {"text": "is the tide?"}]},
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Ask.", "signature": "c2ln"}}},
                {"text": "I look."},
                {"toolUse": {"toolUseId": "tooluse_1", "name": "clock", "input": {"zone": "Büsum"}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "toolResult": {
                        "toolUseId": "tooluse_1",
                        "content": [{"text": "four"}, {"json": {"at": 4}}, {"document": {"name": "left out"}}],
                        "status": "success",
                    }
                },
                {"guardContent": {"text": {"text": "And today?", "qualifiers": ["query"]}}},
            ],
        },
    ],
}
CONVERSE_CONTENT = RequestContent(
    system="You are Harbour Hand.\nBe brief.",
    messages=(
        Message("user", "When\nis the tide?"),
        Message("assistant", "I look.", (ToolCall("tooluse_1", "clock", '{"zone": "Büsum"}'),)),
        Message("user", "And today?", tool_results=(ToolResult("tooluse_1", 'four\n{"at": 4}'),)),
    ),
    tools=("clock",),
)


@pytest.mark.parametrize(
    ("path", "body", "content"),
    [
        ("/model/m/converse", CONVERSE, CONVERSE_CONTENT),
        ("/model/m/converse-stream", CONVERSE, CONVERSE_CONTENT),
        ("/model/m/count-tokens", {"input": {"converse": CONVERSE}}, CONVERSE_CONTENT),
        ("/model/m/count-tokens", CONVERSE, RequestContent()),
        (
            "/model/m/converse",
            {"messages": [{"role": "robot"}, 7, {"role": "user"}]},
            RequestContent("", (Message("user"),)),
        ),
        (
            "/model/m/converse",
            {"messages": {}, "system": "x", "toolConfig": {"tools": [{"toolSpec": 1}]}},
            RequestContent(),
        ),
        ("/model/m/converse", None, RequestContent()),
    ],
)
def test_a_conversation_says(path: str, body: Any, content: RequestContent) -> None:
    assert Bedrock().content(path, body) == content


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("content_type", [FRAMES, ""])
def test_a_stream_is_put_together(content_type: str, size: int, encoding: str) -> None:
    assert read_encoded(Bedrock().answer(), event_frames(CONVERSED), content_type, size, encoding) == ANSWER


@pytest.mark.parametrize("size", SIZES)
def test_a_document_is_read(size: int) -> None:
    body = {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "The tide turns.", "signature": "c2ln"}}},
                    {"reasoningContent": {"redactedContent": "b3Bh"}},
                    {"reasoningContent": {"reasoningText": {"text": "Ask."}}},
                    {"text": "Die Flut 🌊 "},
                    {"text": "kommt."},
                    {"toolUse": {"toolUseId": "tooluse_1", "name": "clock", "input": {"zone": "Büsum"}}},
                    {"toolUse": {"toolUseId": "tooluse_2", "name": "bell", "input": {}}},
                ],
            }
        },
        "stopReason": "tool_use",
        **CONVERSED[-1][1],  # type: ignore[dict-item]
    }
    assert read_answer(BedrockAnswer(), json.dumps(body).encode(), JSON, size) == ANSWER


def test_what_came_before_a_stream_broke_off_stands() -> None:
    answer = read_answer(BedrockAnswer(), event_frames(CONVERSED[:12])[:-1], FRAMES, 7)
    assert (answer.text, answer.complete, answer.stop_reason) == ("Die Flut 🌊 kommt.", False, None)
    assert answer.tool_calls == (ToolCall("tooluse_1", "clock", ""),)
    broken = bytearray(event_frames(CONVERSED))
    broken[-1] ^= 1
    answer = read_answer(BedrockAnswer(), bytes(broken), FRAMES, 7)
    assert (answer.stop_reason, answer.complete) == ("tool_use", False)


def invoked(events: list[dict[str, Any]]) -> bytes:
    return event_frames(
        ("chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode(), "p": "abc"}) for event in events
    )


@pytest.mark.parametrize("size", SIZES)
def test_a_streamed_invocation_is_read_as_anthropics(size: int) -> None:
    end = TURN[-1] | {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 25, "outputTokenCount": 89}}
    assert read_answer(BedrockAnswer(), invoked([*TURN[:-1], end]), FRAMES, size) == TURN_ANSWER


@pytest.mark.parametrize("size", SIZES)
def test_an_invocation_is_read_as_anthropics(size: int) -> None:
    expected = AnthropicAnswer()
    expected.whole(MESSAGE)
    assert expected.answer().text == "Die Flut 🌊 kommt um vier."
    assert read_answer(BedrockAnswer(), json.dumps(MESSAGE).encode(), JSON, size) == expected.answer()


def test_what_another_model_answers_to_an_invocation_is_not_read() -> None:
    assert said_whole(BedrockAnswer(), {"generation": "Ahoy", "stop_reason": "stop"}) == Answer(complete=True)
    assert read_answer(BedrockAnswer(), invoked([{"generation": "Ahoy"}]), FRAMES, 7) == Answer()


@pytest.mark.parametrize(
    ("headers", "payload", "error"),
    [
        (
            {":exception-type": "throttlingException", ":message-type": "exception"},
            b'{"message":"Too many tokens, please wait"}',
            "Too many tokens, please wait",
        ),
        ({":exception-type": "modelTimeoutException", ":message-type": "exception"}, b"", "modelTimeoutException"),
        ({":message-type": "exception"}, b"{}", "error"),
        ({":message-type": "error", ":error-code": "500", ":error-message": "Lost"}, b"", "Lost"),
        ({":message-type": "error", ":error-code": "500"}, b"", "500"),
    ],
)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("before", [event_frames(CONVERSED), invoked(TURN)])
def test_an_exception_ends_the_stream(
    before: bytes, headers: dict[str, str], payload: bytes, error: str, size: int
) -> None:
    answer = read_answer(BedrockAnswer(), before + frame(text_headers(headers), payload), FRAMES, size)
    assert (answer.error, answer.complete) == (error, False)
    assert answer.text.startswith("Die Flut 🌊 kommt")


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (
            b'{"message":"The model returned the following errors: no"}',
            Answer(error="The model returned the following errors: no"),
        ),
        (b'{"Message":"User: anonymous is not authorized"}', Answer(error="User: anonymous is not authorized")),
        (b'{"message":"half \\ud83c"}', Answer(error="half �")),
        (b'{"error":{"message":"gateway"}}', Answer(error="gateway")),
        (b"<html>503</html>", Answer()),
        (b'{"inputTokens": 7}', Answer(complete=True)),
        (b"", Answer()),
    ],
)
@pytest.mark.parametrize("content_type", [JSON, FRAMES, ""])
def test_the_body_of_an_error(body: bytes, answer: Answer, content_type: str) -> None:
    assert read_answer(BedrockAnswer(), body, content_type, 7) == answer


def test_it_is_done_when_it_says_so_and_when_it_fails() -> None:
    parts = BedrockAnswer()
    for name, payload in CONVERSED[:-1]:
        assert not parts.done
        parts.add({":event-type": name, "payload": payload})
    assert parts.done
    failed = BedrockAnswer()
    failed.add({":message-type": "exception"})
    assert failed.done
    invocation = BedrockAnswer()
    for message in EventStreamDecoder(10_000).feed(invoked(TURN)):
        assert not invocation.done
        invocation.add({**message.headers, "payload": json.loads(message.payload)})
    assert invocation.done


def test_recorded_streams_are_put_together(shared_data: Path) -> None:
    """Amazon's SDK puts nothing together: the texts are compared with what the events hold, taken out by hand."""
    files = sorted((shared_data / "llm" / "bedrock-converse").rglob("*.bin"))
    assert len(files) == 3
    for file in files:
        data = file.read_bytes()
        answers = {
            read_encoded(BedrockAnswer(), data, FRAMES, size, encoding) for size in SIZES for encoding in ENCODERS
        }
        assert len(answers) == 1
        answer = answers.pop()
        payloads = [json.loads(message.payload) for message in EventStreamDecoder(10_000).feed(data)]
        deltas = [payload["delta"] for payload in payloads if "delta" in payload]
        assert answer.text == "".join(delta.get("text", "") for delta in deltas)
        inputs = "".join(delta["toolUse"]["input"] for delta in deltas if "toolUse" in delta)
        assert "".join(call.arguments for call in answer.tool_calls) == inputs
        usage = payloads[-1]["usage"]
        assert (answer.usage.input, answer.usage.output) == (usage["inputTokens"], usage["outputTokens"])
        assert answer.stop_reason == payloads[-2]["stopReason"]
        assert answer.complete


def test_recorded_documents_are_read(shared_data: Path) -> None:
    files = sorted((shared_data / "llm" / "bedrock-converse").rglob("*.response.json"))
    assert len(files) == 3
    for file in files:
        body = json.loads(file.read_bytes())
        blocks = body["output"]["message"]["content"]
        answer = read_answer(BedrockAnswer(), file.read_bytes(), JSON, 7)
        assert answer.text == "".join(block.get("text", "") for block in blocks)
        assert answer.thinking == "\n".join(
            block["reasoningContent"]["reasoningText"]["text"] for block in blocks if "reasoningContent" in block
        )
        assert [(call.id, json.loads(call.arguments)) for call in answer.tool_calls] == [
            (block["toolUse"]["toolUseId"], block["toolUse"]["input"]) for block in blocks if "toolUse" in block
        ]
        assert (answer.usage.output, answer.complete) == (body["usage"]["outputTokens"], True)
        request = json.loads(file.with_name(file.name.replace("response", "request")).read_bytes())
        content = Bedrock().content("/model/m/converse", request)
        assert [message.role for message in content.messages] == [one["role"] for one in request["messages"]]
        assert content.last_user is not None


ODD = st.sampled_from(
    [None, True, -1, 0, 2**60, "", "a", "\ud83c", "e30=", [], ["a"], [{}], {}, {"text": "\ud83c"}, [[]]]
)
KEYS = st.sampled_from(
    [
        "contentBlockIndex",
        "delta",
        "start",
        "toolUse",
        "toolUseId",
        "name",
        "input",
        "text",
        "reasoningContent",
        "reasoningText",
        "output",
        "message",
        "content",
        "stopReason",
        "usage",
        "inputTokens",
        "bytes",
        "role",
        "messages",
        "system",
        "toolConfig",
        "tools",
        "toolSpec",
        "toolResult",
        "error",
        "json",
    ]
)
TREE = st.recursive(
    ODD, lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=2), max_leaves=6
)
EVENT = st.fixed_dictionaries(
    {":event-type": st.sampled_from([*{name for name, _ in CONVERSED}, "chunk"]) | ODD, "payload": TREE},
    optional={":message-type": st.sampled_from(["event", "exception", "error"]) | ODD},
)


@settings(max_examples=200)
@given(st.lists(EVENT | ODD, max_size=6), TREE)
def test_json_of_any_shape_gives_an_answer_that_can_be_written(events: list[Any], body: Any) -> None:
    said = [added(BedrockAnswer(), *events), said_whole(BedrockAnswer(), body)]
    contents = [Bedrock().content(f"/model/m/{name}", body) for name in ("converse", "invoke", "count-tokens")]
    facts = [Bedrock().read(f"/model/m/{name}", Headers(), body) for name in ("converse", "invoke", "count-tokens")]
    for one in (*said, *contents, *facts):
        json.dumps(asdict(one), ensure_ascii=False).encode()
