"""A small vault, an upstream that stands in for the providers, and suites that send to it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from addons.demo.authority import AuthorityPaths
from memory.rules import Rule
from tests.addons.desk import Desk
from tests.forked import Nursery
from tests.harness import Loop, RawRequest, RawUpstream, Respond, SuiteProcess

HARBOUR = """---
tags: [work]
---
# Harbour app

Ship the tide chart before the Friday demo.
Ask Mirela for the buoy positions again.
The jetty camera needs a longer cable run.
"""
GARDEN = """Water the tomatoes every second evening.
Compost goes under the plum tree in March.
"""
NOTES = {"projects/Harbour.md": HARBOUR, "Garden.md": GARDEN}

ANSWER = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": []}


@pytest.fixture(scope="session", autouse=True)
def nursery() -> Iterator[None]:
    """Suites are forked from a program that has loaded them; where that cannot be, each loads itself."""
    if sys.platform != "linux":
        yield
        return
    with Nursery() as SuiteProcess.nursery:
        yield
    SuiteProcess.nursery = None


@pytest.fixture(scope="session")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notes") / "vault"
    for path, text in NOTES.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return folder


async def answer_json(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    body = json.dumps(ANSWER).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
    writer.write(b"X-Kept-Case: yes\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    await writer.drain()


type Serve = Callable[..., RawUpstream]


@pytest.fixture(scope="module")
def serve(background: Loop, authority: AuthorityPaths) -> Iterator[Serve]:
    """`serve(respond, tls=True)` starts an upstream; all are stopped at the module's end."""
    started: list[RawUpstream] = []

    def start(respond: Respond = answer_json, *, tls: bool = True) -> RawUpstream:
        server = RawUpstream(respond, authority.server_context() if tls else None)
        background.run(server.start())
        started.append(server)
        return server

    yield start
    for server in started:
        background.run(server.stop())


@pytest.fixture(scope="module")
def upstream(serve: Serve) -> RawUpstream:
    """Answers each request with the same small JSON, over TLS."""
    return serve()


def configuration(vault: Path, upstreams: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """A configuration with the vault as its only source; `upstreams` is provider name -> `connect_to`."""
    return {
        "memory": {"sources": [{"name": "vault", "type": "markdown", "path": str(vault)}]},
        "providers": [{"name": name, "connect_to": url} for name, url in upstreams.items()],
        **more,
    }


@pytest.fixture(scope="module")
def suite(
    tmp_path_factory: pytest.TempPathFactory, vault: Path, upstream: RawUpstream, authority: AuthorityPaths
) -> Iterator[SuiteProcess]:
    """A suite in dispatch mode whose Anthropic is the upstream."""
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"})
    with SuiteProcess(tmp_path_factory.mktemp("suite"), config, trust=authority.authority) as running:
        yield running


@pytest.fixture
async def desk_of() -> AsyncIterator[Callable[..., Any]]:
    """`await desk_of(*rules, …)`: a `Desk` whose notes are read."""
    made: list[Desk] = []

    async def make(*rules: Rule, **more: Any) -> Desk:
        made.append(Desk(*rules, **more))
        await made[-1].note_library.scan()
        return made[-1]

    yield make
    for desk in made:
        await desk.note_library.aclose()
