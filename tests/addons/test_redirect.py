"""Redirects with a real proxy process: the note goes to the user's own model, or to nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from addons.demo.authority import AuthorityPaths
from tests.addons.conftest import ANSWER, GARDEN, HARBOUR, Serve, answer_json, configuration
from tests.addons.test_dispatch import asked, curl
from tests.harness import RawRequest, RawUpstream, Respond, SuiteProcess, free_port

RULE = {"name": "gardens go home", "when": {"note": "vault/Garden.md", "to": "cloud"}, "then": "redirect"}


async def resets(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def fails(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 Oh no\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()


async def hangs(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


def target(name: str, port: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "url": f"http://127.0.0.1:{port}", "protocols": ["anthropic"], "model": "own-1", **more}


def ask(suite: SuiteProcess, text: str, *flags: str) -> tuple[int, Any]:
    url, body = asked("anthropic", text)
    return curl(suite, url, body, "-H", "x-api-key: secret", *flags)


type Start = Callable[..., SuiteProcess]


@pytest.fixture
def start(tmp_path: Path, vault: Path, upstream: RawUpstream, authority: AuthorityPaths) -> Any:
    running: list[SuiteProcess] = []

    def begin(*targets: dict[str, Any], otherwise: str = "block", rules: list[Any] | None = None) -> SuiteProcess:
        names = [one["name"] for one in targets]
        rule = [{**RULE, "targets": names, "otherwise": otherwise}] if rules is None else rules
        ways = {"anthropic": f"https://127.0.0.1:{upstream.port}"}
        config = configuration(vault, ways, targets=list(targets), rules=rule)
        running.append(SuiteProcess(tmp_path, config, trust=authority.authority).__enter__())
        return running[-1]

    yield begin
    for suite in running:
        suite.__exit__()


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_a_note_goes_to_the_own_model_and_the_rest_to_the_cloud(
    start: Start, serve: Serve, upstream: RawUpstream, version: str
) -> None:
    home = serve(tls=False)
    connections = upstream.connections
    suite = start(target("home", home.port))
    assert ask(suite, GARDEN, version)[0] == 200
    assert upstream.connections == connections
    [received] = home.requests
    assert json.loads(received.body) == asked("anthropic", GARDEN)[1] | {"model": "own-1"}
    assert b"secret" not in received.head
    assert received.head.startswith(b"POST /v1/messages HTTP/1.1\r\n")
    assert ask(suite, HARBOUR, version)[0] == 200
    assert (len(home.requests), upstream.connections) == (1, connections + 1)
    cloud, entry = suite.activity(2)
    assert entry["sentTo"] == [{"model": "own-1", "to": "local", "upstream": f"127.0.0.1:{home.port}"}]
    assert (entry["to"], entry["askedTo"], entry["outcome"], entry["provider"], entry["model"]) == (
        "local",
        "cloud",
        "answered",
        "anthropic",
        "tide-1",
    )
    assert entry["decision"]["action"] == "redirect"
    assert [one["to"] for one in cloud["sentTo"]] == ["cloud"]
    exposure = suite.api("api/memory").body["exposure"]
    assert {note: (one["localContent"], one["cloudContent"], one["models"]) for note, one in exposure.items()} == {
        "vault/Garden.md": (1, 0, {"own-1": 1}),
        "vault/projects/Harbour.md": (0, 1, {"tide-1": 1}),
    }


@pytest.mark.parametrize(("first", "got_it"), [(None, False), (resets, True), (fails, True), (hangs, True)])
def test_the_next_target_answers_and_who_received_the_body_is_written_down(
    start: Start, serve: Serve, upstream: RawUpstream, first: Respond | None, got_it: bool
) -> None:
    port = serve(first, tls=False).port if first else free_port()
    second = serve(tls=False)
    connections = upstream.connections
    suite = start(target("first", port, first_byte_timeout="1s"), target("second", second.port))
    assert ask(suite, GARDEN)[0] == 200
    ways = [f"127.0.0.1:{port}"] * got_it + [f"127.0.0.1:{second.port}"]
    assert [one["upstream"] for one in suite.activity()[0]["sentTo"]] == ways
    assert (len(second.requests), upstream.connections) == (1, connections)


def test_without_a_target_that_answers_the_person_reads_why(start: Start, serve: Serve, upstream: RawUpstream) -> None:
    connections = upstream.connections
    suite = start(target("first", free_port()), target("second", serve(fails, tls=False).port))
    status, body = ask(suite, GARDEN)
    assert status == 400
    message = body["error"]["message"]
    assert message.startswith(
        'mitmemory blocked this request: "gardens go home" keeps "Garden" from tide-1 (cloud); first '
    )
    assert "; second " in message
    entry = suite.activity()[0]
    assert (entry["outcome"], entry["decision"]["action"], upstream.connections) == ("blocked", "block", connections)


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_otherwise_allow_sends_it_to_the_provider_after_all(start: Start, upstream: RawUpstream, version: str) -> None:
    requests = len(upstream.requests)
    suite = start(target("first", free_port()), otherwise="allow")
    assert ask(suite, GARDEN, version) == (200, ANSWER)
    head = upstream.requests[requests].head
    assert b"x-api-key: secret" in head
    # It is asked by its own name, though another address is dialled.
    assert [line for line in head.split(b"\r\n") if line.lower().startswith(b"host:")] == [b"Host: api.anthropic.com"]
    entry = suite.activity()[0]
    assert entry["sentTo"] == [{"model": "tide-1", "to": "cloud", "upstream": "api.anthropic.com:443"}]
    assert (entry["to"], entry["outcome"], entry["decision"]["action"]) == ("cloud", "answered", "allow")


def test_a_target_that_another_rule_forbids_gets_nothing(start: Start, serve: Serve) -> None:
    home = serve(tls=False)
    never = {"name": "never at home", "when": {"note": "vault/Garden.md", "to": "local"}, "then": "block"}
    suite = start(target("home", home.port), rules=[{**RULE, "targets": ["home"]}, never])
    assert (ask(suite, GARDEN)[0], home.requests) == (400, [])


def test_an_answer_streams_from_the_target_as_it_comes(start: Start, serve: Serve) -> None:
    async def streams(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for event in (
            {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
            {"type": "message_stop"},
        ):
            writer.write(b"data: %s\n\n" % json.dumps(event).encode())
            await writer.drain()
            await asyncio.sleep(0.05)
        writer.close()

    suite = start(target("home", serve(streams, tls=False).port))
    url, body = asked("anthropic", GARDEN)
    with pytest.raises(json.JSONDecodeError):  # events, not one document
        curl(suite, url, body | {"stream": True})
    entry = suite.activity()[0]
    assert (entry["outcome"], entry["usage"]["input"], entry["usage"]["output"]) == ("answered", 5, 3)


def test_a_note_that_says_local_goes_to_the_first_local_target(
    tmp_path: Path, serve: Serve, upstream: RawUpstream, authority: AuthorityPaths
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "Garden.md").write_text(f"---\nshare: local\n---\n{GARDEN}", "utf-8")
    home = serve(answer_json, tls=False)
    config = configuration(
        notes, {"anthropic": f"https://127.0.0.1:{upstream.port}"}, targets=[target("home", home.port)]
    )
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        assert ask(suite, GARDEN)[0] == 200
        assert (len(home.requests), suite.activity()[0]["to"]) == (1, "local")
