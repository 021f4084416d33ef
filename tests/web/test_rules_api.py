"""`GET api/rules` and `POST api/rules/test`: who may ask, what may be asked, and how faults are told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.web.conftest import READ_ONLY, Opener
from web.rules_api import RulesError


@dataclass
class Rules:
    """Stands in for the suite."""

    asked: list[tuple[datetime | None, Any]] = field(default_factory=list)
    fault: str = ""
    gate: asyncio.Event | None = None
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: int = 0
    most: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"rules": [{"name": "one", "hits": 1}]}

    async def test(self, since: datetime | None, rules: Any | None) -> dict[str, Any]:
        self.asked.append((since, rules))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.entered.set()
        if self.gate:
            await self.gate.wait()
        self.at_once -= 1
        if self.fault:
            raise RulesError(self.fault)
        return {"tested": 7, "rules": []}


async def test_the_rules_are_for_every_reader(open_dashboard: Opener) -> None:
    async with (
        open_dashboard(rules=Rules()) as dashboard,
        dashboard.ask("GET", "/api/rules", token=READ_ONLY) as answer,
    ):
        assert (answer.status, await answer.json()) == (200, {"rules": [{"name": "one", "hits": 1}]})


async def test_a_dry_run_is_for_an_admin(open_dashboard: Opener) -> None:
    rules = Rules()
    async with open_dashboard(rules=rules) as dashboard:
        async with dashboard.ask("POST", "/api/rules/test", token=READ_ONLY) as answer:
            assert answer.status == 403
        assert rules.asked == []
        given = [{"name": "x"}]
        body = {"since": "2026-03-04T05:06:07Z", "rules": given}
        async with dashboard.ask("POST", "/api/rules/test", json=body) as answer:
            assert (answer.status, await answer.json()) == (200, {"tested": 7, "rules": []})
        async with dashboard.ask("POST", "/api/rules/test") as answer:
            assert answer.status == 200
    assert rules.asked == [(datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC), given), (None, None)]


SINCE = "since must be a duration like 30d, or a time like 2026-03-04T05:06:07Z"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"since": "yesterday"}, SINCE),
        ({"since": 30}, SINCE),
        ({"until": "1d"}, "there is no key 'until' here"),
    ],
)
async def test_what_cannot_be_meant(open_dashboard: Opener, body: Any, message: str) -> None:
    rules = Rules()
    async with (
        open_dashboard(rules=rules) as dashboard,
        dashboard.ask("POST", "/api/rules/test", json=body) as answer,
    ):
        assert (answer.status, await answer.json()) == (400, {"error": {"code": "bad_request", "message": message}})
    assert rules.asked == []


async def test_faults_of_given_rules_are_explained(open_dashboard: Opener) -> None:
    fault = "rules[0].then: no such\nrules[1]: either"
    async with (
        open_dashboard(rules=Rules(fault=fault)) as dashboard,
        dashboard.ask("POST", "/api/rules/test", json={"rules": []}) as answer,
    ):
        assert (answer.status, await answer.json()) == (400, {"error": {"code": "bad_rules", "message": fault}})


async def test_one_dry_run_goes_on_at_a_time(open_dashboard: Opener) -> None:
    rules = Rules(gate=asyncio.Event())
    async with open_dashboard(rules=rules) as dashboard:

        async def test() -> int:
            async with dashboard.ask("POST", "/api/rules/test") as answer:
                return int(answer.status)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(test()) for _ in range(3)]
            await rules.entered.wait()
            for _ in range(5):  # time for the others to come in
                async with dashboard.ask("GET", "/api/rules") as answer:
                    assert answer.status == 200
            assert rules.gate
            rules.gate.set()
        assert [task.result() for task in tasks] == [200, 200, 200]
    assert (len(rules.asked), rules.most) == (3, 1)


async def test_without_a_suite_there_are_no_rules(open_dashboard: Opener) -> None:
    async with open_dashboard() as dashboard:
        async with dashboard.ask("GET", "/api/rules") as answer:
            assert (await answer.json())["rules"] == []
        async with dashboard.ask("POST", "/api/rules/test") as answer:
            assert await answer.json() == {"tested": 0, "actions": {}, "rules": []}
