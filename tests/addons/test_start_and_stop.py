"""Starting, refusing to start, and ending, each with a real process."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from addons.demo.authority import AuthorityPaths
from tests.addons.conftest import GARDEN, Serve, configuration
from tests.addons.test_proxy import URL, curl, messages, notes_of
from tests.harness import RawRequest, RawUpstream, SuiteProcess, free_port, mitmemory

REPOSITORY = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("key", ["proxy.listen", "proxy.inspector", "dashboard.listen"])
def test_a_taken_port_is_one_clear_line(tmp_path: Path, key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = f"127.0.0.1:{holder.getsockname()[1]}"
        section, name = key.split(".")
        free = {"proxy": {"listen": "127.0.0.1:0", "inspector": "127.0.0.1:0"}, "dashboard": {"listen": "127.0.0.1:0"}}
        free[section][name] = taken
        config = tmp_path / "mitm.yaml"
        config.write_text(f"proxy: {free['proxy']}\ndashboard: {free['dashboard']}\nstate: {tmp_path / 'state'}\n")
        ended = mitmemory("run", "--config", str(config))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"mitmemory: {taken} cannot be used (Address already in use): "
        f"end the program that has it, or set {key} to another port\n"
    )


def test_an_invalid_configuration_names_line_key_and_mend(tmp_path: Path) -> None:
    config = tmp_path / "mitm.yaml"
    config.write_text("mode: dispatch\nproxy:\n  lisen: 127.0.0.1:8080\n")
    for command in ("run", "check", "map"):
        ended = mitmemory(command, "--config", str(config))
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith(f"{config}:3: proxy.lisen: ")
        assert "`listen`" in ended.stderr
        assert ended.stderr.count("\n") == 1


def test_an_unknown_mitmproxy_option_is_said(tmp_path: Path) -> None:
    config = tmp_path / "mitm.yaml"
    config.write_text(
        "proxy: {listen: '127.0.0.1:0', inspector: null, mitmproxy: {sl_insecure: true}}\n"
        f"dashboard: {{listen: '127.0.0.1:0'}}\nstate: {tmp_path / 'state'}\n"
    )
    ended = mitmemory("run", "--config", str(config))
    assert ended.returncode == 1
    assert ended.stderr == "mitmemory: proxy.mitmproxy: mitmproxy has no option sl_insecure\n"


def test_a_flag_that_would_let_bodies_pass_unseen_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "mitm.yaml"
    config.write_text(
        "proxy: {listen: '127.0.0.1:0', inspector: null}\n"
        f"dashboard: {{listen: '127.0.0.1:0'}}\nstate: {tmp_path / 'state'}\n"
    )
    for flag, reason in (
        (
            "stream_large_bodies=1m",
            "stream_large_bodies would let bodies pass before they are looked at: leave it unset",
        ),
        ("connection_strategy=eager", "connection_strategy must be lazy"),
    ):
        ended = mitmemory("run", "--config", str(config), "--", "--set", flag)
        assert ended.returncode == 1
        assert reason in ended.stderr
        assert "Traceback" not in ended.stderr


def test_a_missing_vault_is_an_error_of_that_source_and_the_rest_goes_on(
    tmp_path: Path, vault: Path, upstream: RawUpstream, authority: AuthorityPaths
) -> None:
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"})
    config["memory"]["sources"].append({"name": "gone", "type": "markdown", "path": str(tmp_path / "gone")})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        curl(suite, URL, body=messages(GARDEN))
        assert notes_of(suite.activity()[0]) == {"vault/Garden.md": ("line", 2, 2)}
        good, gone = suite.api("api/memory").body["sources"]
        assert (good["notes"], good["error"]) == (2, None)
        assert gone["notes"] == 0
        assert str(tmp_path / "gone") in gone["error"]


def test_thousands_of_notes_are_read_beside_the_requests(
    tmp_path: Path, upstream: RawUpstream, authority: AuthorityPaths
) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(3000):
        (many / f"{number}.md").write_text(
            f"# Note {number}\n\n- first of {number}\n- second\n\n> said\n\n[[{number + 1}]]\n" * 3
        )
    config = configuration(many, {"anthropic": f"https://127.0.0.1:{upstream.port}"})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        assert suite.api("api/status").status == 200
        assert len(suite.api("api/memory").body["nodes"]) == 3000
        assert curl(suite, URL, body=messages(GARDEN)).returncode == 0


def test_sigterm_ends_everything_although_a_stream_is_under_way(
    tmp_path: Path, vault: Path, serve: Serve, authority: AuthorityPaths
) -> None:
    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"d\r\ndata: first\n\n\r\n")
        await writer.drain()
        await asyncio.sleep(60)

    server = serve(respond)
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{server.port}"})
    with SuiteProcess(tmp_path, config, trust=authority.authority, inspector=True, fresh=True) as suite:
        command = ["curl", "-sSN", "--proxy", suite.proxy, "--cacert", str(suite.ca)]
        events = ["curl", "-sSN", "-H", f"Authorization: Bearer {suite.tokens['read_only']}"]
        with (
            subprocess.Popen([*command, "--data-binary", "{}", URL], stdout=subprocess.PIPE) as client,
            subprocess.Popen([*events, f"{suite.dashboard}api/events"], stdout=subprocess.PIPE) as page,
        ):
            assert client.stdout
            assert page.stdout
            assert client.stdout.read(13) == b"data: first\n\n"
            page.stdout.read(1)
            ports = [
                int(url.rsplit(":", 1)[1].split("/")[0]) for url in (suite.proxy, suite.dashboard, suite.inspector)
            ]
            assert suite.stop() == 0  # within 3 s, or it fails
            for port in ports:
                with socket.socket() as probe:
                    assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_it_also_runs_as_a_script_of_mitmweb(
    tmp_path: Path, vault: Path, upstream: RawUpstream, authority: AuthorityPaths
) -> None:
    """`mitmweb -s addons/suite.py`, without the project's folder on the path."""
    suite = SuiteProcess(tmp_path, configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"}))
    port, web_port, dashboard = free_port(), free_port(), free_port()
    suite.config.write_text(
        suite.config.read_text().replace(
            "dashboard:\n  listen: 127.0.0.1:0", f"dashboard:\n  listen: 127.0.0.1:{dashboard}"
        )
    )
    mitmweb = Path(sys.executable).with_name("mitmweb")
    command = [
        str(mitmweb), "-s", str(REPOSITORY / "addons" / "suite.py"), "--set", f"mitmemory_config={suite.config}",
        "--listen-host", "127.0.0.1", "--listen-port", str(port), "--web-port", str(web_port), "--no-web-open-browser",
        "--set", f"confdir={suite.state / 'mitmproxy'}", "--set", f"ssl_verify_upstream_trusted_ca={authority.authority}",
    ]  # fmt: skip
    with SuiteProcess(tmp_path, {}, command=command, ready="dashboard: ") as running:
        running.proxy, running.dashboard = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{dashboard}/"
        asked = curl(running, URL, body=messages(GARDEN))
        assert asked.returncode == 0, asked.stderr
        assert notes_of(running.activity()[0]) == {"vault/Garden.md": ("line", 2, 2)}
        assert re.search(rf"proxy listening at 127\.0\.0\.1:{port}", running.log)
        # Touching the script makes mitmproxy load it anew; the port changes hands and the suite goes on.
        script = REPOSITORY / "addons" / "suite.py"
        script.touch()
        running.wait_for(lambda: running.log.count("dashboard: ") == 2, "a second dashboard")
        time.sleep(0.2)
        curl(running, URL, body=messages(GARDEN))
        assert notes_of(running.activity()[0]) == {"vault/Garden.md": ("line", 2, 2)}
        refused = curl(running, f"http://127.0.0.1:{web_port}/", "-o", "/dev/null", "-w", "%{http_code}")
        assert refused.stdout == b"403"


def test_flags_that_would_blind_the_suite_are_refused_and_unknown_ones_said(tmp_path: Path, vault: Path) -> None:
    with SuiteProcess(tmp_path, configuration(vault, {}), flags=["--set", "no_such_option=1"]) as suite:
        suite.wait_for_line("mitmproxy has no option no_such_option")
    for flag in ("ignore_hosts=anthropic", "allow_hosts=x", "keep_host_header=false"):
        ended = mitmemory("run", "--config", str(suite.config), "--", "--set", flag)
        assert ended.returncode == 1
        assert flag.partition("=")[0] in ended.stderr
        assert "Traceback" not in ended.stderr
