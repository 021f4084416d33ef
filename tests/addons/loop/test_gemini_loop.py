"""The loop's dialect of Gemini: what it offers, what the real SDK reads of woven answers, what hostile shapes do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.genai import errors
from hypothesis import given, settings
from hypothesis import strategies as st

from addons.loop.dialect import BrokenAnswerError
from addons.loop.gemini import GeminiLoop
from tests.addons.loop.gemini_says import (
    PLAIN,
    STREAMED,
    Says,
    call,
    event,
    events_of,
    found,
    model,
    parts_of,
    path,
    recall,
    sdk_reads,
    text,
    used,
    user,
)
from tests.addons.loop.weaving import TOOL, Kept, Woven, offered, play, request

DIALECT = GeminiLoop()
QUESTION = user(text("When is high tide?"))
BODY: dict[str, Any] = {"contents": [QUESTION]}
OFFER = {"name": "MemoryRecall", "description": TOOL.description, "parameters": TOOL.schema}
WRITTEN = json.dumps(OFFER, separators=(",", ":"))
SAYS = Says(
    [text("The moon.", thought=True), text("At noon. 🌊"), call("tide", {"port": "Elb"}, thoughtSignature="c2ln")]
)

both = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])


def told(*answers: Says, streamed: bool, body: dict[str, Any] | None = None, **how: Any) -> Woven:
    offer = offered(DIALECT, path(streamed=streamed), body or BODY)
    return play(DIALECT.weave(offer, offer.text, TOOL), offer, [one.bytes(streamed=streamed) for one in answers], **how)


# ---- the offer


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"contents": [{"parts":[{"text":"é"}]}] }\n',
         '{"contents": [{"parts":[{"text":"é"}]}],"tools":[{"functionDeclarations":[%s]}] }\n'),
        ('{"tools": [ {"functionDeclarations": [ {"name": "tide"} ]} ], "contents": [{"parts":[]}]}',
         '{"tools": [ {"functionDeclarations": [ {"name": "tide"},%s ]} ], "contents": [{"parts":[]}]}'),
        ('{"tools": [{"function_declarations": [{"name": "a"}]}, {"function_declarations": [{"name": "b"}]}], "contents": [{}]}',
         '{"tools": [{"function_declarations": [{"name": "a"}]}, {"function_declarations": [{"name": "b"},%s]}], "contents": [{}]}'),
        ('{"tools": [{}],"contents": [{}]}', '{"tools": [{},{"functionDeclarations":[%s]}],"contents": [{}]}'),
        ('{"tools": [],"contents": [{}]}', '{"tools": [{"functionDeclarations":[%s]}],"contents": [{}]}'),
        ('{"tools":null,"contents": [{}]}', '{"tools":[{"functionDeclarations":[%s]}],"contents": [{}]}'),
    ],
    ids=["none", "after another", "several lists", "no list", "empty", "null"],
)  # fmt: skip
def test_the_tool_is_the_last_and_every_other_byte_stays(body: str, expected: str) -> None:
    for streamed in (True, False):
        offer = DIALECT.offer(request(path(streamed=streamed), body), TOOL, Kept())
        assert offer is not None
        assert offer.text == expected.replace("%s", WRITTEN)
        assert (offer.is_streamed, offer.is_expanded, offer.without_tool) == (streamed, False, None)


@pytest.mark.parametrize(
    "more",
    [
        {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
        {"tool_config": {"function_calling_config": {"mode": "VALIDATED"}}},
        {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["tide"]}}},
        {"toolConfig": {"functionCallingConfig": {"streamFunctionCallArguments": True}}},
        {"generationConfig": {"responseMimeType": "application/json"}},
        {"generation_config": {"response_mime_type": "text/x.enum"}},
        {"generationConfig": {"responseSchema": {"type": "OBJECT"}}},
        {"generationConfig": {"response_json_schema": {}}},
        {"generationConfig": {"candidateCount": 2}},
        {"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}},
        {"cachedContent": "cachedContents/1"},
        {"cached_content": "cachedContents/1"},
        {"tools": [{"googleSearch": {}}]},
        {"tools": [{"google_search_retrieval": {}}]},
        {"tools": [{"codeExecution": {}}]},
        {"tools": [{"urlContext": {}}]},
        {"tools": [{"functionDeclarations": [{"name": "tide"}], "googleSearch": {}}]},
        {"tools": [{"functionDeclarations": [{"name": "MemoryRecall"}]}]},
        {"tools": [{"function_declarations": [{"name": "MemoryRecall"}]}]},
        {"tools": [{"functionDeclarations": {"name": "tide"}}]},
        {"tools": [{"functionDeclarations": ["tide"]}]},
        {"tools": ["tide"]},
        {"tools": {"functionDeclarations": []}},
        {"contents": []},
        {"contents": "hello"},
        {"contents": ["hello"]},
        {"contents": [{"parts": {"text": "x"}}]},
        {"contents": [QUESTION, model(text("It is at"))]},
    ],
    ids=lambda more: json.dumps(more)[:70],
)
def test_a_request_that_gives_no_free_choice_is_left_alone(more: dict[str, Any]) -> None:
    assert DIALECT.offer(request(PLAIN, {**BODY, **more}), TOOL, Kept()) is None


def test_what_leaves_a_free_choice_is_no_hindrance() -> None:
    more = {
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {"responseMimeType": "text/plain", "candidateCount": 1, "responseModalities": ["TEXT"]},
        "tools": [{"functionDeclarations": [{"name": "tide"}], "googleSearch": None}],
    }
    tools = [{"functionDeclarations": [{"name": "tide"}, OFFER], "googleSearch": None}]
    assert json.loads(offered(DIALECT, PLAIN, {**BODY, **more}).text) == {**BODY, **more, "tools": tools}


@pytest.mark.parametrize(
    "other",
    [
        "/v1beta/models/gemini-test:countTokens",
        "/v1beta/models/gemini-test:embedContent",
        "/v1beta/models/gemini-test:batchGenerateContent",
        "/v1beta/models/gemini-test:streamGenerateContent",
        "/v1beta/models/gemini-test:streamGenerateContent?alt=json",
        "/v1beta/models",
    ],
)
def test_other_paths_are_left_alone(other: str) -> None:
    assert DIALECT.offer(request(other, BODY), TOOL, Kept()) is None
    assert DIALECT.offer(request(STREAMED + "&key=k", BODY), TOOL, Kept()) is not None


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "\ufeff{}",
        '{"model": "m", "request": {"contents": [{"parts": [{"text": "a"}]}]}}',
        '{"contents": [{}], "contents": []}',
        '{"contents": [{"role": "user", "role": "model"}]}',
        '{"contents": [{}]',
        '{"contents": ' + "[" * 100_000,
        '{"deep": ' + "[" * 100_000 + "]" * 100_000 + ', "contents": [{}]}',
    ],
    ids=["nothing", "array", "mark", "wrapped", "twice", "twice in a content", "cut", "deep", "deeper"],
)
def test_what_is_not_understood_is_left_alone(body: str) -> None:
    assert DIALECT.offer(request(PLAIN, body), TOOL, Kept()) is None


# ---- one answer of several


@both
def test_an_answer_without_a_call_passes_to_the_byte(streamed: bool) -> None:
    woven = told(SAYS, streamed=streamed)
    assert woven.answer == SAYS.bytes(streamed=streamed)
    assert (woven.asks, woven.last.calls_others, woven.passages) == ([()], True, {})


@both
@pytest.mark.parametrize("apart", [True, False], ids=["apart", "with the last part"])
def test_several_answers_are_one(streamed: bool, apart: bool) -> None:
    first = Says([text("Hm.", thought=True), text("Let me look."), recall(thoughtSignature="czE="), recall("ebb", id="c2")],
                 usage=used(10, 5, 1, 2), finishes_apart=apart)  # fmt: skip
    second = Says([recall(thoughtSignature="czI=")], id="r2", usage=used(20, 6, 10, 3), finishes_apart=apart)
    last = Says([text("At noon. 🌊", thoughtSignature="czM="), call("tide", {"port": "Elb"})], id="r3", model="other",
                usage=used(30, 7), finishes_apart=apart)  # fmt: skip
    woven = told(first, second, last, streamed=streamed)
    chunks = sdk_reads(woven.answer, streamed=streamed)
    assert parts_of(chunks) == [*first.parts[:2], *last.parts]
    assert {(chunk.response_id, chunk.model_version) for chunk in chunks} == {("r1", "gemini-test-1")}
    assert [one.candidates[0].finish_reason for one in chunks if one.candidates][-1] == "STOP"
    assert len([one for one in chunks if one.candidates and one.candidates[0].finish_reason]) == 1
    usage = chunks[-1].usage_metadata
    assert usage is not None
    assert usage.model_dump(mode="json", by_alias=True, exclude_none=True) == used(60, 18, 11, 5)
    assert b"MemoryRecall" not in woven.answer
    assert [[ask.id for ask in asks] for asks in woven.asks] == [["MemoryRecall-0-0", "c2"], ["MemoryRecall-2-0"], []]
    assert [json.loads(ask.arguments) for ask in woven.asks[0]] == [{"query": "tides"}, {"query": "ebb"}]
    answered = user(found("MemoryRecall-0-0"), found("c2", id="c2"))
    passed = [QUESTION, model(*first.parts), answered]
    sent = [json.loads(body)["contents"] for body in woven.bodies[1:]]
    assert sent == [passed, [*passed, model(*second.parts), user(found("MemoryRecall-2-0"))]]


def test_arguments_are_as_the_model_wrote_them() -> None:
    says = Says([call("MemoryRecall", {"query": "é", "limit": 3})])
    woven = told(says, Says([text("Noon.")]), streamed=True)
    assert woven.asks[0][0].arguments == '{"query": "é", "limit": 3}'


def test_what_comes_with_a_call_is_there_at_once() -> None:
    """A piece that is the last one of its answer is told without saying so."""
    piece = Says([]).answer([text("Let me look."), recall(), text("Well,")], "STOP")
    offer = offered(DIALECT, STREAMED, BODY)
    woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, [event(piece), Says([text("noon.")]).stream()])
    assert events_of(woven.given[0]) == [Says([]).answer([text("Let me look."), text("Well,")], None) | {
        "candidates": [{"content": model(text("Let me look."), text("Well,")), "index": 0, "finishReason": None}]}]  # fmt: skip
    assert "".join(chunk.text or "" for chunk in sdk_reads(woven.answer, streamed=True)) == "Let me look.Well,noon."


def test_a_call_after_the_stop_reason_is_one_too() -> None:
    late = [event(Says([]).answer([text("So, ")], "STOP")), event(Says([]).answer([recall()], None))]
    offer = offered(DIALECT, STREAMED, BODY)
    woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, [b"".join(late), Says([text("noon.")]).stream()])
    assert "".join(chunk.text or "" for chunk in sdk_reads(woven.answer, streamed=True)) == "So, noon."


@both
@pytest.mark.parametrize("apart", [True, False])
def test_calls_of_the_client_beside_are_handed_on(streamed: bool, apart: bool) -> None:
    says = Says([recall(thoughtSignature="czE="), call("tide", {}), recall("ebb")], finishes_apart=apart)
    woven = told(says, streamed=streamed)
    assert woven.last.calls_others
    chunks = sdk_reads(woven.answer, streamed=streamed)
    assert parts_of(chunks) == [call("tide", {})]
    assert chunks[-1].candidates is not None
    assert chunks[-1].candidates[0].finish_reason == "STOP"
    assert (chunks[-1].usage_metadata or used).prompt_token_count == 10


@both
def test_a_call_after_the_last_round_is_left_out(streamed: bool) -> None:
    woven = told(Says([recall()]), Says([recall()]), streamed=streamed, most=2)
    chunks = sdk_reads(woven.answer, streamed=streamed)
    assert parts_of(chunks) == []
    assert chunks[-1].candidates is not None
    assert chunks[-1].candidates[0].finish_reason == "STOP"
    assert chunks[-1].candidates[0].content is not None
    assert chunks[-1].candidates[0].content.parts  # or a chat would forget the whole turn


@both
@pytest.mark.parametrize("without", ["content", "parts"])
def test_an_answer_that_ends_without_a_word_keeps_what_was_said_before(streamed: bool, without: str) -> None:
    last = Says([]).answer([], "MAX_TOKENS")
    del (last["candidates"][0] if without == "content" else last["candidates"][0]["content"])[without]
    said = event(last) if streamed else json.dumps(last).encode()
    offer = offered(DIALECT, path(streamed=streamed), BODY)
    first = Says([text("Let me look."), recall()]).bytes(streamed=streamed)
    woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, [first, said])
    chunks = sdk_reads(woven.answer, streamed=streamed)
    assert parts_of(chunks) == [text("Let me look.")]
    assert chunks[-1].candidates is not None
    assert chunks[-1].candidates[0].finish_reason == "MAX_TOKENS"


@both
def test_a_call_in_an_answer_that_was_cut_short_is_not_run(streamed: bool) -> None:
    woven = told(Says([text("So."), recall()], finish="MAX_TOKENS"), streamed=streamed)
    assert woven.asks == [()]
    assert parts_of(sdk_reads(woven.answer, streamed=streamed)) == [text("So.")]


def test_the_body_that_was_really_sent_is_gone_on_with() -> None:
    offer = offered(DIALECT, PLAIN, BODY)
    weave = DIALECT.weave(offer, offer.text.replace("high tide", "[left out]"), TOOL)
    weave.whole(Says([text(""), recall()]).document())
    weave.over()
    contents = json.loads(weave.go_on({}))["contents"]
    assert contents[0]["parts"][0]["text"] == "When is [left out]?"
    assert contents[1] == model(recall())  # requests may not hold a text of nothing


# ---- streams as they come


def test_a_ping_is_passed_over() -> None:
    offer = offered(DIALECT, STREAMED, BODY)
    ping = DIALECT.weave(offer, offer.text, TOOL).ping
    data = ping + SAYS.stream().replace(b"\r\n\r\n", b"\r\n\r\n" + ping)
    assert parts_of(sdk_reads(data, streamed=True)) == SAYS.parts
    with pytest.raises(errors.UnknownApiResponseError):
        sdk_reads(b": ping\n\n" + data, streamed=True)


def test_an_error_is_raised_by_the_sdk() -> None:
    offer = offered(DIALECT, STREAMED, BODY)
    weave = DIALECT.weave(offer, offer.text, TOOL)
    data = weave.feed(Says([text("Let me look."), recall()]).stream())
    weave.over()
    weave.go_on({})
    with pytest.raises(errors.ServerError) as caught:
        sdk_reads(data + weave.error("The search broke off"), streamed=True)
    assert (caught.value.code, caught.value.message) == (500, "The search broke off")


STREAMS = [
    [SAYS],
    [Says([text("Let me 🌊"), recall(thoughtSignature="czE=")]), Says([text("noon é"), call("tide", {})], id="r2")],
]


@pytest.mark.parametrize("answers", STREAMS, ids=["one", "two"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_it_does_not_matter_where_a_stream_is_cut(answers: list[Says], end: str) -> None:
    offer = offered(DIALECT, STREAMED, BODY)
    streams = [one.stream().replace(b"\r\n", end.encode()) for one in answers]
    whole = play(DIALECT.weave(offer, offer.text, TOOL), offer, streams)
    if len(answers) == 1:
        assert whole.answer == streams[0]
    for cut in range(1, max(map(len, streams)), 5):
        assert play(DIALECT.weave(offer, offer.text, TOOL), offer, streams, cuts=[cut]).answer == whole.answer
    each = range(max(map(len, streams)))
    assert play(DIALECT.weave(offer, offer.text, TOOL), offer, streams, cuts=each).answer == whole.answer


def test_a_stream_without_its_last_blank_line_is_whole() -> None:
    offer = offered(DIALECT, STREAMED, BODY)
    streams = [Says([text("So."), recall()], finishes_apart=False).stream()[:-4], Says([text("noon.")]).stream()[:-2]]
    woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, streams)
    assert "".join(chunk.text or "" for chunk in sdk_reads(woven.answer, streamed=True)) == "So.noon."


@both
def test_a_first_answer_that_is_not_understood_passes_as_it_came(streamed: bool) -> None:
    for data in (b"", b"no answer", b"[1, 2]", b"data: {}\n\n", SAYS.bytes(streamed=streamed)[:-99]):
        offer = offered(DIALECT, path(streamed=streamed), BODY)
        woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, [data])
        assert (woven.answer, woven.asks) == (data, [()])


@both
@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"data: {}\n\n", b'{"candidates":[{}]}'])
def test_a_later_answer_that_is_not_understood_is_broken(streamed: bool, data: bytes) -> None:
    offer = offered(DIALECT, path(streamed=streamed), BODY)
    weave = DIALECT.weave(offer, offer.text, TOOL)
    first = Says([recall()]).bytes(streamed=streamed)
    weave.feed(first) if streamed else weave.whole(first)
    weave.over()
    weave.go_on({})
    weave.feed(data) if streamed else weave.whole(data)
    with pytest.raises(BrokenAnswerError):
        weave.over()


@both
def test_a_stream_and_a_document_do_not_go_together(streamed: bool) -> None:
    offer = offered(DIALECT, path(streamed=streamed), BODY)
    weave = DIALECT.weave(offer, offer.text, TOOL)
    first, last = Says([recall()]), Says([text("noon.")])
    weave.feed(first.stream()) if streamed else weave.whole(first.document())
    weave.over()
    weave.go_on({})
    weave.whole(last.document()) if streamed else weave.feed(last.stream())
    with pytest.raises(BrokenAnswerError):
        weave.over()


@pytest.mark.parametrize(
    "last",
    [
        {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}},
        {"promptFeedback": {"blockReason": "SAFETY"}},
    ],
)
def test_what_the_provider_ends_it_with_is_passed_on(last: dict[str, Any]) -> None:
    offer = offered(DIALECT, STREAMED, BODY)
    woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, [Says([recall()]).stream(), event(last)])
    assert events_of(woven.answer) == [last]


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "MemoryRecall", "STOP"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "id", "args", "text"]), inner),
    max_leaves=6,
)
parts = st.fixed_dictionaries(
    {}, optional={"text": anything, "functionCall": anything | st.just(recall()["functionCall"]), "thought": anything}
)
candidates = st.fixed_dictionaries(
    {},
    optional={
        "content": anything | st.fixed_dictionaries({}, optional={"parts": anything | st.lists(parts | anything)}),
        "finishReason": anything,
    },
)
hostile = st.fixed_dictionaries(
    {},
    optional={
        "candidates": anything | st.lists(candidates | anything, max_size=2),
        "usageMetadata": anything,
        "promptFeedback": anything,
        "error": anything,
        "responseId": anything,
    },
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(hostile, max_size=5), min_size=1, max_size=3), st.booleans())
def test_no_shape_raises_anything_else(answers: list[list[dict[str, Any]]], streamed: bool) -> None:
    offer = offered(DIALECT, path(streamed=streamed), BODY)
    weave = DIALECT.weave(offer, offer.text, TOOL)
    try:
        for events in answers:
            if streamed:
                weave.feed(b"".join(map(event, events)))
            else:
                weave.whole(json.dumps(events[0] if events else []).encode())
            if not weave.over().asks:
                break
            weave.go_on({})
        weave.finish({})
        weave.passages()
    except BrokenAnswerError:
        weave.error("broken")


@both
@pytest.mark.parametrize("depth", [900, 100_000])
@pytest.mark.parametrize("key", ["usageMetadata", "responseId", "candidates", "args"])
def test_what_is_nested_too_deep_raises_nothing_else(streamed: bool, depth: int, key: str) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    answer = Says([recall(), call("tide", {})]).answer([recall(), call("tide", {"deep": key})], "STOP")
    written = json.dumps({**answer, key: "deep"} if key in answer else answer).replace(
        '"args"' if key == "args" else '"deep"', deep
    )
    if key == "args":
        written = json.dumps(answer).replace('{"deep": "args"}', deep)
    data = (f"data: {written}\n\n" if streamed else written).encode()
    offer = offered(DIALECT, path(streamed=streamed), BODY)
    weave = DIALECT.weave(offer, offer.text, TOOL)
    try:
        for _ in range(2):
            weave.feed(data) if streamed else weave.whole(data)
            if weave.over().asks:
                weave.go_on({})
        weave.finish({})
    except BrokenAnswerError:
        weave.error("broken")


def test_recorded_answers_pass_to_the_byte(shared_data: Path) -> None:
    counts = {"sse": 0, "json": 0}
    for file in sorted((shared_data / "llm" / "gemini").rglob("*.response.*")):
        streamed = file.suffix == ".sse"
        if file.suffix == ".txt":
            continue  # a file that was fetched
        offer = offered(DIALECT, path(streamed=streamed), BODY)
        data = file.read_bytes()
        woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, [data], cuts=range(0, len(data), 1000))
        assert (woven.answer, woven.passages) == (data, {}), file
        counts[file.suffix[1:]] += 1
    assert counts == {"sse": 5, "json": 6}
