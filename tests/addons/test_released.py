"""What has gone out is written down when it goes out: a crash while the model thinks forgets no disclosure."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.connection import Server
from mitmproxy.proxy.layers.http import HttpStream

from addons.demo.authority import AuthorityPaths
from addons.gateway import PROOF_HEADER
from addons.released import STEP, Released
from tests.addons.conftest import GARDEN, HARBOUR, Serve, configuration
from tests.addons.parts import flow_to
from tests.addons.test_activity_log import ledger, restarted
from tests.addons.test_proxy import URL, curl, messages
from tests.harness import RawRequest, RawUpstream, SuiteProcess


class Stream:
    """As much of mitmproxy's stream as the step needs that connects it."""

    def __init__(self, flow: http.HTTPFlow) -> None:
        self.flow = flow
        self.stream_id = 1
        self.context = type("Context", (), {"server": flow.server_conn})()
        self.failed = False

    def handle_protocol_error(self, _event: Any) -> Iterator[None]:
        self.failed = True
        yield from ()


def connect(stream: Stream, connection: Server | None, error: str | None) -> bool:
    steps = getattr(HttpStream, STEP)(stream)
    next(steps)  # asks for a connection
    with pytest.raises(StopIteration) as ended:
        steps.send((connection, error))
    stands: bool = ended.value.value
    return stands


@pytest.fixture
def told() -> Iterator[list[http.HTTPFlow]]:
    heard: list[http.HTTPFlow] = []
    released = Released(heard.append)
    released.running()
    yield heard
    released.done()


def test_a_body_that_goes_out_is_told_once_its_connection_stands(told: list[http.HTTPFlow]) -> None:
    flow, server = flow_to(), Server(address=("192.0.2.1", 443))
    assert connect(Stream(flow), server, None)
    assert (told, flow.server_conn) == ([flow], server)


def test_a_connection_that_does_not_come_about_is_not_told(told: list[http.HTTPFlow]) -> None:
    stream = Stream(flow_to())
    assert not connect(stream, None, "Connection refused")
    assert (told, stream.failed) == ([], True)


def test_of_what_is_led_to_the_gateway_the_gateway_tells(told: list[http.HTTPFlow]) -> None:
    assert connect(Stream(flow_to(headers={PROOF_HEADER: "proof"})), Server(address=("127.0.0.1", 1)), None)
    assert told == []


def test_a_fault_is_said_without_its_text_and_the_request_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_flow: http.HTTPFlow) -> None:
        raise ValueError(HARBOUR)

    released = Released(fail)
    released.running()
    try:
        assert connect(Stream(flow_to()), Server(address=("192.0.2.1", 443)), None)
    finally:
        released.done()
    assert "could not be recorded: " in caplog.text
    assert "Mirela" not in caplog.text


def test_afterwards_mitmproxy_is_as_it_was() -> None:
    before = getattr(HttpStream, STEP)
    released = Released(lambda _flow: None)
    released.running()
    assert getattr(HttpStream, STEP) is not before
    released.done()
    released.done()
    assert getattr(HttpStream, STEP) is before


# ---- in a real suite


async def answer_or_think(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    """Answers at once; to a body with `think` no byte comes."""
    if b"think" in request.body:
        await asyncio.Event().wait()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    await writer.drain()


@pytest.fixture
def upstream(serve: Serve) -> RawUpstream:
    return serve(answer_or_think)


@pytest.fixture
def suite(tmp_path: Path, vault: Path, upstream: RawUpstream, authority: AuthorityPaths) -> Iterator[SuiteProcess]:
    closed = {"anthropic": f"https://127.0.0.1:{upstream.port}", "openai": "https://127.0.0.1:9"}
    with SuiteProcess(tmp_path, configuration(vault, closed), trust=authority.authority) as running:
        yield running


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_a_suite_that_is_killed_before_the_answer_begins_forgets_no_disclosure(
    suite: SuiteProcess, version: str
) -> None:
    curl(suite, "https://api.openai.com/v1/chat/completions", version, body=messages("Look:\n\n" + GARDEN))
    suite.activity(1)
    # One connection for both: the second body goes out on a connection that stands already.
    command = ["curl", "-s", version, "--proxy", suite.proxy, "--noproxy", "", "--cacert", str(suite.ca)]
    asked = subprocess.Popen(
        [*command, "--data-binary", messages("Another day."), URL, "--next", *command[1:], "--data-binary", "@-", URL],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        assert asked.stdin is not None
        with asked.stdin as body:
            body.write(messages("think:\n\n" + HARBOUR))
        suite.wait_for(lambda: suite.activity(3, finished=False)[0]["sentTo"] != [], "the body being released")
        suite.wait_for(lambda: "rows 1 to 4 fit" in ledger(suite, "verify").stdout, "it being written")
        suite.process.send_signal(signal.SIGKILL)
        suite._close()
    finally:
        asked.kill()
        asked.wait()

    kept = [json.loads(line) for line in ledger(suite, "export").stdout.splitlines()]
    assert [(one["provider"], one["outcome"], len(one["sentTo"]), len(one["notes"])) for one in kept] == [
        ("openai", "failed", 0, 1),
        ("anthropic", "answered", 1, 0),
        ("anthropic", None, 1, 1),
    ]
    with restarted(suite) as again:
        assert again.activity(3, finished=False) == kept[::-1]
