"""The stages that have to do with remembering, and answers for them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from mitmproxy import http

from addons.clients import ClientTable
from addons.conversation_keys import ConversationKeys
from addons.destinations import Destinations
from addons.flows import Flows
from addons.identify import Identify
from addons.providers import ProviderTable
from addons.remember import Remember
from addons.sender import Senders
from addons.tap import Tap
from memory.exchange import Decision, Exchange
from tests.addons.parts import MESSAGES, flow_to
from tests.addons.recording import Notebook
from tests.addons.wires import sse

NOW = datetime(2026, 3, 4, 5, 6, 8, tzinfo=UTC)
ASKED = {"model": "claude-test", "messages": [{"role": "user", "content": "When is high tide?"}]}
SOCKET = "https://api.openai.com/v1/responses"


def events(*texts: str, stop: bool = True) -> list[bytes]:
    """A streamed answer, event by event."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test-2026", "content": []}
    said: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in texts),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        *([{"type": "message_stop"}] if stop else []),
    ]
    return [sse([event], named=True) for event in said]


def document(text: str) -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test-2026"}
    return json.dumps(message | {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}).encode()


class Desk:
    """The stages that have to do with it. `remembered` are the clients with a memory."""

    def __init__(
        self,
        remembered: Sequence[str] = ("claude-code",),
        *,
        largest_answer: int = 10**8,
        clock: Callable[[], datetime] = lambda: NOW,
    ) -> None:
        self.flows, self.notebook = Flows(), Notebook()
        self.remembered = set(remembered)
        keys = ConversationKeys()
        self.remember = Remember(self.flows, self._recorder_of, clock=clock)
        self.identify = Identify(
            ProviderTable(()),
            Destinations(),
            self.flows,
            keys,
            client_of=Senders(ClientTable((), b"")).client_of,
            largest_body=10**8,
            remembers=self.remember.remembers,
        )
        self.tap = Tap(self.flows, keys, largest_answer=largest_answer, on_answer=self.remember.answered)

    def _recorder_of(self, client: str) -> Notebook | None:
        return self.notebook if client in self.remembered else None

    async def asked(
        self, url: str = MESSAGES, body: Any = ASKED, *, decision: Decision | None = None, **headers: str
    ) -> http.HTTPFlow:
        flow = flow_to(
            url, body, headers={"user-agent": "claude-cli/2"} | {k.replace("_", "-"): v for k, v in headers.items()}
        )
        self.identify.requestheaders(flow)
        await self.identify.request(flow)
        self.flows.take_body(flow)
        self.exchange(flow).decision = decision or Decision()
        await self.remember.request(flow)
        return flow

    def exchange(self, flow: http.HTTPFlow) -> Exchange:
        exchange = self.flows.of(flow)
        assert exchange
        return exchange

    def begin(self, flow: http.HTTPFlow, status: int = 200, **headers: str) -> None:
        flow.response = http.Response.make(status, b"")
        flow.response.headers.clear()
        flow.response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
        flow.server_conn.timestamp_tcp_setup = time.time()
        self.tap.responseheaders(flow)

    def send(self, flow: http.HTTPFlow, *chunks: bytes) -> None:
        """The chunks pass through; nothing of them is changed."""
        assert flow.response
        assert callable(flow.response.stream)
        assert [flow.response.stream(chunk) for chunk in chunks] == list(chunks)

    async def end(self, flow: http.HTTPFlow) -> None:
        self.send(flow, b"")
        await self.tap.response(flow)
        self.flows.end(flow)

    async def answered(self, flow: http.HTTPFlow, *chunks: bytes, status: int = 200, **headers: str) -> None:
        self.begin(flow, status, **headers)
        self.send(flow, *chunks)
        await self.end(flow)
