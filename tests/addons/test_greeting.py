"""What a started suite says: every line can be pasted as it stands."""

from __future__ import annotations

import io
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from addons import config_writing
from addons.clients import ClientConfig, MatchConfig
from addons.config import (
    Address,
    Config,
    MemoryConfig,
    ProxyConfig,
    ReverseConfig,
    SourceConfig,
    Upstream,
    default_state,
)
from addons.greeting import client_lines, greet
from addons.launcher import Running
from addons.program import with_program


def running(
    *, sources: tuple[str, ...] = (), inspector: str | None = None, file: str | None = None, conf: str = "/s/mitmproxy"
) -> Running:
    config = Config(
        proxy=ProxyConfig(listen=Address("127.0.0.1", 8080)),
        memory=MemoryConfig(tuple(SourceConfig(name, "markdown", Path("/notes")) for name in sources)),
        file=Path(file) if file else None,
    )
    sidecar = SimpleNamespace(link=lambda: "http://127.0.0.1:8090/?code=abc")
    suite: Any = SimpleNamespace(config=config, sidecar=sidecar, proxy=str(config.proxy.listen))
    return Running(suite, Path(conf), inspector)


def greeted(suite: Running, **console: Any) -> list[str]:
    out = io.StringIO()
    greet(suite, Console(file=out, **console))
    return out.getvalue().splitlines()


PACKAGED = Path(config_writing.__file__).with_name("mitm.yaml")
"""The default of an installed package: the next version takes its place."""
PROXY = "HTTPS_PROXY=http://127.0.0.1:8080"
LOOPBACK = "NO_PROXY=localhost,127.0.0.1,::1"


def test_the_lines_of_the_clients() -> None:
    ca, bundle = "/s/mitmproxy/mitmproxy-ca-cert.pem", "/s/mitmproxy/ca-bundle.pem"
    assert client_lines(running()) == {
        "Claude Code": f"{PROXY} NODE_EXTRA_CA_CERTS={ca} {LOOPBACK} claude",
        "Codex": f"{PROXY} CODEX_CA_CERTIFICATE={ca} {LOOPBACK} codex",
        "Gemini CLI": f"{PROXY} NODE_EXTRA_CA_CERTS={ca} {LOOPBACK} gemini",
        "Python SDKs": (
            f"{PROXY} SSL_CERT_FILE={bundle} REQUESTS_CA_BUNDLE={bundle} {LOOPBACK} python your_program.py"
        ),
        "curl": f"{PROXY} CURL_CA_BUNDLE={bundle} {LOOPBACK} curl https://api.anthropic.com/v1/models",
    }


def test_a_path_with_spaces_is_quoted() -> None:
    line = client_lines(running(conf="/My Notes/it's"))["Claude Code"]
    assert shlex.split(line) == [
        PROXY,
        "NODE_EXTRA_CA_CERTS=/My Notes/it's/mitmproxy-ca-cert.pem",
        LOOPBACK,
        "claude",
    ]


def test_the_greeting() -> None:
    suite = running(sources=("vault", "work"), inspector="http://127.0.0.1:8081/?token=t", file="mitm.yaml")
    lines = client_lines(suite)
    assert greeted(suite) == [
        "mitmemory is running. Ctrl-C ends it.",
        "",
        "  Dashboard   http://127.0.0.1:8090/?code=abc  (the link opens once; each start prints a new one)",
        "  Inspector   http://127.0.0.1:8081/?token=t",
        "  Proxy       http://127.0.0.1:8080  (mode: dispatch)",
        "  Notes       reading vault, work (from mitm.yaml)",
        "  Authority   /s/mitmproxy/mitmproxy-ca-cert.pem  (this installation's own)",
        "",
        "Point a client at it:",
        "",
        f"  Claude Code {lines['Claude Code']}",
        f"  Codex       {lines['Codex']}",
        f"  Gemini CLI  {lines['Gemini CLI']}",
        f"  Python SDKs {lines['Python SDKs']}",
        f"  curl        {lines['curl']}",
    ]


def test_the_listeners_of_single_clients_are_said() -> None:
    suite = running()
    own, base = Address("127.0.0.1", 8082), Address("127.0.0.1", 8001)
    openrouter = Upstream("https", "openrouter.ai", 443, "/api/v1")
    config = replace(
        suite.suite.config,
        proxy=ProxyConfig(reverse=(ReverseConfig(base, openrouter),)),
        clients=(
            ClientConfig("One", MatchConfig(own)),
            ClientConfig("two", MatchConfig(own, proxy_user="two")),
            ClientConfig("base", MatchConfig(base)),
        ),
    )
    suite.suite.config = config
    assert greeted(suite)[7:10] == [
        "  Base URL    http://127.0.0.1:8001  (https://openrouter.ai/api/v1)",
        "  Proxy       http://127.0.0.1:8082  (for one, two)",
        "",
    ]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (None, "no source"),
        ("/home/me/[x].yaml", "no source yet: add one under memory.sources in /home/me/[x].yaml"),
        (
            str(PACKAGED),
            f"no source yet: make {default_state() / 'mitm.yaml'} with one under memory.sources, and start again",
        ),
    ],
)
def test_without_inspector_and_notes_it_says_so(file: str | None, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_writing, "shipped_config", lambda: PACKAGED)
    said_lines = greeted(running(file=file))
    assert "  Inspector   off" in said_lines
    assert f"  Notes       {said}" in said_lines


def test_lines_are_never_wrapped_or_coloured() -> None:
    suite = running(sources=("[red]a[/red]",), file="[x].yaml")
    plain = greeted(suite)
    assert "  Notes       reading [red]a[/red] (from [x].yaml)" in plain
    narrow = greeted(suite, width=20, force_terminal=True, color_system="truecolor")
    assert [line for line in narrow if "\x1b" not in line] == [
        line for line in plain if line.startswith("  ") or not line
    ]


def test_another_link_is_a_commands_where_it_finds_the_suite() -> None:
    announcement: Any = SimpleNamespace()
    opens = "  (the link opens once; `mitmemory link` prints a new one)"
    line = greeted(replace(running(), announcement=announcement))[2]
    assert line.endswith(with_program(opens))
    line = greeted(replace(running(file="/my notes/work.yaml"), announcement=announcement))[2]
    assert line.endswith(with_program(opens, Path("/my notes/work.yaml")))
    assert "link --config '/my notes/work.yaml'` prints" in line
