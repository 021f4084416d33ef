"""What is read from OpenAI Responses: documents, streams, and the messages of Codex's WebSocket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from addons.wire import wire_for
from addons.wire.answer import MOST_TEXT, Answer, ToolCall
from addons.wire.content import Message, RequestContent, ToolResult
from addons.wire.facts import RequestFacts
from addons.wire.openai_responses import OpenAIResponses
from addons.wire.responses_answer import ResponsesParts
from memory.exchange import Usage
from tests.addons.wires import added, said_whole

PATH = "/v1/responses"
COUNTED = {
    "input_tokens": 31,
    "input_tokens_details": {"cached_tokens": 16, "cache_write_tokens": 8},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 43,
}


def response(status: str = "completed", output: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    base = {"id": "resp_1", "object": "response", "model": "gpt-test-1", "status": status, "output": output or []}
    return base | more


def created(response_id: str = "resp_1") -> dict[str, Any]:
    return {"type": "response.created", "response": response("in_progress", id=response_id)}


def event(kind: str, index: int, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "output_index": index, **more}


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **more}


OUTPUT = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Moon first."}, {"type": "summary_text", "text": "Then tide."}],
        "content": [{"type": "reasoning_text", "text": "It pulls."}],
    },
    message("High tide ") | {"id": "msg_1"},
    {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "is secret."}]},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "tide", "arguments": '{"port": "north"}'},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "exec", "input": "tools.cat('x')"},
    {"type": "mcp_call", "id": "mcp_1", "server_label": "harbour", "name": "buoys", "arguments": "{}", "output": "3"},
    {"type": "local_shell_call", "call_id": "call_3", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "tide"}},
    {"type": "image_generation_call", "id": "ig_1", "result": "aGFyYm91cg=="},
    {"type": "mcp_approval_request", "id": "mcpr_1", "name": "moor", "arguments": "{}"},
    {"type": "mcp_list_tools", "id": "mcpl_1", "tools": [{"name": "buoys"}]},
]
WHOLE = Answer(
    "High tide is secret.",
    "Moon first.\nThen tide.\nIt pulls.",
    (
        ToolCall("call_1", "tide", '{"port": "north"}'),
        ToolCall("call_2", "exec", "tools.cat('x')"),
        ToolCall("mcp_1", "buoys", "{}"),
        ToolCall("call_3", "local_shell", '{"type": "exec", "command": ["ls"]}'),
        ToolCall("ws_1", "web_search", '{"type": "search", "query": "tide"}'),
        ToolCall("ig_1", "image_generation", ""),
        ToolCall("mcpr_1", "moor", "{}"),
    ),
    Usage(31, 12, 16, 8),
    "completed",
    model="gpt-test-1",
    id="resp_1",
    complete=True,
)


# ---- answers


def test_one_document() -> None:
    assert said_whole(ResponsesParts(), response(output=OUTPUT, usage=COUNTED)) == WHOLE


def test_the_response_that_ends_a_stream_is_the_truth() -> None:
    end = {"type": "response.completed", "response": response(output=OUTPUT, usage=COUNTED)}
    assert added(ResponsesParts(), created(), event("output_text.delta", 0, delta="another text"), end) == WHOLE


PIECES = [
    created(),
    {"type": "response.in_progress", "response": response("in_progress")},
    event("output_item.added", 0, item={"type": "reasoning", "id": "rs_1", "summary": []}),
    event("reasoning_summary_part.added", 0, summary_index=0, part={"type": "summary_text", "text": ""}),
    event("reasoning_summary_text.delta", 0, summary_index=0, delta="Moon "),
    event("reasoning_summary_text.delta", 0, summary_index=0, delta="first."),
    event("reasoning_summary_text.done", 0, summary_index=0, text="Moon first."),
    event("reasoning_summary_text.delta", 0, summary_index=1, delta="Then tide."),
    event("reasoning_text.delta", 0, content_index=0, delta="It pulls."),
    event("output_item.added", 1, item={"type": "message", "id": "msg_1", "role": "assistant", "content": []}),
    event("content_part.added", 1, content_index=0, part={"type": "output_text", "text": ""}),
    event("output_text.delta", 1, content_index=0, delta="High "),
    event("output_text.delta", 1, content_index=0, delta="tide "),
    event("output_text.annotation.added", 1, content_index=0, annotation={"type": "url_citation"}),
    event("refusal.delta", 1, content_index=1, delta="is secret."),
    event("output_item.added", 2, item={"type": "function_call", "call_id": "call_1", "name": "tide", "arguments": ""}),
    event("output_item.added", 3, item={"type": "custom_tool_call", "call_id": "call_2", "name": "exec", "input": ""}),
    event("function_call_arguments.delta", 2, delta='{"port":'),
    event("custom_tool_call_input.delta", 3, delta="tools.cat"),
    event("function_call_arguments.delta", 2, delta=' "north"}'),
    event("custom_tool_call_input.delta", 3, delta="('x')"),
    event("output_item.added", 4, item={"type": "mcp_call", "id": "mcp_1", "name": "buoys", "arguments": ""}),
    event("mcp_call_arguments.delta", 4, delta="{"),
    event("output_item.added", 5, item={"type": "code_interpreter_call", "id": "ci_1", "code": ""}),
    event("code_interpreter_call_code.delta", 5, delta="print("),
]


def test_a_stream_as_it_comes() -> None:
    parts = ResponsesParts()
    assert added(parts, *PIECES) == Answer(
        "High tide is secret.",
        "Moon first.\nThen tide.\nIt pulls.",
        (
            ToolCall("call_1", "tide", '{"port": "north"}'),
            ToolCall("call_2", "exec", "tools.cat('x')"),
            ToolCall("mcp_1", "buoys", "{"),
            ToolCall("ci_1", "code_interpreter", "print("),
        ),
        model="gpt-test-1",
        id="resp_1",
    )
    assert not parts.done


def test_what_is_done_takes_the_place_of_its_pieces() -> None:
    answer = added(
        ResponsesParts(),
        *PIECES,
        event("reasoning_text.done", 0, content_index=0, text="It pulls hard."),
        event("output_text.done", 1, content_index=0, text="Low tide "),
        event("refusal.done", 1, content_index=1, refusal="is known."),
        event("function_call_arguments.done", 2, arguments="{}"),
        event("custom_tool_call_input.done", 3, input="x"),
        event("mcp_call_arguments.done", 4, arguments="{1}"),
        event("code_interpreter_call_code.done", 5, code="print()"),
    )
    assert (answer.text, answer.thinking) == ("Low tide is known.", "Moon first.\nThen tide.\nIt pulls hard.")
    assert [call.arguments for call in answer.tool_calls] == ["{}", "x", "{1}", "print()"]


def test_a_finished_item_takes_the_place_of_its_pieces() -> None:
    answer = added(
        ResponsesParts(),
        *PIECES,
        event("output_item.done", 0, item={"type": "reasoning", "summary": [{"text": "Sun."}, {"text": "Moon."}]}),
        event("output_item.done", 1, item=message("Low tide.")),
        event("output_item.done", 2, item=OUTPUT[3] | {"arguments": "{}"}),
        event("output_item.done", 5, item={"type": "code_interpreter_call", "id": "ci_1", "code": "print()"}),
    )
    assert (answer.text, answer.thinking) == ("Low tide.is secret.", "Sun.\nMoon.\nIt pulls.")
    assert [call.arguments for call in answer.tool_calls] == ["{}", "tools.cat('x')", "{", "print()"]


def test_an_end_without_output_leaves_what_was_put_together() -> None:
    """The host of chatgpt.com ends with an empty output."""
    end = {"type": "response.completed", "response": response(usage=COUNTED)}
    parts = ResponsesParts()
    answer = added(parts, created(), event("output_item.done", 0, item=message("At noon.")), end)
    assert answer == Answer(
        "At noon.", usage=Usage(31, 12, 16, 8), stop_reason="completed", model="gpt-test-1", id="resp_1", complete=True
    )
    assert parts.done


@pytest.mark.parametrize("named", [True, False])
def test_pieces_without_places(named: bool) -> None:
    """Some compatible servers leave indices out."""
    more = {"item_id": "msg_1"} if named else {}
    pieces = [{"type": "response.output_text.delta", "delta": text, **more} for text in ("At ", "noon.")]
    assert added(ResponsesParts(), created(), *pieces).text == "At noon."


@pytest.mark.parametrize(
    ("end", "stop_reason", "error", "complete"),
    [
        (
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
            "max_output_tokens",
            None,
            True,
        ),
        ({"type": "response.incomplete"}, "incomplete", None, True),
        (
            {"type": "response.failed", "response": response("failed", error={"code": "x", "message": "Server gone"})},
            "failed",
            "Server gone",
            False,
        ),
        ({"type": "response.cancelled", "response": response("cancelled")}, "cancelled", None, False),
        ({"type": "error", "code": "rate_limit", "message": "Slow down", "param": None}, None, "Slow down", False),
        ({"type": "error", "status": 400, "error": {"type": "invalid", "message": "No"}}, None, "No", False),
        ({"type": "error"}, None, "error", False),
        ({"error": {"message": "Overloaded"}}, None, "Overloaded", False),
    ],
)
def test_ends(end: dict[str, Any], stop_reason: str | None, error: str | None, complete: bool) -> None:
    parts = ResponsesParts()
    answer = added(parts, created(), event("output_text.delta", 0, content_index=0, delta="High"), end)
    assert answer == Answer(
        "High", stop_reason=stop_reason, error=error, model="gpt-test-1", id="resp_1", complete=complete
    )
    assert parts.done


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"error": {"message": "No such model"}}, Answer(error="No such model")),
        ({"detail": "Unauthorized"}, Answer(error="Unauthorized")),
        (response("in_progress"), Answer(model="gpt-test-1", id="resp_1")),
        (response("queued"), Answer(model="gpt-test-1", id="resp_1")),
        (
            {"id": "resp_2", "object": "response.compaction", "output": [message("Kept.")], "usage": COUNTED},
            Answer("Kept.", usage=Usage(31, 12, 16, 8), id="resp_2", complete=True),
        ),
        ({"object": "response.input_tokens", "input_tokens": 11}, Answer()),
        ([], Answer()),
        (None, Answer()),
    ],
)
def test_other_documents(body: Any, answer: Answer) -> None:
    assert said_whole(ResponsesParts(), body) == answer


def test_several_answers_on_one_websocket() -> None:
    parts = ResponsesParts()
    warm = {"type": "response.completed", "response": response(id="resp_0", usage={"input_tokens": 10})}
    assert added(parts, created("resp_0"), warm, {"type": "codex.rate_limits"}).usage == Usage(10)
    assert parts.done
    answer = added(parts, created("resp_1"), event("output_text.delta", 0, content_index=0, delta="At noon."))
    assert answer == Answer("At noon.", model="gpt-test-1", id="resp_1")
    assert not parts.done


def test_what_takes_the_place_of_pieces_needs_no_more_room() -> None:
    piece = "x" * 100_000
    pieces = [event("output_text.delta", 0, content_index=0, delta=piece) for _ in range(30)]
    done = event("output_text.done", 0, content_index=0, text=piece * 30)
    assert len(added(ResponsesParts(), *pieces, done).text) == 3_000_000


def test_an_answer_is_kept_to_its_limit() -> None:
    piece = "x" * 100_000
    events = [event("output_text.delta", 0, content_index=0, delta=piece) for _ in range(50)]
    assert len(added(ResponsesParts(), *events).text) == MOST_TEXT - 100 - 1
    assert len(said_whole(ResponsesParts(), response(output=[message(piece) for _ in range(50)])).text) < MOST_TEXT
    parts = ResponsesParts()
    for index in range(45_000):
        parts.add(event("output_text.delta", index, content_index=0, delta=""))
        parts.add(event("output_text.delta", 0, content_index=index, delta="x"))
    assert len(parts.answer().text) < MOST_TEXT // 2


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        "x",
        {"type": 7},
        {"type": "response.output_item.added"},
        {"type": "response.output_item.done", "output_index": [], "item": {"type": [], "content": "x", "summary": 3}},
        {"type": "response.output_text.delta", "output_index": {}, "content_index": "x", "delta": None},
        {"type": "response.completed.x", "response": 3},
    ],
)
def test_an_event_of_another_shape_is_passed_over(odd: Any) -> None:
    answer = added(ResponsesParts(), created(), event("output_text.delta", 0, content_index=0, delta="High"), odd)
    assert answer == Answer("High", model="gpt-test-1", id="resp_1")


# ---- requests

SHELL_OUTPUT = [{"stdout": "noon\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}, {"stderr": "late"}]
REQUEST = {
    "model": "gpt-test",
    "instructions": "Be brief.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Use metres."}]},
        {"role": "user", "content": "When is"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "left out"}], "encrypted_content": "x"},
        message("I look it up."),
        {"type": "function_call", "call_id": "call_1", "name": "tide", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "noon"},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "exec", "input": "ls"},
        {
            "type": "custom_tool_call_output",
            "call_id": "call_2",
            "output": [
                {"type": "input_text", "text": "Exit 0"},
                {"type": "input_image", "image_url": "data:"},
                {"type": "input_text", "text": '{"output": "a\\nb"}'},
            ],
        },
        {"type": "mcp_call", "id": "mcp_1", "name": "buoys", "arguments": "{}", "output": "3"},
        {"type": "shell_call_output", "call_id": "call_4", "output": SHELL_OUTPUT},
        {"type": "computer_call_output", "call_id": "call_5", "output": {"type": "computer_screenshot"}},
        {"type": "item_reference", "id": "msg_0"},
        {"role": "system", "content": "Answer now."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "High tide?"}]},
    ],
    "tools": [
        {"type": "function", "name": "tide"},
        {"type": "custom", "name": "exec"},
        {"type": "mcp", "server_label": "harbour"},
        {"type": "web_search"},
        {"type": "namespace", "name": "sea", "tools": [{"type": "function", "name": "moon"}]},
    ],
}
CONTENT = RequestContent(
    "Be brief.\nUse metres.",
    (
        Message("user", "When is"),
        Message("assistant", "I look it up."),
        Message("assistant", "", (ToolCall("call_1", "tide", "{}"),)),
        Message("tool", tool_results=(ToolResult("call_1", "noon"),)),
        Message("assistant", "", (ToolCall("call_2", "exec", "ls"),)),
        Message("tool", tool_results=(ToolResult("call_2", 'Exit 0\n{"output": "a\\nb"}'),)),
        Message("assistant", "", (ToolCall("mcp_1", "buoys", "{}"),), (ToolResult("mcp_1", "3"),)),
        Message("tool", tool_results=(ToolResult("call_4", "noon\n\nlate"),)),
        Message("tool", tool_results=(ToolResult("call_5", ""),)),
        Message("system", "Answer now."),
        Message("user", "High tide?"),
    ),
    ("tide", "exec", "harbour", "web_search", "moon"),
)


@pytest.mark.parametrize(
    "body",
    [REQUEST, {"type": "response.create", **REQUEST}, {"type": "response.create", "response": REQUEST}],
    ids=["http", "websocket", "websocket, nested"],
)
def test_the_content_of_a_request(body: dict[str, Any]) -> None:
    assert OpenAIResponses().content(PATH, body) == CONTENT
    assert OpenAIResponses().read(PATH, {}, body).model == "gpt-test"


def test_a_bare_question() -> None:
    content = OpenAIResponses().content(PATH, {"input": "When is high tide?"})
    assert content == RequestContent("", (Message("user", "When is high tide?"),))


def test_codex_has_its_tools_in_the_input() -> None:
    tools = [
        {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]},
        {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]},
        {"type": "web_search"},
    ]
    given = [
        {"type": "additional_tools", "role": "developer", "tools": tools},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are an agent."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "High tide?"}]},
    ]
    assert OpenAIResponses().content(PATH, {"input": given}) == RequestContent(
        "You are an agent.", (Message("user", "High tide?"),), ("exec", "spawn", "web_search")
    )


@pytest.mark.parametrize("body", [None, [], 7, "x", {}, {"input": 3}, {"input": [1, None, {"type": 3}, {"role": []}]}])
def test_a_request_of_another_shape_has_no_content(body: Any) -> None:
    assert wire_for(PATH).content(PATH, body) == RequestContent()


@pytest.mark.parametrize("nested", [True, False])
def test_the_answer_that_a_request_goes_on_from(nested: bool) -> None:
    inner = {"model": "gpt-test", "previous_response_id": "resp_1", "input": "And low tide?", "prompt_cache_key": "k"}
    body = {"type": "response.create", "response": inner} if nested else {"type": "response.create", **inner}
    assert OpenAIResponses().read(PATH, {}, body) == RequestFacts("gpt-test", "k", None, "resp_1", continues=True)


METADATA = {"thread_source": "user", "request_kind": "turn"}


@pytest.mark.parametrize(
    ("metadata", "body", "side"),
    [
        (None, {}, False),
        (METADATA, {}, False),
        (METADATA | {"request_kind": "compaction"}, {}, True),
        (METADATA | {"thread_source": "thread_title"}, {}, True),
        (METADATA | {"thread_source": "memory_consolidation"}, {}, True),
        (METADATA | {"thread_source": "subagent"}, {}, False),
        ({"request_kind": 3, "thread_source": []}, {}, False),
        ([], {}, False),
        ("not JSON", {}, False),
        (None, {"generate": False}, True),
        (None, {"generate": True}, False),
        (None, {"generate": 0}, False),
    ],
)
@pytest.mark.parametrize("in_header", [True, False])
def test_side_requests_of_codex(metadata: Any, body: dict[str, Any], side: bool, in_header: bool) -> None:
    said = {"x-codex-turn-metadata": metadata if metadata == "not JSON" else json.dumps(metadata)}
    more = {} if in_header or metadata is None else {"client_metadata": said}
    headers = said if in_header and metadata is not None else {}
    assert OpenAIResponses().read(PATH, headers, {**body, **more}).side_request is side


def test_a_message_on_a_socket_speaks_for_itself() -> None:
    """The header is that of the upgrade, which Codex makes to warm up."""
    upgrade = {"x-codex-turn-metadata": json.dumps(METADATA | {"request_kind": "prewarm"})}
    turn = {"client_metadata": {"x-codex-turn-metadata": json.dumps(METADATA | {"request_kind": "turn"})}}
    assert OpenAIResponses().read(PATH, upgrade, turn).side_request is False


def test_metadata_that_is_nested_too_deep_says_nothing() -> None:
    assert not OpenAIResponses().read(PATH, {"x-codex-turn-metadata": "[" * 100_000}, {}).side_request
