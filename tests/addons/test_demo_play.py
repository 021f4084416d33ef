"""The demo's comparison: silent when the suite says what was sent, one sentence for each thing it says otherwise."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from rich.console import Console

from addons.demo.authority import make_authority
from addons.demo.model import ScriptedModel
from addons.demo.play import check, demo_script, pair, play, run_demo, summary
from addons.demo.reply import Reply
from addons.demo.run import Show
from addons.demo.sample import Expected, SampleVault
from addons.demo.script import Exchange, demo_exchanges
from addons.exits import FAILED, INTERRUPTED, OK

VAULT = SampleVault()


def entries_for(exchanges: list[Exchange]) -> list[dict[str, Any]]:
    """What a suite that works says, newest first."""
    return [
        {
            "id": f"e{number}",
            "finishedAt": "2026-03-20T08:00:00.000Z",
            "client": "someone",
            "provider": "a provider",
            "protocol": exchange.protocol,
            "model": exchange.model,
            "to": exchange.to,
            "notes": [
                {
                    "id": note,
                    "title": Path(note).stem,
                    "by": one.by,
                    "grade": "reference" if one.by == "reference" else "line" if one.matched else "quote",
                    "matched": one.matched,
                    "distinctive": one.distinctive,
                    "resent": one.resent,
                }
                for note, one in exchange.expected.items()
            ],
            "scan": {"state": "complete", "reasons": []},
            "recalls": {"searches": int(exchange.recalled is not None), "memories": int(exchange.recalled is not None)},
            "status": 200,
            "outcome": "answered",
        }
        for number, exchange in reversed(list(enumerate(exchanges)))
    ]


@pytest.fixture
def exchanges() -> list[Exchange]:
    return demo_exchanges(VAULT, local_url="http://127.0.0.1:1", session="s")


def test_no_difference(exchanges: list[Exchange]) -> None:
    assert check(entries_for(exchanges), exchanges) == []


def test_foreign_entries_are_left_alone(exchanges: list[Exchange]) -> None:
    entries = entries_for(exchanges)
    entries.insert(3, entries[0] | {"id": "foreign", "model": "another"})
    assert check(entries, exchanges) == []
    assert [entry["id"] for _, entry in pair(entries, exchanges) if entry] == [f"e{n}" for n in range(len(exchanges))]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"to": "local"}, "to is local, not cloud"),
        ({"status": 502}, "status is 502, not 200"),
        ({"outcome": "aborted"}, "outcome is aborted, not answered"),
        ({"scan": {"state": "partial", "reasons": ["too deep"]}}, "the scan is partial: too deep"),
        ({"notes": []}, "vault/areas/Winter Storage.md was sent (2/3) and not found"),
        ({"matched": 3}, "vault/areas/Winter Storage.md shows 3/3, not 2/3"),
        ({"distinctive": 4}, "vault/areas/Winter Storage.md shows 2/4, not 2/3"),
        ({"by": "reference"}, "vault/areas/Winter Storage.md was found by reference, not by content"),
        ({"resent": True}, "vault/areas/Winter Storage.md is marked as resent"),
        ({"model": "none"}, "no entry for openai-responses, gpt-5.2"),
    ],
)
def test_each_difference_is_said(exchanges: list[Exchange], change: dict[str, Any], sentence: str) -> None:
    sent = [one for one in exchanges if one.title == "Codex sees part of a note"]
    (entry,) = entries_for(sent)
    for key, value in change.items():
        (entry if key in entry else entry["notes"][0])[key] = value
    assert check([entry], sent) == [f"Codex sees part of a note: {sentence}"]


def test_a_note_that_was_not_sent_is_a_difference(exchanges: list[Exchange]) -> None:
    asks, reads = (
        next(one for one in exchanges if one.title == f"Claude Code {does}") for does in ("asks", "reads a note")
    )
    entries = entries_for([asks])
    entries[0]["notes"] = entries_for([reads])[0]["notes"]
    assert check(entries, [asks]) == [
        "Claude Code asks: vault/projects/Tide Clock 2.md was found (content) and not sent"
    ]


def test_a_memory_that_was_not_found_is_a_difference(exchanges: list[Exchange]) -> None:
    [remembering] = [one for one in exchanges if one.recalled]
    [entry] = entries_for([remembering])
    entry["recalls"]["memories"] = 0
    assert check([entry], [remembering]) == [f"{remembering.title}: nothing was remembered"]


def test_the_table_reads_from_the_oldest(exchanges: list[Exchange]) -> None:
    console = Console(width=160, file=io.StringIO())
    console.print(summary(entries_for(exchanges)))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert sum("Tide Clock 2  12/12 lines, again" in line for line in lines) == 1
    assert sum("Pricing  named" in line for line in lines) == 1
    first, last = (next(n for n, line in enumerate(lines) if word in line) for word in ("claude-sonnet", "llama3.2"))
    assert first < last


class Suite:
    """A stand-in for proxy and dashboard in one plain server: forwards, and answers the two questions."""

    def __init__(self, exchanges: list[Exchange], nodes: int) -> None:
        self.entries = entries_for(exchanges)
        self.nodes = nodes
        self.posted: list[str] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "POST":
            self.posted.append(str(request.url))
            return web.Response(body=b"ok")
        if request.headers.get("Authorization") != "Bearer t":
            return web.Response(status=401)
        if request.path == "/memory/api/memory":
            return web.json_response({"nodes": [{"source": "vault"}] * self.nodes})
        return web.json_response({"entries": self.entries if self.posted else []})


@pytest.fixture
async def suite(exchanges: list[Exchange], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Suite, str]]:
    stand_in = Suite(exchanges[-1:], len(VAULT.texts))
    monkeypatch.setattr(
        "addons.demo.play.new_round", lambda _vault, url: demo_exchanges(VAULT, local_url=url, session="s")[-1:]
    )
    runner = web.ServerRunner(web.Server(stand_in.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield stand_in, f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def run(url: str, folder: Path) -> tuple[int, str]:
    console = Console(width=160, file=io.StringIO())
    code = await run_demo(
        proxy_url=url,
        ca_file=make_authority(folder).authority,
        api_url=f"{url}/memory/",
        api_token="t",
        local_url="http://127.0.0.1:1",
        once=True,
        console=console,
    )
    assert isinstance(console.file, io.StringIO)
    return code, console.file.getvalue()


async def test_once_ends_with_0_when_the_suite_agrees(suite: tuple[Suite, str], tmp_path: Path) -> None:
    stand_in, url = suite
    code, said = await run(url, tmp_path)
    assert code == 0
    assert said.endswith("Every note shows up as it was sent.\n")
    assert stand_in.posted == ["http://127.0.0.1:1/api/chat"]


async def test_once_ends_with_1_and_says_each_difference(suite: tuple[Suite, str], tmp_path: Path) -> None:
    stand_in, url = suite
    stand_in.entries[0]["notes"][0]["matched"] = 1
    stand_in.nodes = 3
    code, said = await run(url, tmp_path)
    assert code == 1
    assert said.splitlines()[-2:] == [
        f"the map has 3 notes, the vault {len(VAULT.texts)}",
        "A private note goes to a local model: vault/areas/Health.md shows 1/6, not 6/6",
    ]


async def test_a_proxy_that_is_gone_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addons.demo.play.ENDING", 0)
    code, said = await run("http://127.0.0.1:9", tmp_path)
    assert code == 1
    assert said.startswith("a request failed: ")


async def test_a_demo_that_is_ended_says_nothing_of_what_broke_off(monkeypatch: pytest.MonkeyPatch) -> None:
    broke_off = asyncio.Event()

    async def first_round(*_: Any, **__: Any) -> list[str]:
        broke_off.set()
        raise aiohttp.ClientPayloadError

    monkeypatch.setattr("addons.demo.play.first_round", first_round)
    console = Console(file=io.StringIO())
    options = {"proxy_url": "", "ca_file": Path(), "api_url": "", "api_token": "t", "local_url": "", "once": True}
    playing = asyncio.create_task(run_demo(console=console, **options))  # type: ignore[arg-type]
    await broke_off.wait()
    await asyncio.sleep(0)
    playing.cancel()  # as the loop's end does
    with pytest.raises(asyncio.CancelledError):
        await playing
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == ""


async def test_play_gives_what_the_model_said(tmp_path: Path) -> None:
    """Straight to the model's plain port: an HTTP client sends a proxy the whole URL, and the model sees the path."""
    async with ScriptedModel(lambda _protocol, _body: Reply("Hi there", delay=0.01)) as model:
        exchange = demo_exchanges(VAULT, local_url=model.plain_url, session="s")[-1]
        authority = make_authority(tmp_path).authority
        played = [one async for one in play([exchange], proxy_url=model.plain_url, ca_file=authority)]
    assert [(one.exchange, one.status) for one in played] == [(exchange, 200)]
    assert played[0].body.count(b"\n") == 3
    assert 0 < played[0].first_byte < played[0].seconds
    assert model.received[0].body == exchange.encoded()


def test_the_demos_model_recognises_the_demo(exchanges: list[Exchange]) -> None:
    script = demo_script()
    assert [script(one.protocol, one.body).text for one in exchanges] == [one.reply.text for one in exchanges]
    assert exchanges[-1].expected["vault/areas/Health.md"] == Expected("content", 6, 6)


class FaultError(Exception):
    """Any fault of the demo's own."""


@pytest.mark.parametrize(("once", "ended", "failed"), [(True, INTERRUPTED, FAILED), (False, OK, FAILED)])
async def test_a_demo_that_is_ended_was_interrupted_and_one_that_breaks_has_failed(
    once: bool, ended: int, failed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, ends = asyncio.Event(), asyncio.Event()

    async def plays(**_: Any) -> int:
        under_way.set()
        await ends.wait()
        raise FaultError

    monkeypatch.setattr("addons.demo.play.run_demo", plays)
    monkeypatch.setattr("addons.demo.run.greet", lambda *_: None)
    tokens = SimpleNamespace(admin="t")
    config = SimpleNamespace(dashboard=SimpleNamespace(listen="127.0.0.1:1", prefix="/"))
    running: Any = SimpleNamespace(
        suite=SimpleNamespace(config=config, tokens=tokens), proxy_url="", ca_certificate=Path()
    )

    @asynccontextmanager
    async def model() -> AsyncIterator[Any]:
        yield SimpleNamespace(plain_url="")

    codes = []
    for breaks in (False, True):
        under_way.clear()
        over = asyncio.Event()
        show = Show(model, Console(file=io.StringIO()), once=once)  # type: ignore[arg-type]
        show.begin(running, over.set)
        await under_way.wait()
        [playing] = [task for task in asyncio.all_tasks() if task.get_name() == "demo"]
        if breaks:
            ends.set()
        else:
            playing.cancel()  # as the loop's end does
        with pytest.raises(FaultError if breaks else asyncio.CancelledError):
            await playing
        assert over.is_set()
        codes.append(show.code)
    assert codes == [ended, failed]
