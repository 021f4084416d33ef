"""Rules at work: what is sent, what is not, and that a fault in judging sends nothing that a rule could have kept."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest
from mitmproxy import http

from addons.config_values import Upstream
from addons.decide import FAULT
from addons.explanation import explanation
from addons.gateway import Failure
from addons.outgoing import UnsuitableError
from addons.targets import TargetConfig
from memory.exchange import Decision, Exchange, RulePart, Scan
from memory.held import Released
from memory.rules import Rule, RuleBook, When
from tests.addons.desk import Desk
from tests.addons.parts import MESSAGES, TIDES, content, exchange_of, flow_to, reference, seen

ASKED = {"model": "claude-test", "messages": [{"role": "user", "content": TIDES}]}
STAY = Rule("tides stay home", When(note=("vault/Tides.md",), to="cloud"), "block")


async def test_what_no_rule_keeps_is_sent(desk_of: Callable[..., Any]) -> None:
    desk, flow = await desk_of(STAY), flow_to(body={"model": "claude-test", "messages": []})
    exchange = await desk.send(flow)
    assert exchange
    assert (exchange.decision, flow.response) == (Decision(), None)


async def test_a_blocked_request_is_answered_in_its_providers_format(desk_of: Callable[..., Any]) -> None:
    desk, flow = await desk_of(STAY), flow_to(body=ASKED)
    exchange = await desk.send(flow)
    assert exchange
    assert exchange.decision.to_json() == {
        "action": "block",
        "rule": "tides stay home",
        "rules": [{"name": "tides stay home", "action": "block", "notes": ["vault/Tides.md"]}],
    }
    assert flow.response
    assert (flow.response.status_code, json.loads(flow.response.content or b"")) == (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": 'mitmemory blocked this request: "tides stay home" keeps "Tides" from claude-test (cloud)',
            },
        },
    )


@pytest.mark.parametrize(
    ("share", "url", "blocked"),
    [
        ("never", MESSAGES, True),
        ("never", "http://127.0.0.1:11434/api/chat", True),
        ("local", MESSAGES, True),
        ("local", "http://127.0.0.1:11434/api/chat", False),
        ("ask", MESSAGES, True),
    ],
)
async def test_a_note_says_itself_how_it_may_be_shared(
    desk_of: Callable[..., Any], share: str, url: str, blocked: bool
) -> None:
    desk, flow = await desk_of(share=share), flow_to(url, ASKED)
    await desk.send(flow)
    assert (flow.response is not None) is blocked


@pytest.mark.parametrize(("rules", "unscanned", "blocked"), [
    ((), None, False),
    ((STAY,), None, True),
    ((STAY,), "allow", False),
    ((), "block", True),
    ((Rule("all", When(), "allow"),), None, False),
])  # fmt: skip
async def test_what_could_not_be_looked_at(
    desk_of: Callable[..., Any], rules: tuple[Rule, ...], unscanned: Any, blocked: bool
) -> None:
    desk = await desk_of(*rules, unscanned=unscanned)
    flow = flow_to(body=b"no gzip", headers={"Content-Encoding": "gzip"})
    await desk.send(flow)
    assert (flow.response is not None) is blocked
    if flow.response:
        assert "(the body is not gzip, as its Content-Encoding says)" in flow.response.text


async def test_a_method_that_usually_has_no_body_is_judged_by_the_one_it_has(desk_of: Callable[..., Any]) -> None:
    desk, flow = await desk_of(STAY), flow_to(body=ASKED, method="GET")
    await desk.send(flow)
    assert flow.response
    assert flow.response.status_code == 400


@pytest.mark.parametrize(("rules", "status"), [((STAY,), 426), ((), None), ((Rule("all", When(), "allow"),), None)])
async def test_a_websocket_to_a_model_is_sent_to_https_under_rules(
    desk_of: Callable[..., Any], rules: tuple[Rule, ...], status: int | None
) -> None:
    desk = await desk_of(*rules)
    flow = flow_to("https://api.openai.com/v1/responses", method="GET", headers={"Upgrade": "WebSocket"})
    await desk.send(flow)
    assert (flow.response.status_code if flow.response else None) == status
    listing = flow_to("https://api.openai.com/v1/models", method="GET")
    await desk.send(listing)
    assert listing.response is None


async def test_changed_rules_count_from_the_next_request_on(desk_of: Callable[..., Any]) -> None:
    desk = await desk_of(STAY)
    outcomes = []
    for rules in (RuleBook((STAY,)), RuleBook(), None):
        desk.decide.rules = rules
        flow = flow_to(body=ASKED)
        await desk.send(flow)
        outcomes.append(flow.response is not None)
    assert outcomes == [True, False, False]


# ---- faults of our own


def broken(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError


OUTSIDE = ("explanation", "_named", "_refuse", "refusal", "_error")
"""What makes the answer of a request that has been blocked already."""


async def steps(send: Awaitable[Any]) -> list[tuple[Any, str]]:
    """Every function of ours that a request meets on its way to the decision, as (owner, name)."""
    met: dict[str, tuple[Any, str]] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event != "call" or not module.startswith(("addons.", "memory.")):
            return
        *path, name = frame.f_code.co_qualname.split(".")
        owner: Any = sys.modules[module]
        for part in path:
            owner = getattr(owner, part, None)
        if owner is not None and inspect.isfunction(inspect.getattr_static(owner, name, None)):
            met[f"{module}.{frame.f_code.co_qualname}"] = (owner, name)

    sys.setprofile(note)
    try:
        await send
    finally:
        sys.setprofile(None)
    return [step for name, step in sorted(met.items()) if name.rpartition(".")[2] not in OUTSIDE]


async def bodies_sent(desk: Desk, flow: http.HTTPFlow) -> list[bytes]:
    """The bodies that go anywhere: on the straight way, to a target, or back from there."""
    await desk.send(flow)
    if not desk.led:
        return [] if flow.response else [flow.request.raw_content or b""]
    [(targets, otherwise, body_for)] = desk.led
    sent = []
    raw = flow.request.raw_content or b""
    with suppress(ZeroDivisionError, UnsuitableError):
        sent.append(await body_for(targets[0]) or raw)
    with suppress(ZeroDivisionError):
        way = await otherwise([Failure("home", "is on fire")])
        if not isinstance(way, str):
            sent.append(way.body or raw)
    return sent


async def lets_go(*_: Any) -> Released:
    return Released("released")


STRIP = Rule("tides are stripped", When(note=("vault/Tides.md",)), "redact")
ASK = Rule("ask me", When(client=("codex",), to="cloud"), "hold")
GO_HOME = Rule("go home", When(client=("codex",), to="cloud"), "redirect", ("home",), "allow")
HOME = TargetConfig("home", Upstream("http", "127.0.0.1", 11434), ("anthropic",))
STRIPPED = json.dumps({**ASKED, "messages": [{"role": "user", "content": "[withheld]\n[withheld]\n"}]}).encode()

WAYS: dict[str, tuple[tuple[Rule, ...], dict[str, Any], list[bytes], set[str]]] = {
    "block": ((STAY,), {}, [], {"Identify._begin", "ScanRequests._find", "Decide._case_of", "RuleBook.find", "NotesFacts.of"}),
    "redact": ((STRIP,), {}, [STRIPPED], {"Withhold.__call__", "Decide._send", "Case.settled", "BodyTexts.spliced"}),
    "hold": ((ASK, STRIP), {"hold": lets_go}, [STRIPPED], {"Decide._ask", "Case.judged", "Wanted.among"}),
    "redirect": (
        (GO_HOME, STRIP), {"targets": [HOME]}, [STRIPPED, STRIPPED], {"Lead.on", "Lead._origin", "addons.lead.settle", "addons.outgoing.locate"}
    ),
}  # fmt: skip
"""What is done -> rules and more of the desk, what is sent where nothing is broken, and steps that it takes among others."""


@pytest.mark.parametrize("way", WAYS)
async def test_a_fault_at_any_step_sends_nothing_that_a_rule_could_keep(
    desk_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    rules, more, whole, expected = WAYS[way]
    assert await bodies_sent(await desk_of(*rules, **more), flow_to(body=ASKED)) == whole
    found = await steps(bodies_sent(await desk_of(*rules, **more), flow_to(body=ASKED)))
    names = [f"{owner.__name__}.{name}" for owner, name in found]
    assert expected <= set(names)
    assert len(names) > 80
    passed = []
    for (owner, name), step in zip(found, names, strict=True):
        if step in ("Decide.request", "Decide._fail", "traced"):
            continue  # these are what catches it
        flow, fresh = flow_to(body=ASKED), await desk_of(*rules, **more)
        with monkeypatch.context() as broken_there:
            broken_there.setattr(owner, name, broken)
            sent = await bodies_sent(fresh, flow)
        is_refused = flow.response is not None and flow.response.status_code == 400
        if any(body not in whole for body in sent) or not (sent or fresh.led or is_refused):
            passed.append(step)
    assert passed == []


async def test_without_rules_a_fault_lets_the_request_go(
    desk_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in ("addons.identify.Identify._begin", "addons.scan.ScanRequests._find", "addons.decide.judge"):
        desk, flow = await desk_of(), flow_to(body=ASKED)
        with monkeypatch.context() as broken_there:
            broken_there.setattr(step, broken)
            await desk.send(flow)
        assert flow.response is None, step


async def test_a_fault_is_shown(desk_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    desk = await desk_of(STAY)
    monkeypatch.setattr("addons.decide.judge", broken)
    exchange = await desk.send(flow_to(body=ASKED))
    assert (exchange.decision, list(desk.decide.failures)) == (
        Decision("block", FAULT),
        ["A request could not be judged: ZeroDivisionError"],
    )


# ---- what the person reads


@pytest.mark.parametrize(
    ("exchange", "text"),
    [
        (
            exchange_of(
                scan=seen(content(), reference()),
                decision=Decision("block", "stay", (RulePart("stay", "block", ("vault/Clock.md", "vault/Tides.md")),)),
            ),
            '"stay" keeps "Tides", "Clock" from claude-test (cloud)',
        ),
        (
            exchange_of(
                scan=seen(*(content(f"vault/{number}.md") for number in range(7))),
                decision=Decision(
                    "block", "stay", (RulePart("stay", "block", tuple(f"vault/{number}.md" for number in range(7))),)
                ),
            ),
            '"stay" keeps "Tides", "Tides", "Tides", "Tides", "Tides" and 2 more from claude-test (cloud)',
        ),
        (
            exchange_of(model="", scan=Scan("unscanned", ("off",)), decision=Decision("block", "unscanned")),
            '"unscanned" keeps it from anthropic (cloud) (off)',
        ),
    ],
)
def test_the_explanation(exchange: Exchange, text: str) -> None:
    assert explanation(exchange) == f"mitmemory blocked this request: {text}"
