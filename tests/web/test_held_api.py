"""`api/held`: what waits for a person, and what becomes of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from memory.held import Answer, Released
from tests.memory.exchanges import released
from tests.web.conftest import READ_ONLY, Opener

TARGETS = {"anthropic": ("near", "lab"), "gemini": ()}


@pytest.fixture
async def waiting(open_dashboard: Opener) -> Any:
    """A dashboard with two targets that speak Anthropic, and a request of each kind on hold."""
    async with open_dashboard(targets=lambda protocol: TARGETS[protocol]) as dashboard:
        answers = {
            name: dashboard.services.held.begin(released(name, sent_to=[], protocol=protocol), 90)
            for name, protocol in (("01", "anthropic"), ("02", "gemini"))
        }
        yield dashboard, answers


async def decide(dashboard: Any, name: str, body: Any, **more: Any) -> tuple[int, Any]:
    async with dashboard.ask("POST", f"/api/held/{name}", json=body, **more) as answer:
        return answer.status, await answer.json()


def error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


@pytest.mark.parametrize("token", ["admin-token-of-the-tests", READ_ONLY])
async def test_both_tokens_see_what_waits(waiting: Any, token: str) -> None:
    dashboard, _ = waiting
    async with dashboard.ask("GET", "/api/held", token=token) as answer:
        assert answer.status == 200
        listed = (await answer.json())["held"]
    held = [one.to_json() for one in dashboard.services.held.waiting()]
    assert listed == [held[0] | {"targets": ["near", "lab"]}, held[1] | {"targets": []}]
    assert [one["entry"]["id"] for one in listed] == ["01", "02"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"action": "release"}, Released("released")),
        ({"action": "block"}, Released("blocked")),
        ({"action": "block", "target": None}, Released("blocked")),
        ({"action": "redirect", "target": "lab"}, Released("redirected", "lab")),
    ],
)
async def test_an_admin_decides(waiting: Any, body: Any, expected: Released) -> None:
    dashboard, answers = waiting
    assert await decide(dashboard, "01", body) == (200, {"id": "01", "state": expected.answer})
    assert await answers["01"] == expected
    assert not answers["02"].done()
    async with dashboard.ask("GET", "/api/held") as answer:
        assert [one["id"] for one in (await answer.json())["held"]] == ["02"]


async def test_the_read_only_token_decides_nothing(waiting: Any) -> None:
    dashboard, answers = waiting
    status, body = await decide(dashboard, "01", {"action": "release"}, token=READ_ONLY)
    assert (status, body["error"]["code"]) == (403, "admin_only")
    assert not answers["01"].done()


ACTIONS = "action can only be release, block or redirect"
SPEAK = "target must name one of the targets that speak anthropic"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, ACTIONS),
        ({"action": "free"}, ACTIONS),
        ({"action": ["release"]}, ACTIONS),
        ({"action": "redirect"}, SPEAK),
        ({"action": "redirect", "target": "nowhere"}, SPEAK),
        ({"action": "redirect", "target": ["near"]}, SPEAK),
        ({"action": "release", "target": "near"}, "target is for redirect only"),
        ({"action": "release", "for": "ever"}, "there is no key 'for' here"),
    ],
)
async def test_what_cannot_be_meant_decides_nothing(waiting: Any, body: Any, message: str) -> None:
    dashboard, answers = waiting
    assert await decide(dashboard, "01", body) == (400, error("bad_request", message))
    assert not answers["01"].done()


async def test_a_target_that_does_not_speak_the_protocol_is_none(waiting: Any) -> None:
    dashboard, answers = waiting
    status, body = await decide(dashboard, "02", {"action": "redirect", "target": "near"})
    assert (status, body) == (400, error("bad_request", "target must name one of the targets that speak gemini"))
    assert not answers["02"].done()


@pytest.mark.parametrize(
    ("answer", "status", "code", "message"),
    [
        ("released", 409, "decided", "somebody was faster: this request was released"),
        ("blocked", 409, "decided", "somebody was faster: this request was blocked"),
        ("redirected", 409, "decided", "somebody was faster: this request was redirected"),
        ("expired", 404, "not_found", "this request no longer waits: its time has run out"),
        ("left", 404, "not_found", "this request no longer waits: its client has left"),
    ],
)
async def test_who_comes_too_late_is_told_why(
    waiting: Any, answer: Answer, status: int, code: str, message: str
) -> None:
    dashboard, answers = waiting
    dashboard.services.held.decide("01", Released(answer))
    assert await decide(dashboard, "01", {"action": "block"}) == (status, error(code, message))
    assert await answers["01"] == Released(answer)


@pytest.mark.parametrize("name", ["03", "..%2F01", "01%00", "x" * 5000])
async def test_what_never_waited_is_not_there(waiting: Any, name: str) -> None:
    dashboard, _ = waiting
    assert (await decide(dashboard, name, {"action": "release"}))[0] == 404


async def test_the_first_of_two_at_once_decides(waiting: Any) -> None:
    dashboard, answers = waiting
    got = await asyncio.gather(*(decide(dashboard, "01", {"action": one}) for one in ("release", "block")))
    assert sorted(status for status, _ in got) == [200, 409]
    [first] = [body for status, body in got if status == 200]
    assert first == {"id": "01", "state": (await answers["01"]).answer}


async def test_open_pages_are_told(open_dashboard: Opener) -> None:
    async with open_dashboard() as dashboard, dashboard.ask("GET", "/api/events") as stream:
        await stream.content.readuntil(b"\n\n")
        held = dashboard.services.held
        held.begin(released("01"), 90)
        await decide(dashboard, "01", {"action": "block"})
        told: list[tuple[str, Any]] = []
        async with asyncio.timeout(60):
            while len(told) < 2:
                lines = (await stream.content.readuntil(b"\n\n")).decode().splitlines()
                told.append((lines[1], json.loads(lines[2].removeprefix("data: "))))
    assert told == [
        ("event: held", {"id": "01", "state": "waiting"}),
        ("event: held", {"id": "01", "state": "blocked"}),
    ]
    assert held.on_change == []
