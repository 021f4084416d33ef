"""`POST api/clients/{client}/compact`, over a real store and a real index."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.conversations.compaction import Compactor
from memory.conversations.summarising import Progress
from memory.conversations.summary_calls import CompactionError, NotConfiguredError
from tests.web.conftest import Dashboard
from tests.web.remembering import CAKE, KEY, NOON, Remembering, remembering

COMPACT = "/api/clients/client/compact"
SUMMARISER = {"enabled": False, "provider": "openai", "model": "tide-1", "upstream": "http://127.0.0.1:11434"}


@dataclass
class Shown:
    dashboard: Dashboard
    kept: Remembering

    async def post(self, body: Any, path: str = COMPACT) -> tuple[int, Any]:
        async with self.dashboard.ask("POST", path, json=body) as answer:
            return answer.status, await answer.json()

    async def refused(self, body: Any, path: str = COMPACT) -> tuple[int, str]:
        status, answer = await self.post(body, path)
        return status, answer["error"]["code"]

    async def state(self) -> Any:
        async with self.dashboard.ask("GET", "/api/clients/client/memory") as answer:
            return (await answer.json())["compaction"]

    def over(self, *turns: tuple[str, str], days: int) -> str:
        """A session that is over."""
        session = self.kept.say("client", *turns, at=NOON + timedelta(days=days)).session
        self.kept.store.expire(datetime.now(UTC) + timedelta(days=9999))
        return session

    def model(self, summarise: Any) -> Compactor:
        self.kept.compactor = Compactor(self.kept.store, self.kept.engine, summarise)
        return self.kept.compactor


@pytest.fixture
async def shown(tmp_path: Path, open_dashboard: Any) -> AsyncIterator[Shown]:
    async with remembering(tmp_path / "memory") as kept, open_dashboard(conversations=kept) as dashboard:
        kept.summariser = dict(SUMMARISER)
        yield Shown(dashboard, kept)


async def test_sessions_are_summarised(shown: Shown) -> None:
    assert await shown.post({}) == (200, {"compacted": [], "failed": []})
    assert not (shown.kept.directory / "client").exists()
    first, second, third = (shown.over((f"Day {day}?", "It is."), CAKE, days=day) for day in range(3))
    assert await shown.state() == {**SUMMARISER, "pending": 3, "working": None, "failures": []}
    done = [{"session": session, "turns": 2, "leftOut": 0} for session in (first, second, third)]
    assert await shown.post({"session": second}) == (200, {"compacted": [done[1]], "failed": []})
    assert await shown.post({}) == (200, {"compacted": [done[0], done[2]], "failed": []})
    assert await shown.refused({"session": second}) == (409, "summarised")
    assert await shown.post({"session": second, "again": True}) == (200, {"compacted": [done[1]], "failed": []})
    assert await shown.post({"again": True}) == (200, {"compacted": done, "failed": []})
    assert (await shown.state())["pending"] == 0


async def test_what_fails_says_why(shown: Shown) -> None:
    session = shown.over(KEY, days=0)

    async def fail(turns: Sequence[str], progress: Progress) -> str:
        raise CompactionError("the endpoint answered HTTP 500")

    compactor = shown.model(fail)
    status, body = await shown.post({"session": session})
    assert (status, body["error"]) == (502, {"code": "not_summarised", "message": "the endpoint answered HTTP 500"})
    failed = [{"session": session, "message": "the endpoint answered HTTP 500"}]
    assert await shown.post({}) == (200, {"compacted": [], "failed": failed})
    [failure] = (await shown.state())["failures"]
    assert failure.pop("nextAt").endswith("Z")
    assert failure == {"session": session, "message": "the endpoint answered HTTP 500", "tries": 2}
    await compactor.aclose()

    async def nobody(turns: Sequence[str], progress: Progress) -> str:
        raise NotConfiguredError("nobody is named")

    shown.model(nobody)
    assert await shown.refused({"session": session}) == (409, "not_configured")
    assert await shown.refused({}) == (409, "not_configured")


async def test_what_cannot_be_meant(shown: Shown) -> None:
    current = shown.kept.say("client", KEY).session
    for body, refusal in (
        ({"session": current}, (409, "not_over")),
        ({"session": "2026-01-01T000000Z-aaaa"}, (404, "not_found")),
        ({"session": 1}, (400, "bad_request")),
        ({"again": 1}, (400, "bad_request")),
        ({"sesion": current}, (400, "bad_request")),
    ):
        assert await shown.refused(body) == refusal
    assert await shown.refused({}, "/api/clients/off/compact") == (409, "memory_off")
    assert await shown.refused({}, "/api/clients/nobody/compact") == (404, "not_found")
    assert await shown.refused({"session": current}, "/api/clients/other/compact") == (404, "not_found")
    shown.kept.compactor = None
    assert await shown.refused({}) == (404, "not_found")
    assert await shown.state() == {**SUMMARISER, "pending": 0, "working": None, "failures": []}
    shown.kept.trouble = "another mitmemory has it"
    assert await shown.refused({}) == (409, "not_open")


async def test_it_goes_on_when_the_browser_leaves(shown: Shown) -> None:
    session = shown.over(KEY, days=0)
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(turns: Sequence[str], progress: Progress) -> str:
        begun.set()
        await goes_on.wait()
        return "In short."

    compactor = shown.model(slow)
    asking = asyncio.ensure_future(shown.post({"session": session}))
    await begun.wait()
    assert (await shown.state())["working"] == session
    asking.cancel()
    await asyncio.wait([asking])
    goes_on.set()
    while compactor.pending("client"):  # noqa: ASYNC110  # what is waited for has no event
        await asyncio.sleep(0.01)
    await compactor.aclose()
