"""Reads `clients` and `proxy.reverse`: who sends, and the listeners that single clients use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args

from addons import config_checks as checks
from addons.clients import ClientConfig, ClientMode, MatchConfig, slug_of
from addons.config_listeners import Listeners
from addons.config_model import ReverseConfig
from addons.config_reader import Section, Value, entries
from addons.config_values import Address, parse_listen, parse_upstream
from addons.program import with_program
from addons.providers import ProviderTable

MODES: tuple[ClientMode, ...] = get_args(ClientMode.__value__)
WITHOUT_MEMORY: Mapping[ClientMode, str] = {
    "llm_only": "a client that is `llm_only` has no MCP, so nothing would offer it what is remembered",
    "mcp_only": "of a client that is `mcp_only` no conversation comes by that could be remembered",
}
"""Why a client of this mode has no memory."""

_HMAC = re.compile(r"hmac:[0-9a-f]{64}")


class ClientReader:
    """Reads the two sections; what depends on other sections is checked once these are known."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self._upstreams: list[tuple[ReverseConfig, Value]] = []
        self._hashed: list[Value] = []
        self._remembered: list[Value] = []

    def reverse(self, value: Value | None) -> tuple[ReverseConfig, ...]:
        found: list[ReverseConfig] = []
        for item, section in entries(value):
            listen, upstream = section.get("listen"), section.get("upstream")
            section.close()
            for name in ("listen", "upstream"):
                if section.lacks(name):
                    item.fault(f"`{name}` is missing", _REVERSE_MENDS[name])
            address = listen.parsed(parse_listen, "an address", _REVERSE_MENDS["listen"]) if listen else None
            if address and listen:
                self._listeners.add(listen.key, address, listen)
            target = upstream.parsed(parse_upstream, "a URL", _REVERSE_MENDS["upstream"]) if upstream else None
            if target and upstream:
                self._listeners.connects_to(target, upstream)
            if address and target and upstream:
                found.append(ReverseConfig(address, target))
                self._upstreams.append((found[-1], upstream))
        return tuple(found)

    def clients(self, value: Value | None) -> tuple[ClientConfig, ...]:
        found: list[ClientConfig] = []
        slugs: dict[str, str] = {}
        for item, section in entries(value):
            name = section.read_optional("name", _client_name) or ""
            match = section.get("match")
            mode: ClientMode = section.read("mode", lambda value: value.choice(MODES), "both")
            client = ClientConfig(
                name,
                self._match(Section(match)) if match else MatchConfig(),
                mode,
                memory_enabled=self._memory_enabled(section, mode),
            )
            section.close()
            if section.lacks("name"):
                item.fault("`name` is missing", "give it a name of its own")
            elif client.name and (first := slugs.setdefault(client.slug, item.key)) != item.key:
                item.fault(f"`{client.slug}` is the name of `{first}` too", "give each a name of its own")
            if section.lacks("match") or (match and match.is_mapping and match.is_empty):
                item.fault("`match` is missing", "say how it is told, like `match: {proxy_user: claude-code}`")
            found.append(client)
        return tuple(found)

    def check(self, providers: ProviderTable, *, has_state: bool, has_memory: bool) -> None:
        for listener, value in self._upstreams:
            upstream = listener.upstream
            if providers.find(upstream.host, upstream.port) is None:
                host = str(Address(upstream.host, upstream.port))
                value.fault(
                    f"`{host}` is the host of no provider, so nothing would be recognised there",
                    f'add it under `providers`, like `{{name: lab, hosts: ["{host}"]}}`',
                )
        if not has_state:
            for value in self._hashed:
                value.fault(
                    "the key that it is made with is kept in `state`, which is null", "set `state`, or match otherwise"
                )

        if not has_memory:
            for value in self._remembered:
                value.fault(
                    "there is no place for it: `state` is null, and so is `conversations.directory`", "set one of them"
                )

    def _memory_enabled(self, section: Section, mode: ClientMode) -> bool:
        """`null` is off, too."""
        wanted = section.read_optional("memory_enabled", Value.flag) or False
        value = section.get("memory_enabled")
        if wanted and value:
            if why := WITHOUT_MEMORY.get(mode):
                value.fault(why, "write `mode: both` or `mode: mcp_via_llm`, or leave the memory off")
            else:
                self._remembered.append(value)
        return wanted

    def _match(self, section: Section) -> MatchConfig:
        match = MatchConfig(
            listen=section.read_optional("listen", self._client_listen),
            proxy_user=section.read_optional("proxy_user", _proxy_user),
            api_key=section.read_optional("api_key", self._api_key),
            user_agent=section.read_optional("user_agent", _user_agent),
        )
        section.close()
        return match

    def _client_listen(self, value: Value) -> Address | None:
        mend = "write an address that only this client uses, like `127.0.0.1:8082`"
        address = value.parsed(parse_listen, "an address", mend)
        if address is None:
            return None
        if not address.port:
            value.fault("port 0 is another one with each start, and tells no client", mend)
            return None
        if not self._listeners.is_the_proxys(address):
            self._listeners.add(value.key, address, value)
        return address

    def _api_key(self, value: Value) -> str | None:
        """Its text is in no fault: it may be the API key itself."""
        mend = with_program("write what `mitmemory hmac` prints for it")
        if not value.is_text or not _HMAC.fullmatch(str(value.node.value)):
            value.fault("it is no HMAC of an API key, and the key itself does not belong here", mend)
            return None
        self._hashed.append(value)
        return str(value.node.value)


_REVERSE_MENDS = {
    "listen": "write an address of this machine, like `127.0.0.1:8001`",
    "upstream": "write the provider's URL, like `https://api.anthropic.com`",
}


def _client_name(value: Value) -> str | None:
    name = checks.name(value)
    if name and not slug_of(name):
        value.fault(f"`{name}` has no letter from a to z and no digit", "write a name like `claude-code`")
        return None
    return name


def _proxy_user(value: Value) -> str | None:
    user = checks.name(value)
    if user and ":" in user:
        value.fault(f"`{user}` holds a colon, which ends a user's name", "write it without")
        return None
    return user


def _user_agent(value: Value) -> str | None:
    pattern = value.text("a pattern")
    if pattern is not None and not pattern.strip():
        value.fault("the pattern is empty", "write the start of a User-Agent and a `*`, like `claude-cli/*`")
        return None
    return pattern
