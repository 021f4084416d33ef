"""Codex from npm against the scripted model: over its WebSocket, and over HTTP/2 where the WebSocket is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from addons.demo.authority import AuthorityPaths
from addons.demo.reply import Reply, Turn, in_turn
from memory.exchange import Usage
from tests.addons.conftest import configuration
from tests.e2e.codex_model import CodexModel, exec_call
from tests.e2e.conftest import LAMP, Codex, Home, Report, counted, seen
from tests.e2e.h2_model import serve_h2
from tests.harness import Loop, SuiteProcess

pytestmark = pytest.mark.e2e

READING = Usage(input=21_000, output=60, cache_read=20_480)
READ = Usage(input=21_400, output=12, cache_read=20_992)
AGAIN = Usage(input=21_500, output=7, cache_read=0)

type Open = Callable[..., tuple[CodexModel, int]]


@pytest.fixture
def serve(background: Loop, authority: AuthorityPaths) -> Iterator[Open]:
    """`serve(sockets=…)` gives the model and its port: aiohttp where it takes WebSockets, else HTTP/2 by hypercorn."""
    stack = AsyncExitStack()

    async def start(*, sockets: bool) -> tuple[CodexModel, int]:
        model = CodexModel(sockets=sockets, tls=authority.server_context())
        if sockets:
            await stack.enter_async_context(model)
            return model, model.port
        # Codex leaves when it has read `response.completed`, without waiting for the stream's end.
        return model, await stack.enter_async_context(serve_h2(model, authority, linger=0.2))

    yield lambda *, sockets: background.run(start(sockets=sockets))
    background.run(stack.aclose())


def reads(note: Path) -> Iterator[Turn]:
    """The model's part: it has the note read, answers, and answers once more."""
    command = json.dumps(f"cat '{note}'")
    javascript = f"const result = await tools.exec_command({{cmd: {command}}});\ntext(result);\n"
    yield Turn(Reply("I will read it.", (exec_call(javascript),), READING))
    yield Turn(Reply("The lamp needs bearings.", usage=READ))
    yield Turn(Reply("No, that is all.", usage=AGAIN))


def test_over_its_websocket_each_message_is_a_request_of_its_own(
    tmp_path: Path, home: Home, vault: Path, serve: Open, authority: AuthorityPaths, report: Report
) -> None:
    model, port = serve(sockets=True)
    model.script = in_turn(reads(vault / "light" / "Lighthouse.md"))
    config = configuration(vault, {"openai": f"https://127.0.0.1:{port}"})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        codex = Codex(home, suite)
        assert codex.ask("What does the lamp need?") == "The lamp needs bearings.\n"
        first = codex.session
        assert codex.ask("resume", "--last", "Thank you. Anything else?") == "No, that is all.\n"
        assert codex.session == first
        assert model.deflated == [True, True]

        # A connection begins with a message that wants no answer. From then on each names the answer that it goes on
        # from and holds only what is new: in the third that is the note, in the last all that was said before.
        assert [json.loads(message).get("generate", True) for message in model.messages] == [
            *(False, True, True),
            *(False, True),
        ]
        entries = list(reversed(suite.activity(len(model.messages))))
        common = {"client": "codex", "protocol": "openai-responses", "model": codex.model}
        common |= {"to": "cloud: openai at api.openai.com:443", "scan": "complete", "outcome": "answered"}
        none = counted(Usage(input=0, output=0, cache_read=0))
        assert [seen(entry) for entry in entries] == [
            {**common, "side": True, "notes": {}, "usage": none},
            {**common, "side": False, "notes": {}, "usage": counted(READING)},
            {**common, "side": False, "notes": {LAMP: "4/4 lines"}, "usage": counted(READ)},
            {**common, "side": True, "notes": {}, "usage": none},
            {**common, "side": False, "notes": {LAMP: "4/4 lines, again"}, "usage": counted(AGAIN)},
        ]
        assert {entry["conversation"] for entry in entries} == {codex.session}
        sizes = [len(message.encode()) for message in model.messages]
        assert [entry["bytes"]["request"] for entry in entries] == sizes
        report("Codex", model.received, entries, " over a WebSocket")


def test_over_http2_where_the_websocket_is_refused(
    tmp_path: Path, home: Home, vault: Path, serve: Open, authority: AuthorityPaths, report: Report
) -> None:
    model, port = serve(sockets=False)
    model.script = in_turn(reads(vault / "light" / "Lighthouse.md"))
    config = configuration(vault, {"openai": f"https://127.0.0.1:{port}"})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        codex = Codex(home, suite)
        assert codex.ask("What does the lamp need?") == "The lamp needs bearings.\n"
        first = codex.session
        assert codex.ask("resume", "--last", "Thank you. Anything else?") == "No, that is all.\n"
        assert codex.session == first

        to_model = [(one.method, one.http_version) for one in model.received if one.target == "/v1/responses"]
        assert to_model == [("GET", "1.1"), ("POST", "2"), ("POST", "2"), ("GET", "1.1"), ("POST", "2")]
        entries = [entry for entry in reversed(suite.activity(3)) if entry["status"] == 200]
        common = {"client": "codex", "protocol": "openai-responses", "model": codex.model, "side": False}
        common |= {"to": "cloud: openai at api.openai.com:443", "scan": "complete", "outcome": "answered"}
        # All that was said comes with every request.
        assert [seen(entry) for entry in entries] == [
            {**common, "notes": {}, "usage": counted(READING)},
            {**common, "notes": {LAMP: "4/4 lines"}, "usage": counted(READ)},
            {**common, "notes": {LAMP: "4/4 lines, again"}, "usage": counted(AGAIN)},
        ]
        assert {entry["conversation"] for entry in entries} == {codex.session}
        sizes = [len(one.body) for one in model.received if one.method == "POST"]
        assert [entry["bytes"]["request"] for entry in entries] == sizes
        report("Codex", model.received, entries, " over HTTP/2")
