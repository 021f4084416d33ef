"""The whole way: a client, mitmproxy, the gateway, a target. And what of it a flow shows."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from addons.gateway import PROOF_HEADER, Door, Gateway
from addons.guard import Guard
from addons.reroute import Reroute
from addons.trust import Trust
from tests.addons.conftest import Serve
from tests.addons.gateway_parts import BODY, header_of
from tests.addons.hostile import OnlyHTTP2
from tests.addons.http2_peers import Client
from tests.addons.parts import connection_to, flow_to
from tests.harness import FAULTS, START_SECONDS, RawRequest, RawUpstream, SuiteProcess, free_port, started
from tests.own_time import OwnTime

URL = "https://api.anthropic.com/v1/messages?beta=true"
DOOR = Door("127.0.0.1", 4711, "/token", "proof")


def rerouting() -> Reroute:
    gateway = Gateway(own_ports=set(), proxy_ports=tuple, trust=Trust(lambda: None), largest_body=1000, environ={})
    gateway.port = DOOR.port
    return Reroute(gateway)


@pytest.mark.parametrize("end", ["responseheaders", "error"])
def test_a_flow_that_was_led_shows_what_its_client_asked_for(end: str) -> None:
    reroute, flow = rerouting(), flow_to(URL, BODY, headers={"Host": "api.anthropic.com"})
    before = flow.request.get_state()
    reroute.lead(flow, DOOR)
    assert (flow.request.scheme, flow.request.host, flow.request.port, flow.request.path) == (
        "http",
        "127.0.0.1",
        4711,
        "/token",
    )
    assert flow.request.headers[PROOF_HEADER] == "proof"
    assert flow.request.headers["Host"] == "api.anthropic.com"
    assert flow.request.raw_content == BODY
    assert flow.server_conn.address is None
    getattr(reroute, end)(flow)
    assert flow.request.get_state() == before
    getattr(reroute, end)(flow)
    assert flow.request.get_state() == before


def test_a_client_cannot_bring_a_proof() -> None:
    reroute, flow = rerouting(), flow_to(URL, headers={"X-Mitmemory-Proof": "guessed"})
    reroute.requestheaders(flow)
    assert PROOF_HEADER not in flow.request.headers


async def test_only_a_connection_of_a_led_flow_reaches_the_gateway() -> None:
    reroute, flow = rerouting(), flow_to(URL)
    guard = Guard({DOOR.port}, reroute.is_led)

    async def is_refused(host: str, port: int, client: str) -> bool:
        data = connection_to(host, port)
        data.client.id = client
        await guard.server_connect(data)
        return data.server.error is not None

    led = flow.client_conn.id
    assert await is_refused("127.0.0.1", DOOR.port, led)
    reroute.lead(flow, DOOR)
    assert not await is_refused("127.0.0.1", DOOR.port, led)
    assert await is_refused("127.0.0.1", DOOR.port, "another client")
    assert await is_refused("localhost", DOOR.port, led)
    reroute.responseheaders(flow)
    assert await is_refused("127.0.0.1", DOOR.port, led)


class Proxy:
    """A mitmdump with the redirecting script."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self.confdir, self.port, self.lines = folder / "confdir", free_port(), list[str]()
        command = [
            str(Path(sys.executable).with_name("mitmdump")), "-q", "--listen-host", "127.0.0.1", "-p", str(self.port),
            "-s", str(Path(__file__).with_name("redirecting_proxy.py")), "--set", f"confdir={self.confdir}",
            "--set", "connection_strategy=lazy",
        ]  # fmt: skip
        environ = {**os.environ, "TARGET_PORTS": ",".join(map(str, ports)), "PYTHONUNBUFFERED": "1"}
        self.process = started(command, environ, SuiteProcess.nursery)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    def said(self, word: str) -> list[str]:
        return [line.partition(" ")[2] for line in self.lines if line.startswith(word + " ")]

    def wait_for(self, word: str, count: int = 1, seconds: float = 60) -> list[str]:
        deadline = time.monotonic() + seconds
        while len(found := self.said(word)) < count:
            assert self.process.poll() is None, self.lines
            assert time.monotonic() < deadline, self.lines
            time.sleep(0.02)
        return found

    def client(self, *, http2: bool) -> httpx.AsyncClient:
        context = OnlyHTTP2(ssl.PROTOCOL_TLS_CLIENT) if http2 else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.ca)
        return httpx.AsyncClient(http2=http2, proxy=self.proxy, verify=context, timeout=START_SECONDS, trust_env=False)

    @property
    def proxy(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ca(self) -> Path:
        return self.confdir / "mitmproxy-ca-cert.pem"

    def stop(self) -> float:
        """Seconds of its own that it took after SIGTERM."""
        time_since, spent, give_up = OwnTime(self.process.pid), 0.0, time.monotonic() + START_SECONDS
        self.lines.append("SIGTERM")
        self.process.send_signal(signal.SIGTERM)
        try:
            while self.process.poll() is None and time.monotonic() < give_up:
                spent = time_since.seconds()
                time.sleep(0.02)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.reader.join(timeout=START_SECONDS)
            assert self.process.stdout
            self.process.stdout.close()
        return spent


class Model:
    """The second target: streams two pieces, the second when it is told to; the first target fails before."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.left = threading.Event()

    async def respond(self, request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"8\r\ndata: 1\n\r\n")
        await writer.drain()
        try:
            while not self.go_on.is_set():
                await asyncio.sleep(0.02)
                if writer._reader.at_eof():  # type: ignore[attr-defined]
                    self.left.set()
                    return
        finally:
            self.go_on.clear()
        writer.write(b"8\r\ndata: 2\n\r\n0\r\n\r\n")

    def is_left_soon(self, proxy: Proxy) -> None:
        """The request at the target ends in a second, because its client has left."""
        time_since = OwnTime(proxy.process.pid, os.getpid())
        assert self.left.wait(START_SECONDS)
        assert time_since.seconds() < 1
        self.left.clear()


async def failing(_: RawRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def targets(serve: Serve, model: Model) -> list[RawUpstream]:
    return [serve(failing, tls=False), serve(model.respond, tls=False)]


@pytest.fixture
def proxy(tmp_path: Path, targets: list[RawUpstream]) -> Iterator[Proxy]:
    running = Proxy(tmp_path, [one.port for one in targets])
    try:
        running.wait_for("GATEWAY")
        yield running
    finally:
        if running.process.poll() is None:
            running.stop()
    log = "\n".join(running.lines)
    before, _, at_the_end = log.partition("SIGTERM")
    assert not any(fault in before for fault in FAULTS), log
    # A bare mitmdump shows there how it leaves its own clients.
    assert "/addons/" not in at_the_end, log
    assert "aiohttp" not in at_the_end, log


@pytest.mark.parametrize("http2", [False, True], ids=["h1", "h2"])
async def test_a_request_goes_to_the_target_and_its_answer_streams_back(
    proxy: Proxy, targets: list[RawUpstream], model: Model, http2: bool
) -> None:
    for target in targets:
        target.requests.clear()
    async with proxy.client(http2=http2) as client, asyncio.timeout(2 * START_SECONDS):
        for number in (1, 2):  # the client's connection is used again
            headers = {"x-api-key": "sk-of-the-provider", PROOF_HEADER: "guessed", "accept-encoding": "br"}
            async with client.stream("POST", URL, content=BODY, headers=headers) as response:
                assert response.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
                parts = response.aiter_raw()
                assert await anext(parts) == b"data: 1\n"
                model.go_on.set()
                assert await anext(parts) == b"data: 2\n"
                assert [part async for part in parts] == []
                assert response.headers["content-type"] == "text/event-stream"
                assert "server" not in response.headers
            assert [len(target.requests) for target in targets] == [number, number]
        received = targets[1].requests[0]
        assert received.body == BODY.replace(b"claude-test", b"qwen3:8b")
        assert header_of(received, b"accept-encoding") == b"br"
        assert b"sk-" not in received.head
        assert PROOF_HEADER.encode() not in received.head.lower()
        assert proxy.said("SENT") == [f"qwen3:8b local 127.0.0.1:{target.port}" for target in targets] * 2
        assert proxy.said("SEEN") == [f"{URL} 200 []"] * 2
        # The gateway's door is closed to whoever knocks by himself.
        knocked = await client.post(f"http://127.0.0.1:{proxy.said('GATEWAY')[0]}/x", headers={"x-straight": "1"})
        assert (knocked.status_code, knocked.json()["error"]["code"]) == (403, "own_pages")


async def test_a_client_that_leaves_ends_the_request_at_the_target(proxy: Proxy, model: Model) -> None:
    async with proxy.client(http2=False) as client, asyncio.timeout(2 * START_SECONDS):
        async with client.stream("POST", URL, content=BODY) as response:
            assert await anext(response.aiter_raw()) == b"data: 1\n"
        await asyncio.to_thread(model.is_left_soon, proxy)
        assert await asyncio.to_thread(proxy.wait_for, "ERROR") == [URL]


async def test_a_stream_that_is_reset_ends_at_the_target_and_its_neighbour_goes_on(proxy: Proxy, model: Model) -> None:
    async with asyncio.timeout(2 * START_SECONDS), await Client.connect(proxy, "api.anthropic.com") as client:  # type: ignore[arg-type]
        leaving, staying = await client.ask(BODY), await client.ask(BODY)
        await leaving.has(8)
        await staying.has(8)
        client.reset(leaving.stream)
        await asyncio.to_thread(model.is_left_soon, proxy)
        model.go_on.set()
        await staying.over.wait()
        assert staying.told == (200, b"data: 1\ndata: 2\n", "")


async def test_the_end_comes_within_seconds_in_mid_stream(proxy: Proxy, model: Model) -> None:
    async with proxy.client(http2=False) as client, asyncio.timeout(2 * START_SECONDS):
        async with client.stream("POST", URL, content=BODY) as response:
            assert await anext(response.aiter_raw()) == b"data: 1\n"
            assert await asyncio.to_thread(proxy.stop) < 3
        await asyncio.to_thread(model.is_left_soon, proxy)


async def test_a_request_that_no_target_takes_ends_as_an_error_the_client_can_read(tmp_path: Path) -> None:
    proxy = Proxy(tmp_path, [free_port()])
    try:
        await asyncio.to_thread(proxy.wait_for, "GATEWAY")
        async with proxy.client(http2=False) as client:
            response = await client.post(URL, content=BODY)
            assert response.status_code == 400
            assert response.json()["error"]["type"] == "invalid_request_error"
            assert "refused the connection" in response.json()["error"]["message"]
            assert proxy.said("SENT") == []
    finally:
        proxy.stop()
