"""`GET api/clients`: who is told by what, never by which key; and the lines of `mitmemory env`."""

import json
from pathlib import Path

import pytest

from addons.certificates import Certificates
from addons.client_states import clients_json, lines_json, mcp_command, mcp_json
from addons.clients import ClientConfig, MatchConfig
from addons.config import Address, Config, ProxyConfig, ReverseConfig, Upstream
from addons.env import render, variables, way_for
from addons.record import Seen
from tests.harness import MITMEMORY
from web.mcp_lines import stdio_lines

HMAC = "hmac:" + "0a" * 32
CONFIG = Config(
    proxy=ProxyConfig(
        reverse=(
            ReverseConfig(Address("127.0.0.1", 8001), Upstream("https", "api.anthropic.com", 443)),
            ReverseConfig(Address("127.0.0.1", 8002), Upstream("https", "api.groq.com", 443)),
        )
    ),
    clients=(
        ClientConfig("Claude Code", MatchConfig(proxy_user="me")),
        ClientConfig("nightly", MatchConfig(api_key=HMAC), memory_enabled=True),
        ClientConfig("Base", MatchConfig(listen=Address("127.0.0.1", 8001), user_agent="b/*")),
        ClientConfig("groq", MatchConfig(listen=Address("127.0.0.1", 8002))),
    ),
)
CERTIFICATES = Certificates(Path("/state/mitmproxy"))


def test_the_clients_configured_and_seen() -> None:
    seen = Seen(most=3)
    for name in ("gone", "nightly", "codex", "nightly", "aider", "codex"):
        seen.add(name)
    seen.add("codex", requests=0)
    states = clients_json(CONFIG, seen)
    assert HMAC[5:] not in json.dumps(states)
    assert [(one["client"], one["configured"], one["requests"], one["lastSeen"] is None) for one in states] == [
        ("claude-code", True, 0, True),
        ("nightly", True, 2, False),
        ("base", True, 0, True),
        ("groq", True, 0, True),
        ("aider", False, 1, False),
        ("codex", False, 2, False),
    ]
    assert states[0] == {
        "client": "claude-code",
        "name": "Claude Code",
        "configured": True,
        "mode": "both",
        "memoryEnabled": False,
        "matches": {"listen": None, "proxyUser": "me", "apiKey": False, "userAgent": None},
        "requests": 0,
        "lastSeen": None,
    }
    assert [one["matches"] for one in states[1:5]] == [
        {"listen": None, "proxyUser": None, "apiKey": True, "userAgent": None},
        {"listen": "127.0.0.1:8001", "proxyUser": None, "apiKey": False, "userAgent": "b/*"},
        {"listen": "127.0.0.1:8002", "proxyUser": None, "apiKey": False, "userAgent": None},
        None,
    ]
    assert states[1]["memoryEnabled"] is True
    assert states[1]["lastSeen"].endswith("Z")


def test_a_client_that_is_forgotten_is_counted_anew() -> None:
    seen = Seen(most=1)
    for name in ("a", "a", "b", "a"):
        seen.add(name)
    found = seen.find("a")
    assert found is not None
    assert found.requests == 1
    assert seen.find("b") is None


@pytest.mark.parametrize("client", ["claude-code", "nightly", "base", "codex", "gemini-cli", None])
def test_the_lines_are_those_of_env(client: str | None) -> None:
    environ = {"NO_PROXY": "intranet.example"}
    [line] = [one for one in lines_json(CONFIG, "127.0.0.1:9999", CERTIFICATES, environ) if one["client"] == client]
    values = variables(way_for(CONFIG, "127.0.0.1:9999", client), CERTIFICATES, environ)
    assert line["problem"] is None
    assert line["shells"] == {shell: render(shell, values) for shell in ("bash", "zsh", "fish", "powershell")}
    assert "9999" in line["shells"]["fish"] or client == "base"


def test_each_client_has_its_lines_once() -> None:
    lines = lines_json(CONFIG, "127.0.0.1:9999", CERTIFICATES, {})
    assert [(one["client"], one["name"], one["command"]) for one in lines] == [
        ("claude-code", "Claude Code", "claude"),
        ("nightly", "nightly", None),
        ("base", "Base", None),
        ("groq", "groq", None),
        ("codex", "Codex", "codex"),
        ("gemini-cli", "Gemini CLI", "gemini"),
        (None, None, None),
    ]


def test_a_client_that_nothing_points_anywhere_says_so() -> None:
    [groq] = [one for one in lines_json(CONFIG, "127.0.0.1:9999", CERTIFICATES, {}) if one["client"] == "groq"]
    assert groq["shells"] == {}
    assert groq["problem"] == (
        "groq takes a base URL, and no variable for it is known: set it to http://127.0.0.1:8002 by hand"
    )


def test_how_clients_with_a_memory_meet_it(tmp_path: Path) -> None:
    config = Config(
        file=tmp_path / "mitm.yaml",
        clients=(
            ClientConfig("Claude Code", MatchConfig(proxy_user="me"), memory_enabled=True),
            ClientConfig("off", MatchConfig(proxy_user="off")),
            ClientConfig("codex", MatchConfig(user_agent="GeminiCLI-tui/*"), "mcp_via_llm", memory_enabled=True),
            ClientConfig("editor", MatchConfig(user_agent="ed/*"), memory_enabled=True),
        ),
    )
    told = mcp_json(config)
    assert [(one["client"], one["inside"], one["program"]) for one in told] == [
        ("claude-code", False, "Claude Code"),
        ("codex", True, "Gemini CLI"),
        ("editor", False, None),
    ]
    command = [str(MITMEMORY), "mcp", "--client", "editor", "--config", str(tmp_path / "mitm.yaml")]
    assert mcp_command("editor", config.file) == command
    assert mcp_command("editor", None) == command[:4]
    assert told[2]["lines"] == [line.to_json() for line in stdio_lines(command)]
