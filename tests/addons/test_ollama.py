"""What is read from Ollama's own API."""

from __future__ import annotations

from typing import Any

import pytest

from addons.wire import wire_for
from addons.wire.answer import MOST_TEXT, Answer, ToolCall
from addons.wire.content import Message, RequestContent, ToolResult
from addons.wire.ollama import Ollama, OllamaParts
from memory.exchange import Usage
from tests.addons.wires import added, said_whole

END = {"model": "qwen3:8b", "done": True, "done_reason": "stop", "prompt_eval_count": 26, "eval_count": 9}


def line(**message: Any) -> dict[str, Any]:
    return {"model": "qwen3:8b", "created_at": "2026-03-04T05:06:07Z", "message": message, "done": False}


def test_a_chat_as_it_streams() -> None:
    parts = OllamaParts()
    answer = added(
        parts,
        line(role="assistant", content="", thinking="The moon "),
        line(role="assistant", content="", thinking="pulls."),
        line(role="assistant", content="High tide "),
        line(role="assistant", content="is at noon."),
        line(tool_calls=[{"id": "call_1", "function": {"index": 0, "name": "tide", "arguments": {"port": "nörd"}}}]),
        line(tool_calls=[{"function": {"name": "moon", "arguments": {}}}, {"function": {"name": "sun"}}]),
    )
    said = Answer(
        "High tide is at noon.",
        "The moon pulls.",
        (ToolCall("call_1", "tide", '{"port": "nörd"}'), ToolCall("", "moon", "{}"), ToolCall("", "sun", "{}")),
        model="qwen3:8b",
    )
    assert answer == said
    assert not parts.done
    assert added(parts, END | {"message": {"content": ""}, "prompt_eval_cached_count": 20}) == Answer(
        said.text, said.thinking, said.tool_calls, Usage(26, 9, 20), "stop", model="qwen3:8b", complete=True
    )
    assert parts.done


def test_a_completion_as_it_streams() -> None:
    pieces = [{"model": "qwen3:8b", "response": text, "done": False} for text in ("High tide ", "is at noon.")]
    answer = added(OllamaParts(), {"thinking": "Hm.", "response": ""}, *pieces, END | {"response": ""})
    assert answer == Answer(
        "High tide is at noon.", "Hm.", usage=Usage(26, 9), stop_reason="stop", model="qwen3:8b", complete=True
    )


@pytest.mark.parametrize("said", [{"message": {"content": "At noon."}}, {"response": "At noon."}])
def test_one_document(said: dict[str, Any]) -> None:
    assert said_whole(OllamaParts(), END | said) == Answer(
        "At noon.", usage=Usage(26, 9), stop_reason="stop", model="qwen3:8b", complete=True
    )


def test_errors() -> None:
    assert said_whole(OllamaParts(), {"error": "model 'x' not found"}) == Answer(error="model 'x' not found")
    parts = OllamaParts()
    answer = added(parts, line(content="High"), {"error": "llama runner gone"}, END)
    assert (answer.text, answer.error, answer.complete) == ("High", "llama runner gone", False)
    assert parts.done


def test_an_answer_is_kept_to_its_limit() -> None:
    piece = "x" * 100_000
    answer = added(OllamaParts(), line(thinking=piece), *[line(content=piece) for _ in range(50)])
    assert (len(answer.thinking), len(answer.text)) == (100_000, MOST_TEXT - 100_000)


@pytest.mark.parametrize("odd", [None, [], "x", {"message": []}, {"message": {"tool_calls": [1, {}]}}, {"done": "yes"}])
def test_a_line_of_another_shape_is_passed_over(odd: Any) -> None:
    assert added(OllamaParts(), line(content="High"), odd) == Answer("High", model="qwen3:8b")


def test_the_content_of_a_chat() -> None:
    body = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "When is high tide?", "images": ["aGFyYm91cg=="]},
            {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [{"function": {"name": "tide", "arguments": {"port": 1}}}]},
            {"role": "tool", "content": "noon", "tool_name": "tide"},
        ],
        "tools": [{"type": "function", "function": {"name": "tide"}}],
    }  # fmt: skip
    assert Ollama().content("/api/chat", body) == RequestContent(
        "Be brief.",
        (
            Message("user", "When is high tide?"),
            Message("assistant", "", (ToolCall("", "tide", '{"port": 1}'),)),
            Message("tool", tool_results=(ToolResult("", "noon"),)),
        ),
        ("tide",),
    )


def test_the_content_of_a_completion() -> None:
    body = {"system": "Be brief.", "prompt": "When is high tide?", "context": [1, 2]}
    assert Ollama().content("/api/generate", body) == RequestContent(
        "Be brief.", (Message("user", "When is high tide?"),)
    )


@pytest.mark.parametrize("body", [None, [], 7, "x", {}, {"messages": 3, "prompt": [], "system": 1, "tools": "x"}])
def test_a_request_of_another_shape_has_no_content(body: Any) -> None:
    assert wire_for("/api/chat").content("/api/chat", body) == RequestContent()
