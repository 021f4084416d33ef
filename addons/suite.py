"""The suite: what its stages and its dashboard share, built once from the configuration.

This file is also the script for those who already run mitmproxy:

    mitmweb --listen-host 127.0.0.1 -s addons/suite.py --set mitmemory_config=mitm.yaml
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

if __name__.startswith("__mitmproxy_script__"):  # mitmproxy puts only this file's own folder on the path
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

from addons.authority import Authority
from addons.certificates import Certificates, certificates_of
from addons.client_states import clients_json, lines_json, mcp_json, remembers_inside
from addons.clients import ClientTable
from addons.compaction import CompactionRules
from addons.config import Address, Config, ConfigError, ProxyConfig, config_to_name, load_config
from addons.config_writing import ConfigFile
from addons.conversations import Conversations
from addons.file_settings import FileSettings
from addons.makers import StartError, make_activity, make_client_key, make_rules, make_tokens, reach_of
from addons.mitmproxy_options import check_options, proxy_options
from addons.note_sources import NoteSources, library_options, make_library
from addons.program import command_line, with_program
from addons.providers import ProviderTable
from addons.reload import Reload
from addons.rules_service import RulesService
from addons.sender import Senders
from addons.show_folder import show_folder
from addons.sidecar import SidecarAddon
from addons.stages import Stages
from addons.status import status_json
from memory.conversations.recall_tool import RecallTool
from memory.exchange import Protocol
from memory.exposure import Exposure
from memory.held import HeldRequests
from memory.map_layout import FILE_NAME as LAYOUT_FILE
from memory.map_layout import MapLayout
from web.access import Access
from web.app import Services
from web.events import EventHub
from web.server import Sidecar
from web.settings import NoSettings, Settings

logger = logging.getLogger(__name__)


class Suite:
    """Owns every service, and the stages that use them.

    `dashboard` is the socket it will listen on; None: `dashboard.listen` of the configuration is bound at the start.
    Raises StartError when the tokens or the key of the clients can be neither read nor made, or the dashboard's port is not known by now.
    """

    def __init__(self, config: Config, dashboard: socket.socket | None = None) -> None:
        self.config = config
        listen = config.dashboard.listen
        port = dashboard.getsockname()[1] if dashboard else listen.port
        if not port:  # links would lead nowhere, and the guard would not know what to guard
            raise StartError(
                with_program("dashboard.listen: port 0 is for `mitmemory run`, name a port of its own here")
            )
        self.proxy = str(config.proxy.listen)
        """Where the proxy really listens, once it runs."""
        self.authority = self.authority_of(certificates_of(config.state)) if config.state else None
        """The one whose certificates clients are shown, once it runs."""
        self.own_ports = {port}
        """Ports of the suite's own pages, to which no client is led."""
        self.providers = ProviderTable(config.providers)
        self._sources = NoteSources(config.memory)
        self.note_library = make_library(config, self._sources)
        self.exposure = Exposure()
        self.activity = make_activity(config)
        self.held = HeldRequests()
        self.events = EventHub()
        self.tokens = make_tokens(config)
        self.client_key = make_client_key(config)
        self.senders = Senders(ClientTable(config.clients, self.client_key))
        compaction_rules = CompactionRules(
            lambda: self.config.conversations.compaction,
            self.providers,
            self.note_library,
            lambda: self.stages.decide.rules,
        )
        self.conversations = Conversations(config, may_send=compaction_rules)
        self.stages = Stages(
            config,
            providers=self.providers,
            senders=self.senders,
            note_library=self.note_library,
            exposure=self.exposure,
            activity=self.activity,
            events=self.events,
            held=self.held,
            conversations=self.conversations,
            own_ports=self.own_ports,
            loops=self._loops,
            recall_tool=self._recall_tool,
        )
        self.note_library.reach(reach_of(self.stages.decide.rules))
        self.sidecar = Sidecar(
            Services(
                note_library=self.note_library,
                exposure=self.exposure,
                activity=self.activity,
                events=self.events,
                access=Access(self.tokens, port, host=f"[{listen.host}]" if ":" in listen.host else listen.host),
                status=self.status,
                rules=RulesService(
                    lambda: self.config, self.note_library, self.activity, lambda rule: self.stages.record.hits[rule]
                ),
                clients=self.clients,
                conversations=self.conversations,
                recall_tool=self._recall_tool,
                remembers_inside=self._remembers_inside,
                open_folder=show_folder,
                settings=self._settings(),
                held=self.held,
                targets=self._targets_for,
                prefix=config.dashboard.prefix,
                map_layout=MapLayout(config.state / LAYOUT_FILE if config.state else None),
                typed=partial(command_line, config=config_to_name(config.file)),
            )
        )
        self.reload = Reload(config, self.apply)
        self.serving = SidecarAddon(
            self.sidecar, self.note_library, self.activity, host=listen.host, port=port, sock=dashboard
        )
        self.addons: list[object] = [*self.stages.in_order, self.reload, self.serving]

    def authority_of(self, certificates: Certificates) -> Authority:
        return Authority(certificates, config=config_to_name(self.config.file))

    def add_source(self, source: object) -> None:
        """Add a source in code, beside those of the configuration; it stays when that changes.

        `source` is an object with the four names (notes.md, "Sources"), a class that makes one without arguments, or
        `(name, type, path)` as in mitm.yaml, where `path` may be left out for `claude_code`. An object that is no
        source becomes the error of its source. Raises ValueError for a name that is taken, and for a tuple that is none
        of that kind.
        """
        self._sources.add(source)
        self._configure_library()
        if self.serving.started is not None:
            self.note_library.refresh_if_old()

    def apply(self, config: Config) -> None:
        """Take over what may change while running: clients, providers, rules, and all of `memory`, whose scan is started."""
        if config.clients != self.config.clients:
            for client in self.config.looped - config.looped:
                self.stages.offer.past.forget(client)
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
                del self.stages.record.hits[rule.name]  # what comes under its name now is another rule
            self.config = replace(self.config, rules=config.rules, unscanned=config.unscanned, targets=config.targets)
            self.stages.decide.targets = {target.name: target for target in config.targets}
            self.stages.decide.rules = make_rules(self.config)
            self.note_library.reach(reach_of(self.stages.decide.rules))
            self.note_library.refresh_if_old()
        if config.memory == self.config.memory:
            return
        self.config = replace(self.config, memory=config.memory)
        self.stages.scan.enabled = config.memory.track_sharing
        self._sources.configure(config.memory)
        self._configure_library()
        self.note_library.refresh_if_old()

    def _configure_library(self) -> None:
        self.note_library.configure(self._sources.in_use(), library_options(self.config.memory))

    def status(self) -> dict[str, Any]:
        """`GET api/status`."""
        return status_json(
            self.config,
            self.stages,
            self.note_library.snapshot,
            proxy=self.proxy,
            authority=self.authority,
            held=len(self.held),
            warnings=[*self.reload.warnings, *self.stages.warnings, *self.activity.warnings],
        )

    def clients(self) -> dict[str, Any]:
        """`GET api/clients`."""
        certificates = self.authority.certificates if self.authority else None
        lines = lines_json(self.config, self.proxy, certificates, os.environ) if certificates else []
        directory = self.config.conversations_directory
        return {
            "clients": clients_json(self.config, self.stages.record.clients),
            "lines": lines,
            "mcp": mcp_json(self.config),
            "conversations": str(directory) if directory else None,
        }

    def _recall_tool(self) -> RecallTool:
        return RecallTool(self.config.conversations.recall_tool_name)

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
            and self.stages.reroute.is_open
        )


def _policy(config: Config) -> tuple[object, ...]:
    return config.rules, config.unscanned, config.targets


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
        if self._suite is not None:  # else what is wrong has been said; another message would hide it
            check_options(ctx.options, updated, self._suite.providers)

    def running(self) -> None:
        options = ctx.options
        if self._suite is not None:
            self._suite.proxy = str(Address(options.listen_host or "*", options.listen_port or 8080))
            self._suite.authority = self._suite.authority_of(
                Certificates(Path(options.confdir).expanduser().absolute())
            )
            if "web_port" in options:
                self._suite.own_ports.add(options.web_port)
        if not options.listen_host:
            # A script is loaded too late to choose the address.
            logger.warning("The proxy listens on every address of this machine: start it with --listen-host 127.0.0.1")


def _mitmproxys_own(config: ProxyConfig) -> tuple[Any, ...]:
    """What only a launcher of ours can honour."""
    return config.listen, config.reverse, config.inspector, dict(config.mitmproxy)


addons = [MitMemory()]
