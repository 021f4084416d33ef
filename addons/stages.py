"""The stages, built once, and the order in which a flow meets them (told in addons/__init__.py)."""

from __future__ import annotations

from collections.abc import Callable

from mitmproxy import ctx, http

from addons.annotate import Annotate
from addons.commands import Commands
from addons.config import Config, config_to_name
from addons.conversation_keys import ConversationKeys
from addons.conversations import Conversations
from addons.decide import Decide
from addons.destinations import Destinations
from addons.flows import Flows
from addons.gateway import Gateway
from addons.guard import Guard
from addons.hints import Hints
from addons.hold import Hold
from addons.identify import Identify
from addons.inspector import Inspector
from addons.lean import Lean
from addons.limits import Limits
from addons.loop.dialects import dialect_for
from addons.loop.offer import LeadOffered, Offer
from addons.loop.searcher import Searcher
from addons.makers import make_rules
from addons.mends import Mends
from addons.providers import ProviderTable
from addons.record import Carried, Publisher, Record
from addons.released import Released
from addons.remember import Remember
from addons.reroute import Reroute
from addons.reverse import Reverse
from addons.scan import ScanRequests
from addons.send import Send
from addons.sender import Senders
from addons.tap import Tap
from addons.trust import Trust
from addons.withhold import Withhold
from memory.activity import Activity
from memory.conversations.recall_tool import RecallTool
from memory.exposure import Exposure
from memory.held import HeldRequests
from memory.note_library import NoteLibrary
from memory.scan import Scanner


class Stages:
    """`in_order` are the mitmproxy addons that a flow goes through.

    Args:
        config: that of the start; what may change while running is set at the stages themselves.
        own_ports: ports of this machine to which no client is led, read anew each time. The gateway adds its own.
        loops: whether the model of a client, by its slug, can search its memory inside the conversation.
        recall_tool: the tool, under its name of the moment.

    """

    def __init__(
        self,
        config: Config,
        *,
        providers: ProviderTable,
        senders: Senders,
        note_library: NoteLibrary,
        exposure: Exposure,
        activity: Activity,
        events: Publisher,
        held: HeldRequests,
        conversations: Conversations,
        own_ports: set[int],
        loops: Callable[[str], bool],
        recall_tool: Callable[[], RecallTool],
    ) -> None:
        largest_body = config.proxy.max_body
        destinations = Destinations()
        carried = Carried()
        keys = ConversationKeys()
        scanner = Scanner()
        self.flows = Flows()
        self.scan = ScanRequests(
            note_library, self.flows, carried, enabled=config.memory.track_sharing, scanner=scanner
        )
        self.remember = Remember(self.flows, conversations.recorder_of)
        self.tap = Tap(self.flows, keys, largest_answer=largest_body, on_answer=self.remember.answered)
        self.record = Record(self.flows, activity, exposure, events, carried, count=config.mode == "dispatch")
        gateway = Gateway(
            own_ports=own_ports,
            proxy_ports=_proxy_ports,
            trust=Trust(lambda: ctx.options.ssl_verify_upstream_trusted_ca),
            largest_body=largest_body,
        )
        self.offer = Offer(
            self.flows,
            providers,
            Searcher(
                lambda: conversations.memories,
                conversations.recorder_of,
                note_library,
                rules=lambda: self.decide.rules,
                is_scanning=lambda: self.scan.enabled,
                handed=self.record.recalled,
            ),
            takes=loops,
            client_of=senders.client_of,
            tool=recall_tool,
            dialect_for=dialect_for,
            largest_body=largest_body,
            scanner=scanner,
        )
        conversations.on_deleted.append(self.offer.past.forget)
        self.reroute = Reroute(gateway, self.record.sent, self.offer.answering_of)
        self.hold = Hold(held, self.record.held)
        self.decide = Decide(
            self.flows,
            providers,
            note_library,
            make_rules(config),
            targets={target.name: target for target in config.targets},
            redirect=self.reroute.redirect,
            withhold=Withhold(scanner, largest_body=largest_body),
            hold=self.hold,
            dial=destinations.dial,
        )
        self.hints = Hints(providers, config_to_name(config.file))
        self._conversations = conversations

        def is_for_a_provider(request: http.Request) -> bool:
            return providers.find(request.host, request.port) is not None

        self.in_order: tuple[object, ...] = (
            Lean(note_library),
            Mends(),
            Limits(is_for_a_provider),
            senders,
            Reverse(config.proxy.reverse),
            self.reroute,
            Guard(own_ports, self.reroute.is_led),
            Identify(
                providers,
                destinations,
                self.flows,
                keys,
                client_of=senders.client_of,
                largest_body=largest_body,
                scanner=scanner,
                remembers=self.remember.remembers,
            ),
            self.offer,
            self.scan,
            self.decide,
            self.hold,
            self.remember,
            LeadOffered(self.flows, providers, self.reroute, destinations.dial),
            Send(providers, destinations),
            Released(self.record.released),
            self.tap,
            self.record,
            Annotate(self.flows),
            Inspector(providers, keep_flows=config.proxy.keep_flows, keep_bytes=config.proxy.keep_bytes),
            self.hints,
            Commands(note_library, scanner, largest_body=largest_body),
            conversations,
        )

    @property
    def warnings(self) -> list[str]:
        """What went wrong in any of them, and what they cannot see."""
        return [
            *self.scan.failures,
            *self.decide.failures,
            *self.tap.failures,
            *self._conversations.warnings,
            *self.remember.warnings,
            *self.offer.warnings,
            *self.hints.warnings,
        ]


def _proxy_ports() -> list[int]:
    return [port for _, port, *_ in ctx.master.addons.get("proxyserver").listen_addrs()]
