"""Nobody gets to the suite's own pages through the proxy, and nobody without a token."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.addons.conftest import configuration
from tests.harness import SuiteProcess

LOOPBACKS = [
    "127.0.0.1", "localhost", "LOCALHOST", "127.1", "127.0.0.2", "0x7f000001", "2130706433", "0", "0.0.0.0",
    "[::1]", "[::ffff:127.0.0.1]", "[::]",
]  # fmt: skip


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory, vault: Path) -> Iterator[SuiteProcess]:
    with SuiteProcess(tmp_path_factory.mktemp("suite"), configuration(vault, {}), inspector=True) as running:
        yield running


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port
    return port


def exchange(suite: SuiteProcess, *sent: bytes) -> bytes:
    """What the proxy answers to raw bytes: curl would tidy the spellings up."""
    with socket.create_connection(("127.0.0.1", port_of(suite.proxy)), timeout=60) as connection:
        answer = b""
        for part in sent:
            connection.sendall(part)
            answer += received(connection)
        return answer


def received(connection: socket.socket) -> bytes:
    """One answer: up to its Content-Length, or to the end of the connection."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        if not (part := connection.recv(65536)):
            return answer
        answer += part
    head = answer.partition(b"\r\n\r\n")[0]
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    while len(answer) < len(head) + 4 + (int(length[1]) if length else 0):
        answer += connection.recv(65536)
    return answer


@pytest.mark.parametrize("page", ["dashboard", "inspector"])
@pytest.mark.parametrize("host", LOOPBACKS)
def test_a_plain_request_is_refused(suite: SuiteProcess, host: str, page: str) -> None:
    port = port_of(getattr(suite, page))
    answer = exchange(suite, f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 "), answer[:200]
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "own_pages"


@pytest.mark.parametrize("page", ["dashboard", "inspector"])
@pytest.mark.parametrize("host", LOOPBACKS)
def test_a_tunnel_leads_nowhere(suite: SuiteProcess, host: str, page: str) -> None:
    """With lazy connections the tunnel is granted before the address is dialled; then it ends without a byte."""
    port = port_of(getattr(suite, page))
    request = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    answer = exchange(suite, f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode(), request)
    granted, _, inside = answer.partition(b"\r\n\r\n")
    assert granted.startswith((b"HTTP/1.1 200", b"HTTP/1.1 502"))
    assert inside == b"" or inside.startswith((b"HTTP/1.1 403", b"HTTP/1.1 502")), inside[:200]


def test_without_a_token_the_dashboard_says_401(suite: SuiteProcess) -> None:
    assert suite.api("api/memory", token=None).status == 401
    assert suite.api("api/memory", headers={"Authorization": "Bearer wrong"}).status == 401


def test_a_foreign_host_gets_421(suite: SuiteProcess) -> None:
    assert suite.api("api/memory", headers={"Host": f"notes.example:{port_of(suite.dashboard)}"}).status == 421


def test_the_secrets_are_private_files_and_stay_out_of_the_log(suite: SuiteProcess) -> None:
    for path in (suite.state, suite.state / "mitmproxy"):
        assert path.stat().st_mode & 0o777 == 0o700
    for path in (suite.state / "tokens.json", suite.state / "mitmproxy" / "mitmproxy-ca.pem"):
        assert path.stat().st_mode & 0o777 == 0o600
    for token in suite.tokens.values():
        assert token not in suite.log
