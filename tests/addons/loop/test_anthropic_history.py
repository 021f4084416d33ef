"""What a client of Anthropic Messages sends back becomes what really passed, whatever it makes of the answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addons.loop.anthropic import AnthropicLoop
from tests.addons.loop.anthropic_says import PATH, Says, content_of, read, recall, sdk_reads, text, thinking
from tests.addons.loop.weaving import TOOL, Kept, offered, play

DIALECT = AnthropicLoop()
MARK = {"type": "ephemeral"}


def as_string(content: list[dict[str, Any]]) -> Any:
    if any(block["type"] == "tool_use" for block in content):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def merged(content: list[dict[str, Any]]) -> Any:
    found: list[dict[str, Any]] = []
    for block in content:
        if found and block["type"] == found[-1]["type"] == "text":
            found[-1] = text(found[-1]["text"] + " " + block["text"])
        else:
            found.append(block)
    return found


def without_thinking(content: list[dict[str, Any]]) -> Any:
    return [block for block in content if block["type"] != "thinking"]


def as_it_was(content: list[dict[str, Any]]) -> Any:
    return content


STYLES: list[Callable[[list[dict[str, Any]]], Any]] = [as_it_was, as_string, merged, without_thinking]
words = st.sampled_from(["Yes.", "At noon. 🌊", "Let me look.", "  Two\n lines ", "é"])


@dataclass(frozen=True)
class Turn:
    """Answers that only search, and one that ends the turn or calls the client's own tool (0 to 2 searches beside)."""

    searching: list[tuple[str | None, str | None, int]]
    said: str
    calls_client: bool
    beside: int
    is_cut: bool


turns = st.builds(
    Turn,
    st.lists(st.tuples(st.none() | words, st.none() | words, st.integers(1, 2)), max_size=3),
    words,
    st.booleans(),
    st.integers(0, 2),
    st.booleans(),
)


class Client:
    """A program with its history, and what really passed beside it."""

    def __init__(self, style: Callable[[list[dict[str, Any]]], Any], *, streamed: bool, marks: bool) -> None:
        self.style = style
        self.streamed = streamed
        self.marks = marks
        self.messages: list[dict[str, Any]] = []
        self.truth: list[dict[str, Any]] = []
        self.past = Kept()
        self.number = 0
        self.sent = ""

    def call(self) -> str:
        self.number += 1
        return f"toolu_{self.number}"

    def says(self, turn: Turn) -> list[Says]:
        answers = []
        for thought, said, asks in turn.searching:
            blocks = [thinking(thought)] if thought else []
            blocks += [text(said)] if said else []
            answers.append(Says([*blocks, *(recall(self.call()) for _ in range(asks))], "tool_use"))
        blocks = [thinking("So."), text(turn.said)]
        if turn.calls_client:
            blocks += [recall(self.call()) for _ in range(turn.beside)] + [read(self.call())]
        elif turn.is_cut and len(answers) == 3:
            blocks.append(recall(self.call()))
        stop = "end_turn" if blocks[-1]["type"] == "text" else "tool_use"
        return [*answers, Says(blocks, stop)]

    def run(self, turn: Turn) -> None:
        asked: dict[str, Any] = {"role": "user", "content": f"question {len(self.messages)}"}
        if self.messages and isinstance(self.messages[-1]["content"], list):
            calls = [block["id"] for block in self.messages[-1]["content"] if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": call, "content": "text"} for call in calls]
            asked = {"role": "user", "content": results} if results else asked
        self.messages.append(asked)
        hidden = getattr(self, "results", [])
        content = [*hidden, *(asked["content"] if isinstance(asked["content"], list) else [text(asked["content"])])]
        self.truth.append({**asked, "content": content} if hidden else asked)
        offer = offered(DIALECT, PATH, self.body(), self.past)
        body = json.loads(offer.text)
        assert plain(body["messages"]) == self.truth
        assert offer.text.startswith(self.sent)
        answers = self.says(turn)
        woven = play(
            DIALECT.weave(offer, offer.text, TOOL), offer, [one.bytes(streamed=self.streamed) for one in answers]
        )
        self.past.passages |= woven.passages
        tail = woven.bodies[-1].index('],"model"')
        self.sent = "" if self.marks else woven.bodies[-1][:tail]
        self.take(answers, content_of(sdk_reads(woven.answer, streamed=True)) if self.streamed else None, woven.answer)

    def take(self, answers: list[Says], read_by_sdk: list[dict[str, Any]] | None, answer: bytes) -> None:
        visible = read_by_sdk or json.loads(answer)["content"]
        self.messages.append({"role": "assistant", "content": self.style(visible)})
        self.results: list[dict[str, Any]] = []
        for says in answers[:-1]:
            asks = [block["id"] for block in says.blocks if block["type"] == "tool_use"]
            self.truth.append({"role": "assistant", "content": says.blocks})
            self.truth.append({"role": "user", "content": [result(ask) for ask in asks]})
        last = answers[-1].blocks
        asks = [block["id"] for block in last if block.get("name") == TOOL.name]
        if last[-1].get("name") == "Read":
            self.results = [result(ask) for ask in asks]
        else:
            last = [block for block in last if block.get("name") != TOOL.name]
        is_composed = len(answers) > 1 or bool(self.results)
        self.truth.append({"role": "assistant", "content": last} if is_composed else self.messages[-1])

    def body(self) -> dict[str, Any]:
        messages = list(self.messages)
        if self.marks:
            messages = [marked(one) if one["role"] == "assistant" else one for one in messages]
        return {"messages": messages, "model": "m", "stream": self.streamed}


def result(call: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": f"found: {call}"}


def marked(message: dict[str, Any]) -> dict[str, Any]:
    if isinstance(message["content"], str) or not message["content"]:
        return message
    *others, last = message["content"]
    return {**message, "content": [*others, {**last, "cache_control": MARK}]}


def plain(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without marks for the cache."""
    return [
        {**one, "content": [{k: v for k, v in block.items() if k != "cache_control"} for block in one["content"]]}
        if isinstance(one["content"], list)
        else one
        for one in messages
    ]


@given(st.lists(turns, max_size=5), st.sampled_from(STYLES), st.booleans())
@settings(max_examples=150)
def test_any_conversation_is_expanded_to_what_really_passed(
    conversation: list[Turn], style: Callable[[list[dict[str, Any]]], Any], marks: bool
) -> None:
    client = Client(style, streamed=False, marks=marks)
    for turn in conversation:
        client.run(turn)
    client.run(Turn([], "Bye.", calls_client=False, beside=0, is_cut=False))


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.__name__)
def test_the_same_through_streams_and_the_real_sdk(style: Callable[[list[dict[str, Any]]], Any]) -> None:
    client = Client(style, streamed=True, marks=False)
    client.run(Turn([("Hm.", "Let me look.", 2), (None, None, 1)], "At noon. 🌊", False, 0, False))
    client.run(Turn([(None, "Once more.", 1)], "Both.", True, 2, False))
    client.run(Turn([], "Yes.", False, 0, False))
    client.run(Turn([("a", "b", 1), ("a", None, 1), (None, "c", 2)], "Yes.", False, 0, True))
    client.run(Turn([], "Bye.", False, 0, False))
    assert len(client.past.passages) == 3
    assert len(client.truth) == 22


def composed(past: Kept) -> list[dict[str, Any]]:
    """A question and the visible answer to it, whose hidden part is kept."""
    question = {"role": "user", "content": "When?"}
    offer = offered(DIALECT, PATH, {"messages": [question]})
    answers = [Says([text("Wait."), recall("toolu_1")], "tool_use"), Says([text("At noon.")])]
    woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, [one.document() for one in answers])
    past.passages |= woven.passages
    return [question, {"role": "assistant", "content": json.loads(woven.answer)["content"]}]


def expanded(messages: list[dict[str, Any]], past: Kept) -> list[dict[str, Any]]:
    more = {"role": "user", "content": "And low tide?"}
    found: list[dict[str, Any]] = json.loads(offered(DIALECT, PATH, {"messages": [*messages, more]}, past).text)[
        "messages"
    ]
    return found


def test_a_mark_for_the_cache_goes_to_the_last_block() -> None:
    past = Kept()
    question, answer = composed(past)
    found = expanded([question, marked(answer)], past)
    assert len(found) == 5
    assert [block for one in found[1:4] for block in one["content"] if "cache_control" in block] == [
        {**text("At noon."), "cache_control": MARK}
    ]


def test_what_a_client_puts_around_the_question_changes_nothing() -> None:
    past = Kept()
    _, answer = composed(past)
    reminder = "<system-reminder>Be brief.</system-reminder>"
    question = {"role": "user", "content": [text(reminder), {**text(" When? "), "cache_control": MARK}]}
    between = {"role": "system", "content": "tools"}
    assert len(expanded([question, between, answer], past)) == 6


@pytest.mark.parametrize(
    "change",
    [
        lambda question, answer: ({**question, "content": "Where?"}, answer),
        lambda question, answer: (question, {**answer, "content": "At one."}),
        lambda question, answer: (question, {**answer, "content": [*answer["content"], read("toolu_9")]}),
        lambda question, answer: (question, {**answer, "content": []}),
    ],
    ids=["another question", "another text", "another call", "nothing"],
)
def test_another_answer_is_not_expanded(change: Callable[[Any, Any], tuple[Any, Any]]) -> None:
    past = Kept()
    messages = list(change(*composed(past)))
    assert expanded(messages, past)[:2] == messages
    assert past.passages


@pytest.mark.parametrize(
    "following",
    [[], [{"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}]],
    ids=["nothing", "another answer"],
)
def test_a_call_beside_the_clients_own_needs_an_answer_to_be_put_back(following: list[dict[str, Any]]) -> None:
    past, question = Kept(), {"role": "user", "content": "When?"}
    offer = offered(DIALECT, PATH, {"messages": [question]})
    says = Says([recall("toolu_1"), read("toolu_2")], "tool_use")
    past.passages |= play(DIALECT.weave(offer, offer.text, TOOL), offer, [says.document()]).passages
    answer = {"role": "assistant", "content": [read("toolu_2")]}
    system = {"role": "system", "content": "x"}
    offer = offered(DIALECT, PATH, {"messages": [question, answer, *following, system]}, past)
    assert not offer.is_expanded


@pytest.mark.parametrize(
    ("said", "expected"), [("stop", [text("stop")]), ("", []), ([], []), ([text("a")], [text("a")])]
)
def test_results_are_put_before_whatever_the_client_says(said: Any, expected: list[Any]) -> None:
    past, question = Kept(), {"role": "user", "content": "When?"}
    offer = offered(DIALECT, PATH, {"messages": [question]})
    says = Says([recall("toolu_1"), read("toolu_2")], "tool_use")
    past.passages |= play(DIALECT.weave(offer, offer.text, TOOL), offer, [says.document()]).passages
    messages = [question, {"role": "assistant", "content": [read("toolu_2")]}, {"role": "user", "content": said}]
    found = json.loads(offered(DIALECT, PATH, {"messages": messages}, past).text)["messages"]
    assert found[2]["content"] == [result("toolu_1"), *expected]
