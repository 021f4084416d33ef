"""Who serves models, at which hosts, and whether what is sent there leaves the machine.

The table is the one place that says which hosts are decrypted: everything else is a raw tunnel (interception.md,
"Which flows"). Pure: nothing here opens a connection or resolves a name.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from addons.config_values import ConnectTo
from memory.exchange import Place, Protocol

type IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_LOCAL_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in (
        "127.0.0.0/8", "::1/128",  # loopback
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",  # RFC 1918
        "fc00::/7",  # RFC 4193
        "169.254.0.0/16", "fe80::/10",  # link-local
    )
)  # fmt: skip
_LABEL = re.compile(r"[a-z0-9_*?](?:[a-z0-9_*?-]*[a-z0-9_*?])?", re.IGNORECASE)
_PORT = re.compile(r"[0-9]{1,5}")


class HostPattern(NamedTuple):
    """A host, perhaps with `*` and `?` in it, and a port. Both wildcards stay within one label of the name."""

    host: str
    port: int

    @property
    def expression(self) -> str:
        """An anchored regular expression for `host:port` as mitmproxy writes it: IPv6 with or without brackets."""
        if ":" in self.host:
            return rf"^\[?{re.escape(self.host)}\]?:{self.port}$"
        wildcards = {"*": "[^.:]*", "?": "[^.:]"}
        host = "".join(wildcards.get(character, re.escape(character)) for character in self.host)
        return rf"^{host}\.?:{self.port}$"  # a final dot is the same name


def parse_host(text: str) -> HostPattern:
    """`api.example.com`, `*.example.com:8443`, `127.0.0.1:11434`, `[::1]:11434`. No port is 443, that of HTTPS.

    Raises ValueError, whose message goes on after the text: "is no host name".
    """
    written = text.strip()
    if written.startswith("["):
        host, bracket, rest = written[1:].partition("]")
        if not bracket:
            raise ValueError("has a bracket that is not closed")
        try:
            host = str(ipaddress.IPv6Address(host))
        except ValueError:
            raise ValueError("has no IPv6 address in its brackets") from None
    else:
        host, colon, rest = written.partition(":")
        rest = colon + rest
        labels = host.removesuffix(".").split(".")
        if "/" in written:
            raise ValueError("is more than a host: no scheme and no path belong here")
        if not all(_LABEL.fullmatch(label) for label in labels):
            raise ValueError("is no host name")
        if not any("*" not in label and "?" not in label for label in labels):
            raise ValueError("would match every host")
        host = ".".join(labels).lower()
    if not rest:
        return HostPattern(host, 443)
    port = rest.removeprefix(":")
    if port == rest or not _PORT.fullmatch(port) or not 1 <= int(port) <= 65535:
        raise ValueError("has no port from 1 to 65535 after the host")
    return HostPattern(host, int(port))


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """An entry of `providers:`: a provider of the user's own, or changes to a built-in one of that name.

    `None` leaves a built-in provider as it is; `hosts` given replace the built-in ones.
    """

    name: str
    hosts: tuple[str, ...] | None = None
    local: bool | None = None
    connect_to: ConnectTo | None = None
    protocol: Protocol | None = None


@dataclass(frozen=True, slots=True)
class Provider:
    """Who serves a model.

    `hosts` are as in `parse_host`. `cloud` marks a built-in cloud provider, which stays one wherever its traffic is
    sent. `local` is the user's own word on it, None where there is none. `protocol` is what an own provider speaks
    where its requests do not say so.
    """

    name: str
    hosts: tuple[str, ...]
    cloud: bool = False
    local: bool | None = None
    connect_to: ConnectTo | None = None
    protocol: Protocol | None = None
    builtin: bool = False

    def place(self, model: str, addresses: Sequence[IPAddress]) -> Place:
        """Where a request ends up that is for `model` and will be sent to `addresses` (interception.md, "Local or cloud").

        The maker's cloud behind an Ollama is cloud whatever else is said of that Ollama.
        """
        is_ollama = self.protocol == "ollama" or self.name == "ollama"
        if runs_in_makers_cloud(model) and (is_ollama or not self.local):
            return "cloud"
        if self.local is not None:
            return "local" if self.local else "cloud"
        return "cloud" if self.cloud else place_of(addresses)


def place_of(addresses: Sequence[IPAddress]) -> Place:
    """Local if there is an address and every one is loopback, RFC 1918, fc00::/7 or link-local."""
    return "local" if addresses and all(_is_local(address) for address in addresses) else "cloud"


def _is_local(address: IPAddress) -> bool:
    plain: IPAddress = address
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        plain = address.ipv4_mapped
    return any(plain in network for network in _LOCAL_NETWORKS)


def runs_in_makers_cloud(model: str) -> bool:
    """Is this an Ollama model that a local Ollama only passes on: `gpt-oss:120b-cloud`, `qwen3-coder:cloud`?"""
    return model.strip().lower().endswith(("-cloud", ":cloud"))


def _cloud(name: str, *hosts: str) -> Provider:
    return Provider(name, hosts, cloud=True, builtin=True)


def _loopback(name: str, port: int, protocol: Protocol | None = None) -> Provider:
    hosts = (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}")
    return Provider(name, hosts, protocol=protocol, builtin=True)


BUILTIN: tuple[Provider, ...] = (
    _cloud("anthropic", "api.anthropic.com"),
    _cloud("openai", "api.openai.com", "*.api.openai.com", "chatgpt.com"),
    _cloud(
        "google",
        "generativelanguage.googleapis.com",
        "aiplatform.googleapis.com",
        "*-aiplatform.googleapis.com",
        "aiplatform.*.rep.googleapis.com",
        "cloudcode-pa.googleapis.com",
    ),
    _cloud("azure", "*.openai.azure.com", "*.cognitiveservices.azure.com", "*.services.ai.azure.com"),
    _cloud("bedrock", "bedrock-runtime.*.amazonaws.com", "bedrock-runtime-fips.*.amazonaws.com"),
    _cloud("openrouter", "openrouter.ai"),
    _cloud("mistral", "api.mistral.ai", "codestral.mistral.ai"),
    _cloud("groq", "api.groq.com"),
    _cloud("xai", "api.x.ai", "*.api.x.ai"),
    _cloud("deepseek", "api.deepseek.com"),
    _cloud("together", "api.together.xyz", "api.together.ai"),
    _cloud("fireworks", "api.fireworks.ai"),
    _cloud("cohere", "api.cohere.com", "api.cohere.ai"),
    _cloud("perplexity", "api.perplexity.ai"),
    _cloud("huggingface", "router.huggingface.co", "api-inference.huggingface.co"),
    _cloud("github-copilot", "api.githubcopilot.com", "api.*.githubcopilot.com", "copilot-proxy.githubusercontent.com"),
    _cloud("cerebras", "api.cerebras.ai"),
    _cloud("moonshot", "api.moonshot.ai", "api.moonshot.cn"),
    _cloud("zai", "api.z.ai", "open.bigmodel.cn"),
    _cloud("minimax", "api.minimax.io", "api.minimaxi.com", "api.minimax.chat"),
    _cloud("ollama-cloud", "ollama.com"),
    _loopback("ollama", 11434),
    _loopback("lmstudio", 1234),
    _loopback("vllm", 8000),
    _loopback("jan", 1337),
)
"""The providers of interception.md. A client that bypasses proxies for localhost reaches the last four unseen."""


class ProviderTable:
    """All providers. Where two have the same host, the user's own comes before the built-in one."""

    def __init__(self, configured: Sequence[ProviderConfig] = ()) -> None:
        self.configure(configured)

    def configure(self, configured: Sequence[ProviderConfig]) -> None:
        """Take other entries of the user's; requests that are under way go where they went."""
        self.providers = _merge(configured)
        self._patterns = tuple(
            (re.compile(parse_host(host).expression, re.IGNORECASE), provider)
            for provider in self.providers
            for host in provider.hosts
        )
        # Asked several times for each request, and mostly for the same few hosts.
        self.find = lru_cache(maxsize=1000)(self._find)
        """`find(host, port)`: the provider that serves this host, or None. IPv6 addresses with or without brackets."""

    def _find(self, host: str, port: int) -> Provider | None:
        where = f"{_canonical(host)}:{port}"
        return next((provider for pattern, provider in self._patterns if pattern.search(where)), None)

    def named(self, name: str) -> Provider | None:
        return next((provider for provider in self.providers if provider.name == name), None)

    def allow_hosts(self) -> list[str]:
        """For mitmproxy's option of this name, which searches each in `host:port`: hence anchored."""
        return list(dict.fromkeys(pattern.pattern for pattern, _ in self._patterns))


def _merge(configured: Iterable[ProviderConfig]) -> tuple[Provider, ...]:
    builtin = {provider.name: provider for provider in BUILTIN}
    own: list[Provider] = []
    for entry in configured:
        name = entry.name.lower()
        base = builtin.pop(name, None) or Provider(entry.name, ())
        own.append(
            replace(
                base,
                hosts=base.hosts if entry.hosts is None else entry.hosts,
                local=base.local if entry.local is None else entry.local,
                connect_to=entry.connect_to or base.connect_to,
                protocol=entry.protocol or base.protocol,
            )
        )
    return (*own, *builtin.values())


def is_address(host: str) -> bool:
    """Whether a host is an IP address rather than a name."""
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _canonical(host: str) -> str:
    """An IPv6 address in its shortest form, without brackets and zone; a name as it is."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return str(ipaddress.ip_address(bare.partition("%")[0]))
    except ValueError:
        return bare
