"""The variables that send a program through the proxy and make it trust the authority. Pure.

Which variable each program reads was tried with the real programs. Those that name a file of roots replace the public
ones, hence the bundle; those that add to them get the certificate alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from addons.certificates import Certificates
from addons.clients import ClientConfig, client_of
from addons.config import Config, Upstream
from addons.providers import ProviderTable

type Shell = Literal["bash", "zsh", "fish", "powershell"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Loopback stays out of the proxy: a program's own local servers are no business of ours."""
NO_PROXY = ",".join(LOOPBACK)

COMMANDS = {"claude": "claude-code", "codex": "codex", "gemini": "gemini-cli"}
"""Commands whose program is known, and the client that they are."""

_ADDS = ("NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE")
_REPLACES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
EVERYTHING = (*_REPLACES, *_ADDS, "NODE_USE_ENV_PROXY")
_NEEDS = {
    "claude-code": ("NODE_EXTRA_CA_CERTS",),
    "codex": ("CODEX_CA_CERTIFICATE",),
    "gemini-cli": ("NODE_EXTRA_CA_CERTS",),
}
"""What a known client needs beside the proxy; any other gets everything."""

_BASE_URLS = {
    "anthropic": ("ANTHROPIC_BASE_URL", ""),
    "openai": ("OPENAI_BASE_URL", "/v1"),
    "google": ("GOOGLE_GEMINI_BASE_URL", ""),
    "ollama": ("OLLAMA_HOST", ""),
}
"""Provider -> the variable that its own clients read a base URL from, and the path that belongs to it."""


class ClientError(Exception):
    """There is no such client, or nothing points it anywhere. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a program reaches the suite: through the proxy at `proxy` (`host:port`), perhaps under a user's name.

    `needs` are the further variables it reads. `base_url` is a variable and its value for a program that takes a
    base URL instead, and then needs nothing else.
    """

    proxy: str
    user: str | None = None
    needs: tuple[str, ...] = EVERYTHING
    base_url: tuple[str, str] | None = None

    @property
    def proxy_url(self) -> str:
        name = f"{quote(self.user, safe='')}:x@" if self.user else ""
        return f"http://{name}{self.proxy}"


def way_for(config: Config, proxy: str, client: str | None, command: str | None = None) -> Way:
    """The way of a client, as `clients` of the configuration names it or as one of the known programs.

    `proxy` is where the suite listens. Without a client, `command` may be that of a known program. Raises ClientError.
    """
    if client is None:
        program = COMMANDS.get(_command_name(command)) if command else None
        return Way(proxy, needs=_NEEDS[program]) if program else Way(proxy)
    entry = next((one for one in config.clients if client in {one.name, one.slug}), None)
    if entry is None:
        if client in _NEEDS:
            return Way(proxy, needs=_NEEDS[client])
        known = ", ".join(dict.fromkeys((*(one.slug for one in config.clients), *_NEEDS)))
        raise ClientError(f"there is no client {client}: name one of {known}, or add it under `clients`")
    return _way_of(config, proxy, entry, command)


def program_of(client: ClientConfig) -> str | None:
    """Which of the known programs a client is, by its User-Agent or its name."""
    told = client_of(client.match.user_agent) if client.match.user_agent else ""
    return next((program for program in (told, client.slug) if program in _NEEDS), None)


def variables(way: Way, certificates: Certificates, environ: Mapping[str, str]) -> dict[str, str]:
    """Name -> value. `environ` is what is set so far: hosts that are kept out of proxies there stay out."""
    if way.base_url:
        return dict([way.base_url])
    around = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    kept_out = ",".join(dict.fromkeys([*(host.strip() for host in around.split(",") if host.strip()), *LOOPBACK]))
    # Some programs read the one spelling and some the other: curl reads only the small `http_proxy`.
    set_to = {"HTTPS_PROXY": way.proxy_url, "HTTP_PROXY": way.proxy_url, "NO_PROXY": kept_out}
    found = {spelling: value for name, value in set_to.items() for spelling in (name, name.lower())}
    found |= {name: str(certificates.bundle) for name in _REPLACES if name in way.needs}
    found |= {name: str(certificates.certificate) for name in _ADDS if name in way.needs}
    if "NODE_USE_ENV_PROXY" in way.needs:  # for Node's own fetch, from 22.21 on
        found["NODE_USE_ENV_PROXY"] = "1"
    return found


def render(shell: Shell, values: Mapping[str, str]) -> str:
    """Lines that set the variables in this shell, to be evaluated or pasted."""
    line, quoted = _SHELLS[shell]
    return "".join(f"{line.format(name=name, value=quoted(value))}\n" for name, value in values.items())


def _way_of(config: Config, proxy: str, client: ClientConfig, command: str | None) -> Way:
    match = client.match
    program = COMMANDS.get(_command_name(command)) if command else None
    if program is None and match.user_agent:
        program = client_of(match.user_agent)
    needs = _NEEDS.get(program or client.slug, EVERYTHING)
    if match.listen is None or match.listen == config.proxy.listen:
        return Way(proxy, match.proxy_user, needs)
    reverse = next((one for one in config.proxy.reverse if one.listen == match.listen), None)
    if reverse is None:
        return Way(str(match.listen), match.proxy_user, needs)
    return Way(proxy, base_url=_base_url(client, config, reverse.upstream, f"http://{reverse.listen}"))


def _base_url(client: ClientConfig, config: Config, upstream: Upstream, url: str) -> tuple[str, str]:
    provider = ProviderTable(config.providers).find(upstream.host, upstream.port)
    name, path = _BASE_URLS.get(provider.name if provider else "", ("", ""))
    if not name:
        raise ClientError(f"{client.name} takes a base URL, and no variable for it is known: set it to {url} by hand")
    return name, url + ("" if upstream.prefix else path)


def _command_name(command: str) -> str:
    """The name without folder and ending: `claude` of `/usr/bin/claude` and of `claude.cmd`."""
    name = re.split(r"[/\\]", command)[-1].lower()
    return re.sub(r"\.(exe|cmd|bat|ps1)$", "", name)


def _fish(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _powershell(value: str) -> str:
    # PowerShell takes the typographic quotes for quotes as well.
    return "'" + re.sub("(['\u2018\u2019\u201a\u201b])", r"\1\1", value) + "'"


_SHELLS: Mapping[Shell, tuple[str, Callable[[str], str]]] = {
    "bash": ("export {name}={value}", shlex.quote),
    "zsh": ("export {name}={value}", shlex.quote),
    "fish": ("set -gx {name} {value}", _fish),
    "powershell": ("$env:{name} = {value}", _powershell),
}
SHELLS: tuple[Shell, ...] = tuple(_SHELLS)
