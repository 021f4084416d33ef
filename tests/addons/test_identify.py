"""Which flows become exchanges, and what is known of them before they are scanned."""

from __future__ import annotations

import gzip
import re
import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.connection import ConnectionState

from addons.clients import ClientTable
from addons.conversation_keys import LONGEST_KEY, ConversationKeys
from addons.destinations import Destinations
from addons.flows import INLINE_BYTES, MOST_INLINE, Flows
from addons.identify import Identify
from addons.providers import Provider, ProviderConfig, ProviderTable
from addons.sender import Senders
from memory.body import Body, read_body
from memory.exchange import Exchange, Place, Scan
from memory.index import NoteIndex
from memory.note_library import NoteLibrary
from memory.scan import scan_body
from tests.addons.parts import MESSAGES, flow_to

ASKED = {"model": "claude-test", "messages": [{"role": "user", "content": "When is high tide?"}]}


class Judge(Destinations):
    """Says `local` and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str, str, int]] = []

    async def decide(self, provider: Provider, model: str, host: str, port: int) -> Place:
        self.asked.append((provider.name, model, host, port))
        return "local"


class Desk:
    def __init__(self, *providers: ProviderConfig, largest_body: int = 10**8) -> None:
        self.flows, self.judge = Flows(), Judge()
        self.identify = Identify(
            ProviderTable(providers),
            self.judge,
            self.flows,
            ConversationKeys(),
            client_of=Senders(ClientTable((), b"")).client_of,
            largest_body=largest_body,
        )

    async def meet(self, flow: http.HTTPFlow) -> Exchange | None:
        self.identify.requestheaders(flow)
        await self.identify.request(flow)
        return self.flows.of(flow)

    async def exchange(self, *arguments: Any, **more: Any) -> Exchange:
        exchange = await self.meet(flow_to(*arguments, **more))
        assert exchange
        return exchange


async def test_a_request_to_a_model() -> None:
    desk, before = Desk(), datetime.now(UTC)
    flow = flow_to(MESSAGES + "?beta=true", ASKED, headers={"User-Agent": "claude-cli/2.1.197 (external, sdk-cli)"})
    desk.identify.requestheaders(flow)
    early = desk.flows.of(flow)
    assert early
    assert (early.to, early.model, early.scan.state, flow.request.stream) == ("cloud", "", "unscanned", False)
    await desk.identify.request(flow)
    exchange = desk.flows.of(flow)
    assert exchange is early
    assert re.fullmatch(r"[0-9a-f]{14}", exchange.id)
    assert before <= exchange.started_at <= datetime.now(UTC)
    assert (exchange.provider, exchange.protocol, exchange.model, exchange.client) == (
        "anthropic",
        "anthropic",
        "claude-test",
        "claude-code",
    )
    assert (exchange.to, exchange.upstream, exchange.side_request) == ("local", "api.anthropic.com:443", False)
    assert exchange.request_bytes == len(flow.request.raw_content or b"")
    assert desk.judge.asked == [("anthropic", "claude-test", "api.anthropic.com", 443)]
    body = desk.flows.take_body(flow)
    assert body
    assert body.json == ASKED
    assert desk.flows.take_body(flow) is None


async def test_what_is_for_no_provider_passes_unread() -> None:
    desk, flow = Desk(), flow_to("http://files.example/v1/messages", ASKED)
    assert await desk.meet(flow) is None
    assert (flow.request.stream, desk.judge.asked, desk.flows.take_body(flow)) == (True, [], None)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
async def test_a_request_without_a_body_is_no_exchange_but_goes_where_its_provider_is(method: str) -> None:
    desk, flow = Desk(), flow_to("https://api.anthropic.com/v1/models", method=method)
    assert await desk.meet(flow) is None
    assert flow.request.stream is False
    assert desk.judge.asked == [("anthropic", "", "api.anthropic.com", 443)]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_whatever_has_a_body_is_an_exchange(method: str) -> None:
    exchange = await Desk().exchange("https://api.anthropic.com/v1/files", b"text", method=method)
    assert (exchange.protocol, exchange.model, exchange.conversation) == ("unknown", "", None)


async def test_what_was_answered_already_is_left_alone() -> None:
    desk = Desk()
    for url in (MESSAGES, "http://files.example/"):
        flow = flow_to(url, status=403)
        desk.identify.requestheaders(flow)
        assert (desk.flows.of(flow), flow.request.stream) == (None, False)


async def test_opening_a_websocket_is_no_exchange_yet() -> None:
    flow = flow_to("https://api.openai.com/v1/responses", method="GET", headers={"Upgrade": "websocket"})
    assert await Desk().meet(flow) is None


async def test_a_providers_own_word_on_its_protocol_counts_where_the_path_says_nothing() -> None:
    desk = Desk(ProviderConfig("lab", hosts=("lab.example:8000",), protocol="ollama"))
    protocols = [
        (await desk.exchange(f"http://lab.example:8000{path}", ASKED)).protocol
        for path in ("/ask", "/v1/chat/completions", "/api/chat")
    ]
    assert protocols == ["ollama", "openai-chat", "ollama"]


async def test_a_final_slash_changes_nothing() -> None:
    exchange = await Desk().exchange("https://api.openai.com/v1/responses/", {"model": "gpt-test", "input": "Hello"})
    assert (exchange.protocol, exchange.model, exchange.side_request) == ("openai-responses", "gpt-test", False)


async def test_counting_tokens_is_a_side_request() -> None:
    assert (await Desk().exchange(f"{MESSAGES}/count_tokens", ASKED)).side_request


# ---- ids


@pytest.mark.parametrize("clock", [[5_000_000] * 4, [5_000_999] * 4, [9_000_000, 4_000_000, 9_000_000, 9_001_000]])
def test_ids_increase_also_when_the_clock_stands_still_or_goes_back(
    monkeypatch: pytest.MonkeyPatch, clock: list[int]
) -> None:
    identify = Desk().identify
    moments = iter(clock)
    monkeypatch.setattr("addons.identify.time.time_ns", lambda: next(moments))
    first = clock[0] // 1000
    assert [identify._next_id() for _ in clock] == [f"{first + step:014x}" for step in range(4)]


def test_an_id_is_the_time_in_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addons.identify.time.time_ns", lambda: 1_772_600_767_089_000_999)
    assert Desk().identify._next_id() == f"{1_772_600_767_089_000:014x}"


# ---- conversations


async def test_a_clients_own_key_is_the_conversation() -> None:
    exchange = await Desk().exchange(body=ASKED, headers={"X-Claude-Code-Session-Id": "tulip"})
    assert exchange.conversation == "tulip"


async def test_else_it_is_a_hash_that_keeps_conversations_apart() -> None:
    desk = Desk()
    later = ASKED | {"messages": [*ASKED["messages"], {"role": "assistant", "content": "At noon."}]}
    other = ASKED | {"messages": [{"role": "user", "content": "When is low tide?"}]}
    first, second, third, codex, elsewhere = [
        (await desk.exchange(url, body, headers={"User-Agent": agent})).conversation
        for url, body, agent in (
            (MESSAGES, ASKED, "claude-cli/2"),
            (MESSAGES, later, "claude-cli/3"),
            (MESSAGES, other, "claude-cli/2"),
            (MESSAGES, ASKED, "codex_exec/0"),
            ("https://openrouter.ai/api/v1/chat/completions", ASKED, "claude-cli/2"),
        )
    ]
    assert first == second
    assert len({first, third, codex, elsewhere}) == 4
    assert first
    assert re.fullmatch(r"opening-[0-9a-f]{16}", first)
    assert (await Desk().exchange(body=ASKED, headers={"User-Agent": "claude-cli/2"})).conversation != first


async def test_without_a_message_there_is_no_conversation() -> None:
    assert (await Desk().exchange(body={"model": "claude-test"})).conversation is None


async def test_half_a_surrogate_pair_is_no_trouble() -> None:
    body = b'{"model": "\\ud800", "messages": [{"role": "user", "content": "\\udfff"}]}'
    exchange = await Desk().exchange(body=body)
    assert (exchange.model, bool(exchange.conversation)) == ("?", True)
    exchange = await Desk().exchange("http://127.0.0.1:11434/api/generate", b'{"model": "m", "prompt": "\\udfff"}')
    assert (exchange.model, bool(exchange.conversation)) == ("m", True)


# ---- bodies


@pytest.mark.parametrize(
    ("size", "encoding", "threaded"),
    [(INLINE_BYTES, "", False), (INLINE_BYTES + 1, "", True), (10, "gzip", True), (10, "identity", True)],
)
async def test_a_large_or_encoded_body_is_read_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, size: int, encoding: str, threaded: bool
) -> None:
    readers: list[threading.Thread] = []
    read, understand = Identify._decoded, Identify._understood

    def decoded(self: Identify, raw: bytes, encoding: str, content_type: str) -> Body:
        readers.append(threading.current_thread())
        return read(self, raw, encoding, content_type)

    def understood(self: Identify, path: str, headers: Any, exchange: Exchange, body: Body) -> Any:
        understanders.append(threading.current_thread())
        return understand(self, path, headers, exchange, body)

    understanders: list[threading.Thread] = []
    monkeypatch.setattr(Identify, "_decoded", decoded)
    monkeypatch.setattr(Identify, "_understood", understood)
    raw = b'{"model": "m"}'.ljust(size)
    raw = gzip.compress(raw) if encoding == "gzip" else raw
    flow = flow_to(body=raw, headers={"Content-Encoding": encoding} if encoding else {})
    exchange = await Desk().meet(flow)
    assert exchange
    assert (exchange.model, exchange.request_bytes) == ("m", len(raw))
    assert [reader is not threading.main_thread() for reader in readers] == [threaded]
    assert understanders == readers


@pytest.mark.parametrize(
    ("before", "size", "is_quick"),
    [
        (None, INLINE_BYTES, True),
        (None, INLINE_BYTES + 1, False),
        (100_000, 100_000 + INLINE_BYTES, True),
        (100_000, 100_001 + INLINE_BYTES, False),
        (100_000, 10, True),
        (9 * MOST_INLINE, MOST_INLINE, True),
        (9 * MOST_INLINE, MOST_INLINE + 1, False),
    ],
)
def test_what_goes_on_from_the_last_body_of_a_connection_is_quick(
    before: int | None, size: int, is_quick: bool
) -> None:
    flows, flow, other = Flows(), flow_to(), flow_to()
    if before is not None:
        flows.was_scanned(flow, before)
    assert flows.is_quick(flow, size) is is_quick
    assert flows.is_quick(other, size) is (size <= INLINE_BYTES)  # on a connection of its own


def test_with_other_notes_nothing_is() -> None:
    flows, flow, snapshot = Flows(), flow_to(), NoteLibrary([]).snapshot
    flows.scanned_for(flow, snapshot)
    flows.was_scanned(flow, INLINE_BYTES)
    flows.scanned_for(flow, replace(snapshot, loaded_at=datetime.now(UTC)))
    assert flows.is_quick(flow, INLINE_BYTES + 1)
    flows.scanned_for(flow, replace(snapshot, index=NoteIndex.build(())))
    assert not flows.is_quick(flow, INLINE_BYTES + 1)


def test_a_connection_that_is_closed_is_forgotten() -> None:
    flows, flow = Flows(), flow_to()
    flows.was_scanned(flow, INLINE_BYTES)
    flows.client_gone(flow.client_conn)
    assert not flows.is_quick(flow, INLINE_BYTES + 1)
    flow.client_conn.state = ConnectionState.CLOSED  # it was, while the body was scanned
    flows.was_scanned(flow, INLINE_BYTES)
    assert not flows.is_quick(flow, INLINE_BYTES + 1)


@pytest.mark.parametrize(
    ("raw", "encoding", "problem"),
    [
        (b'{"model": "m"}', "gzip", "the body is not gzip, as its Content-Encoding says"),
        (b'{"model": "m"}', "rot13", "the Content-Encoding 'rot13' is not known"),
        (gzip.compress(b"x" * 101), "gzip", "the body decodes to more than 100 bytes"),
    ],
)
async def test_a_body_that_cannot_be_read_is_said_to_be_so(raw: bytes, encoding: str, problem: str) -> None:
    desk = Desk(largest_body=100)
    flow = flow_to(body=raw, headers={"Content-Encoding": encoding})
    exchange = await desk.meet(flow)
    assert exchange
    assert (exchange.model, exchange.conversation, exchange.to) == ("", None, "local")
    body = desk.flows.take_body(flow)
    assert body
    assert body.json is None
    assert scan_body(NoteIndex.build([]), body) == Scan("unscanned", (problem,))


async def test_json_nested_without_end_is_no_trouble() -> None:
    deep = b"[" * 100_000
    for body in (deep, b'{"model": "m", "metadata": {"user_id": "%s"}}' % deep):
        assert (await Desk().exchange(body=body)).conversation is None


async def test_a_models_name_is_kept_to_a_length() -> None:
    assert (await Desk().exchange(body={"model": "m" * 100_000})).model == "m" * LONGEST_KEY


# ---- clients that ask for an address


@pytest.mark.parametrize("host", ["203.0.113.7", "[2001:db8::7]"])
async def test_a_provider_that_is_asked_for_by_its_address_is_known_by_its_name(host: str) -> None:
    desk, flow = Desk(), flow_to(f"https://{host}/v1/messages", ASKED, headers={"Host": "api.anthropic.com"})
    flow.client_conn.sni = "api.anthropic.com"
    head = list(flow.request.headers.fields)
    exchange = await desk.meet(flow)
    assert exchange
    assert (exchange.provider, exchange.upstream) == ("anthropic", "api.anthropic.com:443")
    assert desk.judge.asked == [("anthropic", "claude-test", "api.anthropic.com", 443)]
    assert list(flow.request.headers.fields) == head


@pytest.mark.parametrize(
    ("url", "sni"),
    [
        ("https://203.0.113.7/v1/messages", "elsewhere.example"),
        ("https://203.0.113.7/v1/messages", None),
        ("https://elsewhere.example/v1/messages", "api.anthropic.com"),
    ],
)
async def test_the_name_of_a_tls_hello_says_nothing_else(url: str, sni: str | None) -> None:
    desk, flow = Desk(), flow_to(url, ASKED)
    flow.client_conn.sni = sni
    assert await desk.meet(flow) is None
    assert flow.request.pretty_url == url


# ---- the exchanges under way


def test_flows_end_once() -> None:
    flows, flow = Flows(), flow_to()
    assert (flows.of(flow), flows.end(flow), flows.take_body(flow)) == (None, None, None)
    exchange = Exchange("1", datetime.now(UTC), "p", "unknown", "", "c", None, "cloud", "h:1")
    flows.begin(flow, exchange)
    flows.hand_on(flow, read_body(b"{}"))
    assert flows.of(flow) is exchange
    assert flows.end(flow) is exchange
    assert (flows.of(flow), flows.end(flow), flows.take_body(flow)) == (None, None, None)
