"""Listeners for base-URL clients and the ways a client is told, all the way: real processes, real TLS to the upstream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from mitmproxy.proxy.mode_specs import ProxyMode

from addons.clients import hmac_of
from addons.config_model import ReverseConfig
from addons.config_values import parse_listen, parse_upstream
from addons.demo.authority import AuthorityPaths
from addons.demo.model import ScriptedModel
from addons.demo.reply import Reply
from addons.own_key import load_or_make_key
from addons.reverse import Reverse, is_own_name, reverse_mode
from tests.addons.conftest import GARDEN, HARBOUR, Serve, answer_json, configuration
from tests.addons.parts import flow_to
from tests.addons.test_proxy import URL, curl, messages, notes_of
from tests.harness import Loop, RawUpstream, SuiteProcess, free_port

TEXT = "The tide chart is nearly done.\n\nAsk Mirela — she knows the büoys. 🌊"
ANTHROPIC = """
import anthropic, json, sys
client = anthropic.Anthropic(api_key="dummy", max_retries=0)
ask = {"model": "claude-test", "max_tokens": 100, "messages": [{"role": "user", "content": sys.stdin.read()}]}
plain = client.messages.create(**ask).content[0].text
with client.messages.stream(**ask) as stream:
    pieces = list(stream.text_stream)
print(json.dumps([plain, "".join(pieces), len(pieces) > 1]))
"""
OPENAI = """
import json, openai, sys
client = openai.OpenAI(api_key="dummy", max_retries=0)
prompt = sys.stdin.read()
plain = client.responses.create(model="gpt-test", input=prompt).output_text
chunks = client.chat.completions.create(
    model="gpt-test", messages=[{"role": "user", "content": prompt}], stream=True
)
pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
print(json.dumps([plain, "".join(pieces), len(pieces) > 1]))
"""
API_KEY = "sk-test-a-key-that-is-nobodys"


@dataclass
class Ports:
    anthropic: int
    openai: int
    ollama: int
    groq: int
    lab: int
    client: int

    @classmethod
    def free(cls) -> Ports:
        found: set[int] = set()
        while len(found) < 6:
            found.add(free_port())
        return cls(*found)


@dataclass
class Reached:
    suite: SuiteProcess
    ports: Ports
    model: ScriptedModel
    ollama: RawUpstream

    def post(self, port: int, path: str, *flags: str, body: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """curl to a listener as if it were the provider: no proxy, no certificate."""
        command = ["curl", "-sS", "--max-time", "60", "--noproxy", "*", "--data-binary", "@-", *flags]
        url = f"http://127.0.0.1:{port}{path}"
        return subprocess.run([*command, url], input=body or messages(GARDEN), capture_output=True, check=False)


@pytest.fixture(scope="module")
def reached(
    tmp_path_factory: pytest.TempPathFactory, vault: Path, background: Loop, serve: Serve, authority: AuthorityPaths
) -> Iterator[Reached]:
    async def start() -> ScriptedModel:
        return await ScriptedModel(lambda *_: Reply(TEXT), tls=authority.server_context()).__aenter__()

    model = background.run(start())
    ollama = serve(tls=False)
    folder, ports, nobody, dashboard = tmp_path_factory.mktemp("suite"), Ports.free(), free_port(), free_port()
    upstreams = {"anthropic": model.url, "openai": model.url, "groq": f"https://127.0.0.1:{nobody}"}
    config = configuration(
        vault,
        upstreams,
        proxy={
            "reverse": [
                {"listen": f"127.0.0.1:{ports.anthropic}", "upstream": "https://api.anthropic.com"},
                {"listen": f"127.0.0.1:{ports.openai}", "upstream": "https://api.openai.com/v1/"},
                {"listen": f"127.0.0.1:{ports.ollama}", "upstream": f"http://127.0.0.1:{ollama.port}"},
                {"listen": f"127.0.0.1:{ports.groq}", "upstream": "https://api.groq.com"},
                {"listen": f"127.0.0.1:{ports.lab}", "upstream": f"http://127.0.0.2:{dashboard}"},
            ]
        },
        clients=[
            {"name": "By Base URL", "match": {"listen": f"127.0.0.1:{ports.anthropic}"}},
            {"name": "by-listener", "match": {"listen": f"127.0.0.1:{ports.client}"}},
            {"name": "by-user", "match": {"proxy_user": "claude-code"}},
            {"name": "by-key", "match": {"api_key": hmac_of(load_or_make_key(folder / "state"), API_KEY)}},
            {"name": "by-both", "match": {"user_agent": "Tool/*", "proxy_user": "tool"}},
            {"name": "by-agent", "match": {"user_agent": "tool/2*"}},
        ],
        dashboard={"listen": f"127.0.0.1:{dashboard}"},
    )
    config["providers"] += [
        {"name": "ollama", "hosts": [f"127.0.0.1:{ollama.port}"]},
        {"name": "lab", "hosts": [f"127.0.0.2:{dashboard}"]},
    ]
    with SuiteProcess(folder, config, trust=authority.authority) as suite:
        yield Reached(suite, ports, model, ollama)
    background.run(model.__aexit__())


@pytest.mark.parametrize(
    ("program", "variable", "provider", "protocols", "client"),
    [
        (ANTHROPIC, "ANTHROPIC_BASE_URL", "anthropic", ["anthropic", "anthropic"], "by-base-url"),
        (OPENAI, "OPENAI_BASE_URL", "openai", ["openai-responses", "openai-chat"], "openai-python"),
    ],
)
def test_an_sdk_with_a_base_url_needs_no_certificate(
    reached: Reached, program: str, variable: str, provider: str, protocols: list[str], client: str
) -> None:
    suite = reached.suite
    before = len(suite.api("api/activity?limit=1000").body["entries"])
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        input="My notes:\n\n" + HARBOUR,
        env={"PATH": os.environ["PATH"], variable: f"http://127.0.0.1:{getattr(reached.ports, provider)}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [TEXT, TEXT, True]
    entries = suite.activity(before + 2)[:2]
    assert [entry["protocol"] for entry in reversed(entries)] == protocols
    for entry in entries:
        assert notes_of(entry) == {"vault/projects/Harbour.md": ("line", 3, 3)}
        assert (entry["provider"], entry["client"], entry["to"]) == (provider, client, "cloud")
        assert entry["outcome"] == "answered"
        [sent] = entry["sentTo"]
        assert sent["upstream"] == f"api.{provider}.com:443"


def test_what_could_not_be_sent_does_not_count_as_sent(reached: Reached) -> None:
    answered = reached.post(reached.ports.groq, "/openai/v1/chat/completions", "-w", "%{http_code}")
    assert answered.stdout.endswith(b"502")
    entry = reached.suite.activity()[0]
    assert (entry["provider"], entry["outcome"], entry["sentTo"]) == ("groq", "failed", [])
    assert notes_of(entry) == {"vault/Garden.md": ("line", 2, 2)}


def test_a_local_server_is_reached_by_its_own_name_and_stays_local(reached: Reached) -> None:
    port = reached.ollama.port
    for _ in range(2):
        assert reached.post(reached.ports.ollama, "/api/chat").returncode == 0
    entry = reached.suite.activity()[0]
    assert (entry["provider"], entry["to"], entry["outcome"]) == ("ollama", "local", "answered")
    assert b"Host: 127.0.0.1:%d" % port in reached.ollama.requests[-1].header_lines


@pytest.mark.parametrize(
    ("host", "status"),
    [("attacker.example", b"403"), ("attacker.example:80", b"403"), ("localhost:1", b"200"), ("h.internal", b"200")],
)
def test_a_name_that_was_made_to_mean_this_machine_is_refused(reached: Reached, host: str, status: bytes) -> None:
    before = len(reached.ollama.requests)
    answered = reached.post(reached.ports.ollama, "/api/chat", "-H", f"Host: {host}", "-w", "%{http_code}")
    assert answered.stdout.endswith(status)
    assert len(reached.ollama.requests) - before == (status == b"200")


def test_a_reverse_listener_leads_nowhere_else(reached: Reached) -> None:
    before = len(reached.ollama.requests)
    target = f"http://127.0.0.1:{reached.suite.dashboard.rsplit(':', 1)[1]}"
    reached.post(reached.ports.ollama, "/", "--request-target", target)
    assert len(reached.ollama.requests) == before + 1
    tunnel = reached.post(reached.ports.ollama, "/", "-X", "CONNECT", "-w", "%{http_code}")
    assert not tunnel.stdout.endswith(b"200")
    assert len(reached.ollama.requests) == before + 1


def test_the_suites_own_pages_are_guarded_there_too(reached: Reached) -> None:
    answered = reached.post(reached.ports.lab, "/api/status", "-w", "%{http_code}")
    assert answered.stdout.endswith(b"403")
    assert b"own_pages" in answered.stdout


def test_a_client_that_speaks_tls_to_the_listener_is_led_by_the_servers_name(
    tmp_path: Path, vault: Path, serve: Serve, background: Loop, authority: AuthorityPaths
) -> None:
    names: list[str | None] = []
    context = authority.server_context()
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    server = RawUpstream(answer_json, context)
    background.run(server.start())
    port = free_port()
    config = configuration(
        vault,
        {"anthropic": f"https://127.0.0.1:{server.port}"},
        proxy={"reverse": [{"listen": f"127.0.0.1:{port}", "upstream": "https://api.anthropic.com"}]},
    )
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        assert f"Base URL    http://127.0.0.1:{port}  (https://api.anthropic.com)" in suite.log
        command = ["curl", "-sS", "--noproxy", "*", "--cacert", str(suite.ca), "--data-binary", "@-"]
        asked = subprocess.run(
            [*command, f"https://localhost:{port}/v1/messages"],
            input=messages(GARDEN),
            capture_output=True,
            check=False,
        )
        assert (asked.returncode, asked.stderr) == (0, b"")
        assert suite.activity()[0]["outcome"] == "answered"
    background.run(server.stop())
    assert names == ["api.anthropic.com"]
    assert b"Host: api.anthropic.com" in server.requests[0].header_lines


def with_user(suite: SuiteProcess, user: str) -> tuple[str, ...]:
    return ("--proxy", suite.proxy.replace("http://", f"http://{user}@"))


@pytest.mark.parametrize(
    ("flags", "user", "client"),
    [
        ((), "claude-code:x", "by-user"),
        (("-A", "claude-cli/2.1 (external)"), "claude-code:", "by-user"),
        ((), "somebody:x", "curl"),
        (("-H", f"x-api-key: {API_KEY}"), None, "by-key"),
        (("-H", f"Authorization: Bearer {API_KEY}"), None, "by-key"),
        (("-H", f"Authorization: Bearer {API_KEY}1"), None, "curl"),
        (("-A", "tool/1"), "tool:x", "by-both"),
        (("-A", "tool/1"), "other:x", "tool"),
        (("-A", "tool/2.5"), None, "by-agent"),
        (("-A", "by-agent/1"), None, "by-agent-auto"),
    ],
)
def test_a_client_is_told_by_what_it_sends(
    reached: Reached, flags: tuple[str, ...], user: str | None, client: str
) -> None:
    suite = reached.suite
    proxied = with_user(suite, user) if user else ()
    asked = curl(suite, URL, *proxied, *flags, "-o", os.devnull, "-w", "%{http_code}", body=messages("Hello"))
    assert (asked.stdout, asked.stderr) == (b"200", b"")
    assert suite.activity()[0]["client"] == client
    assert API_KEY not in suite.log


def test_a_client_has_a_proxy_of_its_own(reached: Reached) -> None:
    suite = reached.suite
    assert f"Proxy       http://127.0.0.1:{reached.ports.client}  (for by-listener)" in suite.log
    assert curl(suite, URL, "--proxy", f"http://127.0.0.1:{reached.ports.client}", body=messages("Hi")).returncode == 0
    assert suite.activity()[0]["client"] == "by-listener"


def test_the_proxy_user_goes_no_further_over_plain_http(reached: Reached) -> None:
    url = f"http://127.0.0.1:{reached.ollama.port}/api/chat"
    asked = curl(reached.suite, url, *with_user(reached.suite, "claude-code:x"), body=messages("Hello"))
    assert asked.returncode == 0
    assert reached.suite.activity()[0]["client"] == "by-user"
    assert b"authorization" not in reached.ollama.requests[-1].head.lower()


def test_clients_change_while_it_runs_and_their_listeners_with_the_next_start(
    tmp_path: Path, vault: Path, upstream: RawUpstream, authority: AuthorityPaths
) -> None:
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        written: dict[str, Any] = yaml.safe_load(suite.config.read_text())
        port = free_port()
        written["clients"] = [
            {"name": "mine", "match": {"proxy_user": "me"}},
            {"name": "other", "match": {"listen": f"127.0.0.1:{port}"}},
        ]
        suite.config.write_text(yaml.safe_dump(written))
        suite.wait_for_line("clients[].match.listen changed in")
        curl(suite, URL, *with_user(suite, "me:x"), body=messages("Hello"))
        assert suite.activity()[0]["client"] == "mine"


def test_what_is_sent_again_from_the_inspector_is_prepared_already() -> None:
    """mitmproxy's `replay.client` takes the request as it went to the server, with the connection of its client."""
    listener = ReverseConfig(parse_listen("127.0.0.1:8001"), parse_upstream("https://api.openai.com/v1"))
    addon, flow = Reverse([listener]), flow_to("https://api.openai.com/responses", headers={"Host": "127.0.0.1:8001"})
    flow.client_conn.proxy_mode = ProxyMode.parse(reverse_mode(listener))
    addon.requestheaders(flow)
    prepared = (flow.request.path, flow.request.host_header)
    assert (flow.response, prepared) == (None, ("/v1/responses", "api.openai.com"))
    flow.is_replay = "request"
    addon.requestheaders(flow)
    assert (flow.response, (flow.request.path, flow.request.host_header)) == (None, prepared)


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1:8001", True),
        ("[::1]:8001", True),
        ("::1", False),
        ("LOCALHOST", True),
        ("localhost.:8001", True),
        ("10.0.0.7", True),
        ("host.docker.internal:8001", True),
        ("me.local", True),
        ("a.localhost", True),
        ("attacker.example", False),
        ("localhost.attacker.example", False),
        ("127.0.0.1.attacker.example:8001", False),
        ("notlocalhost", False),
        ("internal", False),
        ("", False),
    ],
)
def test_the_names_of_this_machine(host: str, own: bool) -> None:
    assert is_own_name(host) is own
