"""What a client of OpenAI Responses sends back becomes what really passed, whatever it makes of the answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addons.loop.openai_responses import OpenAIResponsesLoop
from addons.loop.places import members
from tests.addons.loop.responses_says import (
    PATH,
    Says,
    call,
    custom,
    events_of,
    message,
    output,
    reasoning,
    recall,
    user,
)  # fmt: skip
from tests.addons.loop.weaving import TOOL, Kept, Woven, offered, play

DIALECT = OpenAIResponsesLoop()
NOT_RUN = "This search was not run."
Items = list[dict[str, Any]]


def as_it_was(items: Items) -> Items:
    return items


def without_ids(items: Items) -> Items:
    """As Codex does."""
    return [{key: value for key, value in item.items() if key not in ("id", "status")} for item in items]


def as_texts(items: Items) -> Items:
    """As programs do that keep the text of an answer, and its calls."""
    said = "".join(item["content"][0]["text"] for item in items if item["type"] == "message")
    kept = [item for item in items if item["type"].endswith("_call")]
    return [*([{"role": "assistant", "content": said}] if said else []), *without_ids(kept)]


STYLES: list[Callable[[Items], Items]] = [as_it_was, without_ids, as_texts]
words = st.sampled_from(["Yes.", "At noon. 🌊", "Let me look.", "  Two\n lines ", "é"])


@dataclass(frozen=True)
class Turn:
    """Answers that only search, and one that ends the turn or calls the client's own tool (0 to 2 searches beside)."""

    asked: str
    searching: list[tuple[bool, str | None, int]]
    said: str
    calls_client: bool
    beside: int


turns = st.builds(
    Turn,
    words,
    st.lists(st.tuples(st.booleans(), st.none() | words, st.integers(1, 2)), max_size=3),
    words,
    st.booleans(),
    st.integers(0, 2),
)


class Model:
    """Answers with ids of their own."""

    def __init__(self) -> None:
        self._count = 0

    def name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"

    def answers(self, turn: Turn) -> list[Items]:
        found: list[Items] = []
        for thinks, said, searches in turn.searching:
            items = [reasoning(self.name("rs"))] if thinks else []
            items += [message(said, self.name("msg"))] if said else []
            found.append([*items, *[recall(self.name("call")) for _ in range(searches)]])
        last = [message(turn.said, self.name("msg"))]
        if turn.calls_client:
            last += [recall(self.name("call")) for _ in range(turn.beside)] + [call(self.name("call"))]
        return [*found, last]


def shown(woven: Woven, *, streamed: bool) -> Items:
    answer: dict[str, Any] = events_of(woven.answer)[-1]["response"] if streamed else json.loads(woven.answer)
    items: Items = answer["output"]
    return items


def outputs(items: Items, name: str) -> Items:
    return [output(item["call_id"]) for item in items if item.get("name") == name]


def input_of(text: str) -> str:
    return members(text)["input"].of(text)


@settings(max_examples=40, deadline=None)
@given(st.lists(turns, min_size=1, max_size=5), st.sampled_from(STYLES), st.booleans())
def test_a_client_that_resends_everything(said: list[Turn], style: Callable[[Items], Items], streamed: bool) -> None:
    model, past = Model(), Kept()
    sent: Items = []
    truth: Items = []
    written = "["
    for turn in said:
        sent.append(user(turn.asked))
        truth.append(user(turn.asked))
        offer = offered(DIALECT, PATH, {"model": "m", "input": sent, "store": False, "stream": streamed}, past)
        assert json.loads(offer.text)["input"] == truth
        assert offer.is_expanded is (sent != truth)
        assert input_of(offer.text).startswith(written[:-1])  # what is cached stays the same to the byte
        answers = model.answers(turn)
        says = [Says(items, id=model.name("resp")).bytes(streamed=streamed) for items in answers]
        woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, says)
        written = input_of(woven.bodies[-1])
        past.passages.update(woven.passages)
        visible = shown(woven, streamed=streamed)
        sent += style(visible)
        if len(answers) == 1 and not turn.beside * turn.calls_client:
            truth += style(visible)  # nothing was hidden, so it is the client's to say
        else:
            for items in answers:
                truth += [*items, *outputs(items, "MemoryRecall")]
        if turn.calls_client:
            sent += outputs(answers[-1], "tide")
            truth += outputs(answers[-1], "tide")


class Provider:
    """Keeps answers with all that came before them."""

    def __init__(self) -> None:
        self.kept: dict[str, Items] = {}

    def context(self, body: str) -> Items:
        asked = json.loads(body)
        said = asked["input"]
        new = [user(said)] if isinstance(said, str) else said
        return [*self.kept.get(asked.get("previous_response_id") or "", []), *new]


@settings(max_examples=40, deadline=None)
@given(st.lists(turns, min_size=1, max_size=5), st.booleans(), st.booleans())
def test_a_client_that_names_the_answer_it_goes_on_from(said: list[Turn], streamed: bool, as_string: bool) -> None:
    model, past, provider = Model(), Kept(), Provider()
    previous: str | None = None
    truth: Items = []
    owed: Items = []
    for turn in said:
        truth += [*owed, user(turn.asked)]
        given: Any = turn.asked if as_string and not owed else [*owed, user(turn.asked)]
        offer = offered(
            DIALECT, PATH, {"model": "m", "previous_response_id": previous, "input": given, "stream": streamed}, past
        )
        assert provider.context(offer.text) == truth
        answers = model.answers(turn)
        names = [model.name("resp") for _ in answers]
        says = [Says(items, id=name).bytes(streamed=streamed) for items, name in zip(answers, names, strict=True)]
        woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, says)
        past.passages.update(woven.passages)
        for body, items, name in zip(woven.bodies, answers, names, strict=True):
            assert provider.context(body) == truth
            truth += items
            provider.kept[name] = list(truth)
            truth += outputs(items, "MemoryRecall")
        previous, owed = names[0], outputs(answers[-1], "tide")


def weave_once(*answers: Items, body: dict[str, Any] | None = None, most: int = 4) -> Woven:
    offer = offered(DIALECT, PATH, {"model": "m", "input": [user("When?")], "stream": False, **(body or {})})
    says = [Says(items, id=f"resp_{n}").document() for n, items in enumerate(answers, 1)]
    return play(DIALECT.weave(offer, offer.text, TOOL), offer, says, most=most)


def later(woven: Woven, **body: Any) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(offered(DIALECT, PATH, {"model": "m", **body}, Kept(dict(woven.passages))).text)
    return sent


def test_the_pending_result_comes_before_those_of_the_client() -> None:
    items = [call("call_1"), recall("call_2"), custom("call_3")]
    woven = weave_once(items)
    own = [output("call_1"), {"type": "custom_tool_call_output", "call_id": "call_3", "output": "a"}]
    named = later(woven, previous_response_id="resp_1", input=own)
    assert (named["previous_response_id"], named["input"]) == ("resp_1", [output("call_2"), *own])
    whole = later(woven, input=[user("When?"), items[0], items[2], *own])
    assert whole["input"] == [user("When?"), *items, output("call_2"), *own]
    assert later(woven, previous_response_id="resp_1", input="x")["input"] == [output("call_2"), user("x")]


def test_a_call_that_the_answer_ended_with_has_a_result_all_the_same() -> None:
    """Providers take no call without one, and no thinking without what follows it."""
    woven = weave_once([recall("call_1")], [reasoning(), message("So."), recall("call_2")], most=2)
    sent = later(woven, previous_response_id="resp_1", input="And?")
    assert (sent["previous_response_id"], sent["input"]) == ("resp_2", [output("call_2", NOT_RUN), user("And?")])
    sent = later(woven, input=[user("When?"), message("So."), user("And?")])
    assert sent["input"] == [
        user("When?"), recall("call_1"), output("call_1"), reasoning(), message("So."), recall("call_2"),
        output("call_2", NOT_RUN), user("And?")]  # fmt: skip


@pytest.mark.parametrize(
    "before", [user("When?"), {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "When?"}]}]
)
def test_a_question_that_was_a_string_is_an_item_later(before: dict[str, Any]) -> None:
    woven = weave_once([recall("call_1")], [message("Noon.")], body={"input": "When?"})
    sent = later(woven, input=[before, message("Noon."), user("And?")])
    assert sent["input"] == [before, recall("call_1"), output("call_1"), message("Noon."), user("And?")]


def test_another_answer_to_the_same_question_is_left_as_it_is() -> None:
    woven = weave_once([recall("call_1")], [message("Noon.")])
    for changed in (
        [user("When?"), message("At six."), user("And?")],
        [user("Where?"), message("Noon."), user("And?")],
        [user("When?"), message("Noon."), call("call_9"), output("call_9")],
    ):
        assert later(woven, input=changed)["input"] == changed
