"""`api/clients`: what the suite says, since when the activity knows a client, and the tokens of clients."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.memory.exchanges import finished
from tests.web.remembering import Remembering, remembering
from web.client_tokens import ClientTokens
from web.mcp_lines import http_lines
from web.settings import NotChangedError


async def test_what_the_suite_says_and_when_the_activity_saw_them(open_dashboard: Any) -> None:
    def clients() -> dict[str, Any]:
        seen = {"client": "codex", "lastSeen": "2026-03-04T05:06:07.890Z"}
        return {
            "clients": [{"client": "claude-code", "lastSeen": None}, {"client": "x", "lastSeen": None}, seen],
            "lines": [1],
            "mcp": [],
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
                    "mcp": [],
                },
            )


async def test_a_dashboard_without_clients(dashboard: Any) -> None:
    async with dashboard.ask("GET", "/api/clients") as answer:
        assert await answer.json() == {"clients": [], "lines": [], "mcp": [], "conversations": None}


async def test_the_memory_of_a_client_is_switched(dashboard: Any) -> None:
    for enabled in (True, False):
        async with dashboard.ask("PATCH", "/api/clients/codex", json={"memoryEnabled": enabled}) as answer:
            assert (answer.status, await answer.json()) == (
                200,
                {"client": "codex", "memoryEnabled": enabled, "token": None, "lines": []},
            )
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


# ---- tokens


def file_of(kept: Remembering) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((kept.directory / "clients.json").read_text("utf-8"))
    return content


def holding(folder: Path, text: str) -> list[Path]:
    """The files with this text in them."""
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


async def test_a_client_that_gets_a_memory_gets_a_token_once(open_dashboard: Any, tmp_path: Path) -> None:
    async with remembering(tmp_path) as kept, open_dashboard(conversations=kept, prefix="/m") as dashboard:
        switch = ("PATCH", "/m/api/clients/client")
        async with dashboard.ask(*switch, json={"memoryEnabled": True}) as answer:
            told = await answer.json()
        token = told["token"]
        assert len(token) == 43
        assert told == {
            "client": "client",
            "memoryEnabled": True,
            "token": token,
            "lines": [line.to_json() for line in http_lines(f"{dashboard.origin}/m/mcp/client", token)],
        }
        assert file_of(kept)["tokens"] == {"client": hashlib.sha256(token.encode()).hexdigest()}
        assert (kept.directory / "clients.json").stat().st_mode & 0o777 == 0o600
        assert not holding(tmp_path, token)
        for enabled in (False, True):
            async with dashboard.ask(*switch, json={"memoryEnabled": enabled}) as answer:
                assert (await answer.json())["token"] is None
        assert ClientTokens(kept).proves("client", token)


async def test_a_new_token_takes_the_place_of_the_old(open_dashboard: Any, tmp_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    tokens: list[str] = []
    async with remembering(tmp_path) as kept, open_dashboard(conversations=kept) as dashboard:
        for _ in range(2):
            async with dashboard.ask("POST", "/api/clients/client/token") as answer:
                told = await answer.json()
            tokens.append(told["token"])
            lines = [line.to_json() for line in http_lines(f"{dashboard.origin}/mcp/client", tokens[-1])]
            assert (answer.status, told) == (200, {"token": tokens[-1], "lines": lines})
        mine = ClientTokens(kept)
        assert [mine.proves("client", token) for token in tokens] == [False, True]
        assert [mine.proves("other", token) for token in tokens] == [False, False]
        async with dashboard.ask("GET", "/api/clients") as answer:
            text = await answer.text()
    assert not any(token in text for token in tokens)
    assert not any(token in caplog.text for token in tokens)
    async with remembering(tmp_path) as kept:  # started again
        assert ClientTokens(kept).proves("client", tokens[-1])


async def test_whether_there_is_a_token_is_told(open_dashboard: Any, tmp_path: Path) -> None:
    def clients() -> dict[str, Any]:
        return {"clients": [], "lines": [], "mcp": [{"client": "client"}, {"client": "other"}], "conversations": None}

    async with remembering(tmp_path) as kept, open_dashboard(conversations=kept, clients=clients) as dashboard:
        await ClientTokens(kept).make("other")
        async with dashboard.ask("GET", "/api/clients") as answer:
            mcp = (await answer.json())["mcp"]
    assert mcp == [{"client": "client", "hasToken": False}, {"client": "other", "hasToken": True}]


@pytest.mark.parametrize(
    ("client", "status", "code"),
    [("nobody", 404, "not_found"), ("off", 409, "memory_off"), ("other", 409, "mcp_via_llm")],
)
async def test_who_gets_no_token(open_dashboard: Any, tmp_path: Path, client: str, status: int, code: str) -> None:
    inside = {"remembers_inside": lambda client: client == "other"}
    async with remembering(tmp_path) as kept, open_dashboard(conversations=kept, **inside) as dashboard:
        async with dashboard.ask("POST", f"/api/clients/{client}/token") as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (status, code)
        if client == "other":
            async with dashboard.ask("PATCH", "/api/clients/other", json={"memoryEnabled": True}) as answer:
                assert (answer.status, (await answer.json())["token"]) == (200, None)
        assert file_of(kept)["tokens"] == {}


async def test_a_token_that_cannot_be_kept_is_none(open_dashboard: Any, tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with remembering(tmp_path) as kept, open_dashboard(conversations=kept) as dashboard:
        monkeypatch.setattr(kept.store, "set_token", refuse)
        async with dashboard.ask("POST", "/api/clients/client/token") as answer:
            assert (answer.status, (await answer.json())["error"]) == (
                503,
                {"code": "disk", "message": "the token cannot be kept (No space left on device)"},
            )
        async with dashboard.ask("PATCH", "/api/clients/client", json={"memoryEnabled": True}) as answer:
            assert (answer.status, (await answer.json())["token"]) == (200, None)
        monkeypatch.setattr(kept, "store", None)
        kept.trouble = "another mitmemory has them"
        async with dashboard.ask("POST", "/api/clients/client/token") as answer:
            assert (answer.status, (await answer.json())["error"]) == (
                409,
                {"code": "not_open", "message": "another mitmemory has them"},
            )
