"""The loop's dialect of chat completions: what it offers, what the real SDK reads of woven answers, what passes later."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from addons.loop.dialect import BrokenAnswerError
from addons.loop.openai_chat import ChatLoop
from tests.addons.loop.chat_says import PATH, Says, event, message_of, read, recall, sdk_reads, used
from tests.addons.loop.weaving import TOOL, Kept, Woven, offered, play, request

DIALECT = ChatLoop()
QUESTION = {"role": "user", "content": "When is high tide?"}
BODY: dict[str, Any] = {"model": "m", "messages": [QUESTION]}
FUNCTION = {"name": TOOL.name, "description": TOOL.description, "parameters": TOOL.schema}
OFFER = {"type": "function", "function": FUNCTION}
WRITTEN = json.dumps(OFFER, separators=(",", ":"))
READ = {"type": "function", "function": {"name": "Read", "parameters": {}}}

both = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])


def told(*answers: Says, streamed: bool, body: dict[str, Any] | None = None, **how: Any) -> Woven:
    offer = offered(DIALECT, PATH, {**(body or BODY), "stream": streamed})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    return play(weave, offer, [one.bytes(streamed=streamed) for one in answers], **how)


def fed(*answers: bytes) -> tuple[bytes, Any]:
    """Streams that search, and the weave then."""
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    weave, given = DIALECT.weave(offer, offer.text, TOOL), b""
    for answer in answers:
        given += weave.feed(answer)
        weave.go_on({ask.id: "x" for ask in weave.over().asks})
    return given, weave


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            '{"model": "m", "messages": [{"role":"user","content":"é"}] }',
            '{"model": "m", "messages": [{"role":"user","content":"é"}],"tools":[%s] }',
        ),
        (
            '{"tools":[{"type":"function","function":{"name":"a"}}], "messages": [{"role":"user","content":"x"}]}',
            '{"tools":[{"type":"function","function":{"name":"a"}},%s], "messages": [{"role":"user","content":"x"}]}',
        ),
    ],
    ids=["none", "after another"],
)
def test_the_tool_is_the_last_and_every_other_byte_stays(body: str, expected: str) -> None:
    offer = DIALECT.offer(request("/openai/deployments/x/chat/completions?v=1", body), TOOL, Kept())
    assert offer is not None
    assert offer.text == expected.replace("%s", WRITTEN)


def test_a_model_that_knows_no_tools_is_asked_without_it() -> None:
    assert offered(DIALECT, PATH, BODY).without_tool == json.dumps(BODY, separators=(",", ":"))
    assert offered(DIALECT, PATH, {**BODY, "tools": [READ]}).without_tool is None


@pytest.mark.parametrize(
    "more",
    [
        {"n": 2},
        {"tool_choice": "required"},
        {"tool_choice": "none"},
        {"tool_choice": {"type": "function", "function": {"name": "Read"}}},
        {"functions": [{"name": "Read"}]},
        {"function_call": "auto"},
        {"parallel_tool_calls": False},
        {"response_format": {"type": "json_schema", "json_schema": {}}},
        {"response_format": {"type": "json_object"}},
        {"response_format": "text"},
        {"web_search_options": {}},
        {"prediction": {"type": "content", "content": "x"}},
        {"modalities": ["text", "audio"], "audio": {}},
        {"tools": [OFFER]},
        {"tools": [{"type": "web_search"}]},
        {"tools": [{"type": "function"}]},
        {"tools": "Read"},
        {"stream": "yes"},
        {"messages": []},
        {"messages": {}},
        {"messages": [QUESTION, {"role": "assistant", "content": "At"}]},
        {"messages": [QUESTION, 1]},
    ],
    ids=lambda more: json.dumps(more)[:60],
)
def test_a_request_that_gives_no_free_choice_is_left_alone(more: dict[str, Any]) -> None:
    assert DIALECT.offer(request(PATH, {**BODY, **more}), TOOL, Kept()) is None


@pytest.mark.parametrize(
    "more",
    [
        {"n": 1, "tool_choice": "auto", "parallel_tool_calls": True, "response_format": {"type": "text"}},
        {"tools": [READ, {"type": "custom", "custom": {"name": "exec"}}]},
        {"tools": None, "functions": None, "modalities": ["text"]},
    ],
    ids=["what is so anyway", "tools of the client's", "null"],
)
def test_what_is_no_hindrance(more: dict[str, Any]) -> None:
    assert json.loads(offered(DIALECT, PATH, {**BODY, **more}).text)["tools"][-1] == OFFER


@pytest.mark.parametrize(
    "body",
    ["", "[]", '{"messages": [{"role": "user", "role": "user"}]}', '{"messages": ' + "[" * 100_000],
    ids=["nothing", "array", "twice", "deep"],
)
def test_what_is_not_understood_is_left_alone(body: str) -> None:
    assert DIALECT.offer(request(PATH, body), TOOL, Kept()) is None
    assert DIALECT.offer(request("/v1/completions", BODY), TOOL, Kept()) is None


@both
def test_an_answer_without_a_call_passes_to_the_byte(streamed: bool) -> None:
    says = Says("At noon. 🌊", [read("call_1")], more={"reasoning_content": "Hm."})
    woven = told(says, streamed=streamed)
    assert woven.answer == says.bytes(streamed=streamed)
    assert woven.passages == {}
    assert woven.last.calls_others


@both
def test_one_answer_is_made_of_several(streamed: bool) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 4}, "cost": 0.25}
    woven = told(
        Says("Let me look.", [recall("call_1")], usage=used(10, 5, **details)),
        Says(None, [recall("call_2", "ébb")], usage=used(20, 6, **details), id="chatcmpl-2", model="other"),
        Says("At noon.", usage=used(30, 7, **details), id="chatcmpl-3"),
        streamed=streamed,
    )
    assert [[(ask.id, json.loads(ask.arguments)) for ask in asks] for asks in woven.asks] == [
        [("call_1", {"query": "tides"})],
        [("call_2", {"query": "ébb"})],
        [],
    ]
    completion = sdk_reads(woven.answer, streamed=streamed)
    assert message_of(completion) == {"role": "assistant", "content": "Let me look.\n\nAt noon."}
    assert (completion.id, completion.model) == ("chatcmpl-1", "chat-test")
    assert completion.choices[0].finish_reason == "stop"
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (60, 18)
    assert completion.usage.total_tokens == 78
    assert completion.usage.prompt_tokens_details.cached_tokens == 12
    assert completion.usage.model_extra["cost"] == 0.75
    assert b"MemoryRecall" not in woven.answer
    if streamed:
        assert woven.answer.count(b"[DONE]") == 1
        chunks = [json.loads(line[6:]) for line in woven.answer.split(b"\n\n")[:-2]]
        assert {(one["id"], one["created"], one["model"]) for one in chunks} == {("chatcmpl-1", 1, "chat-test")}
        assert [one["choices"][0]["delta"].get("role") for one in chunks[:-1]] == ["assistant"] + [None] * 5
        assert [one["choices"][0]["finish_reason"] for one in chunks[:-1]] == [None] * 5 + ["stop"]


def result(call: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": f"found: {call}"}


@both
def test_each_request_begins_with_the_one_before(streamed: bool) -> None:
    """What was thought is said again; a server that gives no thoughts is given none."""
    one = Says("Wait.", [recall("call_1"), recall("call_2")], more={"reasoning_content": "Hm, hm."})
    two = Says(None, [recall("call_3")])
    woven = told(one, two, Says("At noon."), streamed=streamed, body={"tools": [READ], **BODY})
    assert json.loads(woven.bodies[2])["messages"] == [
        QUESTION, one.message, result("call_1"), result("call_2"), two.message, result("call_3"),
    ]  # fmt: skip
    tail = f'],"stream":{json.dumps(streamed)}}}'
    for shorter, longer in zip(woven.bodies, woven.bodies[1:], strict=False):
        assert longer.endswith(tail)
        assert longer.startswith(shorter.removesuffix(tail) + ",")


@both
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_a_search_beside_a_tool_of_the_client(first: bool, streamed: bool) -> None:
    """The client gets its own call, and the result is put in beside that of its tool when it comes back."""
    calls = [recall("call_1"), read("call_2")][:: 1 if first else -1]
    says = Says("Both.", calls)
    woven = told(says, streamed=streamed)
    completion = sdk_reads(woven.answer, streamed=streamed)
    assert message_of(completion) == {"role": "assistant", "content": "Both.", "tool_calls": [read("call_2")]}
    assert completion.choices[0].finish_reason == "tool_calls"
    back = {"role": "tool", "tool_call_id": "call_2", "content": "tide table"}
    offer = offered(
        DIALECT, PATH, {**BODY, "messages": [QUESTION, message_of(completion), back]}, Kept(dict(woven.passages))
    )
    assert offer.is_expanded
    assert json.loads(offer.text)["messages"] == [QUESTION, says.message, result("call_1"), back]


@both
def test_a_search_that_was_not_made_is_left_out(streamed: bool) -> None:
    woven = told(Says(None, [recall("call_1"), read("call_2")]), streamed=streamed, unanswered=True)
    assert message_of(sdk_reads(woven.answer, streamed=streamed))["tool_calls"] == [read("call_2")]
    assert woven.passages == {}


@both
def test_the_last_search_of_all_is_left_out(streamed: bool) -> None:
    one, two = Says("One.", [recall("call_1")]), Says("Two.", [recall("call_2")])
    woven = told(one, two, streamed=streamed, most=2)
    completion = sdk_reads(woven.answer, streamed=streamed)
    assert message_of(completion) == {"role": "assistant", "content": "One.\n\nTwo."}
    assert completion.choices[0].finish_reason == "stop"
    (passage,) = woven.passages.values()
    assert [json.loads(one) for one in passage.instead] == [one.message, result("call_1"), Says("Two.").message]


@both
@pytest.mark.parametrize("stop", ["length", "content_filter"])
def test_a_call_that_was_cut_is_not_run(stop: str, streamed: bool) -> None:
    woven = told(Says("Well,", [recall("call_1")], stop), streamed=streamed)
    completion = sdk_reads(woven.answer, streamed=streamed) if stop != "content_filter" or not streamed else None
    assert woven.asks == [()]
    assert woven.passages == {}
    if completion is not None:
        assert message_of(completion) == {"role": "assistant", "content": "Well,"}
        assert completion.choices[0].finish_reason == stop


@both
def test_a_call_without_an_id_or_arguments(streamed: bool) -> None:
    call = {"type": "function", "function": {"name": "MemoryRecall", "arguments": ""}}
    woven = told(Says(None, [call]), Says("At noon."), streamed=streamed)
    assert [(ask.id, ask.arguments) for ask in woven.asks[0]] == [("recall_1", "{}")]
    given = {"type": "function", "id": "recall_1", "function": {"name": "MemoryRecall", "arguments": "{}"}}
    assert json.loads(woven.bodies[1])["messages"][1]["tool_calls"] == [given]


def piece(index: int | None, **said: Any) -> bytes:
    place = {} if index is None else {"index": index}
    call = {**place, "function": {key: said.pop(key) for key in ("name", "arguments") if key in said}, **said}
    return event({"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]})


END = event({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}) + b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("pieces", "asked"),
    [
        (
            [piece(0, id="a", name="Memory"), piece(0, name="Recall", arguments="{}")],
            ["a"],
        ),
        ([piece(0, id="a", name="MemoryRecall"), piece(0, name="MemoryRecall", arguments="{}")], ["a"]),
        ([piece(0, id="a"), piece(0, name="MemoryRecall")], ["a"]),
        ([piece(0, id="a", name="MemoryRecall"), piece(0, id="b", name="MemoryRecall")], ["a", "b"]),
        ([piece(None, id="a", name="MemoryRecall"), piece(None, id="b", name="MemoryRecall")], ["a", "b"]),
        ([piece(None, name="MemoryRecall"), piece(None, name="MemoryRecall")], ["recall_1", "recall_2"]),
        ([piece(0, id="a", name="MemoryRecall", arguments={"query": 1})], ["a"]),
    ],
    ids=["in pieces", "repeated", "later", "all zero", "no index", "nothing at all", "an object"],
)
def test_calls_as_other_servers_give_them(pieces: list[bytes], asked: list[str]) -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    assert weave.feed(b"".join(pieces) + END) == b""
    assert [ask.id for ask in weave.over().asks] == asked


@pytest.mark.parametrize("name", ["Memo", "MemoryRecaller", "Memory"])
def test_a_name_that_begins_like_that_of_the_tool_passes_to_the_byte(name: str) -> None:
    data = piece(0, id="a", name=name[:4]) + piece(0, name=name[4:], arguments="{}") + END
    if name == "MemoryRecaller":
        data = piece(0, id="a", name=name) + END
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    given = weave.feed(data)
    assert weave.over().calls_others
    assert given + weave.finish({}) == data


def test_a_chunk_that_holds_text_the_call_and_the_end() -> None:
    """Some servers say all at once: what is visible of it is passed on when the answer goes on."""
    delta = {"role": "assistant", "content": "Wait.", "tool_calls": [{"index": 0, **recall("call_1")}]}
    choice = {"index": 0, "delta": delta, "finish_reason": "stop"}
    named = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    given, weave = fed(event({**named, "choices": [choice]}) + b"data: [DONE]\n\n")
    assert given == b""
    given = weave.feed(Says("At noon.").stream())
    weave.over()
    completion = sdk_reads(given + weave.finish({}), streamed=True)
    assert message_of(completion) == {"role": "assistant", "content": "Wait.\n\nAt noon."}
    assert completion.choices[0].finish_reason == "stop"


def test_text_is_passed_on_at_once_and_the_end_is_held_back() -> None:
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    says = Says("Let me look.", [recall("call_1")]).stream()
    call = says.rindex(b"data: ", 0, says.index(b'"tool_calls"'))
    assert weave.feed(says[:call]) == says[:call]
    assert weave.feed(says[call:]) == b""


@pytest.mark.parametrize("later", [False, True], ids=["the first answer", "a later one"])
def test_an_error_of_the_providers_is_passed_on_once(later: bool) -> None:
    begun, weave = fed(*([Says("Well.", [recall("call_1")]).stream()] if later else []))
    failed = event({"error": {"message": "Overloaded", "type": "server_error"}})
    start = Says("At noon.").stream().partition(b"oon.")[0].rpartition(b"data: ")[0]
    given = weave.feed(start + failed)
    assert given.endswith(failed)
    if later:
        with pytest.raises(BrokenAnswerError):
            weave.over()
        assert weave.error("again") == b""
    else:
        assert weave.over().asks == ()
        assert given + weave.finish({}) == start + failed
    with pytest.raises(openai.APIError, match="Overloaded"):
        sdk_reads(begun + given, streamed=True)


def test_a_later_answer_that_breaks_off_ends_in_an_error() -> None:
    given, weave = fed(Says("Well.", [recall("call_1")]).stream())
    given += weave.feed(Says("At noon.").stream().partition(b"finish")[0])
    with pytest.raises(BrokenAnswerError, match="ended before"):
        weave.over()
    given += weave.error("it broke off", "timeout")
    assert given.endswith(b"data: [DONE]\n\n")
    with pytest.raises(openai.APIError, match="it broke off"):
        sdk_reads(given, streamed=True)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"choices":[1]}', b'{"error":{}}', b"\xff", b"[" * 99_999])
def test_a_document_that_is_no_completion(data: bytes) -> None:
    offer = offered(DIALECT, PATH, BODY)
    weave = DIALECT.weave(offer, offer.text, TOOL)
    weave.whole(data)
    assert weave.over().asks == ()
    assert weave.finish({}) == data
    weave = DIALECT.weave(offer, offer.text, TOOL)
    weave.whole(Says(None, [recall("call_1")]).document())
    weave.over()
    weave.go_on({"call_1": "x"})
    weave.whole(data)
    with pytest.raises(BrokenAnswerError):
        weave.over()


def test_pings_pass_the_sdk_anywhere() -> None:
    given, weave = fed(Says("Well.", [recall("call_1")]).stream())
    given = weave.ping + given + weave.ping + weave.ping + weave.feed(Says("At noon.").stream())
    weave.over()
    given += weave.finish({}) + weave.ping
    assert message_of(sdk_reads(given, streamed=True))["content"] == "Well.\n\nAt noon."


def test_thoughts_of_all_answers_reach_the_client() -> None:
    first = Says(None, [recall("call_1")], more={"reasoning": "Ask."})
    last = Says("At noon.", more={"reasoning": "So."})
    for streamed in (True, False):
        woven = told(first, last, streamed=streamed)
        message = message_of(sdk_reads(woven.answer, streamed=streamed))
        assert message["reasoning"] == ("Ask.So." if streamed else "Ask.\n\nSo.")
        assert message["content"] == "At noon."


def test_parts_of_other_servers_are_said_again_as_they_came() -> None:
    """Mistral's thoughts are parts of the content; Gemini's signatures stand beside the call."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    call = {**recall("call_1"), "extra_content": {"google": {"thought_signature": "c2ln"}}}
    chunks = [
        {"content": [thought]},
        {"content": "Let me "},
        {"content": "look."},
        {"tool_calls": [{"index": 0, **call}]},
    ]
    data = b"".join(event({"id": "c", "choices": [{"index": 0, "delta": one}]}) for one in chunks)
    offer = offered(DIALECT, PATH, {**BODY, "stream": True})
    weave = DIALECT.weave(offer, offer.text, TOOL)
    weave.feed(data + END)
    weave.over()
    assert json.loads(weave.go_on({"call_1": "x"}))["messages"][1] == {
        "role": "assistant",
        "content": [thought, {"type": "text", "text": "Let me look."}],
        "tool_calls": [call],
    }


@both
def test_a_later_request_is_expanded_to_what_really_passed(streamed: bool) -> None:
    one, two, three = Says("Wait.", [recall("call_1")]), Says(None, [recall("call_2")]), Says("At noon.")
    woven = told(one, two, three, streamed=streamed)
    past = Kept(dict(woven.passages))
    message = message_of(sdk_reads(woven.answer, streamed=streamed))
    more = {"role": "user", "content": "And low tide?"}
    expected = [QUESTION, one.message, result("call_1"), two.message, result("call_2"), three.message, more]
    parts = [{"type": "text", "text": message["content"], "cache_control": {"type": "ephemeral"}}]
    for content in (message["content"], message["content"].replace("\n\n", " "), parts):
        body = {"messages": [QUESTION, {**message, "content": content}, more], "model": "m", "stream": streamed}
        offer = offered(DIALECT, PATH, body, past)
        assert json.loads(offer.text)["messages"] == expected
        assert offer.is_expanded
        tail = woven.bodies[-1].index("],")
        assert offer.text == offered(DIALECT, PATH, body, past).text
        assert json.loads(offer.text)["messages"][:5] == json.loads(woven.bodies[-1])["messages"]
        assert tail
    other = {"messages": [{"role": "user", "content": "Where?"}, message, more]}
    assert not offered(DIALECT, PATH, other, past).is_expanded
