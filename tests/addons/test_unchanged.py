"""Annotate mode changes nothing: the same bytes pass as through a bare mitmdump with lazy connections."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from addons.demo.authority import AuthorityPaths
from tests.addons.conftest import HARBOUR, Serve, configuration
from tests.addons.test_proxy import messages, notes_of
from tests.harness import RawRequest, RawUpstream, SuiteProcess, free_port

DIAL = """
from mitmproxy import ctx

def server_connect(data):
    data.server.address = ("127.0.0.1", {port})
"""
BODY = messages("My notes:\n\n" + HARBOUR)
HEAD = (
    b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: api.anthropic.com\r\nX-Api-Key: dummy\r\naccept: */*\r\n"
    b"X-ODD-Case:   spaces  \r\nX-Twice: 1\r\nX-Twice: 2\r\nConnection: keep-alive\r\n"
)
SSE = b'event: ping\ndata: {"type": "ping"}\n\ndata:no space\n\n: comment\n\n'

REQUESTS = {
    "json": HEAD + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY,
    "gzip": HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(gzip.compress(BODY, mtime=0))
    + gzip.compress(BODY, mtime=0),
    "chunked": HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n",
    "lying": HEAD + b"Content-Encoding: br\r\nContent-Length: 9\r\n\r\n{not br.}",
    "empty": HEAD + b"Content-Length: 0\r\n\r\n",
    "get": HEAD.replace(b"POST", b"GET") + b"\r\n",
}  # fmt: skip
RESPONSES = {
    "json": b"HTTP/1.1 200 OK\r\nServer: odd\r\nX-ODD-Case: Yes\r\nContent-Length: 13\r\n\r\n" + b'{"ok": true}\n',
    "sse": b"HTTP/1.1 200 Fine\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(SSE)
    + SSE + b"\r\n0\r\n\r\n",
    "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(gzip.compress(SSE, mtime=0))
    + gzip.compress(SSE, mtime=0),
    "error": b"HTTP/1.1 529 Overloaded\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n{}",
    "nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
}  # fmt: skip


async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    wanted = re.search(rb"\r\nX-Respond: (\w+)", request.head)
    writer.write(RESPONSES[wanted[1].decode() if wanted else "json"])
    await writer.drain()


class Bare:
    """A bare mitmdump, with nothing but a line that dials the upstream."""

    def __init__(self, folder: Path, upstream: RawUpstream, authority: AuthorityPaths) -> None:
        self.confdir = folder / "confdir"
        self.port = free_port()
        script = folder / "dial.py"
        script.write_text(DIAL.format(port=upstream.port))
        self.command = [
            str(Path(sys.executable).with_name("mitmdump")), "--listen-host", "127.0.0.1", "-p", str(self.port),
            "-s", str(script), "--set", f"confdir={self.confdir}", "--set", "connection_strategy=lazy",
            "--set", f"ssl_verify_upstream_trusted_ca={authority.authority}",
        ]  # fmt: skip

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self.process.stdout
        while b"proxy listening" not in (line := self.process.stdout.readline()):
            assert line, "mitmdump ended"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=60)

    @property
    def ca(self) -> Path:
        return self.confdir / "mitmproxy-ca-cert.pem"


def through(port: int, ca: Path, request: bytes) -> tuple[list[bytes], bytes]:
    """Send raw bytes in a tunnel through the proxy: the answer's header lines, and its body without chunk sizes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"CONNECT api.anthropic.com:443 HTTP/1.1\r\nHost: api.anthropic.com:443\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        context = ssl.create_default_context(cafile=str(ca))
        with context.wrap_socket(connection, server_hostname="api.anthropic.com") as secure:
            secure.sendall(request)
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += secure.recv(65536)
            head, _, body = answer.partition(b"\r\n\r\n")
            length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
            if b"chunked" in head.lower():
                while not body.endswith(b"0\r\n\r\n"):
                    body += secure.recv(65536)
                body = b"".join(re.findall(rb"[0-9a-f]+\r\n(.+?)\r\n(?=[0-9a-f]+\r\n)", body, re.DOTALL))
            else:
                while length and len(body) < int(length[1]):
                    body += secure.recv(65536)
    return head.split(b"\r\n"), body


@pytest.fixture(scope="module")
def upstream(serve: Serve) -> RawUpstream:
    return serve(respond)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, upstream: RawUpstream, authority: AuthorityPaths) -> Iterator[Bare]:
    with Bare(tmp_path_factory.mktemp("bare"), upstream, authority) as running:
        yield running


@pytest.fixture(scope="module", params=["annotate", "dispatch"])
def suite(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    vault: Path,
    upstream: RawUpstream,
    authority: AuthorityPaths,
) -> Iterator[SuiteProcess]:
    """Without rules, dispatch mode changes nothing either."""
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"}, mode=request.param)
    with SuiteProcess(tmp_path_factory.mktemp("suite"), config, trust=authority.authority) as running:
        yield running


@pytest.mark.parametrize("kind", REQUESTS)
def test_the_upstream_receives_the_same_request(
    suite: SuiteProcess, bare: Bare, upstream: RawUpstream, kind: str
) -> None:
    received = []
    for port, ca in ((bare.port, bare.ca), (int(suite.proxy.rsplit(":", 1)[1]), suite.ca)):
        through(port, ca, REQUESTS[kind])
        received.append((upstream.requests[-1].header_lines, upstream.requests[-1].body))
    assert received[0] == received[1]
    if kind == "json":
        assert received[1][1] == BODY


@pytest.mark.parametrize("kind", RESPONSES)
def test_the_client_receives_the_same_answer(suite: SuiteProcess, bare: Bare, kind: str) -> None:
    request = REQUESTS["json"].replace(b"X-Twice: 1", b"X-Respond: " + kind.encode())
    expected = through(bare.port, bare.ca, request)
    assert through(int(suite.proxy.rsplit(":", 1)[1]), suite.ca, request) == expected
    assert expected[1] in RESPONSES[kind]


def test_the_note_was_seen_all_the_same(suite: SuiteProcess) -> None:
    through(int(suite.proxy.rsplit(":", 1)[1]), suite.ca, REQUESTS["gzip"])
    entry = suite.activity()[0]
    assert notes_of(entry) == {"vault/projects/Harbour.md": ("line", 3, 3)}
    mode = suite.api("api/status").body["mode"]
    counted = suite.api("api/memory").body["exposure"]
    if mode == "annotate":
        assert (entry["sentTo"], counted) == ([], {})
    else:
        assert [sent["to"] for sent in entry["sentTo"]] == ["cloud"]
        assert counted["vault/projects/Harbour.md"]["cloudContent"] > 0
    assert json.loads(BODY)["model"] == entry["model"]
