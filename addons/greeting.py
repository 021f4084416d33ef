"""What a started suite tells the person: where it is, and the exact lines that point a client at it.

Which variable each client reads was tried with the real clients; those that name a file of roots replace the public
ones, hence the bundle.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from rich.console import Console

from addons.config import config_to_name
from addons.config_writing import ConfigFile
from addons.env import NO_PROXY
from addons.launcher import Running
from addons.program import with_program


def client_lines(running: Running) -> dict[str, str]:
    """Client -> a command line that starts it through the proxy."""
    certificate, bundle = str(running.ca_certificate), str(running.ca_bundle)
    return {
        "Claude Code": _line(running, {"NODE_EXTRA_CA_CERTS": certificate}, "claude"),
        "Codex": _line(running, {"CODEX_CA_CERTIFICATE": certificate}, "codex"),
        "Gemini CLI": _line(running, {"NODE_EXTRA_CA_CERTS": certificate}, "gemini"),
        "Python SDKs": _line(
            running, {"SSL_CERT_FILE": bundle, "REQUESTS_CA_BUNDLE": bundle}, "python your_program.py"
        ),
        "curl": _line(running, {"CURL_CA_BUNDLE": bundle}, "curl https://api.anthropic.com/v1/models"),
    }


def greet(running: Running, console: Console) -> None:
    """Print it. The lines to paste are never wrapped or coloured."""
    suite = running.suite
    config = suite.config
    places = {
        "Dashboard": f"{suite.sidecar.link()}  (the link opens once; {_another(running)} prints a new one)",
        "Inspector": running.inspector_url or "off",
        "Proxy": f"{running.proxy_url}  (mode: {config.mode})",
        "Notes": _notes(running),
        "Authority": f"{running.ca_certificate}  (this installation's own)",
    }
    _print(console, "mitmemory is running. Ctrl-C ends it.", "", style="bold")
    _print(console, *(f"  {name:<12}{place}" for name, place in places.items()))
    _print(console, *_listeners(running))
    _print(console, "", "Point a client at it:", "", style="bold")
    _print(console, *(f"  {client:<12}{line}" for client, line in client_lines(running).items()))


def _print(console: Console, *lines: str, style: str | None = None) -> None:
    for line in lines:
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def _listeners(running: Running) -> list[str]:
    """Where single clients reach it: base URLs, and proxies of their own."""
    config = running.suite.config
    reverse = [f"  {'Base URL':<12}http://{one.listen}  ({one.upstream})" for one in config.proxy.reverse]
    names = {
        listen: [one.slug for one in config.clients if one.match.listen == listen] for listen in config.client_listeners
    }
    return reverse + [f"  {'Proxy':<12}http://{listen}  (for {', '.join(slugs)})" for listen, slugs in names.items()]


def _another(running: Running) -> str:
    """What prints another link: without a state directory no command finds this suite."""
    if running.announcement is None:
        return "each start"
    return with_program("`mitmemory link`", config_to_name(running.suite.config.file))


def _notes(running: Running) -> str:
    config = running.suite.config
    if not config.memory.sources:
        if config.file is None:
            return "no source"
        where = ConfigFile(config.file).target
        if where != config.file:  # nobody is to edit what an installation brings
            return f"no source yet: make {where} with one under memory.sources, and start again"
        return f"no source yet: add one under memory.sources in {where}"
    names = ", ".join(source.name for source in config.memory.sources)
    return f"reading {names} (from {config.file})" if config.file else f"reading {names}"


def _line(running: Running, variables: Mapping[str, str], command: str) -> str:
    environment = {"HTTPS_PROXY": running.proxy_url, **variables, "NO_PROXY": NO_PROXY}
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in environment.items()), command])
