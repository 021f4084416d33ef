"""The variables that point a program at the proxy, and what each shell really makes of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from addons.certificates import Certificates
from addons.clients import ClientConfig, MatchConfig
from addons.config import Address, Config, ProxyConfig, ReverseConfig, Upstream
from addons.env import EVERYTHING, SHELLS, ClientError, Shell, Way, render, variables, way_for
from addons.env_system import system_commands

FILES = Certificates(Path("/s/mitmproxy"))
CA, BUNDLE = "/s/mitmproxy/mitmproxy-ca-cert.pem", "/s/mitmproxy/ca-bundle.pem"
PROXY = "127.0.0.1:8080"
LOOPBACK = "localhost,127.0.0.1,::1"


def proxied(url: str = f"http://{PROXY}", around: str = LOOPBACK, **more: str) -> dict[str, str]:
    three = {"HTTPS_PROXY": url, "HTTP_PROXY": url, "NO_PROXY": around}
    return {**three, **{name.lower(): value for name, value in three.items()}, **more}


def config() -> Config:
    own, base, local, lab = (Address("127.0.0.1", port) for port in (8082, 8001, 8002, 8003))
    return Config(
        proxy=ProxyConfig(
            reverse=(
                ReverseConfig(base, Upstream("https", "api.openai.com", 443)),
                ReverseConfig(local, Upstream("http", "127.0.0.1", 11434)),
                ReverseConfig(lab, Upstream("https", "api.groq.com", 443)),
                ReverseConfig(Address("127.0.0.1", 8004), Upstream("https", "api.openai.com", 443, "/v1")),
            )
        ),
        clients=(
            ClientConfig("Work Claude", MatchConfig(proxy_user="me@work:1", user_agent="claude-cli/*")),
            ClientConfig("codex", MatchConfig(proxy_user="codex")),
            ClientConfig("own", MatchConfig(own)),
            ClientConfig("main", MatchConfig(Address("127.0.0.1", 8080), "main")),
            ClientConfig("base", MatchConfig(base)),
            ClientConfig("local", MatchConfig(local)),
            ClientConfig("lab", MatchConfig(lab)),
            ClientConfig("prefixed", MatchConfig(Address("127.0.0.1", 8004))),
            ClientConfig("keyed", MatchConfig(api_key="hmac:" + "0" * 64)),
        ),
    )


def test_a_program_that_is_not_known_gets_everything() -> None:
    assert variables(way_for(config(), PROXY, None, "python"), FILES, {}) == proxied(
        SSL_CERT_FILE=BUNDLE,
        REQUESTS_CA_BUNDLE=BUNDLE,
        CURL_CA_BUNDLE=BUNDLE,
        NODE_EXTRA_CA_CERTS=CA,
        CODEX_CA_CERTIFICATE=CA,
        NODE_USE_ENV_PROXY="1",
    )


@pytest.mark.parametrize(
    ("client", "command", "expected"),
    [
        (None, "claude", proxied(NODE_EXTRA_CA_CERTS=CA)),
        (None, "/usr/local/bin/codex", proxied(CODEX_CA_CERTIFICATE=CA)),
        (None, r"C:\npm\Gemini.CMD", proxied(NODE_EXTRA_CA_CERTS=CA)),
        ("claude-code", None, proxied(NODE_EXTRA_CA_CERTS=CA)),
        ("gemini-cli", "python", proxied(NODE_EXTRA_CA_CERTS=CA)),
        ("work-claude", None, proxied("http://me%40work%3A1:x@127.0.0.1:8080", NODE_EXTRA_CA_CERTS=CA)),
        ("Work Claude", None, proxied("http://me%40work%3A1:x@127.0.0.1:8080", NODE_EXTRA_CA_CERTS=CA)),
        ("codex", None, proxied("http://codex:x@127.0.0.1:8080", CODEX_CA_CERTIFICATE=CA)),
        ("own", "claude", proxied("http://127.0.0.1:8082", NODE_EXTRA_CA_CERTS=CA)),
        ("base", None, {"OPENAI_BASE_URL": "http://127.0.0.1:8001/v1"}),
        ("prefixed", None, {"OPENAI_BASE_URL": "http://127.0.0.1:8004"}),
        ("local", "ollama", {"OLLAMA_HOST": "http://127.0.0.1:8002"}),
    ],
)
def test_a_client_gets_what_it_needs(client: str | None, command: str | None, expected: Mapping[str, str]) -> None:
    assert variables(way_for(config(), PROXY, client, command), FILES, {}) == expected


def test_the_main_address_is_the_one_that_the_suite_has() -> None:
    for client, user in (("main", "main"), ("keyed", None)):
        assert way_for(config(), "127.0.0.1:9", client) == Way("127.0.0.1:9", user, EVERYTHING)


def test_a_client_that_there_is_not() -> None:
    with pytest.raises(ClientError) as caught:
        way_for(config(), PROXY, "nix")
    assert str(caught.value) == (
        "there is no client nix: name one of work-claude, codex, own, main, base, local, lab, prefixed, keyed, "
        "claude-code, gemini-cli, or add it under `clients`"
    )


def test_a_base_url_that_no_variable_is_known_for() -> None:
    with pytest.raises(ClientError, match=r"^lab takes a base URL.* set it to http://127\.0\.0\.1:8003 by hand$"):
        way_for(config(), PROXY, "lab")


@pytest.mark.parametrize(
    ("environ", "around"),
    [
        ({"NO_PROXY": "corp.example, 10.0.0.0/8"}, "corp.example,10.0.0.0/8," + LOOPBACK),
        ({"no_proxy": "corp.example,"}, "corp.example," + LOOPBACK),
        ({"NO_PROXY": LOOPBACK}, LOOPBACK),
        ({"NO_PROXY": "::1,localhost"}, "::1,localhost,127.0.0.1"),
    ],
)
def test_what_was_kept_out_of_proxies_stays_out(environ: Mapping[str, str], around: str) -> None:
    assert variables(Way(PROXY, needs=()), FILES, environ) == proxied(around=around)


# ---- shells

ODD = {
    "PLAIN": "http://127.0.0.1:8080",
    "SPACES": "/My Notes/a  b",
    "QUOTES": 'it\'s "so" `here` \u2019typo\u2018graphic\u201b \u201a',
    "SIGNS": r"a\b\\c $HOME $(echo no) !x {a,b} * ? ~ # ; & | < > %PATH%",
    "TWO_LINES": "first\nsecond\ttab",
    "EMPTY": "",
    "UNICODE": "köln/編集",
}
SHOW = "import json, os, sys; print(json.dumps({name: os.environ.get(name) for name in sys.argv[1:]}))"


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", "fish", "pwsh"])
def test_each_shell_reads_back_what_was_said(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    names: dict[str, Shell] = {"dash": "bash", "pwsh": "powershell"}
    script = tmp_path / ("script.ps1" if shell == "pwsh" else "script")
    show = tmp_path / "show.py"
    show.write_text(SHOW)
    call = f"'{sys.executable}' '{show}' {' '.join(ODD)}\n"
    script.write_text(render(names.get(shell, shell), ODD) + ("& " if shell == "pwsh" else "") + call, "utf-8")  # type: ignore[call-overload]
    flags = ["-NoProfile", "-File"] if shell == "pwsh" else []
    ran = subprocess.run([program, *flags, script], capture_output=True, text=True, timeout=120, check=True)
    # PowerShell knows no empty variable: to it that means none.
    expected: dict[str, Any] = {**ODD, "EMPTY": None} if shell == "pwsh" else ODD
    assert json.loads(ran.stdout) == expected


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "export A='it'\"'\"'s \\ x'\n"),
        ("zsh", "export A='it'\"'\"'s \\ x'\n"),
        ("fish", "set -gx A 'it\\'s \\\\ x'\n"),
        ("powershell", "$env:A = 'it''s \\ x'\n"),
    ],
)
def test_a_line_of_each_shell(shell: Shell, line: str) -> None:
    assert render(shell, {"A": "it's \\ x"}) == line


def test_powershell_doubles_the_typographic_quotes_too() -> None:
    assert render("powershell", {"A": "a\u2019b\u201bc"}) == "$env:A = 'a\u2019\u2019b\u201b\u201bc'\n"


def test_the_command_offers_every_shell() -> None:
    from addons import cli

    assert cli.SHELLS == SHELLS


# ---- the whole machine


@pytest.mark.parametrize(
    ("platform", "lines"),
    [
        (
            "darwin",
            [
                'networksetup -setsecurewebproxy "$SERVICE" 127.0.0.1 8080',
                "security add-trusted-cert -r trustRoot -k ~/Library/Keychains/login.keychain-db '/My Notes/ca.pem'",
                'networksetup -setsecurewebproxystate "$SERVICE" off',
                "security remove-trusted-cert '/My Notes/ca.pem'",
                "security delete-certificate -Z ABC ~/Library/Keychains/login.keychain-db",
            ],
        ),
        (
            "win32",
            [
                "Set-ItemProperty $Settings ProxyServer 'https=127.0.0.1:8080'",
                "certutil -user -addstore Root '/My Notes/ca.pem'",
                "Set-ItemProperty $Settings ProxyEnable 0",
                "certutil -user -delstore Root ABC",
            ],
        ),
        (
            "linux",
            [
                "gsettings set org.gnome.system.proxy.https port 8080",
                "gsettings set org.gnome.system.proxy mode 'manual'",
                "sudo trust anchor --store '/My Notes/ca.pem'",
                "gsettings set org.gnome.system.proxy mode 'none'",
                "sudo trust anchor --remove '/My Notes/ca.pem'",
            ],
        ),
    ],
)
def test_the_commands_for_a_whole_machine(platform: str, lines: list[str]) -> None:
    text = system_commands(platform, Address("127.0.0.1", 8080), Path("/My Notes/ca.pem"), "ABC")
    said = text.splitlines()
    found = [said.index(line) for line in lines]
    assert found == sorted(found)
    assert said[0].startswith("# Set (")
    assert found[-1] > said.index("# Unset") > 0


@pytest.mark.skipif(os.name == "nt", reason="its commands are not for bash")
@pytest.mark.parametrize("platform", ["darwin", "linux"])
def test_the_commands_for_a_whole_machine_are_shell(platform: str) -> None:
    text = system_commands(platform, Address("::1", 8080), Path("/a/it's.pem"), "ABC")
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
