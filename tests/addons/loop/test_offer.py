"""Which requests offer the tool, and how they go on."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any, cast

import pytest
from mitmproxy import http

from addons.flows import Flows
from addons.loop.anthropic import AnthropicLoop
from addons.loop.dialect import Dialect, Offered, Passage
from addons.loop.offer import LeadOffered, Offer
from addons.loop.searcher import Searcher
from addons.outgoing import Origin
from addons.providers import ProviderTable
from addons.reroute import Reroute
from memory.body import Body
from memory.conversations.memories import Memories
from memory.conversations.recall_tool import RecallTool
from memory.exchange import Exchange, SentTo
from memory.note_library import NoteLibrary
from memory.scan import Scanner
from tests.addons.looping import asked
from tests.addons.parts import exchange_of, flow_to

BODY = json.dumps(asked())
TOOLS = [{"name": "MemoryRecall"}]


class Fixed:
    """A dialect that offers what it is told, or fails."""

    def __init__(self, offered: Offered | Exception) -> None:
        self.offered = offered

    def offer(self, *_: Any) -> Offered:
        if isinstance(self.offered, Exception):
            raise self.offered
        return self.offered


class Desk:
    """The two stages, and what is led through them."""

    def __init__(self, dialect: object = None, takes: str = "claude-code") -> None:
        self.flows, self.led, self.takes = Flows(), list[Any](), takes
        self.warmed: list[str] = []
        searcher = Searcher(
            lambda: cast("Memories", self),
            lambda _: None,
            NoteLibrary([]),
            rules=lambda: None,
            is_scanning=lambda: True,
            handed=lambda *_: None,
        )
        self.offer = Offer(
            self.flows,
            ProviderTable(),
            searcher,
            takes=lambda client: client == self.takes,
            client_of=lambda _: "claude-code",
            tool=RecallTool,
            dialect_for=lambda _: cast("Dialect", dialect or AnthropicLoop()),
            largest_body=10**6,
            scanner=Scanner(),
        )
        self.lead = LeadOffered(
            self.flows, ProviderTable(), cast("Reroute", self), lambda _host, _port: ("10.0.0.9", 8443)
        )

    def warm(self, client: str) -> None:
        self.warmed.append(client)

    def redirect(self, *way: Any) -> None:
        self.led.append(way)

    async def send(self, flow: http.HTTPFlow, **changes: Any) -> Exchange:
        exchange = exchange_of(flow.id, **changes)
        self.flows.begin(flow, exchange)
        await self.offer.request(flow)
        self.lead.request(flow)
        return exchange


def tools_of(flow: http.HTTPFlow) -> list[str]:
    return [tool["name"] for tool in json.loads(flow.request.content or b"").get("tools", ())]


async def test_a_request_offers_the_tool_and_is_led_to_its_provider() -> None:
    desk, flow = Desk(), flow_to(body=gzip.compress(BODY.encode()), headers={"Content-Encoding": "gzip"})
    exchange = await desk.send(flow)
    assert (tools_of(flow), "content-encoding" in flow.request.headers) == (["MemoryRecall"], False)
    [(led, of, targets, otherwise)] = desk.led
    assert (led, of, targets) == (flow, exchange, ())
    origin: Origin = await otherwise(())
    assert (origin.host, origin.dialled, origin.port, origin.body) == ("api.anthropic.com", "10.0.0.9", 8443, None)
    assert origin.sent_to == SentTo("claude-test", "cloud", "api.anthropic.com:443")
    loop = desk.offer.answering_of(exchange)
    assert loop is not None
    assert loop.offering.offered.is_streamed
    assert desk.flows.take_body(flow) is None  # what was read of it before is scanned


async def test_what_was_hidden_is_read_for_the_scan() -> None:
    text = json.dumps({"messages": ["what was hidden"]})
    desk, flow = Desk(Fixed(Offered(text, is_streamed=False, is_expanded=True))), flow_to(body=BODY.encode())
    await desk.send(flow)
    body = desk.flows.take_body(flow)
    assert isinstance(body, Body)
    assert body.json == json.loads(text)


async def test_nothing_is_kept_of_an_answer_that_was_under_way_when_all_was_forgotten() -> None:
    desk = Desk()
    loop = desk.offer.answering_of(await desk.send(flow_to(body=BODY.encode())))
    assert loop is not None
    loop.keep({"one": Passage(("{}",))})
    desk.offer.past.forget("claude-code")
    loop.keep({"two": Passage(("{}",))})
    assert [desk.offer.past.find("claude-code", key) for key in ("one", "two")] == [None, None]
    loop = desk.offer.answering_of(await desk.send(flow_to(body=BODY.encode())))
    assert loop is not None
    loop.keep({"two": Passage(("{}",))})
    assert desk.offer.past.find("claude-code", "two") == Passage(("{}",))


@pytest.mark.parametrize(
    ("changes", "headers", "body"),
    [
        ({"client": "codex"}, {}, BODY),
        ({"side_request": True}, {}, BODY),
        ({}, {"Content-Digest": "sha-256=:x:"}, BODY),
        ({}, {"Content-Encoding": "secret"}, BODY),
        ({}, {}, BODY.replace("tide gate", "\udce9")),
        ({}, {}, "no JSON"),
        ({}, {}, json.dumps(asked(tool_choice={"type": "none"}))),
    ],
)
async def test_others_are_left_alone(changes: Any, headers: Any, body: str) -> None:
    raw = body.encode("utf-8", "surrogateescape")
    desk, flow = Desk(), flow_to(body=raw, headers=headers)
    exchange = await desk.send(flow, **changes)
    assert (flow.request.raw_content, desk.led, desk.offer.answering_of(exchange)) == (raw, [], None)
    assert desk.offer.warnings == []


async def test_a_fault_of_ours_is_told_and_the_request_goes_its_way() -> None:
    desk, flow = Desk(Fixed(ZeroDivisionError("secret"))), flow_to(body=BODY.encode())
    await desk.send(flow)
    assert (flow.request.raw_content, desk.led) == (BODY.encode(), [])
    assert desk.offer.warnings == ["The recall tool was not offered: ZeroDivisionError"]


async def test_an_index_is_opened_for_what_is_offered_and_for_nothing_else() -> None:
    desk = Desk()
    await desk.send(flow_to(body=b"no JSON"))
    assert desk.warmed == []
    await desk.send(flow_to(body=BODY.encode()))
    assert desk.warmed == ["claude-code"]


async def test_a_provider_that_refuses_the_tool_is_offered_none_any_more() -> None:
    offered = Offered(json.dumps(asked(tools=TOOLS)), is_streamed=True, without_tool=BODY)
    dialect = Fixed(offered)
    desk, flow = Desk(dialect), flow_to(body=BODY.encode())
    loop = desk.offer.answering_of(await desk.send(flow))
    assert loop is not None
    loop.refused()
    [warning] = desk.offer.warnings
    assert warning.startswith("claude-code: its provider refuses the tool")
    assert "`mode: both`" in warning
    flow = flow_to(body=BODY.encode())
    assert desk.offer.answering_of(await desk.send(flow)) is None
    assert flow.request.raw_content == BODY.encode()
    another = flow_to(body=BODY.encode())
    assert desk.offer.answering_of(await desk.send(another, model="another-model")) is not None
    dialect.offered = replace(offered, without_tool=None)  # another of its requests, where nothing is refused
    assert desk.offer.answering_of(await desk.send(flow_to(body=BODY.encode()))) is not None


async def test_what_a_rule_has_led_elsewhere_or_answered_is_not_led_once_more() -> None:
    for answered in (False, True):
        desk, flow = Desk(), flow_to(body=BODY.encode())
        exchange = exchange_of(is_led=not answered)
        desk.flows.begin(flow, exchange)
        await desk.offer.request(flow)
        flow.response = http.Response.make(400) if answered else None
        desk.lead.request(flow)
        assert desk.led == []


@pytest.mark.parametrize(
    ("url", "takes", "headers", "status"),
    [
        ("https://api.openai.com/v1/responses", "claude-code", {"Upgrade": "WebSocket"}, 426),
        ("https://api.openai.com/v1/responses", "codex", {"Upgrade": "WebSocket"}, None),
        ("https://example.com/v1/responses", "claude-code", {"Upgrade": "WebSocket"}, None),
        ("https://api.openai.com/v1/models", "claude-code", {}, None),
    ],
)
async def test_a_socket_is_refused(url: str, takes: str, headers: Any, status: int | None) -> None:
    flow = flow_to(url, method="GET", headers=headers)
    await Desk(takes=takes).offer.request(flow)
    assert (flow.response and flow.response.status_code) == status
