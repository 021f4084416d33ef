"""The suite: what its addons and its dashboard share, built once from the configuration.

This file is also the script for those who already run mitmproxy:

    mitmweb --listen-host 127.0.0.1 -s addons/suite.py --set mitmemory_config=mitm.yaml
"""

from __future__ import annotations

import logging
import os
import platform
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

if __name__.startswith("__mitmproxy_script__"):  # mitmproxy puts only this file's own folder on the path
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mitmproxy import ctx, exceptions, http
from mitmproxy.addonmanager import Loader
from mitmproxy.version import VERSION as MITMPROXY_VERSION

from addons.annotate import Annotate
from addons.authority import Authority
from addons.certificates import Certificates, certificates_of
from addons.client_states import clients_json, lines_json, mcp_json, remembers_inside
from addons.clients import ClientTable
from addons.commands import Commands
from addons.compaction import CompactionRules
from addons.config import Address, Config, ConfigError, MemoryConfig, ProxyConfig, SourceConfig, load_config
from addons.config_checks import KINDS
from addons.config_values import expand_path
from addons.config_writing import ConfigFile
from addons.conversation_keys import ConversationKeys
from addons.conversations import Conversations
from addons.decide import Decide
from addons.destinations import Destinations
from addons.file_settings import FileSettings
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
from addons.mends import Mends
from addons.own_key import load_or_make_key
from addons.providers import ProviderTable
from addons.record import Carried, Record
from addons.released import Released
from addons.reload import Reload
from addons.remember import Remember
from addons.reroute import Reroute
from addons.reverse import Reverse
from addons.rules_service import RulesService
from addons.scan import ScanRequests
from addons.send import Send
from addons.sender import Senders
from addons.show_folder import show_folder
from addons.sidecar import SidecarAddon
from addons.tap import Tap
from addons.targets import local_targets
from addons.trust import Trust
from addons.withhold import Withhold
from memory.activity import Activity
from memory.activity_file import FILE_NAME
from memory.activity_store import ActivityStore
from memory.conversations.recall_tool import RecallTool
from memory.exchange import Protocol
from memory.exposure import Exposure
from memory.held import HeldRequests
from memory.map_layout import FILE_NAME as LAYOUT_FILE
from memory.map_layout import MapLayout
from memory.note_library import LibraryOptions, NoteLibrary, Reach
from memory.notes import MemorySource
from memory.rules import RuleBook, facts_of
from memory.scan import Scanner
from memory.sources import make_source
from memory.sources.own import make_own
from web.access import Access, Tokens, load_or_make_tokens
from web.app import Services
from web.events import EventHub
from web.server import Sidecar
from web.settings import NoSettings, Settings

logger = logging.getLogger(__name__)


class StartError(Exception):
    """The suite cannot start. The message says what to do."""


class Suite:
    """Owns every service, and makes the addons that use them, in the order a flow meets them.

    `dashboard` is the socket it will listen on; None: `dashboard.listen` of the configuration is bound at the start.
    Raises StartError when the tokens or the key of the clients can be neither read nor made, or the dashboard's port is not known by now.
    """

    def __init__(self, config: Config, dashboard: socket.socket | None = None) -> None:
        self.config = config
        listen = config.dashboard.listen
        port = dashboard.getsockname()[1] if dashboard else listen.port
        if not port:  # links would lead nowhere, and the guard would not know what to guard
            raise StartError("dashboard.listen: port 0 is for `mitmemory run`, name a port of its own here")
        self.proxy = str(config.proxy.listen)
        """Where the proxy really listens, once it runs."""
        self.authority = Authority(certificates_of(config.state)) if config.state else None
        """The one whose certificates clients are shown, once it runs."""
        self.own_ports = {port}
        """Ports of the suite's own pages, to which no client is led."""
        self.providers = ProviderTable(config.providers)
        self._added: list[MemorySource] = []
        self._configured = make_sources(config.memory)
        self.note_library = make_library(config, self._configured)
        self.exposure = Exposure()
        self.activity = make_activity(config)
        self.held = HeldRequests()
        self.events = EventHub()
        self.tokens = _tokens(config)
        self.client_key = _client_key(config)
        self.senders = Senders(ClientTable(config.clients, self.client_key))
        compaction_rules = CompactionRules(
            lambda: self.config.conversations.compaction, self.providers, self.note_library, lambda: self.decide.rules
        )
        self.conversations = Conversations(config, may_send=compaction_rules)
        self.sidecar = Sidecar(
            Services(
                note_library=self.note_library,
                exposure=self.exposure,
                activity=self.activity,
                events=self.events,
                access=Access(self.tokens, port, host=f"[{listen.host}]" if ":" in listen.host else listen.host),
                status=self.status,
                rules=RulesService(
                    lambda: self.config, self.note_library, self.activity, lambda rule: self.record.hits[rule]
                ),
                clients=self.clients,
                conversations=self.conversations,
                recall_tool=lambda: RecallTool(self.config.conversations.recall_tool_name),
                remembers_inside=self._remembers_inside,
                open_folder=show_folder,
                settings=self._settings(),
                held=self.held,
                targets=self._targets_for,
                prefix=config.dashboard.prefix,
                map_layout=MapLayout(config.state / LAYOUT_FILE if config.state else None),
            )
        )
        self.flows = Flows()
        destinations = Destinations()
        carried = Carried()
        conversations = ConversationKeys()
        scanner = Scanner()
        self.scan = ScanRequests(
            self.note_library, self.flows, carried, enabled=config.memory.track_sharing, scanner=scanner
        )
        self.remember = Remember(self.flows, self.conversations.recorder_of)
        self.tap = Tap(
            self.flows, conversations, largest_answer=config.proxy.max_body, on_answer=self.remember.answered
        )
        self.record = Record(
            self.flows, self.activity, self.exposure, self.events, carried, count=config.mode == "dispatch"
        )
        gateway = Gateway(
            own_ports=self.own_ports,
            proxy_ports=_proxy_ports,
            trust=Trust(lambda: ctx.options.ssl_verify_upstream_trusted_ca),
            largest_body=config.proxy.max_body,
        )
        self.offer = Offer(
            self.flows,
            self.providers,
            Searcher(
                lambda: self.conversations.memories,
                self.conversations.recorder_of,
                self.note_library,
                rules=lambda: self.decide.rules,
                is_scanning=lambda: self.scan.enabled,
                handed=self.record.recalled,
            ),
            takes=self._loops,
            client_of=self.senders.client_of,
            tool=lambda: RecallTool(self.config.conversations.recall_tool_name),
            dialect_for=dialect_for,
            largest_body=config.proxy.max_body,
            scanner=scanner,
        )
        self.conversations.on_deleted.append(self.offer.past.forget)
        self.reroute = Reroute(gateway, self.record.sent, self.offer.answering_of)
        self.hold = Hold(self.held, self.record.held)
        self.decide = Decide(
            self.flows,
            self.providers,
            self.note_library,
            make_rules(config),
            targets={target.name: target for target in config.targets},
            redirect=self.reroute.redirect,
            withhold=Withhold(scanner, largest_body=config.proxy.max_body),
            hold=self.hold,
            dial=destinations.dial,
        )
        self.note_library.reach(reach_of(self.decide.rules))
        self.hints = Hints(self.providers)
        self.reload = Reload(config, self.apply)
        self.serving = SidecarAddon(
            self.sidecar, self.note_library, self.activity, host=listen.host, port=port, sock=dashboard
        )
        self.addons: list[object] = [
            Lean(self.note_library),
            Mends(),
            Limits(self._is_for_a_provider),
            self.senders,
            Reverse(config.proxy.reverse),
            self.reroute,
            Guard(self.own_ports, self.reroute.is_led),
            Identify(
                self.providers,
                destinations,
                self.flows,
                conversations,
                client_of=self.senders.client_of,
                largest_body=config.proxy.max_body,
                scanner=scanner,
                remembers=self.remember.remembers,
            ),
            self.offer,
            self.scan,
            self.decide,
            self.hold,
            self.remember,
            LeadOffered(self.flows, self.providers, self.reroute, destinations.dial),
            Send(self.providers, destinations),
            Released(self.record.released),
            self.tap,
            self.record,
            Annotate(self.flows),
            Inspector(self.providers, keep_flows=config.proxy.keep_flows, keep_bytes=config.proxy.keep_bytes),
            self.hints,
            Commands(self.note_library, scanner, largest_body=config.proxy.max_body),
            self.conversations,
            self.reload,
            self.serving,
        ]

    def add_source(self, source: object) -> None:
        """Add a source in code, beside those of the configuration; it stays when that changes.

        `source` is an object with the four names (notes.md, "Sources"), a class that makes one without arguments, or
        `(name, type, path)` as in mitm.yaml, where `path` may be left out for `claude_code`. An object that is no
        source becomes the error of its source. Raises ValueError for a name that is taken, and for a tuple that is none
        of that kind.
        """
        added = _from_tuple(source, self.config) if isinstance(source, tuple) else make_own(source)
        if added.name.lower() in {one.name.lower() for one in self.note_library.sources}:
            raise ValueError(f"there is a source {added.name!r} already: give each a name of its own")
        self._added.append(added)
        self._configure()
        if self.serving.started is not None:
            self.note_library.refresh_if_old()

    def apply(self, config: Config) -> None:
        """Take over what may change while running: clients, providers, rules, and all of `memory`, whose scan is started."""
        if config.clients != self.config.clients:
            for client in self.config.looped - config.looped:
                self.offer.past.forget(client)
            self.config = replace(self.config, clients=config.clients)
            self.senders.table = ClientTable(config.clients, self.client_key)
            self.conversations.apply(self.config)
        if config.conversations != self.config.conversations:
            self.config = replace(self.config, conversations=config.conversations)
            self.conversations.apply(self.config)
        if config.providers != self.config.providers:
            self.config = replace(self.config, providers=config.providers)
            self.providers.configure(config.providers)
            ctx.options.update(allow_hosts=self.providers.allow_hosts())  # for new connections
        if _policy(config) != _policy(self.config):
            for rule in {*self.config.rules} - {*config.rules}:
                del self.record.hits[rule.name]  # what comes under its name now is another rule
            self.config = replace(self.config, rules=config.rules, unscanned=config.unscanned, targets=config.targets)
            self.decide.targets = {target.name: target for target in config.targets}
            self.decide.rules = make_rules(self.config)
            self.note_library.reach(reach_of(self.decide.rules))
            self.note_library.refresh_if_old()
        if config.memory == self.config.memory:
            return
        self.config = replace(self.config, memory=config.memory)
        self.scan.enabled = config.memory.track_sharing
        self._configured = make_sources(config.memory, self._configured)
        self._configure()
        self.note_library.refresh_if_old()

    def _configure(self) -> None:
        configured = list(self._configured.values())
        taken = {source.name.lower() for source in configured}
        for source in self._added:
            if source.name.lower() in taken:
                logger.warning("the source %s of the configuration stands in for the one added in code", source.name)
            else:
                configured.append(source)
        self.note_library.configure(configured, library_options(self.config.memory))

    def status(self) -> dict[str, Any]:
        """`GET api/status`."""
        snapshot = self.note_library.snapshot
        sources = [source.to_json() for source in snapshot.sources]
        return {
            "versions": {
                "mitmemory": metadata.version("mitmemory"),
                "mitmproxy": MITMPROXY_VERSION,
                "python": platform.python_version(),
            },
            "mode": self.config.mode,
            "proxy": self.proxy,
            "inspector": str(self.config.proxy.inspector) if self.config.proxy.inspector else None,
            "dashboard": str(self.config.dashboard.listen),
            "sources": sources,
            "notes": sum(source["notes"] for source in sources),
            "configuration": str(self.config.file.absolute()) if self.config.file else None,
            "authority": self.authority.to_json() if self.authority else None,
            "scannedAt": snapshot.to_json()["loadedAt"],
            "trackSharing": self.config.memory.track_sharing,
            "requests": dict(self.scan.states),
            "notSeen": {
                "reasons": dict(self.scan.reasons),
                "untrustingHosts": self.hints.untrusting,
                "passedThroughHosts": self.hints.passed_through,
            },
            "held": len(self.held),
            "clients": self.record.clients.names(),
            "warnings": [
                *self.reload.warnings,
                *self.scan.failures,
                *self.decide.failures,
                *self.tap.failures,
                *self.conversations.warnings,
                *self.remember.warnings,
                *self.offer.warnings,
                *self.hints.warnings,
                *self.activity.warnings,
            ],
        }

    def clients(self) -> dict[str, Any]:
        """`GET api/clients`."""
        certificates = self.authority.certificates if self.authority else None
        lines = lines_json(self.config, self.proxy, certificates, os.environ) if certificates else []
        directory = self.config.conversations_directory
        return {
            "clients": clients_json(self.config, self.record.clients),
            "lines": lines,
            "mcp": mcp_json(self.config),
            "conversations": str(directory) if directory else None,
        }

    def _remembers_inside(self, client: str) -> bool:
        return remembers_inside(self.config, client)

    async def _take_over(self, file: Path) -> None:
        await self.reload.look_now(file)

    def _settings(self) -> Settings:
        if self.config.file is None:
            return NoSettings()
        return FileSettings(
            ConfigFile(self.config.file),
            allow_process_settings=self.config.dashboard.allow_process_settings,
            take_over=self._take_over,
        )

    def _targets_for(self, protocol: Protocol) -> list[str]:
        """The names of the targets that speak it."""
        return [target.name for target in self.config.targets if protocol in target.protocols]

    def _loops(self, client: str) -> bool:
        """Whether the model of a client can search its memory inside the conversation, now."""
        return (
            self.config.mode == "dispatch"  # else nothing is changed
            and client in self.config.looped
            and self.conversations.memories is not None
            and self.reroute.is_open
        )

    def _is_for_a_provider(self, request: http.Request) -> bool:
        return self.providers.find(request.host, request.port) is not None


def _tokens(config: Config) -> Tokens:
    given = config.dashboard.tokens
    try:
        return load_or_make_tokens(config.state, given.admin, given.read_only)
    except OSError as error:
        raise StartError(
            f"{error.filename} cannot be used ({error.strerror}): mend that, or set state to another directory"
        ) from error
    except ValueError as error:  # a token of the configuration is the other one of those that are kept
        raise StartError(str(error)) from error


def _client_key(config: Config) -> bytes:
    try:
        return load_or_make_key(config.state)
    except OSError as error:
        raise StartError(
            f"{error.filename} cannot be used ({error.strerror}): mend that, or set state to another directory"
        ) from error
    except ValueError as error:
        raise StartError(str(error)) from error


type SourceKey = tuple[SourceConfig, int, int]
"""All that a source is made of: one that is configured as before stays the same object, and knows what it has read."""


def make_sources(
    memory: MemoryConfig, known: Mapping[SourceKey, MemorySource] | None = None
) -> dict[SourceKey, MemorySource]:
    """The sources that the configuration names, those that are `known` among them; nothing is read yet."""
    sources: dict[SourceKey, MemorySource] = {}
    for source in memory.sources:
        key = source, memory.max_notes_per_source, memory.max_note_bytes
        sources[key] = (known or {}).get(key) or make_source(
            source.name,
            source.kind,
            source.path,
            exclude=source.exclude,
            extensions=source.extensions,
            max_notes=memory.max_notes_per_source,
            max_note_bytes=memory.max_note_bytes,
            enabled=source.enabled,
        )
    return sources


def make_rules(config: Config) -> RuleBook | None:
    """The rules of the configuration; None where nothing is judged."""
    if config.mode != "dispatch":
        return None
    return RuleBook(config.rules, unscanned=config.unscanned, local_targets=local_targets(config.targets))


def reach_of(rules: RuleBook | None) -> Reach | None:
    """Which notes these rules may withhold from a request; None: none of them withholds any."""
    if rules is None or not rules.redacts:
        return None
    return lambda note: rules.may_redact(facts_of(note))


def _policy(config: Config) -> tuple[object, ...]:
    return config.rules, config.unscanned, config.targets


def _proxy_ports() -> list[int]:
    return [port for _, port, *_ in ctx.master.addons.get("proxyserver").listen_addrs()]


def library_options(memory: MemoryConfig) -> LibraryOptions:
    return LibraryOptions(
        memory.minimum_line_length, memory.mentions, quotes=memory.quotes, refresh_interval=memory.refresh_interval
    )


def make_library(config: Config, sources: Mapping[SourceKey, MemorySource] | None = None) -> NoteLibrary:
    """The notes that the configuration names; nothing is read yet. What spares the next start work lies in `state`."""
    return NoteLibrary(
        list((make_sources(config.memory) if sources is None else sources).values()),
        options=library_options(config.memory),
        cache=config.state / "notes" if config.state else None,
    )


def make_activity(config: Config) -> Activity:
    """The log of exchanges, kept in `state`, else in memory; nothing is opened yet."""
    if config.state is None:
        return Activity()
    kept = config.activity
    return ActivityStore(config.state / FILE_NAME, keep=kept.keep, max_entries=kept.max_entries)


def _from_tuple(source: tuple[object, ...], config: Config) -> MemorySource:
    if not 2 <= len(source) <= 3 or not all(isinstance(part, str | Path | None) for part in source):
        raise ValueError("a source in code is an instance, a class, or (name, type, path)")
    name, kind, path = (*source, None)[:3]
    written = str(kind)
    return make_source(
        str(name),
        KINDS.get(written, written),
        None if path is None else expand_path(str(path), Path.cwd(), os.environ),
        max_notes=config.memory.max_notes_per_source,
        max_note_bytes=config.memory.max_note_bytes,
    )


def proxy_options(config: Config, providers: ProviderTable) -> dict[str, Any]:
    """The mitmproxy options that the suite depends on, whichever way it is started (interception.md, "Which flows")."""
    return {
        "allow_hosts": providers.allow_hosts(),
        "body_size_limit": str(config.proxy.max_body),
        # With `eager`, a request that must stay home would already have contacted the cloud.
        "connection_strategy": "lazy",
        # `Reverse` looks at the name that was asked for, before it writes the server's own.
        "keep_host_header": True,
    }


class MitMemory:
    """The suite as one mitmproxy addon; its stages are its `addons`. As a script it makes its suite from the option
    `mitmemory_config`; a launcher brings its own.
    """

    name = "mitmemory"

    def __init__(self, suite: Suite | None = None) -> None:
        self._suite = suite
        self.addons: list[object] = []

    def load(self, loader: Loader) -> None:
        # mitmproxy carries every record of every logger to its event loop, and this one writes several for each block
        # of a note: they would stand in the way of all requests while notes are read.
        logging.getLogger("markdown_it").setLevel(logging.WARNING)
        options = loader.master.options
        loader.add_option(
            "mitmemory_config", str, "", "The mitmemory configuration; empty: ./mitm.yaml or the default."
        )
        # mitmproxy gives a `--set` of an option to it only after `load`, and by then the stages must be known.
        options.process_deferred()
        if self._suite is None:
            file = options.mitmemory_config
            try:
                self._suite = Suite(load_config(Path(file) if file else None))
            except (ConfigError, StartError) as error:
                # An ERROR ends mitmproxy's start, with this message and without a traceback.
                logger.error("%s", error)  # noqa: TRY400
                return
            if _mitmproxys_own(self._suite.config.proxy) != _mitmproxys_own(ProxyConfig()):
                logger.warning(
                    "proxy.listen, reverse, inspector and mitmproxy have no effect here: use mitmproxy's own options"
                )
        self.addons = self._suite.addons
        options.update(**proxy_options(self._suite.config, self._suite.providers))

    def configure(self, updated: set[str]) -> None:
        if self._suite is None:
            return  # what is wrong has been said; another message would hide it
        if "stream_large_bodies" in updated and ctx.options.stream_large_bodies:
            raise exceptions.OptionsError(
                "stream_large_bodies would let bodies pass before they are looked at: leave it unset"
            )
        if "connection_strategy" in updated and ctx.options.connection_strategy != "lazy":
            raise exceptions.OptionsError(
                "connection_strategy must be lazy: eager contacts a model before the request was looked at"
            )
        hosts = self._suite.providers.allow_hosts()
        if "allow_hosts" in updated and list(ctx.options.allow_hosts) != hosts:
            raise exceptions.OptionsError("allow_hosts is the suite's: name the hosts under providers in mitm.yaml")
        if "keep_host_header" in updated and not ctx.options.keep_host_header:
            raise exceptions.OptionsError(
                "keep_host_header must be on: the name that a request was sent to is looked at, then replaced"
            )
        if "ignore_hosts" in updated and ctx.options.ignore_hosts:
            raise exceptions.OptionsError("ignore_hosts would hide providers: change their hosts in mitm.yaml instead")

    def running(self) -> None:
        options = ctx.options
        if self._suite is not None:
            self._suite.proxy = str(Address(options.listen_host or "*", options.listen_port or 8080))
            self._suite.authority = Authority(Certificates(Path(options.confdir).expanduser().absolute()))
            if "web_port" in options:
                self._suite.own_ports.add(options.web_port)
        if not options.listen_host:
            # A script is loaded too late to choose the address.
            logger.warning("The proxy listens on every address of this machine: start it with --listen-host 127.0.0.1")


def _mitmproxys_own(config: ProxyConfig) -> tuple[Any, ...]:
    """What only a launcher of ours can honour."""
    return config.listen, config.reverse, config.inspector, dict(config.mitmproxy)


addons = [MitMemory()]
