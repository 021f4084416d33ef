"""`api/clients/{client}/memory` and what belongs to it, over a real store and a real index."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.conversations.embedding import EmbeddingSettings
from memory.conversations.engine import Engine, EngineSettings
from memory.conversations.recall import Recalled
from memory.conversations.said import Call
from tests.web.remembering import CAKE, KEY, NOON, TAP, Remembering, remembering

PATIENCE = 60.0
"""Seconds for what is awaited: the machine may be busy."""
MEMORY = "/api/clients/client/memory"


@dataclass
class Shown:
    """A dashboard with conversations behind it, and the folders that it was to open."""

    dashboard: Any
    kept: Remembering
    opened: list[Path]

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        async with self.dashboard.ask(method, path, **more) as answer:
            return answer.status, await answer.json()

    async def refused(self, method: str, path: str, **more: Any) -> tuple[int, str]:
        status, body = await self.ask(method, path, **more)
        assert body["error"]["message"]
        return status, body["error"]["code"]

    async def recalled(self, query: str, **more: Any) -> list[str]:
        status, body = await self.ask("POST", "/api/clients/client/recall", json={"query": query, **more})
        assert status == 200, body
        return [one["text"] for one in body["results"]]


@pytest.fixture
async def shown(open_dashboard: Any, tmp_path: Path) -> AsyncIterator[Shown]:
    async with remembering(tmp_path / "memory") as kept:
        opened: list[Path] = []

        async def open_folder(folder: Path) -> bool:
            opened.append(folder)
            return True

        async with open_dashboard(conversations=kept, open_folder=open_folder) as dashboard:
            yield Shown(dashboard, kept, opened)


def holding(folder: Path, word: str) -> list[str]:
    """The files below that hold the word."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes())


async def test_nothing_was_recorded_yet(shown: Shown) -> None:
    nothing = {
        "client": "client",
        "memoryEnabled": True,
        "folder": None,
        "sessions": 0,
        "bytes": {"sessions": 0, "archive": 0, "index": 0},
        "index": None,
        "problem": None,
        "rebuilding": None,
        "compaction": None,
    }
    assert await shown.ask("GET", MEMORY) == (200, nothing)
    assert await shown.ask("GET", f"{MEMORY}/sessions") == (200, {"sessions": []})
    assert await shown.ask("DELETE", MEMORY) == (200, {"deleted": 0, "changed": 0})
    assert await shown.recalled("key") == []
    assert await shown.refused("POST", "/api/clients/client/rebuild") == (404, "not_found")
    shown.kept.memories = None
    assert await shown.ask("GET", MEMORY) == (200, nothing)
    assert await shown.ask("GET", f"{MEMORY}/sessions") == (200, {"sessions": []})
    assert await shown.ask("DELETE", MEMORY) == (200, {"deleted": 0, "changed": 0})
    assert await shown.refused("POST", "/api/clients/client/rebuild") == (404, "not_found")
    assert not (shown.kept.directory / "client").exists()


async def test_what_there_is_of_a_client(shown: Shown) -> None:
    path = shown.kept.say("client", KEY).path
    shown.kept.say("client", CAKE, TAP)
    session = path.stem
    status, body = await shown.ask("GET", MEMORY)
    assert status == 200
    sizes = body.pop("bytes")
    assert (sizes["sessions"], sizes["archive"], sizes["index"] > 0) == (path.stat().st_size, 0, True)
    index = body.pop("index")
    assert (index["files"] + index["pending"], index["failed"]) == (1, 0)
    assert body == {
        "client": "client",
        "memoryEnabled": True,
        "folder": str(shown.kept.directory / "client"),
        "sessions": 1,
        "problem": None,
        "rebuilding": None,
        "compaction": None,
    }
    status, body = await shown.ask("GET", f"{MEMORY}/sessions")
    [listed] = body["sessions"]
    assert listed.pop("writtenAt").endswith("Z")
    assert listed == {
        "session": session,
        "startedAt": "2026-11-30T12:00:00Z",
        "state": "current",
        "summarised": False,
        "bytes": path.stat().st_size,
        "title": KEY[0],
        "conversations": 2,
    }


def part(role: str, at: str, text: str) -> dict[str, Any]:
    return {
        "role": role,
        "at": at,
        "model": "tide-1" if role == "assistant" else None,
        "pieces": [{"kind": "text", "text": text}],
        "continued": False,
        "again": False,
        "cutOff": False,
    }


async def test_a_session_says_exactly_what_was_said(shown: Shown) -> None:
    hostile = "# Conversation 9\n<!-- -->\n```\n## User (2026-11-30 12:00:00 UTC, conversation 1, turn 1)"
    session = shown.kept.say("client", (hostile, "Noon."), TAP).session
    conversation = {
        "conversation": 1,
        "startedAt": "2026-11-30T12:00:00Z",
        "goesOnFrom": None,
        "turns": [
            {
                "turn": 1,
                "startedAt": "2026-11-30T12:00:00Z",
                "insteadOf": None,
                "parts": [
                    part("user", "2026-11-30T12:00:00Z", f"{hostile}\n```"),
                    part("assistant", "2026-11-30T12:00:05Z", "Noon."),
                ],
            },
            {
                "turn": 2,
                "startedAt": "2026-11-30T12:01:00Z",
                "insteadOf": None,
                "parts": [
                    part("user", "2026-11-30T12:01:00Z", TAP[0]),
                    part("assistant", "2026-11-30T12:01:05Z", TAP[1]),
                ],
            },
        ],
    }
    status, body = await shown.ask("GET", f"{MEMORY}/sessions/{session}")
    said = body["conversations"][0]["turns"][0]["parts"][0]["pieces"][0]
    assert said["text"].startswith(hostile)  # what closes its code block may follow
    said["text"] = f"{hostile}\n```"
    assert (status, body) == (
        200,
        {
            "client": "client",
            "session": session,
            "startedAt": "2026-11-30T12:00:00Z",
            "state": "current",
            "summary": None,
            "conversations": [conversation],
        },
    )
    status, body = await shown.ask("GET", f"{MEMORY}/sessions/{session}/conversations/1")
    body["turns"][0]["parts"][0]["pieces"][0]["text"] = f"{hostile}\n```"
    assert (status, body) == (200, {"client": "client", "session": session} | conversation)


async def test_a_paraphrase_finds_the_turn(shown: Shown) -> None:
    session = shown.kept.say("client", TAP).session
    shown.kept.say("client", KEY, CAKE, at=NOON + timedelta(hours=1))
    shown.kept.say("other", ("My tap drips too.", "Ask a plumber."))
    status, body = await shown.ask(
        "POST", "/api/clients/client/recall", json={"query": "Who is going to repair the faucet?"}
    )
    assert status == 200
    score = body["results"][0].pop("score")
    assert 0 < score <= 1
    assert body["results"][0] == {
        "source": f"sessions/{session}.md",
        "session": session,
        "conversation": 1,
        "heading": "User (2026-11-30 12:00:00 UTC, conversation 1, turn 1)",
        "startedAt": "2026-11-30T12:00:00Z",
        "text": f"User: {TAP[0]}\n\nAssistant: {TAP[1]}",
    }
    assert body["holdings"] == {"sessions": 1, "first": "2026-11-30T12:00:00Z", "last": "2026-11-30T12:00:00Z"}
    assert not any("plumber" in text for text in await shown.recalled("plumber"))
    assert len(await shown.recalled("key tap cake", limit=1)) == 1
    assert await shown.recalled("tap", after="2026-11-30T12:30:00Z") == []
    assert len(await shown.recalled("tap", before="2026-11-30T12:30:00Z", after="2026-11-30")) == 1
    assert await shown.recalled("parliament election results in Mongolia") == []


async def test_the_conversation_that_asks_is_left_out_where_that_is_asked_for(shown: Shown) -> None:
    search = Call("1", "mcp__mitmemory__MemoryRecall", '{"query": "spare key"}')
    shown.kept.say("client", ("And the spare key?", "Ask Ida."), calls=(search,))
    shown.kept.say("client", KEY)
    for without, ours in ((True, False), (False, True), (None, True)):
        more = {} if without is None else {"withoutCurrent": without}
        texts = await shown.recalled("Where did I put the spare key?", **more)
        assert any("behind the clock" in text for text in texts)
        assert any("Ask Ida." in text for text in texts) is ours


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": ""},
        {"query": " "},
        {"query": 1},
        {"query": "x", "limit": 0},
        {"query": "x", "limit": 21},
        {"query": "x", "limit": True},
        {"query": "x", "limit": "5"},
        {"query": "x", "after": "soon"},
        {"query": "x", "before": 5},
        {"query": "x", "path": "/etc"},
        {"query": "x", "withoutCurrent": 1},
    ],
)
async def test_what_cannot_be_searched_for_is_refused(shown: Shown, body: Any) -> None:
    assert await shown.refused("POST", "/api/clients/client/recall", json=body) == (400, "bad_request")


async def test_of_a_long_query_its_beginning_is_looked_for(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    async def search(_engine: Engine, _client: str, query: str, **_: Any) -> Recalled:
        searched.append(query)
        return Recalled()

    shown.kept.say("client", KEY)
    monkeypatch.setattr(Engine, "search", search)
    for query in ("y" * 2000, " \n" + "y" * 2000 + "z", "short"):
        assert await shown.recalled(query) == []
    assert searched == ["y" * 2000, "y" * 2000, "short"]


async def test_whose_memory_is_off_is_read_and_deleted_but_not_searched(shown: Shown) -> None:
    session = shown.kept.say("off", KEY).session
    for path in ("recall", "rebuild"):
        assert await shown.refused("POST", f"/api/clients/off/{path}", json={"query": "key"}) == (409, "memory_off")
    status, body = await shown.ask("GET", "/api/clients/off/memory")
    assert (status, body["memoryEnabled"], body["sessions"]) == (200, False, 1)
    assert (await shown.ask("GET", f"/api/clients/off/memory/sessions/{session}"))[0] == 200
    assert await shown.ask("DELETE", "/api/clients/off/memory") == (200, {"deleted": 1, "changed": 0})
    assert not (shown.kept.directory / "off").exists()


async def test_what_does_not_exist(shown: Shown) -> None:
    session = shown.kept.say("client", KEY).session
    there = f"{MEMORY}/sessions/{session}"
    for method, path in [
        ("GET", "/api/clients/nobody/memory"),
        ("DELETE", "/api/clients/nobody/memory"),
        ("POST", "/api/clients/nobody/recall"),
        ("GET", "/api/clients/other/memory/sessions/2026-11-30T120000Z-aaaa"),
        ("GET", f"{MEMORY}/sessions/2026-11-30T120000Z-aaaa"),
        ("DELETE", f"{MEMORY}/sessions/..%2f..%2f..%2f{session}"),
        ("GET", f"{MEMORY}/sessions/%2e%2e%2farchive%2f{session}"),
        ("GET", f"{there}/conversations/2"),
        ("GET", f"{there}/conversations/-1"),
        ("DELETE", f"{there}/conversations/2"),
        ("DELETE", f"{there}/conversations/1/turns/2"),
        ("DELETE", f"{there}/conversations/1/turns/one"),
        ("DELETE", f"/api/clients/other/memory/sessions/{session}"),
    ]:
        assert await shown.refused(method, path, json={"query": "x"}) == (404, "not_found"), path
    assert (await shown.ask("GET", there))[0] == 200
    assert not (shown.kept.directory / "other").exists()


async def test_a_turn_is_deleted_in_files_and_index(shown: Shown) -> None:
    recorded = shown.kept.say("client", KEY, TAP)
    shown.kept.say("client", CAKE)
    assert len(await shown.recalled("Novak cartridge")) >= 1
    await shown.kept.engine.release("client")  # writes the database to the disk
    folder = recorded.path.parent.parent
    assert holding(folder, "Novak")
    there = f"{MEMORY}/sessions/{recorded.session}/conversations/1"
    assert await shown.ask("DELETE", f"{there}/turns/2") == (200, {"deleted": 0, "changed": 1})
    assert holding(folder, "Novak") == []
    assert await shown.recalled("Novak cartridge") == []
    assert len(await shown.recalled("Where is the spare key?")) == 1
    assert len((await shown.ask("GET", there))[1]["turns"]) == 1
    await shown.kept.engine.release("client")
    assert holding(folder, "Novak") == []


async def test_a_conversation_and_a_session_are_deleted(shown: Shown) -> None:
    recorded = shown.kept.say("client", KEY)
    shown.kept.say("client", CAKE)
    later = shown.kept.say("client", TAP, at=NOON + timedelta(days=1))
    assert later.session != recorded.session
    assert await shown.recalled("spare key")
    folder = recorded.path.parent.parent
    assert await shown.ask("DELETE", f"{MEMORY}/sessions/{recorded.session}/conversations/1") == (
        200,
        {"deleted": 0, "changed": 1},
    )
    assert holding(folder, "clock") == []
    assert await shown.ask("DELETE", f"{MEMORY}/sessions/{recorded.session}") == (200, {"deleted": 1, "changed": 0})
    assert holding(folder, "lemon") == []
    assert await shown.recalled("lemon cake with poppy seed") == []
    assert len(await shown.recalled("kitchen tap")) == 1
    assert [one["session"] for one in (await shown.ask("GET", f"{MEMORY}/sessions"))[1]["sessions"]] == [later.session]


async def test_everything_is_deleted_and_what_comes_then_is_another_memory(shown: Shown) -> None:
    shown.kept.say("client", KEY)
    shown.kept.say("other", CAKE)
    assert len(await shown.recalled("spare key")) == 1
    assert await shown.ask("DELETE", MEMORY) == (200, {"deleted": 1, "changed": 0})
    assert holding(shown.kept.directory, "clock") == []
    assert not (shown.kept.directory / "client").exists()
    assert (await shown.ask("GET", MEMORY))[1]["folder"] is None
    recorded = shown.kept.say("client", TAP)
    assert recorded.path.parent.parent.name == "client-2"
    assert await shown.recalled("spare key behind the clock") == []
    assert len(await shown.recalled("kitchen tap")) == 1
    assert (await shown.ask("GET", "/api/clients/other/memory"))[1]["sessions"] == 1


async def test_an_index_is_made_anew(shown: Shown) -> None:
    shown.kept.say("client", KEY)
    status, body = await shown.ask("POST", "/api/clients/client/rebuild")
    assert (status, body) == (202, {"rebuilding": {"done": 0, "total": 0}})
    for method, path in [("POST", "/api/clients/client/rebuild"), ("DELETE", MEMORY)]:
        assert await shown.refused(method, path) == (409, "rebuilding")
    until = time.monotonic() + PATIENCE
    while (await shown.ask("GET", MEMORY))[1]["rebuilding"] is not None:
        assert time.monotonic() < until
    body = (await shown.ask("GET", MEMORY))[1]
    assert (body["index"], body["problem"]) == ({"files": 1, "chunks": 3, "pending": 0, "failed": 0}, None)
    assert len(await shown.recalled("spare key")) == 1


async def test_an_index_that_cannot_be_used_is_told_and_what_is_read_needs_none(
    open_dashboard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    settings = EngineSettings(EmbeddingSettings("openai", api_key_env="NOT_SET"))
    async with remembering(tmp_path, settings) as kept, open_dashboard(conversations=kept) as dashboard:
        shown = Shown(dashboard, kept, [])
        session = kept.say("client", KEY).session
        why = (
            "the embedding provider `openai` needs a key: set the variable `NOT_SET`, "
            "or choose `provider: builtin`, which needs none"
        )
        status, body = await shown.ask("POST", "/api/clients/client/recall", json={"query": "key"})
        assert (status, body) == (409, {"error": {"code": "index_unusable", "message": why}})
        status, body = await shown.ask("GET", MEMORY)
        assert (status, body["sessions"], body["index"], body["problem"]) == (200, 1, None, why)
        assert (await shown.ask("GET", f"{MEMORY}/sessions/{session}"))[0] == 200
        assert await shown.ask("DELETE", f"{MEMORY}/sessions/{session}") == (200, {"deleted": 1, "changed": 0})


async def test_conversations_that_another_has_are_told(shown: Shown) -> None:
    shown.kept.memories, shown.kept.trouble = None, "another mitmemory has them"
    for method, path in [("GET", MEMORY), ("GET", f"{MEMORY}/sessions"), ("DELETE", MEMORY)]:
        status, body = await shown.ask(method, path)
        assert (status, body["error"]) == (409, {"code": "not_open", "message": "another mitmemory has them"})


async def test_a_folder_is_opened_where_the_browser_is_on_this_machine(shown: Shown) -> None:
    place = shown.kept.directory
    shown.kept.say("client", KEY)
    assert await shown.ask("POST", "/api/conversations/open") == (200, {"path": str(place), "opened": True})
    client = {"path": str(place / "client"), "opened": True}
    assert await shown.ask("POST", "/api/conversations/open", json={"client": "client"}) == (200, client)
    assert shown.opened == [place, place / "client"]
    for header in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
        answer = await shown.ask("POST", "/api/conversations/open", headers={header: "192.0.2.1"})
        assert answer == (200, {"path": str(place), "opened": False})
    for body in ({"client": "nobody"}, {"client": "../client"}, {"client": 1}, {"client": "other"}):
        assert await shown.refused("POST", "/api/conversations/open", json=body) == (404, "not_found")
    assert await shown.refused("POST", "/api/conversations/open", json={"path": "/"}) == (400, "bad_request")
    assert len(shown.opened) == 2


async def test_what_was_recorded_is_found_within_seconds(shown: Shown) -> None:
    """Nobody asks for it to be indexed: the number of chunks is looked at, which indexes nothing by itself."""
    shown.kept.say("client", KEY)
    await shown.kept.engine.status("client")
    shown.kept.say("client", TAP)

    async def chunks() -> int:
        return (await shown.kept.engine.status("client")).chunks

    until = time.monotonic() + PATIENCE
    while await chunks() < 5:
        assert time.monotonic() < until
        await asyncio.sleep(0.05)


async def test_nothing_that_was_said_is_logged(shown: Shown, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    session = shown.kept.say("client", KEY).session
    await shown.recalled("spare key")
    await shown.ask("GET", f"{MEMORY}/sessions/{session}")
    await shown.ask("DELETE", f"{MEMORY}/sessions/{session}")
    assert not any(word in caplog.text for word in ("spare", "clock"))
    assert json.dumps(await shown.ask("GET", "/api/status")).count("clock") == 0
