"""The stages up to the decision, without a proxy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mitmproxy import http
from mitmproxy.websocket import WebSocketData, WebSocketMessage
from wsproto.frame_protocol import Opcode

from addons.conversation_keys import ConversationKeys
from addons.decide import Decide, Hold
from addons.destinations import Destinations
from addons.flows import Flows
from addons.identify import Identify
from addons.makers import reach_of
from addons.providers import ProviderTable
from addons.record import Carried
from addons.scan import ScanRequests
from addons.targets import TargetConfig
from addons.withhold import Withhold
from memory.exchange import Exchange
from memory.note_library import NoteLibrary
from memory.notes import MemoryDocument, Share
from memory.rules import Rule, RuleBook
from memory.scan import Scanner
from tests.addons.parts import TIDES, Shelf


class Desk:
    """The stages up to `Decide`, as a flow meets them; a stage that raises is passed over, as `LeanAddons` does it."""

    def __init__(
        self,
        *rules: Rule,
        text: str = TIDES,
        share: Share | None = None,
        targets: Sequence[TargetConfig] = (),
        hold: Hold | None = None,
        **more: Any,
    ) -> None:
        self.note_library = NoteLibrary([Shelf([MemoryDocument("Tides.md", text, share=share)])])
        book, scanner = RuleBook(rules, **more), Scanner()
        self.note_library.reach(reach_of(book))
        self.led: list[Any] = []
        """What has been led to targets: (targets, otherwise, body_for)."""
        providers, self.flows = ProviderTable(), Flows()
        self.identify = Identify(
            providers,
            Destinations(),
            self.flows,
            ConversationKeys(),
            client_of=lambda _: "codex",
            largest_body=10**6,
            scanner=scanner,
        )
        self.scan = ScanRequests(self.note_library, self.flows, Carried(), enabled=True, scanner=scanner)
        self.decide = Decide(
            self.flows,
            providers,
            self.note_library,
            book,
            targets={target.name: target for target in targets},
            redirect=lambda _flow, _exchange, *way: self.led.append(way),
            withhold=Withhold(scanner, largest_body=10**6),
            hold=hold,
        )

    async def send(self, flow: http.HTTPFlow) -> Exchange | None:
        for stage in (self.identify.requestheaders, self.identify.request, self.scan.request, self.decide.request):
            try:
                waiting = stage(flow)
                if waiting is not None:
                    await waiting
            except ZeroDivisionError:
                continue
        with suppress(ZeroDivisionError):
            return self.flows.of(flow)
        return None

    async def say(self, flow: http.HTTPFlow, text: str) -> WebSocketMessage:
        """A message of the client on a WebSocket."""
        flow.websocket = flow.websocket or WebSocketData()
        message = WebSocketMessage(Opcode.TEXT, True, text.encode())
        flow.websocket.messages.append(message)
        with suppress(ZeroDivisionError):
            await self.identify.websocket_message(flow)
        with suppress(ZeroDivisionError):
            await self.scan.websocket_message(flow)
        self.decide.websocket_message(flow)
        return message
