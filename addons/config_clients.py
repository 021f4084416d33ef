"""Reads `clients` and `proxy.reverse`: who sends, and the listeners that single clients use."""

from __future__ import annotations

import re

from addons import config_checks as checks
from addons.clients import ClientConfig, MatchConfig, slug_of
from addons.config_listeners import Listeners
from addons.config_model import ReverseConfig
from addons.config_reader import Section, Value, entries
from addons.config_values import Address, parse_listen, parse_upstream
from addons.providers import ProviderTable

CLIENT_MODES = ("both", "mcp_via_llm", "llm_only", "mcp_only")
"""How a client meets its memory (conversation-memory.md); only the default is taken, until there is one."""

_HMAC = re.compile(r"hmac:[0-9a-f]{64}")


class ClientReader:
    """Reads the two sections; what depends on other sections is checked once these are known."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self._upstreams: list[tuple[ReverseConfig, Value]] = []
        self._hashed: list[Value] = []

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
            client = ClientConfig(name, self._match(Section(match)) if match else MatchConfig())
            _refuse_memory(section)
            section.close()
            if section.lacks("name"):
                item.fault("`name` is missing", "give it a name of its own")
            elif client.name and (first := slugs.setdefault(client.slug, item.key)) != item.key:
                item.fault(f"`{client.slug}` is the name of `{first}` too", "give each a name of its own")
            if section.lacks("match") or (match and match.is_mapping and match.is_empty):
                item.fault("`match` is missing", "say how it is told, like `match: {proxy_user: claude-code}`")
            found.append(client)
        return tuple(found)

    def check(self, providers: ProviderTable, *, has_state: bool) -> None:
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
        mend = "write what `mitmemory hmac` prints for it"
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


def _refuse_memory(section: Section) -> None:
    """Conversation memory has keys here as well; what they say by default may stand there already."""
    mode, enabled = section.get("mode"), section.get("memory_enabled")
    if mode and mode.choice(CLIENT_MODES) not in {None, "both"}:
        mode.fault("not yet: this version has no conversation memory", "leave `mode` out")
    if enabled and enabled.flag():
        enabled.fault("not yet: this version has no conversation memory", "write `false`, or leave it out")
