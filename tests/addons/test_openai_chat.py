"""What is read from OpenAI Chat Completions, from OpenAI itself and from those that took its protocol over."""

from __future__ import annotations

from typing import Any

import pytest

from addons.wire import wire_for
from addons.wire.answer import MOST_TEXT, Answer, ToolCall
from addons.wire.content import Message, RequestContent, ToolResult
from addons.wire.openai_chat import ChatParts, OpenAIChat
from memory.exchange import Usage
from tests.addons.wires import added, said_whole

PATH = "/v1/chat/completions"


def chunk(
    delta: dict[str, Any] | None = None, finish: str | None = None, index: int = 0, **more: Any
) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": index, "delta": delta, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-test", "choices": choices, **more}


def call(index: int | None, name: str | None = None, arguments: str = "", call_id: str | None = None) -> dict[str, Any]:
    said: dict[str, Any] = {"arguments": arguments} | ({"name": name} if name else {})
    piece: dict[str, Any] = {"function": said}
    return piece | ({} if index is None else {"index": index}) | ({"id": call_id} if call_id else {})


def calls(*pieces: dict[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": list(pieces)})


# ---- answers


def test_a_stream() -> None:
    counted = {"prompt_tokens": 21, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 16}}
    parts = ChatParts()
    answer = added(
        parts,
        chunk({"role": "assistant", "content": "", "refusal": None}),
        chunk({"content": "High tide "}),
        chunk({"content": "is at noon."}),
    )
    assert answer == Answer("High tide is at noon.", model="gpt-test", id="chatcmpl-1")
    assert not parts.done
    assert added(parts, chunk({}, "stop"), chunk(usage=counted)) == Answer(
        "High tide is at noon.",
        usage=Usage(21, 9, 16),
        stop_reason="stop",
        model="gpt-test",
        id="chatcmpl-1",
        complete=True,
    )
    assert parts.done


def test_one_document() -> None:
    message = {
        "role": "assistant",
        "content": "I look it up.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "tide", "arguments": '{"port": "north"}'}},
            {"id": "call_2", "type": "custom", "custom": {"name": "note", "input": "spring tide"}},
        ],
    }
    counted = {"prompt_tokens": 5, "completion_tokens": 7, "prompt_tokens_details": {"cache_write_tokens": 3}}
    body = {
        "id": "chatcmpl-2",
        "model": "gpt-test",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": counted,
    }
    assert said_whole(ChatParts(), body) == Answer(
        "I look it up.",
        tool_calls=(ToolCall("call_1", "tide", '{"port": "north"}'), ToolCall("call_2", "note", "spring tide")),
        usage=Usage(5, 7, None, 3),
        stop_reason="tool_calls",
        model="gpt-test",
        id="chatcmpl-2",
        complete=True,
    )


def test_of_several_choices_the_first_is_the_answer() -> None:
    choices = [
        {"index": 1, "message": {"content": "second"}, "finish_reason": "length"},
        {"index": 0, "message": {"content": "first"}, "finish_reason": "stop"},
    ]
    answer = said_whole(ChatParts(), {"choices": choices})
    assert (answer.text, answer.stop_reason) == ("first", "stop")
    streamed = added(ChatParts(), chunk({"content": "other"}, index=1), chunk({"content": "first"}))
    assert (streamed.text, streamed.complete) == ("first", False)
    assert not added(ChatParts(), chunk({}, "stop", index=1)).complete


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param(
            [
                call(0, "tide", "", "call_1"),
                call(0, None, '{"port":'),
                call(1, "moon", "{", "call_2"),
                call(0, None, ' "north"}'),
                call(1, None, "}"),
            ],
            [("call_1", "tide", '{"port": "north"}'), ("call_2", "moon", "{}")],
            id="by index, interleaved",
        ),
        pytest.param(
            [call(0, "tide", '{"a":', "call_1"), call(0, "tide", " 1}", "call_1")],
            [("call_1", "tide", '{"a": 1}')],
            id="name and id in every piece",
        ),
        pytest.param(
            [call(0, "tide", "{}", "call_1"), call(0, "moon", "{}", "call_2")],
            [("call_1", "tide", "{}"), ("call_2", "moon", "{}")],
            id="every call has the index 0",
        ),
        pytest.param(
            [call(None, "tide", "{", "call_1"), call(None, "moon", "{", "call_2"), call(None, None, "}", "call_1")],
            [("call_1", "tide", "{}"), ("call_2", "moon", "{")],
            id="no index: by id",
        ),
        pytest.param(
            [call(None, "tide", "{"), call(None, None, "}"), call(None, "moon", "{}")],
            [("", "tide", "{}"), ("", "moon", "{}")],
            id="neither index nor id: by name",
        ),
        pytest.param([call(None, None, "{}")], [("", "", "{}")], id="arguments out of nowhere"),
        pytest.param(
            [{"index": 0, "id": "call_1", "function": {"name": "tide", "arguments": {"port": "north"}}}],
            [("call_1", "tide", '{"port": "north"}')],
            id="arguments as an object",
        ),
        pytest.param([call(0, "ti"), call(0, "de")], [("", "tide", "")], id="a name in two pieces"),
    ],
)
def test_tool_calls(pieces: list[dict[str, Any]], expected: list[tuple[str, str, str]]) -> None:
    wanted = tuple(ToolCall(*one) for one in expected)
    assert added(ChatParts(), *[calls(piece) for piece in pieces]).tool_calls == wanted
    assert added(ChatParts(), calls(*pieces)).tool_calls == wanted


def test_the_old_function_call() -> None:
    pieces = [{"name": "tide", "arguments": ""}, {"arguments": '{"port":'}, {"arguments": " 1}"}]
    streamed = added(ChatParts(), *[chunk({"function_call": piece}) for piece in pieces])
    assert streamed.tool_calls == (ToolCall("", "tide", '{"port": 1}'),)


def test_a_refusal_is_text() -> None:
    assert added(ChatParts(), chunk({"refusal": "I can"}), chunk({"refusal": "not."})).text == "I cannot."


@pytest.mark.parametrize(
    "deltas",
    [
        [{"reasoning_content": "The moon "}, {"reasoning_content": "pulls.", "content": None}],
        [{"reasoning": "The moon "}, {"reasoning": "pulls.", "reasoning_details": [{"text": "pulls."}]}],
        [{"reasoning_content": "The moon pulls.", "reasoning": "The moon pulls."}],
        [
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "The moon "}]}]},
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "pulls."}]}]},
        ],
        [{"content": [{"type": "thinking", "thinking": "The moon pulls."}]}],
    ],
)
def test_thinking(deltas: list[dict[str, Any]]) -> None:
    answer = added(ChatParts(), *[chunk(delta) for delta in deltas], chunk({"content": "At noon."}))
    assert (answer.thinking, answer.text) == ("The moon pulls.", "At noon.")


def test_mistrals_content_is_a_list_of_parts() -> None:
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "The moon pulls."}]},
        {"type": "text", "text": "At "},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": "noon."},
    ]
    answer = said_whole(ChatParts(), {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]})
    assert (answer.thinking, answer.text) == ("The moon pulls.", "At noon.")


def test_azures_first_event_has_no_choice_and_no_model() -> None:
    first = {"choices": [], "id": "", "model": "", "object": "", "prompt_filter_results": [{"prompt_index": 0}]}
    answer = added(ChatParts(), first, chunk({"content": "At noon."}), chunk({}, "stop", content_filter_results={}))
    assert answer == Answer("At noon.", stop_reason="stop", model="gpt-test", id="chatcmpl-1", complete=True)


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 7}, Usage(5, 7)),
        ({"prompt_tokens": 5, "completion_tokens": 7, "prompt_cache_hit_tokens": 4}, Usage(5, 7, 4)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}, Usage(5, None, 0)),
        ({"prompt_tokens": -1, "completion_tokens": True}, Usage()),
        ({"prompt_tokens": "5", "prompt_tokens_details": [1]}, Usage()),
        ({}, Usage()),
        ([], Usage()),
    ],
)
def test_usage(counted: Any, expected: Usage) -> None:
    assert added(ChatParts(), chunk(usage=counted)).usage == expected
    assert added(ChatParts(), chunk(usage=counted), chunk(usage=None)).usage == expected


def test_the_last_usage_is_the_valid_one() -> None:
    running = [chunk({"content": "a"}, usage={"prompt_tokens": 5, "completion_tokens": count}) for count in (1, 2)]
    assert added(ChatParts(), *running).usage == Usage(5, 2)
    assert added(ChatParts(), chunk(x_groq={"usage": {"prompt_tokens": 3}})).usage == Usage(3)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"error": {"message": "Overloaded", "code": 503}}, "Overloaded"),
        (chunk({"content": ""}, error={"code": 400, "message": "Token limit reached"}), "Token limit reached"),
        ({"choices": [{"index": 0, "delta": {}, "error": {"message": "Upstream gone"}}]}, "Upstream gone"),
        ({"error": "model not loaded"}, "model not loaded"),
        ({"error": {"code": "rate_limit"}}, "rate_limit"),
        ({"error": {"code": 429}}, '{"code": 429}'),
        ({"error": ["odd"]}, '["odd"]'),
        ({"object": "error", "message": "Invalid model", "type": "invalid_model"}, "Invalid model"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["body"], "msg": "missing"}]}, '[{"loc": ["body"], "msg": "missing"}]'),
        ({"error": {"message": "x" * 20_000}}, "x" * 10_000),
        (chunk({"content": ""}, error=None), None),
        (chunk({"content": ""}, error={}), None),
        ({"object": "chat.completion.chunk", "message": "no error"}, None),
    ],
)
def test_errors(event: dict[str, Any], message: str | None) -> None:
    broken = ChatParts()
    answer = added(broken, chunk({"content": "High"}, "length"), event)
    assert (answer.text, answer.error, answer.complete, broken.done) == ("High", message, message is None, True)
    assert said_whole(ChatParts(), event).error == message


def test_half_a_surrogate_pair() -> None:
    """A stream may cut a pair in two, and a server may send half of one."""
    answer = added(ChatParts(), chunk({"content": "tide \ud83c"}), chunk({"content": "\udf0a \ud83c!"}))
    assert answer.text == "tide 🌊 \N{REPLACEMENT CHARACTER}!"


def test_an_answer_is_kept_to_its_limit() -> None:
    piece = "x" * 100_000
    events = [
        chunk({"reasoning": piece}),
        *[chunk({"content": piece}) for _ in range(50)],
        calls(call(0, "tide", piece)),
    ]
    answer = added(ChatParts(), *events)
    assert len(answer.thinking) == 100_000
    assert len(answer.text) == MOST_TEXT - 100_000
    assert answer.tool_calls == ()


def test_calls_without_end_are_kept_to_the_limit() -> None:
    parts = ChatParts()
    for index in range(45_000):
        parts.add(calls({"index": index, "function": {"name": ""}}))
    assert len(parts.answer().tool_calls) == MOST_TEXT // 100


# ---- requests


def test_the_content_of_a_request() -> None:
    body = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Use metres."}]},
            {"role": "user", "content": [{"type": "text", "text": "When is"}, {"type": "image_url", "image_url": {}}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "tide", "arguments": "{}"}},
                    {"id": "call_2", "type": "custom", "custom": {"name": "note", "input": "spring"}},
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "noon"}]},
            {"role": "assistant", "function_call": {"name": "moon", "arguments": "{}"}, "content": None},
            {"role": "function", "name": "moon", "content": "full"},
            {"role": "system", "content": "Answer now."},
            {"role": "assistant", "refusal": "I cannot.", "content": None},
            {"role": "user", "content": "High tide?"},
            {"role": "critic", "content": "left out"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "tide"}},
            {"type": "custom", "custom": {"name": "note"}},
            {"type": "function", "function": {"name": "tide"}},
        ],
        "functions": [{"name": "moon"}],
    }
    assert OpenAIChat().content(PATH, body) == RequestContent(
        "Be brief.\nUse metres.",
        (
            Message("user", "When is"),
            Message("assistant", "", (ToolCall("call_1", "tide", "{}"), ToolCall("call_2", "note", "spring"))),
            Message("tool", tool_results=(ToolResult("call_1", "noon"),)),
            Message("assistant", "", (ToolCall("", "moon", "{}"),)),
            Message("tool", tool_results=(ToolResult("", "full"),)),
            Message("system", "Answer now."),
            Message("assistant", "I cannot."),
            Message("user", "High tide?"),
        ),
        ("tide", "note", "moon"),
    )


@pytest.mark.parametrize("body", [None, [], 7, "x", {}, {"messages": "x"}, {"messages": [1, None, {"role": []}]}])
def test_a_request_of_another_shape_has_no_content(body: Any) -> None:
    assert wire_for(PATH).content(PATH, body) == RequestContent()


@pytest.mark.parametrize("event", [None, [], "x", {"choices": {}}, {"choices": [1]}, chunk({"tool_calls": [1, {}]})])
def test_an_event_of_another_shape_is_passed_over(event: Any) -> None:
    answer = added(ChatParts(), chunk({"content": "High"}), event)
    assert answer == Answer("High", model="gpt-test", id="chatcmpl-1")
