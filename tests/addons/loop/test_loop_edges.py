"""The loop's dialects where servers give less than they should, or the same twice."""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any

import pytest

from addons.loop.anthropic import AnthropicLoop
from addons.loop.dialect import BrokenAnswerError, Dialect, Passage, Weave
from addons.loop.gemini import GeminiLoop
from addons.loop.keys import key_of
from addons.loop.openai_chat import ChatLoop
from addons.loop.openai_responses import OpenAIResponsesLoop
from tests.addons.loop import anthropic_says, chat_says, gemini_says, responses_says
from tests.addons.loop.weaving import TOOL, Kept, offered, play

QUESTION = {"role": "user", "content": "When is high tide?"}
CHAT: dict[str, Any] = {"model": "m", "messages": [QUESTION]}
MARK = {"type": "ephemeral"}


def weave_of(dialect: Any, path: str, body: dict[str, Any]) -> Weave:
    offer = offered(dialect, path, {**body, "stream": True})
    weave: Weave = dialect.weave(offer, offer.text, TOOL)
    return weave


def chunk(delta: dict[str, Any], stop: str | None = None) -> bytes:
    return chat_says.event({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": stop}]})


def calls(*pieces: dict[str, Any], **more: Any) -> bytes:
    each = [chunk({"tool_calls": [one], **more}) for one in pieces]
    return b"".join(each) + chunk({}, "tool_calls") + b"data: [DONE]\n\n"


def piece(index: int, call: str, arguments: str = "{}") -> dict[str, Any]:
    return {"index": index, "id": call, "function": {"name": TOOL.name, "arguments": arguments}}


def gone_on(data: bytes) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """What is asked, and the message of the model that the next request holds."""
    weave = weave_of(ChatLoop(), chat_says.PATH, CHAT)
    weave.feed(data)
    asks = weave.over().asks
    body = json.loads(weave.go_on({ask.id: "x" for ask in asks}))
    return [(ask.id, ask.arguments) for ask in asks], body["messages"][1]


def test_two_calls_of_one_id_get_a_result_each() -> None:
    asks, message = gone_on(calls(piece(0, "a"), piece(1, "a")))
    assert [name for name, _ in asks] == ["a", "recall_1"]
    assert [call["id"] for call in message["tool_calls"]] == ["a", "recall_1"]


def test_a_name_that_stands_in_each_piece_is_one_name() -> None:
    asks, message = gone_on(calls(piece(0, "a", '{"query":'), piece(0, "a", '"x"}')))
    assert asks == [("a", '{"query":"x"}')]
    assert [call["function"]["name"] for call in message["tool_calls"]] == [TOOL.name]


def test_arguments_that_are_no_json_are_asked_with_and_said_again_as_none() -> None:
    asks, message = gone_on(calls(piece(0, "a", '{"query": "ti')))
    assert asks == [("a", '{"query": "ti')]
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


def test_what_is_empty_is_not_said_again() -> None:
    _, message = gone_on(calls(piece(0, "a"), reasoning_content="", reasoning_details=[], refusal=None))
    assert message.keys() == {"role", "content", "tool_calls"}


def test_a_document_after_a_stream_is_not_woven() -> None:
    weave = weave_of(ChatLoop(), chat_says.PATH, CHAT)
    weave.feed(calls(piece(0, "a")))
    weave.over()
    weave.go_on({"a": "x"})
    weave.whole(chat_says.Says("At noon.").document())
    with pytest.raises(BrokenAnswerError, match="after a stream"):
        weave.over()


def test_a_stream_after_a_document_is_not_woven() -> None:
    weave = weave_of(ChatLoop(), chat_says.PATH, CHAT)
    weave.whole(chat_says.Says(None, [chat_says.recall("a")]).document())
    assert [ask.id for ask in weave.over().asks] == ["a"]
    weave.go_on({"a": "x"})
    assert weave.feed(chat_says.Says("At noon.").stream()) == b""
    with pytest.raises(BrokenAnswerError, match="after one document"):
        weave.over()


@pytest.mark.parametrize(
    ("dialect", "path", "body"),
    [
        (AnthropicLoop(), anthropic_says.PATH, CHAT),
        (ChatLoop(), chat_says.PATH, CHAT),
        (OpenAIResponsesLoop(), responses_says.PATH, {"input": "x"}),
        (GeminiLoop(), gemini_says.STREAMED, {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}),
    ],
    ids=["anthropic", "chat", "responses", "gemini"],
)
def test_what_a_weave_has_read_is_gone_with_it(dialect: Dialect, path: str, body: dict[str, Any]) -> None:
    weave = weave_of(dialect, path, body)
    weave.feed(b"data: {}\n\n")
    weave.over()
    weave.finish({})
    gone = weakref.ref(weave)
    gc.disable()
    try:
        del weave
        assert gone() is None
    finally:
        gc.enable()


def test_keys_know_where_one_thing_ends() -> None:
    assert len({key_of("b", ["a"], ids) for ids in (["1", "2"], ["12"], ["1", "", "2"])}) == 3
    assert key_of("b", ["a1"], []) != key_of("b", ["a"], ["1"])


@pytest.mark.parametrize("streamed", [True, False])
def test_a_call_that_has_no_id_cannot_be_answered_and_passes(streamed: bool) -> None:
    says = anthropic_says.Says([{**anthropic_says.recall(""), "id": ""}], "tool_use")
    offer = offered(AnthropicLoop(), anthropic_says.PATH, {**CHAT, "max_tokens": 9, "stream": streamed})
    woven = play(AnthropicLoop().weave(offer, offer.text, TOOL), offer, [says.bytes(streamed=streamed)])
    assert (woven.answer, woven.asks) == (says.bytes(streamed=streamed), [()])


def test_a_count_that_is_null_takes_nothing_back() -> None:
    first = anthropic_says.Says([anthropic_says.recall("call_1")], "tool_use").stream()
    last = anthropic_says.Says([anthropic_says.text("At noon.")]).stream()
    nulled = first.replace(b'"usage": {"output_tokens": 5}', b'"usage": {"output_tokens": 5, "input_tokens": null}')
    assert nulled != first
    weave = weave_of(AnthropicLoop(), anthropic_says.PATH, {**CHAT, "max_tokens": 9})
    weave.feed(nulled)
    weave.over()
    weave.go_on({"call_1": "x"})
    weave.feed(last)
    weave.over()
    [delta] = [line for line in weave.finish({}).splitlines() if b"message_delta" in line and line.startswith(b"data")]
    assert json.loads(delta[6:])["usage"] == {"input_tokens": 20, "output_tokens": 10}


def test_a_mark_for_the_cache_is_not_put_where_none_may_be() -> None:
    hidden = '{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"c2ln"}]}'
    answer = {"role": "assistant", "content": [{"type": "text", "text": "At noon.", "cache_control": MARK}]}

    class Always(Kept):
        def passage(self, _: str) -> Passage:
            return Passage((hidden,))

    body = {**CHAT, "max_tokens": 9, "messages": [QUESTION, answer, QUESTION]}
    offer = offered(AnthropicLoop(), anthropic_says.PATH, body, Always())
    assert json.loads(offer.text)["messages"][1] == json.loads(hidden)


def test_an_event_that_names_only_the_hidden_item_is_hidden() -> None:
    data = b"".join(
        responses_says.event(
            {key: value for key, value in one.items() if "arguments" not in one["type"] or key != "output_index"}
        )
        for one in responses_says.Says([responses_says.recall("call_1")]).events()
    )
    weave = weave_of(OpenAIResponsesLoop(), responses_says.PATH, {"model": "m", "input": "x"})
    given = responses_says.events_of(weave.feed(data))
    assert [one["type"] for one in given] == ["response.created", "response.in_progress"]


def test_what_comes_behind_the_end_stays_behind_it() -> None:
    data = responses_says.Says([responses_says.message("At noon.")]).stream()
    late = responses_says.event({"type": "keepalive", "sequence_number": 99})
    weave = weave_of(OpenAIResponsesLoop(), responses_says.PATH, {"model": "m", "input": "x"})
    given = weave.feed(data + late)
    weave.over()
    assert given + weave.finish({}) == data + late


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"], ids=["cut", "half an end", "an end"])
@pytest.mark.parametrize("name", ["anthropic", "chat"])
def test_the_providers_error_reaches_the_client_whole(name: str, end: bytes) -> None:
    said = b'data: {"type":"error","error":{"type":"overloaded_error","message":"too busy"}}'
    if name == "chat":
        weave = weave_of(ChatLoop(), chat_says.PATH, CHAT)
        weave.feed(calls(piece(0, "a")))
    else:
        weave = weave_of(AnthropicLoop(), anthropic_says.PATH, {**CHAT, "max_tokens": 9})
        weave.feed(anthropic_says.Says([anthropic_says.recall("a")], "tool_use").stream())
    weave.go_on({ask.id: "x" for ask in weave.over().asks})
    given = weave.feed(said + end)
    with pytest.raises(BrokenAnswerError):
        weave.over()
    given += weave.error("the answer broke off")
    assert given.rstrip(b"\n") == said
    assert given.endswith(b"\n\n")
