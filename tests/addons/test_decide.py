"""Rules at work: what is sent, what is not, and that a fault in judging sends nothing that a rule could have kept."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from mitmproxy import command, http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.connection import ConnectionState
from mitmproxy.flow import Error, Flow
from mitmproxy.proxy.layers.http._hooks import HttpRequestHeadersHook, HttpRequestHook
from mitmproxy.test import taddons

from addons.config import Address, Config, DashboardConfig
from addons.config_values import Upstream
from addons.decide import FAULT
from addons.explanation import explanation
from addons.gateway import Failure
from addons.identify import Identify
from addons.lean import Lean
from addons.outgoing import UnsuitableError
from addons.record import Carried, Record
from addons.scan import ScanRequests
from addons.sender import Senders
from addons.suite import MitMemory, Suite
from addons.targets import TargetConfig
from memory.activity import Activity
from memory.exchange import Decision, Exchange, RulePart, Scan
from memory.exposure import Exposure
from memory.held import Released
from memory.rules import Rule, RuleBook, When
from tests.addons.desk import Desk
from tests.addons.parts import MESSAGES, TIDES, Shelf, content, exchange_of, flow_to, reference, seen

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


@pytest.mark.parametrize("later", [None, RuleBook()])
async def test_what_was_on_hold_is_judged_by_the_rules_and_notes_of_when_it_came(
    desk_of: Callable[..., Any], later: RuleBook | None
) -> None:
    async def everything_changes(*_: Any) -> Released:
        desk.decide.rules, desk.decide.targets = later, {}
        desk.note_library.configure([Shelf([])])
        await desk.note_library.scan()
        return Released("released")

    desk, flow = await desk_of(ASK, STRIP, hold=everything_changes), flow_to(body=ASKED)
    exchange = await desk.send(flow)
    assert desk.note_library.snapshot.map.notes == {}
    assert (flow.response, flow.request.raw_content) == (None, STRIPPED)
    assert [(part.rule, part.action) for part in exchange.decision.parts] == [
        ("ask me", "allow"),
        ("tides are stripped", "redact"),
    ]


async def test_what_cannot_be_judged_after_a_hold_is_kept_though_the_rules_are_gone(
    desk_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(*_: Any) -> Released:
        desk.decide.rules = RuleBook()
        monkeypatch.setattr("addons.decide.judge", broken)
        return Released("released")

    desk, flow = await desk_of(ASK, hold=breaks), flow_to(body=ASKED)
    await desk.send(flow)
    assert flow.response
    assert flow.response.status_code == 400


async def test_whoever_left_while_on_hold_is_written_down_as_gone(desk_of: Callable[..., Any]) -> None:
    async def leaves(*_: Any) -> Released:
        return Released("left")

    desk, flow = await desk_of(ASK, hold=leaves), flow_to(body=ASKED)
    exchange = await desk.send(flow)
    flow.error = Error("peer closed connection")  # as mitmproxy finds once the hook is over
    flow.client_conn.state = ConnectionState.CLOSED
    events: list[Any] = []
    record = Record(desk.flows, Activity(), Exposure(), Events(events), Carried(), count=True)
    record.error(flow)
    assert (exchange.outcome, exchange.status, exchange.sent_to) == ("aborted", None, [])
    assert [entry["outcome"] for entry in events] == ["aborted"]


async def test_without_a_suitable_target_the_person_reads_why(desk_of: Callable[..., Any]) -> None:
    targets = (replace(HOME, name="chat", protocols=("ollama",)), replace(HOME, name="mine", local=True))
    home = replace(GO_HOME, targets=("chat", "mine"), otherwise="block")
    never = Rule("not at mine", When(provider=("mine",)), "block")
    desk, flow = await desk_of(home, never, targets=targets), flow_to(body=ASKED)
    await desk.send(flow)
    assert flow.response
    assert json.loads(flow.response.content or b"")["error"]["message"] == (
        'mitmemory blocked this request: "go home" keeps it from claude-test (cloud); '
        'chat does not speak anthropic; mine may not have it ("not at mine")'
    )


class Events:
    """What the dashboard is told."""

    def __init__(self, told: list[Any]) -> None:
        self._told = told

    def publish(self, kind: str, data: dict[str, Any]) -> None:
        assert kind == "activity"
        self._told.append(data)


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
        (GO_HOME, STRIP), {"targets": [HOME]}, [STRIPPED, STRIPPED], {"Lead.on", "addons.lead.origin_of", "addons.lead.settle", "addons.outgoing.locate"}
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


SOCKET = "https://api.openai.com/v1/responses"
TURN = json.dumps({"type": "response.create", "model": "gpt-test", "input": TIDES})
PLAIN = json.dumps({"type": "response.create", "model": "gpt-test", "input": "Ahoy"})


class Injector:
    """Stands in for mitmproxy's own addon, which wants a connection."""

    def __init__(self) -> None:
        self.told: list[bytes] = []

    @command.command("inject.websocket")
    def inject(self, flow: Flow, to_client: bool, message: bytes, is_text: bool = True) -> None:
        assert (flow.type, to_client, is_text) == ("http", True, True)
        self.told.append(message)


async def test_a_fault_at_any_step_keeps_a_message_on_a_websocket(
    desk_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with taddons.context(injector := Injector()):
        desk = await desk_of(STAY)
        said = [(await desk.say(flow_to(SOCKET, method="GET"), text)).dropped for text in (PLAIN, TURN)]
        assert said == [False, True]
        assert "keeps" in json.loads(injector.told[0])["error"]["message"]
        found = await steps(desk.say(flow_to(SOCKET, method="GET"), TURN))
        passed, names = [], [f"{owner.__name__}.{name}" for owner, name in found]
        assert {"Identify._begin", "Decide._decide_message", "ScanRequests._find", "RuleBook.find"} <= set(names)
        for (owner, name), step in zip(found, names, strict=True):
            if step in ("Decide.websocket_message", "Decide._fail", "traced"):
                continue  # these are what catches it
            flow, desk = flow_to(SOCKET, method="GET"), await desk_of(STAY)
            # Its turn is under way: what comes now must not be taken for it.
            assert not (await desk.say(flow, PLAIN)).dropped
            desk.flows.of(flow).status = 101
            with monkeypatch.context() as broken_there:
                broken_there.setattr(owner, name, broken)
                if not (await desk.say(flow, TURN)).dropped:
                    passed.append(step)
        assert passed == []


@pytest.mark.parametrize("under_way", [False, True])
async def test_a_message_that_is_no_exchange_is_kept_and_not_taken_for_an_earlier_one(
    desk_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, under_way: bool
) -> None:
    desk, flow = await desk_of(STAY, unscanned="allow"), flow_to(SOCKET, method="GET")
    if under_way:
        await desk.say(flow, PLAIN)
        desk.flows.of(flow).status = 101
    monkeypatch.setattr(Identify, "_begin", broken)
    with taddons.context(injector := Injector()):
        assert (await desk.say(flow, TURN)).dropped
    assert "could not be judged" in json.loads(injector.told[0])["error"]["message"]


async def test_without_rules_a_fault_lets_a_message_go(
    desk_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = await desk_of()
    monkeypatch.setattr(Identify, "_begin", broken)
    assert not (await desk.say(flow_to(SOCKET, method="GET"), TURN)).dropped


@pytest.mark.parametrize("stage", [Senders, Identify, ScanRequests])
@pytest.mark.parametrize("hook", ["requestheaders", "request"])
async def test_a_stage_that_fails_does_not_spare_a_request_the_judging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: type, hook: str
) -> None:
    """With the addons as mitmproxy has them: all stages are parts of one."""
    config = Config(
        mode="dispatch", state=None, dashboard=DashboardConfig(listen=Address("127.0.0.1", 18091)), rules=(STAY,)
    )
    suite = Suite(config)
    suite.add_source(Shelf())
    await suite.note_library.scan()
    monkeypatch.setattr(stage, hook, broken, raising=False)
    flow = flow_to(body=ASKED)
    with taddons.context(Proxyserver(), MitMemory(suite)) as context:
        lean = next(stage for stage in suite.addons if isinstance(stage, Lean))
        lean.running()
        for event in (HttpRequestHeadersHook(flow), HttpRequestHook(flow)):
            await context.master.addons.trigger_event(event)
        lean.done()
    await suite.note_library.aclose()
    assert flow.response
    assert flow.response.status_code == 400


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
