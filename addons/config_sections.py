"""Reads each section of mitm.yaml into its class: which keys there are, and what they have to do with each other."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from addons import config_checks as checks
from addons import config_rules
from addons.config_clients import ClientReader
from addons.config_conversations import ConversationsReader
from addons.config_listeners import Listeners
from addons.config_model import (
    SHIPPED_STATE,
    ActivityConfig,
    Config,
    DashboardConfig,
    MemoryConfig,
    Mentions,
    Mode,
    ProxyConfig,
    SourceConfig,
    TokensConfig,
)
from addons.config_reader import Section, Value, did_you_mean, entries
from addons.config_values import ConnectTo, expand_path, parse_connect_to
from addons.providers import BUILTIN, ProviderConfig, ProviderTable
from memory.exchange import Protocol
from memory.sources.claude_code import DEFAULT_FOLDER

MODES: tuple[Mode, ...] = ("annotate", "dispatch")
MENTIONS: tuple[Mentions, ...] = ("careful", "seed")
PROTOCOLS: tuple[Protocol, ...] = ("anthropic", "openai-chat", "openai-responses", "gemini", "ollama", "bedrock")

OWN_OPTIONS = {
    "allow_hosts": "name the hosts under `providers`",
    "body_size_limit": "use `proxy.max_body`",
    "confdir": "use `state`",
    "connection_strategy": "leave it out: the suite needs `lazy`",
    "ignore_hosts": "leave it out: only providers are decrypted",
    "keep_host_header": "leave it out: a server is always called by its own name",
    "listen_host": "use `proxy.listen`",
    "listen_port": "use `proxy.listen`",
    "mode": "use `proxy.listen` and `proxy.reverse`",
    "stream_large_bodies": "leave it out: a streamed request could not be scanned",
    "web_host": "use `proxy.inspector`",
    "web_port": "use `proxy.inspector`",
}
"""mitmproxy's options that the suite sets itself, and what to do instead."""


class SectionReader:
    """Reads each section. A value with a fault is replaced by its default, so that the reading can go on."""

    def __init__(self, file: Path, state: Path) -> None:
        self._file = file
        self._state = state
        self._listeners = Listeners()
        self._clients = ClientReader(self._listeners)
        self._rules = config_rules.RuleReader()
        self._unplaced: list[Value] = []
        """Sources of conversations that name no place."""

    def config(self, top: Section) -> Config:
        config = Config(
            mode=top.read("mode", lambda value: value.choice(MODES), "dispatch"),
            proxy=self._proxy(top.section("proxy")),
            memory=self._memory(top.section("memory")),
            providers=self._providers(top.get("providers")),
            targets=config_rules.targets(top.get("targets"), self._listeners),
            rules=self._rules.rules(top.get("rules")),
            unscanned=top.read_optional("unscanned", config_rules.unscanned),
            activity=_activity(top.section("activity")),
            clients=self._clients.clients(top.get("clients")),
            conversations=ConversationsReader(self._listeners, self._path).read(top.section("conversations")),
            dashboard=self._dashboard(top.section("dashboard")),
            state=top.read_optional("state", self._state_directory, self._state),
            file=self._file,
        )
        top.close()
        config = self._placed(config)
        providers = ProviderTable(config.providers)
        self._clients.check(
            providers, has_state=config.state is not None, has_memory=config.conversations_directory is not None
        )
        check_rules(self._rules, config)
        self._listeners.check()
        return config

    def _proxy(self, section: Section) -> ProxyConfig:
        default = ProxyConfig()
        proxy = ProxyConfig(
            listen=self._listeners.read(section, "listen", "proxy.listen", default.listen) or default.listen,
            reverse=self._clients.reverse(section.get("reverse")),
            inspector=self._listeners.read(section, "inspector", "proxy.inspector", default.inspector, optional=True),
            keep_flows=section.read("keep_flows", checks.integer(1), default.keep_flows),
            keep_bytes=section.read("keep_bytes", checks.size, default.keep_bytes),
            max_body=section.read("max_body", checks.size, default.max_body),
            mitmproxy=_mitmproxy_options(section.section("mitmproxy")),
        )
        section.close()
        return proxy

    def _memory(self, section: Section) -> MemoryConfig:
        default = MemoryConfig()
        memory = MemoryConfig(
            sources=self._sources(section.get("sources")),
            track_sharing=section.read("track_sharing", Value.flag, default.track_sharing),
            quotes=section.read("quotes", Value.flag, default.quotes),
            mentions=section.read("mentions", lambda value: value.choice(MENTIONS), default.mentions),
            minimum_line_length=section.read("minimum_line_length", checks.integer(8), default.minimum_line_length),
            refresh_interval=section.read("refresh_interval", checks.duration, default.refresh_interval),
            max_notes_per_source=section.read("max_notes_per_source", checks.integer(1), default.max_notes_per_source),
            max_note_bytes=section.read("max_note_bytes", checks.size, default.max_note_bytes),
        )
        section.close()
        return memory

    def _sources(self, value: Value | None) -> tuple[SourceConfig, ...]:
        sources: list[SourceConfig] = []
        names: dict[str, str] = {}
        for item, section in entries(value):
            written = section.get("type")
            kind = "markdown" if written is None else checks.kind(written)
            path = self._source_path(item, section, kind)
            source = SourceConfig(
                name=section.read_optional("name", checks.source_name) or "",
                kind=kind or "markdown",
                path=path or Path(),
                exclude=section.read("exclude", checks.globs, ()),
                extensions=section.read("extensions", checks.extensions, ()),
                enabled=section.read("enabled", Value.flag, default=True),
            )
            section.close()
            _check_name(item, section, names, source.name)
            if source.extensions and kind not in {None, "markdown"} and (extensions := section.get("extensions")):
                extensions.fault("only sources of type `markdown` read files of further types", "leave it out")
            sources.append(source)
        return tuple(sources)

    def _placed(self, config: Config) -> Config:
        """Sources of conversations are where those are kept, unless they say otherwise."""
        directory = config.conversations_directory
        if directory is None:
            for item in self._unplaced:
                item.fault("`path` is missing", "say where the conversations are, or set `state`")
        placed = tuple(
            replace(source, path=directory)
            if directory is not None and (source.kind, source.path) == ("conversations", Path())
            else source
            for source in config.memory.sources
        )
        return replace(config, memory=replace(config.memory, sources=placed))

    def _source_path(self, item: Value, section: Section, kind: str | None) -> Path | None:
        path = section.read_optional("path", self._path)
        if not section.lacks("path"):
            return path
        if kind == "conversations":
            self._unplaced.append(item)
            return None
        if kind != "claude_code":
            if kind:
                item.fault("`path` is missing", "say where the notes are")
            return None
        try:
            return self._expanded(DEFAULT_FOLDER)
        except ValueError as error:
            item.fault(f"`path` is missing, and `{DEFAULT_FOLDER}` {error}", "say where Claude Code's folder is")
            return None

    def _providers(self, value: Value | None) -> tuple[ProviderConfig, ...]:
        builtin = [provider.name for provider in BUILTIN]
        providers: list[ProviderConfig] = []
        names: dict[str, str] = {}
        for item, section in entries(value):
            hosts = section.get("hosts")
            provider = ProviderConfig(
                name=section.read_optional("name", checks.name) or "",
                hosts=None if hosts is None or hosts.is_null else tuple(checks.hosts(hosts)),
                local=section.read_optional("local", Value.flag),
                connect_to=section.read_optional("connect_to", self._connect_to),
                protocol=section.read_optional("protocol", lambda value: value.choice(PROTOCOLS)),
            )
            section.close()
            _check_name(item, section, names, provider.name)
            if provider.name and provider.name.lower() not in builtin and (hosts is None or hosts.is_empty):
                mend = did_you_mean(provider.name, builtin) or 'name its hosts, like `hosts: ["llm.example.com"]`'
                item.fault(f"`{provider.name}` is no built-in provider, and it has no hosts", mend)
            providers.append(provider)
        return tuple(providers)

    def _dashboard(self, section: Section) -> DashboardConfig:
        default = DashboardConfig()
        dashboard = DashboardConfig(
            listen=self._listeners.read(section, "listen", "dashboard.listen", default.listen) or default.listen,
            prefix=section.read("prefix", checks.prefix, default.prefix),
            allow_process_settings=section.read("allow_process_settings", Value.flag, default=False),
            tokens=_tokens(section.section("tokens")),
        )
        section.close()
        return dashboard

    def _connect_to(self, value: Value) -> ConnectTo | None:
        found = value.parsed(parse_connect_to, "a URL", "write it like `http://127.0.0.1:9911`")
        if found:
            self._listeners.connects_to(found, value)
        return found

    def _path(self, value: Value) -> Path | None:
        if value.text("a path") is None:
            return None
        mend = "write a path like `~/Documents/Notes`, and set the variables in it"
        return value.parsed(self._expanded, "a path", mend)

    def _expanded(self, path: str) -> Path:
        return expand_path(path, self._file.absolute().parent, os.environ)

    def _state_directory(self, value: Value) -> Path | None:
        return self._state if value.node.value == SHIPPED_STATE else self._path(value)


def _tokens(section: Section) -> TokensConfig:
    tokens = TokensConfig(
        admin=section.read_optional("admin", checks.token), read_only=section.read_optional("read_only", checks.token)
    )
    section.close()
    if tokens.admin and tokens.admin == tokens.read_only and (value := section.get("read_only")):
        value.fault("it is the admin token too", "give the two different tokens, or write `null` to have one made")
    return tokens


def _activity(section: Section) -> ActivityConfig:
    default = ActivityConfig()
    activity = ActivityConfig(
        keep=section.read("keep", checks.duration, default.keep),
        max_entries=section.read("max_entries", checks.integer(1), default.max_entries),
    )
    section.close()
    return activity


def check_rules(reader: config_rules.RuleReader, config: Config) -> None:
    """Find fault with `config.rules`, which the reader has read, beside all else that the configuration says."""
    reader.check(
        config.rules,
        targets=config.targets,
        sources=[source.name for source in config.memory.sources if source.name],
        providers=ProviderTable(config.providers),
        track_sharing=config.memory.track_sharing,
        tells_listings=config.memory.mentions == "careful",
    )


def _mitmproxy_options(section: Section) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for value in section.take_all():
        if value.name in OWN_OPTIONS:
            value.fault("the suite sets this option itself", OWN_OPTIONS[value.name])
        elif value.is_mapping or (value.is_list and any(item.is_mapping or item.is_list for item in value.items())):
            value.fault("no option of mitmproxy holds groups or lists of lists", "write one value, or a list")
        elif value.is_list:
            options[value.name] = [item.plain() for item in value.items()]
        else:
            options[value.name] = value.plain()
    return options


def _check_name(item: Value, section: Section, names: dict[str, str], name: str) -> None:
    if section.lacks("name"):
        item.fault("`name` is missing", "give it a name of its own")
    first = names.setdefault(name.lower(), item.key) if name else item.key
    if first != item.key:
        item.fault(f"`{name}` is the name of `{first}` too", "give each a name of its own")
