"""The whole path with a real proxy process and real TLS: what the upstream receives, what the client gets, what is said."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from addons.demo.authority import AuthorityPaths
from tests.addons.conftest import GARDEN, HARBOUR, Serve, configuration
from tests.harness import Loop, RawRequest, RawUpstream, SuiteProcess

URL = "https://api.anthropic.com/v1/messages?beta=true"


def messages(*texts: str, **more: Any) -> bytes:
    return json.dumps(
        {"model": "claude-test", "messages": [{"role": "user", "content": text} for text in texts], **more}
    ).encode()


def curl(suite: SuiteProcess, url: str, *flags: str, body: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """curl through the proxy, trusting its authority; `--data-binary` with the body where there is one."""
    command = ["curl", "-sS", "--max-time", "60", "--proxy", suite.proxy, "--noproxy", "", "--cacert", str(suite.ca)]
    if body is not None:
        command += ["--data-binary", "@-", "-H", "Content-Type: application/json"]
    return subprocess.run([*command, *flags, url], input=body, capture_output=True, check=False)


def notes_of(entry: dict[str, Any]) -> dict[str, tuple[str, int, int]]:
    return {note["id"]: (note["grade"], note["matched"], note["distinctive"]) for note in entry["notes"]}


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_a_note_in_a_request_is_seen_and_the_rest_is_the_providers(suite: SuiteProcess, version: str) -> None:
    asked = curl(suite, URL, version, body=messages("Look:\n\n" + HARBOUR))
    assert (asked.returncode, asked.stderr) == (0, b"")
    entry = suite.activity()[0]
    assert notes_of(entry) == {"vault/projects/Harbour.md": ("line", 3, 3)}
    assert entry["notes"][0]["evidence"] == [{"pointer": "/messages/0/content", "lines": 3, "grade": "line"}]
    assert {key: entry[key] for key in ("provider", "protocol", "model", "to", "status", "outcome", "client")} == {
        "provider": "anthropic",
        "protocol": "anthropic",
        "model": "claude-test",
        "to": "cloud",
        "status": 200,
        "outcome": "answered",
        "client": "curl",
    }
    assert entry["sentTo"] == [{"model": "claude-test", "to": "cloud", "upstream": "api.anthropic.com:443"}]
    assert entry["scan"] == {"state": "complete", "reasons": []}
    assert entry["decision"] == {"action": "allow", "rule": None, "rules": []}


def test_the_same_note_sent_again_in_a_conversation_is_resent(suite: SuiteProcess) -> None:
    key = ("-H", "X-Claude-Code-Session-Id: tulip")
    curl(suite, URL, *key, body=messages(GARDEN))
    curl(suite, URL, *key, body=messages(GARDEN, "And now?"))
    curl(suite, URL, "-H", "X-Claude-Code-Session-Id: rose", body=messages(GARDEN))
    rose, again, first = suite.activity(3)[:3]
    assert [entry["conversation"] for entry in (first, again, rose)] == ["tulip", "tulip", "rose"]
    assert [[note["resent"] for note in entry["notes"]] for entry in (first, again, rose)] == [[False], [True], [False]]


def test_sharing_is_counted_once_per_exchange_and_can_be_cleared(suite: SuiteProcess) -> None:
    suite.api("api/memory/exposure/reset", method="POST")
    curl(suite, URL, body=messages(GARDEN))
    curl(suite, URL, body=messages("Did I write [[Harbour]]?", GARDEN))
    suite.activity(2)
    exposure = suite.api("api/memory").body["exposure"]
    garden, harbour = exposure["vault/Garden.md"], exposure["vault/projects/Harbour.md"]
    counts = ("localContent", "localReference", "cloudContent", "cloudReference")
    assert [garden[key] for key in counts] == [0, 0, 2, 0]
    assert [harbour[key] for key in counts] == [0, 0, 0, 1]
    assert garden["models"] == {"claude-test": 2}
    assert garden["firstShared"] < garden["lastShared"]
    assert suite.api("api/memory/exposure/reset", method="POST").status == 200
    assert suite.api("api/memory").body["exposure"] == {}


def test_what_is_no_json_is_said_to_be_not_wholly_seen(suite: SuiteProcess) -> None:
    curl(suite, URL, "-H", "Content-Type: text/plain", body=b"not json at all: " + GARDEN.encode())
    entry = suite.activity()[0]
    assert entry["scan"] == {"state": "partial", "reasons": ["not JSON"]}
    assert notes_of(entry) == {"vault/Garden.md": ("line", 1, 2)}
    assert entry["outcome"] == "answered"


def test_a_lying_encoding_is_unscanned_and_passes(suite: SuiteProcess, upstream: RawUpstream) -> None:
    body = messages(GARDEN)
    asked = curl(suite, URL, "-H", "Content-Encoding: gzip", body=body)
    assert asked.returncode == 0
    assert upstream.requests[-1].body == body
    entry = suite.activity()[0]
    assert entry["scan"] == {
        "state": "unscanned",
        "reasons": ["the body is not gzip, as its Content-Encoding says"],
    }


def test_a_body_above_the_limit_is_refused_and_nothing_leaves(suite: SuiteProcess, upstream: RawUpstream) -> None:
    before = upstream.connections, len(upstream.requests)
    huge = messages("x" * 70_000_000)
    for flags in ((), ("-H", "Transfer-Encoding: chunked")):
        asked = curl(suite, URL, "-w", "%{http_code}", *flags, body=huge)
        assert asked.stdout.endswith(b"413")
        assert b"The request is larger than proxy.max_body in mitm.yaml." in asked.stdout
        entry = suite.activity()[0]
        assert entry["scan"] == {"state": "unscanned", "reasons": ["the body is larger than proxy.max_body"]}
        assert (entry["outcome"], entry["sentTo"]) == ("failed", [])
    assert (upstream.connections, len(upstream.requests)) == before


def test_events_tell_when_a_request_is_routed_and_when_it_is_over(suite: SuiteProcess) -> None:
    listen = ["curl", "-sSN", "--max-time", "60", "-H", f"Authorization: Bearer {suite.tokens['read_only']}"]
    with subprocess.Popen([*listen, f"{suite.dashboard}api/events"], stdout=subprocess.PIPE, text=True) as page:
        assert page.stdout
        assert page.stdout.readline().startswith("retry: ")
        curl(suite, URL, body=messages(GARDEN))
        told = []
        while len(told) < 2:
            line = page.stdout.readline()
            assert line
            if line.startswith("data: ") and "startedAt" in line:
                told.append(json.loads(line.removeprefix("data: ")))
        page.kill()
    routed, over = told
    assert routed["id"] == over["id"] == suite.activity()[0]["id"]
    assert (routed["outcome"], routed["sentTo"], notes_of(routed)) == (None, [], {"vault/Garden.md": ("line", 2, 2)})
    assert over == suite.activity()[0]


def test_mitmweb_shows_what_a_request_carried(
    tmp_path: Path, vault: Path, upstream: RawUpstream, authority: AuthorityPaths
) -> None:
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"})
    with SuiteProcess(tmp_path, config, trust=authority.authority, inspector=True) as suite:
        curl(suite, URL, body=messages(HARBOUR))
        suite.activity()
        address, _, token = suite.inspector.partition("/?token=")
        ask = ["curl", "-sS", "-H", f"Authorization: Bearer {token}"]
        flows = json.loads(subprocess.run([*ask, f"{address}/flows"], capture_output=True, check=True).stdout)
        assert [(flow["comment"], flow["marked"]) for flow in flows] == [("1 note -> claude-test (cloud)", "🧠")]
        assert flows[0]["request"]["pretty_host"] == "api.anthropic.com"
        content = f"{address}/flows/{flows[0]['id']}/request/content/"
        chosen = json.loads(subprocess.run([*ask, f"{content}auto.json"], capture_output=True, check=True).stdout)
        assert chosen["view_name"] == "Memory"
        assert (
            "  vault/projects/Harbour.md:\n    found: 3/3 lines\n    at:\n    - /messages/0/content" in chosen["text"]
        )


def test_requests_that_ask_no_model_are_not_recorded(suite: SuiteProcess) -> None:
    curl(suite, URL, body=messages("mark"))
    before = suite.activity()[0]["id"]
    assert curl(suite, "https://api.anthropic.com/v1/models").returncode == 0
    assert suite.activity()[0]["id"] == before


def test_the_answer_is_the_upstreams_to_the_byte(suite: SuiteProcess) -> None:
    asked = curl(suite, URL, "-i", "--http1.1", body=messages("Hello"))
    head, _, body = asked.stdout.rpartition(b"\r\n\r\n")
    assert json.loads(body)["id"] == "msg_1"
    assert b"X-Kept-Case: yes" in head


def test_one_connection_serves_several_requests(suite: SuiteProcess, upstream: RawUpstream) -> None:
    """Dialling another address must not cost mitmproxy its connection to use again."""
    before = upstream.connections
    asked = curl(suite, URL, URL, URL, "--http1.1", body=messages("Hello"))
    assert (asked.returncode, asked.stdout.count(b"msg_1")) == (0, 3), asked.stderr
    assert upstream.connections == before + 1


# ---- streams


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_the_first_event_arrives_before_the_second_is_made(
    tmp_path: Path, vault: Path, serve: Serve, background: Loop, authority: AuthorityPaths, version: str
) -> None:
    """The upstream makes its second event only once the client has read the first: a buffering proxy would hang."""
    go_on = asyncio.Event()

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"10\r\ndata: \xc3\xa9 first\n\n\r\n")
        await writer.drain()
        await asyncio.wait_for(go_on.wait(), 60)
        writer.write(b'20\r\ndata: {"type": "message_stop"}\n\n\r\n0\r\n\r\n')
        await writer.drain()

    server = serve(respond)
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{server.port}"})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        command = ["curl", "-sSN", version, "--max-time", "60", "--proxy", suite.proxy, "--cacert", str(suite.ca)]
        command += ["--data-binary", messages("Hello", stream=True).decode(), URL]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
            assert client.stdout
            first = client.stdout.read(16)
            assert suite.activity(finished=False)[0]["outcome"] is None
            background.loop.call_soon_threadsafe(go_on.set)
            rest = client.stdout.read()
        assert first + rest == b'data: \xc3\xa9 first\n\ndata: {"type": "message_stop"}\n\n'
        entry = suite.activity()[0]
        assert (entry["outcome"], entry["bytes"]["response"]) == ("answered", 48)


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_a_client_that_leaves_in_mid_stream_is_recorded_and_the_rest_goes_on(
    tmp_path: Path, vault: Path, serve: Serve, authority: AuthorityPaths, version: str
) -> None:
    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"d\r\ndata: again\n\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    server = serve(respond)
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{server.port}"})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        command = ["curl", "-sSN", version, "--proxy", suite.proxy, "--cacert", str(suite.ca)]
        command += ["--data-binary", messages(GARDEN, stream=True).decode(), URL]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
            assert client.stdout
            assert client.stdout.read(13) == b"data: again\n\n"
            client.kill()
        entry = suite.activity()[0]
        assert entry["outcome"] == "aborted"
        assert [one["model"] for one in entry["sentTo"]] == ["claude-test"]
        assert notes_of(entry) == {"vault/Garden.md": ("line", 2, 2)}


# ---- upstreams that are not there


def test_an_upstream_that_refuses_gets_a_502_and_no_sharing_is_counted(tmp_path: Path, vault: Path) -> None:
    config = configuration(vault, {"anthropic": "https://127.0.0.1:1"})
    with SuiteProcess(tmp_path, config) as suite:
        asked = curl(suite, URL, "-o", "/dev/null", "-w", "%{http_code}", body=messages(GARDEN))
        assert asked.stdout == b"502"
        entry = suite.activity()[0]
        assert (entry["outcome"], entry["sentTo"], entry["scan"]["state"]) == ("failed", [], "complete")
        assert suite.api("api/memory").body["exposure"] == {}


def test_a_server_that_is_not_the_provider_gets_nothing(tmp_path: Path, vault: Path, upstream: RawUpstream) -> None:
    """Its certificate is from an authority that this suite was not told to trust."""
    before = len(upstream.requests)
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"})
    with SuiteProcess(tmp_path, config) as suite:
        asked = curl(suite, URL, "-o", "/dev/null", "-w", "%{http_code}", body=messages(GARDEN))
        assert asked.stdout == b"502"
        entry = suite.activity()[0]
        assert (entry["outcome"], entry["sentTo"]) == ("failed", [])
    assert len(upstream.requests) == before


# ---- local and cloud


def test_a_local_server_is_local_and_its_makers_cloud_is_cloud(tmp_path: Path, vault: Path, serve: Serve) -> None:
    server = serve(tls=False)
    config = configuration(vault, {})
    config["providers"] = [{"name": "ollama", "hosts": [f"127.0.0.1:{server.port}", f"localhost:{server.port}"]}]
    with SuiteProcess(tmp_path, config) as suite:
        for host, model in (("127.0.0.1", "qwen3:8b"), ("localhost", "qwen3:8b"), ("localhost", "gpt-oss:120b-cloud")):
            body = json.dumps({"model": model, "messages": [{"role": "user", "content": GARDEN}]}).encode()
            asked = curl(suite, f"http://{host}:{server.port}/api/chat", body=body)
            assert asked.returncode == 0, asked.stderr
        cloud, named, plain = suite.activity(3)
        assert [entry["to"] for entry in (plain, named, cloud)] == ["local", "local", "cloud"]
        assert {entry["protocol"] for entry in (plain, named, cloud)} == {"ollama"}
        assert named["sentTo"] == [{"model": "qwen3:8b", "to": "local", "upstream": f"localhost:{server.port}"}]
        exposure = suite.api("api/memory").body["exposure"]["vault/Garden.md"]
        assert (exposure["localContent"], exposure["cloudContent"]) == (2, 1)
    assert b"Host: localhost:%d" % server.port in server.requests[1].header_lines


def test_connect_to_may_be_plain_http(tmp_path: Path, vault: Path, serve: Serve) -> None:
    server = serve(tls=False)
    with SuiteProcess(tmp_path, configuration(vault, {"anthropic": f"http://127.0.0.1:{server.port}"})) as suite:
        for version in ("--http1.1", "--http2"):
            asked = curl(suite, URL, version, body=messages(GARDEN))
            assert (asked.returncode, json.loads(asked.stdout)["id"]) == (0, "msg_1"), asked.stderr
            entry = suite.activity()[0]
            assert (entry["to"], entry["sentTo"][0]["upstream"]) == ("cloud", "api.anthropic.com:443")
    assert server.requests[0].header_lines[:2] == [b"POST /v1/messages?beta=true HTTP/1.1", b"Host: api.anthropic.com"]
