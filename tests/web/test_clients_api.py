"""`GET api/clients`: what the suite says, and since when the activity knows a client."""

from typing import Any

import pytest

from tests.memory.exchanges import finished
from web.settings import NotChangedError


async def test_what_the_suite_says_and_when_the_activity_saw_them(open_dashboard: Any) -> None:
    def clients() -> dict[str, Any]:
        seen = {"client": "codex", "lastSeen": "2026-03-04T05:06:07.890Z"}
        return {
            "clients": [{"client": "claude-code", "lastSeen": None}, {"client": "x", "lastSeen": None}, seen],
            "lines": [1],
        }

    async with open_dashboard(clients=clients) as dashboard:
        past = finished("one", client="claude-code")
        entry = dashboard.services.activity.put(past)
        async with dashboard.ask("GET", "/api/clients", token="read-only-token-of-the-tests") as answer:
            assert (answer.status, await answer.json()) == (
                200,
                {
                    "clients": [
                        {"client": "claude-code", "lastSeen": entry["startedAt"]},
                        {"client": "x", "lastSeen": None},
                        {"client": "codex", "lastSeen": "2026-03-04T05:06:07.890Z"},
                    ],
                    "lines": [1],
                },
            )


async def test_a_dashboard_without_clients(dashboard: Any) -> None:
    async with dashboard.ask("GET", "/api/clients") as answer:
        assert await answer.json() == {"clients": [], "lines": [], "conversations": None}


async def test_the_memory_of_a_client_is_switched(dashboard: Any) -> None:
    for enabled in (True, False):
        async with dashboard.ask("PATCH", "/api/clients/codex", json={"memoryEnabled": enabled}) as answer:
            assert (answer.status, await answer.json()) == (200, {"client": "codex", "memoryEnabled": enabled})
        assert dashboard.services.settings.memories == {"codex": enabled}
    dashboard.services.settings.refuse = NotChangedError("unknown", "there is none")
    async with dashboard.ask("PATCH", "/api/clients/codex", json={"memoryEnabled": True}) as answer:
        assert (answer.status, (await answer.json())["error"]) == (
            404,
            {"code": "not_found", "message": "there is none"},
        )


@pytest.mark.parametrize(
    "body", [{}, {"memoryEnabled": 1}, {"memoryEnabled": None}, {"memoryEnabled": True, "mode": "both"}]
)
async def test_nothing_else_of_a_client_is_changed(dashboard: Any, body: Any) -> None:
    async with dashboard.ask("PATCH", "/api/clients/codex", json=body) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (400, "bad_request")
    assert dashboard.services.settings.memories == {}
