"""The loop's dialect of Anthropic Messages: what it offers, what the real SDK reads of woven answers, what passes later."""

from __future__ import annotations

import json
from typing import Any

import pytest

from addons.loop.anthropic import AnthropicLoop
from addons.loop.dialect import BrokenAnswerError
from tests.addons.loop.anthropic_says import PATH, Says, content_of, event, read, recall, sdk_reads, text, thinking
from tests.addons.loop.weaving import TOOL, Kept, Woven, offered, play, request

DIALECT = AnthropicLoop()
QUESTION = {"role": "user", "content": "When is high tide?"}
BODY: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [QUESTION]}
OFFER = {"name": TOOL.name, "description": TOOL.description, "input_schema": TOOL.schema}
WRITTEN = json.dumps(OFFER, separators=(",", ":"))

both = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])


def told(*answers: Says, streamed: bool, body: dict[str, Any] | None = None, **how: Any) -> Woven:
    offer = offered(DIALECT, PATH, {**(body or BODY), "stream": streamed})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    return play(weave, offer, [one.bytes(streamed=streamed) for one in answers], **how)


def used(said: int, out: int, **more: Any) -> dict[str, Any]:
    return {"input_tokens": said, "output_tokens": out, **more}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            '{"model": "m", "messages": [{"role":"user","content":"é"}] }\n',
            '{"model": "m", "messages": [{"role":"user","content":"é"}],"tools":[%s] }\n',
        ),
        (
            '{"tools": [ {"name": "Read"} ], "messages": [{"role":"user","content":"x"}]}',
            '{"tools": [ {"name": "Read"},%s ], "messages": [{"role":"user","content":"x"}]}',
        ),
        (
            '{"tools": [],"messages": [{"role":"user","content":"x"}]}',
            '{"tools": [%s],"messages": [{"role":"user","content":"x"}]}',
        ),
        (
            '{"tools":null,"messages": [{"role":"user","content":"x"}]}',
            '{"tools":[%s],"messages": [{"role":"user","content":"x"}]}',
        ),
    ],
    ids=["none", "after another", "empty", "null"],
)
def test_the_tool_is_the_last_and_every_other_byte_stays(body: str, expected: str) -> None:
    offer = DIALECT.offer(request(PATH + "?beta=true", body), TOOL, Kept())
    assert offer is not None
    assert offer.text == expected.replace("%s", WRITTEN)
    assert not offer.is_expanded
    assert offer.without_tool is None


@pytest.mark.parametrize(
    "more",
    [
        {"tool_choice": {"type": "any"}},
        {"tool_choice": {"type": "tool", "name": "Read"}},
        {"tool_choice": {"type": "none"}},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        {"tool_choice": "auto"},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
        {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
        {"tools": [{"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}]},
        {"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]},
        {"tools": [{"type": "new_thing_20990101", "name": "thing"}]},
        {"tools": [{"name": "MemoryRecall", "input_schema": {}}]},
        {"tools": ["Read"]},
        {"tools": {"name": "Read"}},
        {"mcp_servers": [{"type": "url", "url": "https://mcp.test", "name": "x"}]},
        {"output_config": {"format": {"type": "json_schema", "schema": {}}}},
        {"output_format": {"type": "json_schema", "schema": {}}},
        {"stream": "yes"},
        {"messages": []},
        {"messages": "hello"},
        {"messages": [QUESTION, "hello"]},
        {"messages": [QUESTION, {"role": "assistant", "content": "It is at"}]},
        {"messages": [{"role": 1, "content": "x"}]},
        {"messages": [{"role": "user", "content": {"text": "x"}}]},
    ],
    ids=lambda more: json.dumps(more)[:60],
)
def test_a_request_that_gives_no_free_choice_is_left_alone(more: dict[str, Any]) -> None:
    assert DIALECT.offer(request(PATH, {**BODY, **more}), TOOL, Kept()) is None


@pytest.mark.parametrize(
    "tools",
    [
        [{"type": "bash_20250124", "name": "bash"}],
        [{"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}],
        [{"type": "computer_20250124", "name": "computer"}],
        [{"type": "memory_20250818", "name": "memory"}],
        [{"type": "custom", "name": "Read", "input_schema": {}}, {"name": "Write", "input_schema": {}}],
    ],
    ids=lambda tools: str(tools[0]["type"]),
)
def test_tools_that_the_client_runs_are_no_hindrance(tools: list[dict[str, Any]]) -> None:
    body = {**BODY, "tools": tools, "tool_choice": {"type": "auto"}}
    assert json.loads(offered(DIALECT, PATH, body).text)["tools"] == [*tools, OFFER]


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens?beta=true", "/v1/messages/batches", "/v1/complete"])
def test_other_paths_are_left_alone(path: str) -> None:
    assert DIALECT.offer(request(path, BODY), TOOL, Kept()) is None


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "null",
        "\ufeff{}",
        '{"messages": [{"role": "user", "content": "a"}], "messages": []}',
        '{"messages": [{"role": "user", "content": "a", "content": "b"}]}',
        '{"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "x", "name": "MemoryRecall"}]}',
        '{"messages": [{"role": "user", "content": "a"}]',
        '{"messages": ' + "[" * 100_000,
        '{"deep": ' + "[" * 100_000 + "]" * 100_000 + ', "messages": [{"role": "user", "content": "a"}]}',
    ],
    ids=["nothing", "array", "null", "mark", "twice", "twice in a message", "twice in a tool", "cut", "deep", "deeper"],
)
def test_what_is_not_understood_is_left_alone(body: str) -> None:
    assert DIALECT.offer(request(PATH, body), TOOL, Kept()) is None


@pytest.mark.parametrize("said", ["\\ud800", "\ud800"], ids=["escaped", "itself"])
def test_half_a_surrogate_pair_stays_as_it_is(said: str) -> None:
    body = '{"messages": [{"role": "user", "content": "%s"}]}' % said  # noqa: UP031 - braces
    offer = DIALECT.offer(request(PATH, body), TOOL, Kept())
    assert offer is not None
    assert offer.text == f'{body[:-1]},"tools":[{WRITTEN}]}}'


@both
def test_an_answer_without_a_call_passes_to_the_byte(streamed: bool) -> None:
    says = Says([thinking("Hm."), text("At noon. 🌊"), read("toolu_1")], "tool_use")
    woven = told(says, streamed=streamed)
    assert woven.answer == says.bytes(streamed=streamed)
    assert woven.passages == {}
    assert woven.last.calls_others


@both
def test_one_answer_is_made_of_several(streamed: bool) -> None:
    cached = {"cache_read_input_tokens": 100, "cache_creation": {"ephemeral_5m_input_tokens": 7}}
    woven = told(
        Says([thinking("Ask."), text("Let me look."), recall("toolu_1")], "tool_use", used(10, 5, **cached)),
        Says([text("Again."), recall("toolu_2", "ébb")], "tool_use", used(20, 6, **cached), "msg_2", "other"),
        Says([thinking("Now."), text("At noon.")], "end_turn", used(30, 7, **cached), "msg_3"),
        streamed=streamed,
    )
    assert [[(ask.id, json.loads(ask.arguments)) for ask in asks] for asks in woven.asks] == [
        [("toolu_1", {"query": "tides"})],
        [("toolu_2", {"query": "ébb"})],
        [],
    ]
    message = sdk_reads(woven.answer, streamed=streamed)
    assert content_of(message) == [
        thinking("Ask."), text("Let me look."), text("Again."), thinking("Now."), text("At noon."),
    ]  # fmt: skip
    assert (message.id, message.model, message.stop_reason) == ("msg_1", "claude-test", "end_turn")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (60, 18)
    assert message.usage.cache_read_input_tokens == 300
    assert b"MemoryRecall" not in woven.answer
    assert b'"ephemeral_5m_input_tokens":21' in woven.answer


@both
def test_each_request_begins_with_the_one_before(streamed: bool) -> None:
    body = {"tools": [{"name": "Read"}], **BODY, "system": "Be brief."}
    woven = told(
        Says([thinking("Ask.", "s1"), {"type": "redacted_thinking", "data": "xx"}, recall("toolu_1")], "tool_use"),
        Says([text("Again."), recall("toolu_2")], "tool_use"),
        Says([text("At noon.")]),
        streamed=streamed,
        body=body,
    )
    messages = [json.loads(body)["messages"] for body in woven.bodies]
    assert messages[2] == [
        QUESTION,
        {
            "role": "assistant",
            "content": [thinking("Ask.", "s1"), {"type": "redacted_thinking", "data": "xx"}, recall("toolu_1")],
        },
        {"role": "user", "content": [result("toolu_1")]},
        {"role": "assistant", "content": [text("Again."), recall("toolu_2")]},
        {"role": "user", "content": [result("toolu_2")]},
    ]
    tail = f'],"system":"Be brief.","stream":{json.dumps(streamed)}}}'
    for shorter, longer in zip(woven.bodies, woven.bodies[1:], strict=False):
        assert shorter.endswith(tail)
        assert longer.endswith(tail)
        assert longer.startswith(shorter.removesuffix(tail) + ",")


def result(call: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": f"found: {call}"}


@both
def test_two_searches_at_once(streamed: bool) -> None:
    woven = told(
        Says([recall("toolu_1"), text("and"), recall("toolu_2")], "tool_use"),
        Says([text("At noon.")]),
        streamed=streamed,
    )
    assert [ask.id for ask in woven.asks[0]] == ["toolu_1", "toolu_2"]
    assert json.loads(woven.bodies[1])["messages"][-1]["content"] == [result("toolu_1"), result("toolu_2")]
    assert content_of(sdk_reads(woven.answer, streamed=streamed)) == [text("and"), text("At noon.")]


@both
def test_a_search_beside_a_tool_of_the_client(streamed: bool) -> None:
    """The client gets its own call, and the result is put in beside that of its tool when it comes back."""
    woven = told(Says([text("Both."), recall("toolu_1"), read("toolu_2")], "tool_use"), streamed=streamed)
    message = sdk_reads(woven.answer, streamed=streamed)
    assert content_of(message) == [text("Both."), read("toolu_2")]
    assert message.stop_reason == "tool_use"
    back = {"type": "tool_result", "tool_use_id": "toolu_2", "content": "tide table"}
    messages = [QUESTION, {"role": "assistant", "content": content_of(message)}, {"role": "user", "content": [back]}]
    offer = offered(DIALECT, PATH, {**BODY, "messages": messages}, Kept(dict(woven.passages)))
    assert offer.is_expanded
    assert json.loads(offer.text)["messages"] == [
        QUESTION,
        {"role": "assistant", "content": [text("Both."), recall("toolu_1"), read("toolu_2")]},
        {"role": "user", "content": [result("toolu_1"), back]},
    ]


@both
def test_a_search_beside_a_tool_that_was_not_made_is_left_out(streamed: bool) -> None:
    woven = told(Says([recall("toolu_1"), read("toolu_2")], "tool_use"), streamed=streamed, unanswered=True)
    assert content_of(sdk_reads(woven.answer, streamed=streamed)) == [read("toolu_2")]
    assert woven.passages == {}


@both
def test_the_last_search_of_all_is_left_out(streamed: bool) -> None:
    woven = told(
        Says([text("One."), recall("toolu_1")], "tool_use"),
        Says([text("Two."), recall("toolu_2")], "tool_use"),
        streamed=streamed,
        most=2,
    )
    message = sdk_reads(woven.answer, streamed=streamed)
    assert (content_of(message), message.stop_reason) == ([text("One."), text("Two.")], "end_turn")
    (passage,) = woven.passages.values()
    assert [json.loads(one) for one in passage.instead] == [
        {"role": "assistant", "content": [text("One."), recall("toolu_1")]},
        {"role": "user", "content": [result("toolu_1")]},
        {"role": "assistant", "content": [text("Two.")]},
    ]


@both
@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "pause_turn", "model_context_window_exceeded"])
def test_a_call_that_was_cut_is_not_run(stop: str, streamed: bool) -> None:
    woven = told(Says([text("Well,"), recall("toolu_1")], stop), streamed=streamed)
    message = sdk_reads(woven.answer, streamed=streamed)
    assert (content_of(message), message.stop_reason) == ([text("Well,")], stop)
    assert woven.asks == [()]
    assert woven.passages == {}


@both
def test_a_call_without_arguments(streamed: bool) -> None:
    call = {**recall("toolu_1"), "input": {}}
    woven = told(Says([call], "tool_use"), Says([text("At noon.")]), streamed=streamed)
    assert woven.asks[0][0].arguments == "{}"
    assert json.loads(woven.bodies[1])["messages"][1]["content"] == [call]


def test_arguments_that_are_no_json_are_asked_with_and_replayed_as_none() -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    weave.feed(Says([recall("toolu_1")], "tool_use").stream().replace(b'\\"query\\"', b"query"))
    (ask,) = weave.over().asks
    assert ask.arguments == '{query: "tides"}'
    assert json.loads(weave.go_on({"toolu_1": "no"}))["messages"][1]["content"] == [{**recall("toolu_1"), "input": {}}]


def test_text_before_the_call_is_passed_on_at_once_and_the_end_is_held_back() -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    says = Says([text("Let me look."), recall("toolu_1")], "tool_use").stream()
    call = says.index(b'event: content_block_start\ndata: {"type": "content_block_start", "index": 1')
    assert weave.feed(says[:call]) == says[:call]
    assert weave.feed(says[call:]) == b""


def test_blocks_that_are_not_known_are_replayed_as_they_came() -> None:
    """Citations are collected; of a delta of another kind each value stands instead of the earlier one."""
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    cited, packed = {**text(""), "citations": []}, {"type": "compaction", "content": None, "more": [1]}
    server = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    for index, (block, deltas) in enumerate(
        [
            (cited, [{"type": "text_delta", "text": "Noon"}, {"type": "citations_delta", "citation": {"n": 1}}]),
            (packed, [{"type": "compaction_delta", "content": "All.", "encrypted_content": "xx"}]),
            (server, [{"type": "input_json_delta", "partial_json": '{"query": 1.50}'}]),
            ({"type": "new_result", "input": "raw", "id": 5}, []),
            (text(" \n"), []),
            (recall("toolu_1"), []),
        ]
    ):
        weave.feed(event({"type": "content_block_start", "index": index, "content_block": block}))
        for delta in deltas:
            weave.feed(event({"type": "content_block_delta", "index": index, "delta": delta}))
    weave.feed(event({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}))
    weave.over()
    body = weave.go_on({"toolu_1": "x"})
    assert json.loads(body)["messages"][1]["content"] == [
        {**text("Noon"), "citations": [{"n": 1}]},
        {"type": "compaction", "content": "All.", "encrypted_content": "xx", "more": [1]},
        {**server, "input": {"query": 1.5}},
        {"type": "new_result", "input": "raw", "id": 5},
        recall("toolu_1"),
    ]
    assert '"input":{"query": 1.50}' in body


@pytest.mark.parametrize("later", [False, True], ids=["the first answer", "a later one"])
def test_an_error_of_the_providers_is_passed_on_once(later: bool) -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    begun = weave.feed(Says([text("Well."), recall("toolu_1")], "tool_use").stream()) if later else b""
    if later:
        weave.over()
        weave.go_on({"toolu_1": "x"})
    failed = event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    start = Says([text("At")]).stream().partition(b"event: content_block_stop")[0]
    given = weave.feed(start + failed)
    assert given.endswith(failed)
    if later:
        with pytest.raises(BrokenAnswerError):
            weave.over()
        assert weave.error("again") == b""
    else:
        assert weave.over().asks == ()
        assert given + weave.finish({}) == start + failed
    with pytest.raises(Exception, match="Overloaded"):
        sdk_reads(begun + given, streamed=True)


def test_a_later_answer_that_breaks_off_ends_in_an_error_event() -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    given = weave.feed(Says([text("Well."), recall("toolu_1")], "tool_use").stream())
    weave.over()
    weave.go_on({"toolu_1": "x"})
    given += weave.feed(Says([text("At noon.")]).stream().partition(b"oon.")[0])
    with pytest.raises(BrokenAnswerError, match="ended before"):
        weave.over()
    with pytest.raises(Exception, match="it broke off"):
        sdk_reads(given + weave.error("it broke off"), streamed=True)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"type":"message","content":[1]}', b"\xff", b"[" * 99_999])
def test_a_document_that_is_no_message(data: bytes) -> None:
    offer = offered(DIALECT, PATH, BODY)
    weave = DIALECT.weave(offer, offer.text, TOOL)
    weave.whole(data)
    assert weave.over().asks == ()
    assert weave.finish({}) == data
    weave = DIALECT.weave(offer, offer.text, TOOL)
    weave.whole(Says([recall("toolu_1")], "tool_use").document())
    weave.over()
    weave.go_on({"toolu_1": "x"})
    weave.whole(data)
    with pytest.raises(BrokenAnswerError):
        weave.over()


def test_pings_pass_the_sdk_anywhere() -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    given = weave.feed(Says([text("Well."), recall("toolu_1")], "tool_use").stream()) + weave.ping
    weave.over()
    weave.go_on({"toolu_1": "x"})
    given += weave.ping + weave.feed(Says([text("At noon.")]).stream())
    weave.over()
    given += weave.finish({})
    assert content_of(sdk_reads(given, streamed=True)) == [text("Well."), text("At noon.")]
