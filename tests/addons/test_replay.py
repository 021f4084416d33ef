"""Recorded exchanges through the real proxy: the client gets the server's bytes, and the answer is understood.

What is understood equals what the providers' own SDKs make of the same bytes: the tests of each wire format compare the
two. Here the real proxy is compared with those formats.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from addons.demo.answers import answer
from addons.demo.authority import PROVIDER_NAMES, make_authority
from addons.demo.reply import Moment, Reply, ToolCall
from addons.providers import ProviderTable
from addons.wire import wire_for
from addons.wire.answer import Answer
from addons.wire.streams import AnswerReader
from memory.body import read_body
from memory.index import NoteIndex
from memory.scan import scan_body
from tests.addons.conftest import GARDEN, configuration
from tests.addons.playback import ENCODERS, Playback, Played, Recorded
from tests.harness import Loop, SuiteProcess

SIZES = (1, 7, 1000, None)
MOST_CHUNKS = 200
AT_ONCE = 6

OTHER_NAMES = (
    "bedrock-runtime.us-east-1.amazonaws.com",
    "api.groq.com",
    "api.mistral.ai",
    "openrouter.ai",
    "ollama.com",
)

REPLY = Reply("The tide turns at noon. 🌊", (ToolCall("Read", {"path": "tides.md"}),))
QUESTION = {"role": "user", "content": f"{GARDEN}\nWhen is high tide?"}
GEMINI = {"contents": [{"role": "user", "parts": [{"text": QUESTION["content"]}]}]}
GOOGLE = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash"
OWN: tuple[tuple[str, dict[str, Any]], ...] = (
    *(
        (url, {"model": "tide-1", "stream": stream, **content})
        for stream in (False, True)
        for url, content in (
            ("https://api.anthropic.com/v1/messages", {"messages": [QUESTION], "max_tokens": 99}),
            ("https://api.openai.com/v1/chat/completions", {"messages": [QUESTION]}),
            ("https://api.openai.com/v1/responses", {"input": [QUESTION]}),
            ("http://localhost:11434/api/chat", {"messages": [QUESTION]}),
            ("http://localhost:11434/api/generate", {"prompt": QUESTION["content"]}),
        )
    ),
    (f"{GOOGLE}:generateContent", GEMINI),
    (f"{GOOGLE}:streamGenerateContent?alt=sse", GEMINI),
    (f"{GOOGLE}:streamGenerateContent", GEMINI),
)


def own() -> Iterator[Recorded]:
    """Exchanges written by us, in every protocol, whole and as a stream; and an error."""
    for url, request in OWN:
        body = json.dumps(request).encode()
        target = url.partition("//")[2].partition("/")[2]
        headers = {
            "x-api-key": "k",
            "x-goog-api-key": "k",
            "authorization": "Bearer k",
            "anthropic-version": "2023-06-01",
        }
        said = answer("POST", f"/{target}", headers, body, script=lambda *_: REPLY, moment=Moment(1, 1_790_000_000))
        assert said.status == 200, said
        yield Recorded(url, body, b"".join(said.chunks), said.content_type)
    refused = b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'
    yield Recorded(OWN[0][0], json.dumps(OWN[0][1]).encode(), refused, "application/json", 529)


def of_others(data: Path) -> Iterator[Recorded]:
    """What was recorded of real providers."""
    providers = ProviderTable()
    for pair in json.loads((data / "llm" / "index.json").read_text()):
        host = httpx.URL(pair["url"])
        if providers.find(host.host, host.port or 443) is not None:
            body, said = (data / pair["req"]).read_bytes(), (data / pair["resp"]).read_bytes()
            yield Recorded(pair["url"], body, said, (pair["content_type"] or [""])[0], pair["status"])


def understood(recorded: Recorded) -> Answer:
    parts = wire_for(httpx.URL(recorded.url).raw_path.decode()).answer()
    if parts is None:  # a request that is no turn of a chat
        return Answer()
    reader = AnswerReader(parts, recorded.content_type)
    reader.feed(recorded.answer)
    return reader.close()


def plays(
    recordings: list[Recorded], encoding: str, sizes: Callable[[int], tuple[int | None, ...]]
) -> dict[str, Played]:
    """Each recording with the sizes of its chunks by its number; larger ones where there would be too many."""
    played: dict[str, Played] = {}
    for number, recorded in enumerate(recordings):
        for size in sizes(number):
            cut = Played(recorded, encoding, size)
            fits = len(cut.chunks) <= MOST_CHUNKS
            played[f"{number}-{size}"] = cut if fits else replace(cut, size=len(cut.wire) // MOST_CHUNKS)
    return played


class OnlyHTTP2(ssl.SSLContext):
    """The client library would rather speak HTTP/1.1, and mitmproxy takes the client's first choice."""

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        assert "h2" in alpn_protocols
        super().set_alpn_protocols(["h2"])


class Stage:
    """A suite all of whose providers are the playback."""

    def __init__(self, suite: SuiteProcess, playback: Playback) -> None:
        self.suite, self.playback = suite, playback

    async def play(self, played: Mapping[str, Played], *, http2: bool) -> None:
        """Send every request through the proxy; the bytes in both directions must be those that were sent."""
        before = {entry["id"] for entry in self.entries()}
        self.playback.plays = played
        context = (OnlyHTTP2 if http2 else ssl.SSLContext)(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.suite.ca)
        gate = asyncio.Semaphore(AT_ONCE)
        async with httpx.AsyncClient(proxy=self.suite.proxy, verify=context, http2=http2, timeout=60) as client:

            async def ask(name: str) -> None:
                recorded = played[name].recorded
                headers = {"content-type": "application/json", "x-play": name, "user-agent": f"play/{name}"}
                async with gate, client.stream("POST", recorded.url, content=recorded.body, headers=headers) as got:
                    data = b"".join([chunk async for chunk in got.aiter_raw()])
                assert got.status_code == recorded.status, data
                assert (got.status_code, data) == (recorded.status, played[name].wire)
                assert self.playback.bodies[name] == recorded.body
                if recorded.url.startswith("https"):
                    assert got.http_version == ("HTTP/2" if http2 else "HTTP/1.1")

            await asyncio.gather(*(ask(name) for name in played))
        entries = [entry for entry in self.entries() if entry["id"] not in before]
        # The order in which they were answered is nobody's, so entries are told by what is in them.
        assert Counter(map(seen, entries)) == Counter(map(expected, played.values()))

    def entries(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.suite.api("api/activity?limit=1000").body["entries"]
        return found


def seen(entry: dict[str, Any]) -> str:
    return json.dumps(
        [
            entry["provider"],
            entry["protocol"],
            entry["status"],
            entry["outcome"],
            entry["usage"],
            entry["bytes"],
            entry["scan"]["state"],
            [note["id"] for note in entry["notes"]],
        ]
    )


def expected(played: Played) -> str:
    recorded = played.recorded
    url = httpx.URL(recorded.url)
    said = understood(recorded)
    provider = ProviderTable().find(url.host, url.port or 443)
    assert provider
    failed = recorded.status >= 400 or said.error is not None
    return json.dumps(
        [
            provider.name,
            wire_for(url.raw_path.decode()).id,
            recorded.status,
            "failed" if failed else "answered",
            said.usage.to_json(),
            {"request": len(recorded.body), "response": len(played.wire)},
            scan_body(NoteIndex.build(()), read_body(recorded.body)).state,
            ["vault/Garden.md"] if QUESTION["content"][:20].encode() in recorded.body else [],
        ]
    )


@pytest.fixture(scope="module")
def stage(background: Loop, tmp_path_factory: pytest.TempPathFactory, vault: Path) -> Iterator[Stage]:
    authority = make_authority(tmp_path_factory.mktemp("replay-authority"), (*PROVIDER_NAMES, *OTHER_NAMES))
    playback, stack = Playback(), AsyncExitStack()
    background.run(stack.enter_async_context(playback.serve(authority)))
    names = ("anthropic", "openai", "google", "ollama", "bedrock", "groq", "mistral", "openrouter", "ollama-cloud")
    config = configuration(vault, dict.fromkeys(names, f"https://127.0.0.1:{playback.port}"))
    with SuiteProcess(tmp_path_factory.mktemp("replay"), config, trust=authority.authority) as running:
        yield Stage(running, playback)
    background.run(stack.aclose())


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize("encoding", ENCODERS)
async def test_our_own_exchanges(stage: Stage, encoding: str, http2: bool) -> None:
    await stage.play(plays(list(own()), encoding, lambda _: SIZES), http2=http2)


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize("encoding", ENCODERS)
async def test_recorded_exchanges(stage: Stage, shared_data: Path, encoding: str, http2: bool) -> None:
    recordings = list(of_others(shared_data))
    assert len(recordings) == 59
    # Every size meets every encoding and both versions, though not all with the same recording.
    turn = list(ENCODERS).index(encoding) + 2 * http2
    await stage.play(plays(recordings, encoding, lambda number: (SIZES[(number + turn) % 4],)), http2=http2)
