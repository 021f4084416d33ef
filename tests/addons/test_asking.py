"""A request on hold: what becomes of it when a person answers, or nobody does. The person is a fake."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from mitmproxy import http

from addons.config_values import Upstream
from addons.decide import CLIENT_LEFT
from addons.gateway import Failure
from addons.outgoing import UnsuitableError
from addons.targets import TargetConfig
from memory.exchange import Exchange, RulePart
from memory.held import Released
from memory.rules import Rule, When
from tests.addons.desk import Desk
from tests.addons.parts import MESSAGES, TIDES, flow_to

ASKED = {"model": "claude-test", "messages": [{"role": "user", "content": TIDES}]}
TIDE = When(note=("vault/Tides.md",))
ASK = Rule("ask me", When(note=TIDE.note, to="cloud"), "hold", hold_for=7.5)
HOME = TargetConfig("home", Upstream("http", "127.0.0.1", 11434), ("anthropic",), model="own-1")
AWAY = TargetConfig("away", Upstream("http", "127.0.0.1", 11435), ("ollama",))


class Person:
    """Answers as told, and keeps what was asked."""

    def __init__(self, answer: str, target: str | None = None) -> None:
        self.answer = Released(answer, target)  # type: ignore[arg-type]
        self.asked: list[tuple[str, float]] = []

    async def __call__(self, flow: http.HTTPFlow, exchange: Exchange, seconds: float) -> Released:
        assert (exchange.decision.action, flow.response) == ("hold", None)
        self.asked.append((exchange.id, seconds))
        return self.answer


def told(flow: http.HTTPFlow) -> str:
    assert flow.response
    assert flow.response.status_code == 400
    return str(json.loads(flow.response.content or b"")["error"]["message"])


async def ask(desk: Desk, body: Any = ASKED) -> tuple[http.HTTPFlow, Exchange]:
    flow = flow_to(MESSAGES, body)
    exchange = await desk.send(flow)
    assert exchange
    return flow, exchange


async def test_a_request_that_is_released_is_sent_as_it_came(desk_of: Callable[..., Any]) -> None:
    person = Person("released")
    flow, exchange = await ask(await desk_of(ASK, hold=person))
    assert person.asked == [(exchange.id, 7.5)]
    assert (flow.response, flow.request.content) == (None, json.dumps(ASKED).encode())
    assert exchange.decision.action == "allow"
    assert exchange.decision.parts == (RulePart("ask me", "allow", ("vault/Tides.md",)),)


@pytest.mark.parametrize(("otherwise", "sent"), [("block", False), ("allow", True)])
@pytest.mark.parametrize("person", [Person("expired"), None])
async def test_where_nobody_answers_the_rule_says_what_is_done(
    desk_of: Callable[..., Any], otherwise: Any, sent: bool, person: Person | None
) -> None:
    rule = Rule("ask me", TIDE, "hold", otherwise=otherwise)
    flow, exchange = await ask(await desk_of(rule, hold=person))
    assert (flow.response is None, exchange.decision.action) == (sent, "allow" if sent else "block")


async def test_a_person_who_blocks_it_is_named_so(desk_of: Callable[..., Any]) -> None:
    flow, exchange = await ask(await desk_of(ASK, hold=Person("blocked")))
    assert told(flow) == (
        'mitmemory blocked this request: a person who was asked keeps "Tides" from claude-test (cloud)'
    )
    assert exchange.decision.to_json() == {
        "action": "block",
        "rule": "blocked by a person",
        "rules": [
            {"name": "ask me", "action": "hold", "notes": ["vault/Tides.md"]},
            {"name": "blocked by a person", "action": "block", "notes": ["vault/Tides.md"]},
        ],
    }


async def test_nothing_is_sent_for_a_client_that_has_left(desk_of: Callable[..., Any]) -> None:
    flow, exchange = await ask(await desk_of(ASK, hold=Person("left")))
    assert (told(flow), exchange.decision.action) == (CLIENT_LEFT, "hold")


async def test_what_is_released_is_sent_without_what_another_rule_withholds(desk_of: Callable[..., Any]) -> None:
    strip, everything = Rule("strip", TIDE, "redact"), Rule("all", When(client=("codex",)), "hold")
    flow, exchange = await ask(await desk_of(everything, strip, hold=Person("released")))
    assert (
        flow.request.content == json.dumps(ASKED).replace(json.dumps(TIDES)[1:-1], r"[withheld]\n[withheld]\n").encode()
    )
    assert (exchange.decision.action, exchange.decision.rule) == ("redact", "strip")


async def test_a_person_sends_it_to_a_target(desk_of: Callable[..., Any]) -> None:
    desk = await desk_of(ASK, hold=Person("redirected", "home"), targets=[HOME])
    flow, exchange = await ask(desk)
    [(located, otherwise, body_for)] = desk.led
    assert [(there.target, there.model, there.to) for there in located] == [(HOME, "own-1", "local")]
    assert (flow.response, await body_for(located[0])) == (None, None)
    decision = exchange.decision
    assert (decision.action, decision.rule, decision.targets) == ("redirect", "ask me", ("home",))
    assert decision.parts == (RulePart("ask me", "allow", ("vault/Tides.md",)),)

    assert await otherwise([Failure("home", "refused the connection")]) == (
        'mitmemory blocked this request: "ask me" keeps "Tides" from claude-test (cloud); home refused the connection'
    )
    assert (exchange.decision.action, exchange.to) == ("block", "cloud")


async def test_what_is_withheld_at_a_target_is_withheld_where_a_person_sends_it_there(
    desk_of: Callable[..., Any],
) -> None:
    at_home = Rule("strip at home", When(note=TIDE.note, to="local"), "redact")
    desk = await desk_of(ASK, at_home, hold=Person("redirected", "home"), targets=[HOME])
    _, exchange = await ask(desk)
    [(located, _, body_for)] = desk.led
    assert json.loads(await body_for(located[0]))["messages"][0]["content"] == "[withheld]\n[withheld]\n"
    assert [part.rule for part in exchange.decision.parts] == ["ask me", "strip at home"]
    assert exchange.shared == ()


NEVER = Rule("never at home", When(note=TIDE.note, to="local"), "block")


@pytest.mark.parametrize(
    ("target", "rules", "why"),
    [
        ("attic", (), "attic is no target"),
        ("away", (), "away does not speak anthropic"),
        ("home", (NEVER,), 'home may not have it ("never at home")'),
    ],
)
async def test_a_target_that_cannot_have_it_gets_nothing(
    desk_of: Callable[..., Any], target: str, rules: tuple[Rule, ...], why: str
) -> None:
    desk = await desk_of(ASK, *rules, hold=Person("redirected", target), targets=[HOME, AWAY])
    flow, exchange = await ask(desk)
    assert told(flow) == f'mitmemory blocked this request: "ask me" keeps "Tides" from claude-test (cloud); {why}'
    assert (exchange.decision.action, desk.led) == ("block", [])


async def test_what_cannot_be_withheld_at_a_target_does_not_go_there(desk_of: Callable[..., Any]) -> None:
    at_home = Rule("strip at home", When(note=TIDE.note, to="local"), "redact")
    desk = await desk_of(ASK, at_home, hold=Person("redirected", "home"), targets=[HOME])
    thinking = {"type": "thinking", "thinking": TIDES, "signature": "c2lnbmVk"}
    await ask(desk, {"model": "claude-test", "messages": [{"role": "assistant", "content": [thinking]}]})
    [(located, _, body_for)] = desk.led
    with pytest.raises(UnsuitableError, match=r'^may not have it \("strip at home"\)$'):
        await body_for(located[0])


async def test_a_note_that_asks_is_released_like_any_other(desk_of: Callable[..., Any]) -> None:
    person = Person("released")
    flow, exchange = await ask(await desk_of(share="ask", hold=person))
    assert (flow.response, exchange.decision.parts) == (None, (RulePart("share: ask", "allow", ("vault/Tides.md",)),))


async def test_rules_that_go_while_a_person_is_asked_still_fail_closed(desk_of: Callable[..., Any]) -> None:
    async def breaks(*_: Any) -> Released:
        desk.decide.rules = None
        raise ZeroDivisionError

    desk = await desk_of(ASK, hold=breaks)
    flow, _ = await ask(desk)
    assert "a fault in mitmemory" in told(flow)
