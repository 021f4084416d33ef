"""The loop's dialect of OpenAI Responses: what it offers, what the real SDK reads of woven answers, what hostile shapes do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addons.loop.dialect import BrokenAnswerError
from addons.loop.openai_responses import OpenAIResponsesLoop
from tests.addons.loop.responses_says import (
    PATH,
    Says,
    call,
    custom,
    event,
    events_of,
    items_of,
    message,
    output,
    reasoning,
    recall,
    sdk_reads,
    used,
    user,
)  # fmt: skip
from tests.addons.loop.weaving import TOOL, Kept, Woven, offered, play, request
from tests.addons.sdk_answers import openai_client

DIALECT = OpenAIResponsesLoop()
BODY: dict[str, Any] = {"model": "m", "input": "When is high tide?", "store": False}
ASKED = user("When is high tide?")
OFFER = {
    "type": "function",
    "name": "MemoryRecall",
    "description": TOOL.description,
    "parameters": TOOL.schema,
    "strict": False,
}
WRITTEN = json.dumps(OFFER, separators=(",", ":"))
SAYS = Says([reasoning(), message("At noon. 🌊"), call("call_1"), custom("call_2")])

both = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])


def told(*answers: Says, streamed: bool, body: dict[str, Any] | None = None, **how: Any) -> Woven:
    offer = offered(DIALECT, PATH, {**(body or BODY), "stream": streamed})
    return play(DIALECT.weave(offer, offer.text, TOOL), offer, [one.bytes(streamed=streamed) for one in answers], **how)


# ---- the offer


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"model": "m", "input": "é" }\n', '{"model": "m", "input": "é","tools":[%s] }\n'),
        ('{"tools": [ {"type":"custom","name":"exec"} ], "input": "x"}',
         '{"tools": [ {"type":"custom","name":"exec"},%s ], "input": "x"}'),
        ('{"tools": [],"input": "x"}', '{"tools": [%s],"input": "x"}'),
        ('{"tools":null,"input": "x"}', '{"tools":[%s],"input": "x"}'),
    ],
    ids=["none", "after another", "empty", "null"],
)  # fmt: skip
def test_the_tool_is_the_last_and_every_other_byte_stays(body: str, expected: str) -> None:
    offer = DIALECT.offer(request(PATH + "?api-version=1", body), TOOL, Kept())
    assert offer is not None
    assert offer.text == expected.replace("%s", WRITTEN)
    assert not offer.is_expanded
    assert offer.without_tool is None


@pytest.mark.parametrize(
    "more",
    [
        {"tool_choice": "required"},
        {"tool_choice": "none"},
        {"tool_choice": {"type": "function", "name": "tide"}},
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
        {"parallel_tool_calls": "no"},
        {"background": True},
        {"generate": False},
        {"stream": "yes"},
        {"text": {"format": {"type": "json_schema", "name": "x", "schema": {}}}},
        {"text": {"format": {"type": "json_object"}}},
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
        {"prompt": {"id": "pmpt_1"}},
        {"previous_response_id": 1},
        {"tools": [{"type": "web_search"}]},
        {"tools": [{"type": "web_search_preview_2025_03_11"}]},
        {"tools": [{"type": "file_search", "vector_store_ids": []}]},
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        {"tools": [{"type": "image_generation"}]},
        {"tools": [{"type": "mcp", "server_label": "x"}]},
        {"tools": [{"type": "computer_use_preview"}]},
        {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]},
        {"tools": [{"type": "tool_search"}]},
        {"tools": [{"type": "new_thing"}]},
        {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}]},
        {"tools": [{"type": "function", "name": "MemoryRecall"}]},
        {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "MemoryRecall"}]}]},
        {"tools": ["tide"]},
        {"tools": {"type": "function"}},
        {"input": ""},
        {"input": []},
        {"input": {"role": "user"}},
        {"input": [1]},
        {"input": [ASKED, message("It is at")]},
        {"input": [{"type": "additional_tools", "tools": [{"type": "web_search"}]}, ASKED]},
        {"input": [{"type": "additional_tools", "tools": {}}, ASKED]},
    ],
    ids=lambda more: json.dumps(more)[:60],
)
def test_a_request_that_gives_no_free_choice_is_left_alone(more: dict[str, Any]) -> None:
    assert DIALECT.offer(request(PATH, {**BODY, **more}), TOOL, Kept()) is None


def test_tools_that_the_client_runs_are_no_hindrance() -> None:
    tools = [
        {"type": "function", "name": "tide", "parameters": {}, "strict": True},
        {"type": "custom", "name": "exec"},
        {"type": "local_shell"},
        {"type": "apply_patch"},
        {"type": "tool_search", "execution": "client"},
        {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]},
    ]
    more = {"tool_choice": "auto", "parallel_tool_calls": True, "text": {"format": {"type": "text"}}, "tools": tools}
    assert json.loads(offered(DIALECT, PATH, {**BODY, **more}).text) == {**BODY, **more, "tools": [*tools, OFFER]}


def test_codex_offers_its_tools_in_an_item() -> None:
    """A provider that takes no others beside them gets the request as it was, with what was hidden."""
    carried = {"type": "additional_tools", "role": "developer", "tools": [{"type": "namespace", "name": "functions",
               "tools": [{"type": "custom", "name": "exec"}]}]}  # fmt: skip
    body = {"model": "m", "input": [carried, ASKED], "store": False, "stream": True, "parallel_tool_calls": False}
    offer = offered(DIALECT, PATH, body)
    assert json.loads(offer.text) == {**body, "tools": [OFFER]}
    assert offer.without_tool == json.dumps(body, separators=(",", ":"))
    past = Kept()
    woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, [
        Says([recall("call_1")]).stream(), Says([message("At noon.")]).stream()])  # fmt: skip
    past.passages.update(woven.passages)
    later = offered(DIALECT, PATH, {**body, "input": [carried, ASKED, message("At noon."), user("And low?")]}, past)
    assert later.without_tool is not None
    assert json.loads(later.without_tool)["input"] == [
        carried, ASKED, recall("call_1"), output("call_1"), message("At noon."), user("And low?")]  # fmt: skip
    assert json.loads(later.text) == {**json.loads(later.without_tool), "tools": [OFFER]}
    assert offered(DIALECT, PATH, {**body, "tools": []}).without_tool is None


@pytest.mark.parametrize(
    "path",
    ["/v1/responses/compact", "/v1/responses/input_tokens", "/v1/responses/resp_1/cancel", "/v1/responses/resp_1", "/"],
)
def test_other_paths_are_left_alone(path: str) -> None:
    assert DIALECT.offer(request(path, BODY), TOOL, Kept()) is None


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "null",
        "\ufeff{}",
        '{"input": "a", "input": "b"}',
        '{"input": [{"role": "user", "content": "a", "content": "b"}]}',
        '{"input": "a", "tools": [{"type": "custom", "name": "x", "name": "MemoryRecall"}]}',
        '{"input": "a"',
        '{"input": ' + "[" * 100_000,
        '{"deep": ' + "[" * 100_000 + "]" * 100_000 + ', "input": "a"}',
    ],
    ids=["nothing", "array", "null", "mark", "twice", "twice in an item", "twice in a tool", "cut", "deep", "deeper"],
)
def test_what_is_not_understood_is_left_alone(body: str) -> None:
    assert DIALECT.offer(request(PATH, body), TOOL, Kept()) is None


# ---- one answer of several


@both
def test_an_answer_without_a_call_passes_to_the_byte(streamed: bool) -> None:
    woven = told(SAYS, streamed=streamed)
    assert woven.answer == SAYS.bytes(streamed=streamed)
    assert woven.asks == [()]
    assert woven.last.calls_others
    assert woven.passages == {}


@both
def test_several_answers_are_one(streamed: bool) -> None:
    first = Says(
        [reasoning(), message("Let me look."), recall("call_1"), recall("call_2", "ebb")], usage=used(10, 5, 1, 2)
    )
    second = Says([recall("call_3")], id="resp_2", usage=used(20, 6, 10, 3), created_at=101)
    last = Says([reasoning("rs_3"), message("At noon. 🌊", "msg_3"), call("call_4")], id="resp_3", created_at=102)
    woven = told(first, second, last, streamed=streamed)
    response = sdk_reads(woven.answer, streamed=streamed)
    shown = [reasoning(), message("Let me look."), *last.items]
    assert items_of(response) == [{k: v for k, v in item.items() if v is not None} for item in shown]
    assert (response.id, response.created_at, response.status) == ("resp_1", 100, "completed")
    assert response.usage is not None
    assert response.usage.to_dict() == used(40, 16, 11, 5)
    assert b"MemoryRecall" not in woven.answer
    assert [[(ask.id, json.loads(ask.arguments)) for ask in asks] for asks in woven.asks] == [
        [("call_1", {"query": "tides"}), ("call_2", {"query": "ebb"})], [("call_3", {"query": "tides"})], []]  # fmt: skip
    inputs = [json.loads(body)["input"] for body in woven.bodies[1:]]
    passed = [ASKED, *first.items, output("call_1"), output("call_2")]
    assert inputs == [passed, [*passed, *second.items, output("call_3")]]
    assert woven.bodies[1].startswith(woven.bodies[0][: woven.bodies[0].index("input")])
    if streamed:
        events = events_of(woven.answer)
        assert [one["sequence_number"] for one in events] == list(range(len(events)))
        added = [one["output_index"] for one in events if one["type"] == "response.output_item.added"]
        assert added == [0, 1, 2, 3, 4]
        assert [one["type"] for one in events if "response" in one] == [
            "response.created", "response.in_progress", "response.completed"]  # fmt: skip


def test_what_comes_before_a_call_is_there_at_once() -> None:
    first = Says([message("Let me look."), recall("call_1"), message("Well,", "msg_2")])
    woven = told(first, Says([message("noon.", "msg_3")]), streamed=True)
    events = list(first.events())
    kept = [one for one in events[:-1] if one["output_index" if "output_index" in one else "type"] != 1]
    assert [one["type"] for one in events_of(woven.given[0])] == [one["type"] for one in kept]
    assert [one["output_index"] for one in events_of(woven.given[0]) if one["type"] == "response.output_item.done"] == [
        0,
        1,
    ]
    assert sdk_reads(woven.answer, streamed=True).output_text == "Let me look.Well,noon."


@both
def test_calls_of_the_client_beside_are_handed_on(streamed: bool) -> None:
    says = Says([call("call_1"), recall("call_2"), custom("call_3")])
    woven = told(says, streamed=streamed)
    assert woven.last.calls_others
    response = sdk_reads(woven.answer, streamed=streamed)
    assert [item["call_id"] for item in items_of(response)] == ["call_1", "call_3"]
    assert response.usage is not None
    assert response.usage.to_dict() == used(10, 5)


@both
def test_a_call_after_the_last_round_is_left_out(streamed: bool) -> None:
    woven = told(Says([recall("call_1")]), Says([message("So."), recall("call_2")]), streamed=streamed, most=2)
    response = sdk_reads(woven.answer, streamed=streamed)
    assert (response.output_text, response.status, len(response.output)) == ("So.", "completed", 1)


@both
@pytest.mark.parametrize("status", ["incomplete", "failed"])
def test_a_call_in_an_answer_that_was_cut_short_is_not_run(streamed: bool, status: str) -> None:
    woven = told(Says([message("So."), recall("call_1")], status=status), streamed=streamed)
    assert woven.asks == [()]
    assert b"MemoryRecall" not in woven.answer
    if not streamed:
        assert sdk_reads(woven.answer, streamed=False).status == status
    else:
        assert events_of(woven.answer)[-1]["response"]["status"] == status


def test_a_host_that_names_no_output_at_the_end() -> None:
    first = Says([message("So."), recall("call_1")], names_output=False)
    woven = told(first, Says([message("At noon.", "msg_2")], names_output=False), streamed=True)
    assert json.loads(woven.bodies[1])["input"] == [ASKED, *first.items, output("call_1")]
    assert sdk_reads(woven.answer, streamed=True).output_text == "So.At noon."


def test_a_function_of_that_name_in_a_namespace_is_another_one() -> None:
    says = Says([{**recall("call_1"), "namespace": "functions"}])
    woven = told(says, streamed=True)
    assert (woven.answer, woven.asks, woven.last.calls_others) == (says.stream(), [()], True)


@pytest.mark.parametrize(("store", "sent"), [(False, 1), (True, 2), (None, 2)])
def test_thinking_that_only_the_provider_has_is_sent_back_to_one_that_stores(store: bool | None, sent: int) -> None:
    body = {"model": "m", "input": [ASKED]} | ({} if store is None else {"store": store})
    says = Says([reasoning(content=None), reasoning("rs_2"), recall("call_1")])
    woven = told(says, Says([message("At noon.")]), streamed=False, body=body)
    assert len([one for one in json.loads(woven.bodies[1])["input"] if one.get("type") == "reasoning"]) == sent


def test_a_request_that_goes_on_from_an_answer_is_gone_on_with_from_the_next() -> None:
    body = {"model": "m", "previous_response_id": "resp_0", "input": "And low?"}
    first, second = (
        Says([recall("call_1")], previous="resp_0"),
        Says([recall("call_2")], id="resp_2", previous="resp_1"),
    )
    woven = told(first, second, Says([message("At six.")], id="resp_3", previous="resp_2"), streamed=True, body=body)
    sent = [json.loads(one) for one in woven.bodies]
    assert [one["previous_response_id"] for one in sent] == ["resp_0", "resp_1", "resp_2"]
    assert [one["input"] for one in sent] == ["And low?", [output("call_1")], [output("call_2")]]
    response = sdk_reads(woven.answer, streamed=True)
    assert (response.id, response.previous_response_id, response.output_text) == ("resp_1", "resp_0", "At six.")


def test_nothing_that_is_not_stored_is_gone_on_from() -> None:
    body = {"model": "m", "previous_response_id": "resp_0", "input": "And low?", "store": False}
    woven = told(Says([recall("call_1")]), Says([message("At six.")], id="resp_2"), streamed=True, body=body)
    sent = json.loads(woven.bodies[1])
    assert sent["previous_response_id"] == "resp_0"
    assert sent["input"] == [user("And low?"), recall("call_1"), output("call_1")]


def test_the_body_that_was_really_sent_is_gone_on_with() -> None:
    offer = offered(DIALECT, PATH, {**BODY, "input": [ASKED]})
    sent = offer.text.replace("high tide", "[left out]").replace('"m"', '"other"')
    weave = DIALECT.weave(offer, sent, TOOL)
    weave.whole(Says([recall("call_1")]).document())
    weave.over()
    body = json.loads(weave.go_on({"call_1": "x"}))
    assert (body["model"], body["input"][0]["content"]) == ("other", "When is [left out]?")


# ---- streams as they come


def test_a_ping_is_passed_over() -> None:
    offer = offered(DIALECT, PATH, BODY)
    ping = DIALECT.weave(offer, offer.text, TOOL).ping
    assert ping == b": ping\n\n"
    data = SAYS.stream().replace(b"event: ", ping + b"event: ")
    assert sdk_reads(data, streamed=True) == sdk_reads(SAYS.stream(), streamed=True)


def test_an_error_is_raised_by_the_sdk() -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    data = weave.feed(Says([message("Let me look."), recall("call_1")]).stream())
    weave.over()
    weave.go_on({})
    told = weave.error("The search broke off", "server_error")
    assert events_of(told)[0]["sequence_number"] == len(events_of(data))
    with openai_client(data + told, "text/event-stream", 200) as client, pytest.raises(openai.APIError) as caught:
        list(client.responses.create(model="m", input="x", stream=True))
    with openai_client(data + told, "text/event-stream", 200) as client, pytest.raises(openai.APIError):
        list(client.responses.stream(model="m", input="x").__enter__())
    assert caught.value.message == "The search broke off"
    assert caught.value.code == "server_error"


STREAMS = [
    [SAYS],
    [Says([message("Let me 🌊"), recall("call_1")]), Says([message("noon é", "msg_2"), call("call_9")], id="resp_2")],
]


@pytest.mark.parametrize("answers", STREAMS, ids=["one", "two"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_it_does_not_matter_where_a_stream_is_cut(answers: list[Says], end: str) -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    streams = [one.stream().replace(b"\n", end.encode()) for one in answers]
    whole = play(DIALECT.weave(offer, offer.text, TOOL), offer, streams)
    if len(answers) == 1:
        assert whole.answer == streams[0]
    for cut in range(1, max(map(len, streams)), 29):
        assert play(DIALECT.weave(offer, offer.text, TOOL), offer, streams, cuts=[cut]).answer == whole.answer
    each = range(max(map(len, streams)))
    assert play(DIALECT.weave(offer, offer.text, TOOL), offer, streams, cuts=each).answer == whole.answer


def test_a_stream_without_its_last_blank_line_is_whole() -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    streams = [Says([message("So."), recall("call_1")]).stream()[:-2], Says([message("noon.", "msg_2")]).stream()[:-1]]
    woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, streams)
    assert sdk_reads(woven.answer, streamed=True).output_text == "So.noon."


@both
def test_a_first_answer_that_is_not_understood_passes_as_it_came(streamed: bool) -> None:
    for data in (
        b"",
        b"no answer",
        b"[1, 2]",
        b'data: {"type":"response.completed"}\n\n',
        SAYS.bytes(streamed=streamed)[:-99],
    ):
        offer = offered(DIALECT, PATH, {**BODY, "stream": streamed})
        woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, [data])
        assert (woven.answer, woven.asks) == (data, [()])


@both
@pytest.mark.parametrize("data", [b"", b"[]", b'{"error":{"message":"x"}}', b'data: {"type":"response.completed"}\n\n'])
def test_a_later_answer_that_is_not_understood_is_broken(streamed: bool, data: bytes) -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": streamed})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    first = Says([recall("call_1")]).bytes(streamed=streamed)
    weave.feed(first) if streamed else weave.whole(first)
    weave.over()
    weave.go_on({})
    weave.feed(data) if streamed else weave.whole(data)
    with pytest.raises(BrokenAnswerError):
        weave.over()


@both
def test_a_stream_and_a_document_do_not_go_together(streamed: bool) -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": streamed})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    first, last = Says([recall("call_1")]), Says([message("noon.")])
    weave.feed(first.stream()) if streamed else weave.whole(first.document())
    weave.over()
    weave.go_on({})
    weave.whole(last.document()) if streamed else weave.feed(last.stream())
    with pytest.raises(BrokenAnswerError):
        weave.over()


def test_the_providers_own_error_is_passed_on() -> None:
    broken = event(
        {"type": "error", "code": "server_error", "message": "Overloaded", "param": None, "sequence_number": 7}
    )
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, [Says([recall("call_1")]).stream(), broken])
    assert events_of(woven.answer)[-1] == {
        "type": "error", "code": "server_error", "message": "Overloaded", "param": None, "sequence_number": 2}  # fmt: skip


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "MemoryRecall", "function_call", "call_1"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "name", "id", "call_id"]), inner)
    ),
    max_leaves=6,
)
kinds = st.sampled_from(["response.created", "response.output_item.added", "response.output_item.done", "x",
                         "response.output_text.delta", "response.completed", "error", ""])  # fmt: skip
hostile = st.fixed_dictionaries(
    {},
    optional={
        "type": kinds | anything,
        "item": anything | st.just(recall("call_1")),
        "output_index": anything,
        "sequence_number": anything,
        "item_id": anything,
        "response": anything | st.fixed_dictionaries({}, optional={
            "id": anything, "output": anything | st.lists(anything | st.just(recall("call_1"))), "usage": anything}),
    },
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(hostile, max_size=5), min_size=1, max_size=3), st.booleans())
def test_no_shape_raises_anything_else(answers: list[list[dict[str, Any]]], streamed: bool) -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": streamed})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    try:
        for events in answers:
            if streamed:
                weave.feed(b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in events))
            else:
                weave.whole(json.dumps(events[0].get("response") if events else []).encode())
            if not weave.over().asks:
                break
            weave.go_on({})
        weave.finish({})
        weave.passages()
    except BrokenAnswerError:
        weave.error("broken")


@both
@pytest.mark.parametrize("depth", [900, 100_000])
def test_what_is_nested_too_deep_raises_nothing_else(streamed: bool, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    for key in ("usage", "output", "id"):
        members = {"id": '"resp_1"', "status": '"completed"', "usage": "{}", "output": json.dumps([recall("call_1")])}
        response = "{" + ",".join(f'"{name}":{value}' for name, value in {**members, key: deep}.items()) + "}"
        data = f'data: {{"type":"response.completed","response":{response}}}\n\n' if streamed else response
        offer = offered(DIALECT, PATH, {**BODY, "stream": streamed})
        weave = DIALECT.weave(offer, offer.text, TOOL)
        try:
            for _ in range(2):
                weave.feed(data.encode()) if streamed else weave.whole(data.encode())
                if weave.over().asks:
                    weave.go_on({})
            weave.finish({})
        except BrokenAnswerError:
            weave.error("broken")


def test_recorded_answers_pass_to_the_byte(shared_data: Path) -> None:
    counts = {"sse": 0, "json": 0}
    for file in sorted((shared_data / "llm" / "openai-responses").rglob("*.response.*")):
        streamed = file.suffix == ".sse"
        offer = offered(DIALECT, PATH, {**BODY, "stream": streamed})
        data = file.read_bytes()
        woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, [data], cuts=range(0, len(data), 1000))
        assert (woven.answer, woven.passages) == (data, {}), file
        counts[file.suffix[1:]] += 1
    assert counts == {"sse": 2, "json": 10}
