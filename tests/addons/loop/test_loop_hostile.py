"""Answers cut anywhere, and answers of any shape: the same comes of the first, and nothing but BrokenAnswerError of the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from addons.loop import events, weaving
from addons.loop.anthropic import AnthropicLoop
from addons.loop.dialect import BrokenAnswerError, Dialect
from addons.loop.openai_chat import ChatLoop
from tests.addons.loop import anthropic_says as messages
from tests.addons.loop import chat_says as chat
from tests.addons.loop.weaving import TOOL, Kept, offered, pieces, play, request

QUESTION = {"messages": [{"role": "user", "content": "x"}], "stream": True}
ANTHROPIC = [
    messages.Says(
        [messages.thinking("Hm. é"), messages.text("Wait. 🌊"), messages.recall("toolu_1")], "tool_use"
    ).stream(),
    messages.Says([messages.recall("toolu_2"), messages.recall("toolu_3")], "tool_use").stream(),
    messages.Says([messages.text("At noon.")]).stream(),
]
CHAT = [
    chat.Says("Wait. 🌊", [chat.recall("call_1"), chat.recall("call_2")], more={"reasoning": "Hm."}).stream(),
    chat.Says(None, [chat.recall("call_3")]).stream(),
    chat.Says("At noon.").stream(),
]
BOTH: list[tuple[Dialect, str, list[bytes]]] = [
    (AnthropicLoop(), messages.PATH, ANTHROPIC),
    (ChatLoop(), chat.PATH, CHAT),
]
dialects = pytest.mark.parametrize(("dialect", "path", "answers"), BOTH, ids=["anthropic", "chat"])


@dialects
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@given(cuts=st.lists(st.integers(1, 4000), max_size=30))
@example(cuts=list(range(4000)))
@settings(max_examples=10)
def test_any_cut_gives_the_same(dialect: Dialect, path: str, answers: list[bytes], end: bytes, cuts: list[int]) -> None:
    offer = offered(dialect, path, QUESTION)
    answers = [answer.replace(b"\n", end) for answer in answers]
    whole = play(dialect.weave(offer, offer.text, TOOL), offer, answers)
    cut = play(dialect.weave(offer, offer.text, TOOL), offer, answers, cuts=cuts)
    assert (cut.answer, cut.bodies, cut.passages) == (whole.answer, whole.bodies, whole.passages)
    assert len(whole.bodies) == 3


@dialects
def test_every_piece_is_whole_events(dialect: Dialect, path: str, answers: list[bytes]) -> None:
    offer = offered(dialect, path, QUESTION)
    for given_to_client in play(dialect.weave(offer, offer.text, TOOL), offer, answers, cuts=range(5000)).given:
        assert given_to_client == b"" or given_to_client.endswith(b"\n\n")


@dialects
def test_half_an_event_at_the_end_is_left_out_and_a_whole_one_gets_its_end(
    dialect: Dialect, path: str, answers: list[bytes]
) -> None:
    offer = offered(dialect, path, QUESTION)
    whole = play(dialect.weave(offer, offer.text, TOOL), offer, answers).answer
    cut_off = [*answers[:-1], answers[-1][:-5]]  # no blank line, and the last three characters are missing
    woven = play(dialect.weave(offer, offer.text, TOOL), offer, cut_off).answer
    assert woven == whole[: whole.rindex(b"\n\n", 0, -2) + 2]
    without_blank_line = [*answers[:-1], answers[-1][:-2]]
    assert play(dialect.weave(offer, offer.text, TOOL), offer, without_blank_line).answer == whole


KEYS = [
    "type", "index", "message", "content_block", "delta", "usage", "content", "id", "name", "input", "text", "thinking",
    "partial_json", "stop_reason", "error", "choices", "tool_calls", "function", "arguments", "finish_reason", "role",
    "x_groq", "custom", "created", "model", "reasoning",
]  # fmt: skip
WORDS = [
    "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
    "error", "ping", "tool_use", "text", "text_delta", "input_json_delta", "citations_delta", "thinking_delta", "MemoryRecall",
    "tool_calls", "stop", "message", "function", "Mem", "a", "", "\ud800", "assistant",
]  # fmt: skip
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats(allow_nan=True)
    | st.sampled_from(WORDS)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)
delta = st.fixed_dictionaries(
    {}, optional={"content": values, "tool_calls": st.lists(values, max_size=2), "reasoning": values, "role": values}
)
deltas = st.builds(lambda one, stop: {"choices": [{"delta": one, "finish_reason": stop}]}, delta, values)
blocks = st.builds(
    lambda kind, index, block, one: {
        "type": kind,
        "index": index,
        "content_block": block,
        "delta": one,
        "usage": block,
    },
    st.sampled_from(WORDS[:8]),
    st.integers(-1, 2) | values,
    st.just({"type": "tool_use", "name": "MemoryRecall", "id": "a"}) | values,
    st.fixed_dictionaries({"type": st.sampled_from(WORDS)}, optional=dict.fromkeys(KEYS[9:14], values)),
)
anything = values | deltas | blocks
streams = st.lists(
    st.builds(messages.event, blocks.filter(lambda one: isinstance(one["type"], str)))
    | st.builds(lambda one: b"data: " + json.dumps(one).encode() + b"\n\n", anything)
    | st.binary(max_size=20)
    | st.sampled_from(
        [b"data: [DONE]\n\n", b"\r", b"\n\n", b"data: " + b"[" * 5000 + b"]" * 5000 + b"\n\n", *ANTHROPIC, *CHAT]
    ),
    max_size=6,
).map(b"".join)


def run(dialect: Dialect, path: str, answers: list[bytes], how: Callable[[Any, bytes], Any]) -> None:
    offer = offered(dialect, path, QUESTION)
    weave = dialect.weave(offer, offer.text, TOOL)
    try:
        for answer in answers:
            how(weave, answer)
            hop = weave.over()
            if hop.asks:
                json.loads(weave.go_on({ask.id: "x" for ask in hop.asks}))
        weave.finish({})
        for passage in weave.passages().values():
            for one in (*passage.instead, *passage.results):
                json.loads(one)
    except BrokenAnswerError:
        weave.error("it broke off")


@dialects
@given(st.lists(streams, min_size=1, max_size=3), st.integers(1, 50))
@settings(max_examples=80)
def test_streams_of_any_shape(dialect: Dialect, path: str, answers: list[bytes], said: list[bytes], size: int) -> None:
    run(
        dialect, path, said, lambda weave, data: [weave.feed(one) for one in pieces(data, range(size, len(data), size))]
    )


documents = st.one_of(
    st.builds(
        lambda content, usage: {"type": "message", "content": content, "usage": usage, "stop_reason": "tool_use"},
        st.lists(st.just(messages.recall("a")) | values, max_size=3),
        values,
    ),
    st.builds(lambda message: {"choices": [{"message": message}]}, delta),
    values,
)


@dialects
@given(st.lists(documents.map(lambda one: json.dumps(one).encode()) | st.binary(max_size=9), min_size=1, max_size=3))
@settings(max_examples=60)
def test_documents_of_any_shape(dialect: Dialect, path: str, answers: list[bytes], said: list[bytes]) -> None:
    run(dialect, path, said, lambda weave, data: weave.whole(data))


@dialects
@given(
    values, st.dictionaries(st.sampled_from([*KEYS, "messages", "tools", "tool_choice", "stream"]), values, max_size=4)
)
@settings(max_examples=60)
def test_requests_of_any_shape(dialect: Dialect, path: str, answers: list[bytes], one: Any, more: Any) -> None:
    for body in (one, more, {**QUESTION, **more}, {**QUESTION, "messages": [one, QUESTION["messages"][0]]}):  # type: ignore[index]
        offer = dialect.offer(request(path, body), TOOL, Kept())
        assert offer is None or json.loads(offer.text)["tools"][-1]


@dialects
@pytest.mark.parametrize("later", [False, True], ids=["first", "later"])
def test_an_answer_without_end_is_given_up(
    dialect: Dialect, path: str, answers: list[bytes], later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_EVENT", 5000)
    monkeypatch.setattr(weaving, "MOST_ANSWER", 20_000)
    for endless, why in ((b"data: " + b"x" * 5001, "event of it"), (b": x\n\n" * 5000, "it is too long")):
        offer = offered(dialect, path, QUESTION)
        weave = dialect.weave(offer, offer.text, TOOL)
        if later:
            weave.feed(answers[0])
            weave.go_on({ask.id: "x" for ask in weave.over().asks})
        weave.feed(endless)
        assert weave.feed(b"data: {}\n\n") == b""
        with pytest.raises(BrokenAnswerError, match=why):
            weave.over()
