"""What a client of Gemini sends back becomes what really passed, whatever it makes of the answers; the real SDK's chats too."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from addons.loop.gemini import GeminiLoop
from addons.loop.places import members
from tests.addons.loop.gemini_says import (
    EVENTS,
    JSON,
    PLAIN,
    Says,
    call,
    events_of,
    found,
    model,
    path,
    recall,
    result,
    sdk,
    text,
    user,
)
from tests.addons.loop.weaving import TOOL, Kept, Woven, offered, play

DIALECT = GeminiLoop()
NOT_RUN = "This search was not run."
Contents = list[dict[str, Any]]


def one_content(contents: Contents) -> Contents:
    return [model(*[part for one in contents for part in one["parts"] if part != text("")])]


def as_it_came(contents: Contents) -> Contents:
    """A content for each piece, as Google's own chats have it."""
    return contents


def without_thoughts(contents: Contents) -> Contents:
    """Its texts joined; thoughts and signatures gone, and calls with ids that the client makes up."""
    parts = [part for one in contents for part in one["parts"] if not part.get("thought")]
    said = "".join(part.get("text", "") for part in parts)
    calls = [call(**part["functionCall"] | {"id": "made-up"}) for part in parts if "functionCall" in part]
    return [model(*([text(said)] if said else []), *calls)]


STYLES: list[Callable[[Contents], Contents]] = [one_content, as_it_came, without_thoughts]
words = st.sampled_from(["Yes.", "At noon. 🌊", "Let me look.", "  Two\n lines ", "é"])


@dataclass(frozen=True)
class Turn:
    """Answers that only search, and one that ends the turn or calls the client's own functions.

    `calls`: which of the calls of the last answer are the client's own, in their order.
    """

    asked: str
    searching: list[tuple[bool, str | None, int]]
    said: str
    calls: list[bool]
    finishes_apart: bool

    def answers(self) -> list[list[dict[str, Any]]]:
        """Their parts: the first call of each is signed."""
        each = []
        for thinks, said, searches in self.searching:
            begun = [text("Hm.", thought=True)] if thinks else []
            begun += [text(said)] if said else []
            each.append([*begun, *_signed([recall(f"tides {n}") for n in range(searches)])])
        calls = [call("tide", {"n": n}) if own else recall() for n, own in enumerate(self.calls)]
        return [*each, [text(self.said), *_signed(calls if any(self.calls) else [])]]


def _signed(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "thoughtSignature": "c2lnbmVk"} if n == 0 else one for n, one in enumerate(calls)]


turns = st.builds(
    Turn,
    words,
    st.lists(st.tuples(st.booleans(), st.none() | words, st.integers(1, 2)), max_size=3),
    words,
    st.lists(st.booleans(), max_size=3),
    st.booleans(),
)


def shown(woven: Woven, *, streamed: bool) -> Contents:
    answers = events_of(woven.answer) if streamed else [json.loads(woven.answer)]
    return [one["candidates"][0]["content"] for one in answers]


def contents_of(body: str) -> str:
    return members(body)["contents"].of(body)


def results_of(parts: list[dict[str, Any]], asks: list[str]) -> list[dict[str, Any]]:
    """Of all calls, in their order."""
    names = iter(asks)
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return [
        found(next(names)) if one["name"] == TOOL.name else result("tide", {"at": one["args"]["n"]}) for one in calls
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(turns, min_size=1, max_size=4), st.sampled_from(STYLES), st.booleans())
def test_a_client_that_resends_everything(
    said: list[Turn], style: Callable[[Contents], Contents], streamed: bool
) -> None:
    past = Kept()
    sent: Contents = []
    truth: Contents = []
    written = "["
    for turn in said:
        sent.append(user(text(turn.asked)))
        truth.append(user(text(turn.asked)))
        offer = offered(DIALECT, path(streamed=streamed), {"contents": sent}, past)
        assert json.loads(offer.text)["contents"] == truth
        assert offer.is_expanded is (sent != truth)
        assert contents_of(offer.text).startswith(written[:-1])  # what is cached stays the same to the byte
        answers = turn.answers()
        says = [Says(parts, finishes_apart=turn.finishes_apart).bytes(streamed=streamed) for parts in answers]
        woven = play(DIALECT.weave(offer, offer.text, TOOL), offer, says)
        written = contents_of(woven.bodies[-1])
        past.passages.update(woven.passages)
        visible = style(shown(woven, streamed=streamed))
        sent += visible
        if len(answers) == 1 and not woven.asks[0]:
            truth += visible  # nothing was hidden, so it is the client's to say
        else:
            for parts, asks in zip(answers[:-1], woven.asks, strict=False):
                truth += [model(*parts), user(*results_of(parts, [ask.id for ask in asks]))]
            truth.append(model(*answers[-1]))
        if results := results_of(answers[-1], [ask.id for ask in woven.asks[-1]]):
            sent.append(user(*[one for one in results if one["functionResponse"]["name"] == "tide"]))
            truth.append(user(*results))


@dataclass
class Upstream:
    """The loop and a model behind the real SDK: it answers what it is told to, and keeps what it was asked."""

    answers: list[Says]
    past: Kept = field(default_factory=Kept)
    asked: list[Contents] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        streamed = "stream" in request.url.path
        offer = offered(DIALECT, request.url.raw_path.decode(), request.content.decode(), self.past)
        weave = DIALECT.weave(offer, offer.text, TOOL)
        body, said = offer.text, b""
        while True:
            self.asked.append(json.loads(body)["contents"])
            answer = self.answers.pop(0).bytes(streamed=streamed)
            if streamed:
                said += weave.feed(answer)
            else:
                weave.whole(answer)
            hop = weave.over()
            results = {ask.id: f"found: {ask.id}" for ask in hop.asks}
            if not hop.asks or hop.calls_others:
                break
            body = weave.go_on(results)
        said += weave.finish(results)
        self.past.passages.update(weave.passages())
        return httpx.Response(200, headers=EVENTS if streamed else JSON, content=said)


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])
def test_a_chat_of_the_real_sdk(streamed: bool) -> None:
    first = Says([text("Let me look."), recall(thoughtSignature="c2lnbmVk")])
    second = Says([text("At noon.")], id="r2")
    third = Says([recall("ebb", thoughtSignature="c2lnMg=="), call("tide", {"port": "Elb"})], id="r3")
    upstream = Upstream([first, second, third, Says([text("At six.")], id="r4"), Says([text("Gladly.")], id="r5")])
    chat = sdk(upstream).chats.create(model="gemini-test", config=types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name="tide")])]))  # fmt: skip

    def say(message: Any) -> str:
        chunks = list(chat.send_message_stream(message)) if streamed else [chat.send_message(message)]
        parts = [part for one in chunks for part in one.parts or ()]
        return "".join(part.text or "" for part in parts)

    assert say("When is high tide?") == "Let me look.At noon."
    assert say("And low tide?") == ""
    assert say(types.Part.from_function_response(name="tide", response={"at": 6})) == "At six."
    assert say("Thanks.") == "Gladly."
    truth = [
        user(text("When is high tide?")),
        model(*first.parts),
        user(found("MemoryRecall-0-0")),
        model(*second.parts),
        user(text("And low tide?")),
        model(*third.parts),
        user(found("MemoryRecall-0-0"), result("tide", {"at": 6})),
    ]
    assert upstream.asked[:3] == [truth[:1], truth[:3], truth[:5]]
    assert upstream.asked[3] == truth
    at_six = upstream.asked[4][7:-1]
    assert upstream.asked[4] == [*truth, *at_six, user(text("Thanks."))]
    assert "".join(part["text"] for one in at_six for part in one["parts"]) == "At six."


def later(woven: Woven, *contents: dict[str, Any]) -> Contents:
    offer = offered(DIALECT, PLAIN, {"contents": contents}, Kept(dict(woven.passages)))
    expanded: Contents = json.loads(offer.text)["contents"]
    return expanded


def weave_once(*answers: list[dict[str, Any]], most: int = 4) -> Woven:
    offer = offered(DIALECT, PLAIN, {"contents": [user(text("When?"))]})
    says = [Says(parts).document() for parts in answers]
    return play(DIALECT.weave(offer, offer.text, TOOL), offer, says, most=most)


def test_results_stand_in_the_order_of_the_calls() -> None:
    parts = [call("a", {}), recall("1"), call("b", {}), recall("2", id="x")]
    woven = weave_once(parts)
    own = [result("a", {"n": 1}), result("b", {"n": 2})]
    asked, seen = user(text("When?")), model(parts[0], parts[2])
    ours = found("MemoryRecall-0-0"), found("x", id="x")
    assert later(woven, asked, seen, user(*own)) == [asked, model(*parts), user(own[0], ours[0], own[1], ours[1])]
    assert later(woven, asked, seen, user(*own, text("So?")))[-1] == user(own[0], ours[0], own[1], ours[1], text("So?"))
    snake = {"function_response": own[0]["functionResponse"]}
    assert later(woven, asked, seen, user(snake))[-1] == user(snake, *ours)
    assert later(woven, asked, seen, user(text("Stop."))) == [asked, model(*parts), user(*ours), user(text("Stop."))]


def test_a_call_that_the_answer_ended_with_has_a_result_all_the_same() -> None:
    """The signature may stand on it, and providers take no call without a result."""
    woven = weave_once([recall()], [text("So."), recall("ebb", thoughtSignature="c2ln")], most=2)
    not_run = result("MemoryRecall", {"output": NOT_RUN})
    asked, more = user(text("When?")), user(text("And?"))
    assert later(woven, asked, model(text("So.")), more) == [
        asked,
        model(recall()),
        user(found("MemoryRecall-0-0")),
        model(text("So."), recall("ebb", thoughtSignature="c2ln")),
        user(not_run),
        more,
    ]


def test_another_answer_to_the_same_question_is_left_as_it_is() -> None:
    woven = weave_once([recall()], [text("Noon.")])
    asked, more = user(text("When?")), user(text("And?"))
    for changed in (
        [asked, model(text("At six.")), more],
        [user(text("Where?")), model(text("Noon.")), more],
        [asked, model(text("Noon."), call("tide", {})), user(result("tide", {}))],
    ):
        assert later(woven, *changed) == changed
