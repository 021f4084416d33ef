"""The rules as the dashboard shows and tries them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from addons.config import Config
from addons.config_values import Upstream
from addons.rules_service import MOST_NOTES, RulesService
from addons.targets import TargetConfig
from memory.activity import Activity
from memory.exchange import Decision, Place, RulePart, Scan
from memory.note_library import NoteLibrary
from memory.notes import MemoryDocument
from memory.rules import Rule, When
from memory.rules.conditions import SEEN
from tests.addons.parts import Shelf, exchange_of
from tests.addons.test_record import Desk
from tests.memory.exchanges import finished
from web.rules_api import RulesError

OLLAMA = TargetConfig("ollama", Upstream("http", "127.0.0.1", 11434), ("anthropic",), model="qwen3:8b")
RULES = (
    Rule("private stays", When(tags=("private",), to="cloud"), "redirect", ("ollama",)),
    Rule("any", When(by=SEEN), "block"),
)


class Setting:
    def __init__(self, *documents: MemoryDocument, **config: Any) -> None:
        self.config = Config(**({"rules": RULES, "targets": (OLLAMA,)} | config))
        self.activity = Activity()
        self.hits: Counter[str] = Counter()
        self.shelf = Shelf(list(documents))
        self.note_library = NoteLibrary([self.shelf])
        self.service = RulesService(lambda: self.config, self.note_library, self.activity, lambda rule: self.hits[rule])

    def record(self, number: int, *notes: str, **changes: Any) -> None:
        self.activity.put(finished(f"{number:014x}", notes=notes, **changes))


def document(path: str, text: str = "Some words stand here.", **more: Any) -> MemoryDocument:
    return MemoryDocument(path, text, **more)


async def test_the_rules_in_their_order_with_their_hits() -> None:
    setting = Setting()
    setting.hits.update(["any", "any", "unscanned: block"])
    shown = setting.service.to_json()
    assert shown.pop("countedSince").endswith("Z")
    assert shown == {
        "mode": "dispatch",
        "rules": [
            {
                "name": "private stays",
                "when": {"tags": "private", "to": "cloud"},
                "then": "redirect",
                "targets": ["ollama"],
                "otherwise": "block",
                "hits": 0,
            },
            {"name": "any", "when": {"by": "any"}, "then": "block", "hits": 2},
        ],
        "notes": [],
        "unscanned": {"name": "unscanned: block", "setting": None, "cloud": "block", "local": "allow", "hits": 1},
    }


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"rules": ()}, (None, "allow", "allow")),
        ({"unscanned": "allow"}, ("allow", "allow", "allow")),
        ({"rules": (), "unscanned": "block"}, ("block", "block", "block")),
    ],
)
async def test_what_becomes_of_what_was_not_looked_at(config: dict[str, Any], said: tuple[Any, ...]) -> None:
    found = Setting(**config).service.to_json()["unscanned"]
    assert (found["setting"], found["cloud"], found["local"]) == said


async def test_what_notes_say_themselves() -> None:
    many = [document(f"many/{number:03}.md", share="ask") for number in range(MOST_NOTES + 2)]
    setting = Setting(document("A.md", share="local"), document("B.md"), *many, rules=())
    await setting.note_library.scan()
    setting.hits["share: local"] = 3
    shown = setting.service.to_json()
    local, ask = shown["notes"]
    assert local == {
        "name": "share: local",
        "when": {"to": "cloud"},
        "then": "redirect",
        "targets": ["ollama"],
        "otherwise": "block",
        "hits": 3,
        "share": "local",
        "count": 1,
        "notes": [{"id": "vault/A.md", "title": "A"}],
    }
    assert (ask["share"], ask["then"], ask["count"], len(ask["notes"])) == ("ask", "hold", MOST_NOTES + 2, MOST_NOTES)
    assert shown["unscanned"]["cloud"] == "block"
    await setting.note_library.aclose()


async def test_a_dry_run_with_the_tags_of_today() -> None:
    setting = Setting(document("A.md", tags=("private",)), document("B.md"))
    setting.record(1, "vault/A.md")
    setting.record(2, "vault/B.md")
    setting.record(3)
    assert await setting.service.test(None, None) == {
        "tested": 3,
        "actions": {"redirect": 1, "block": 1, "allow": 1},
        "rules": [
            {"name": "private stays", "action": "redirect", "hits": 1, "examples": ["00000000000001"]},
            {"name": "any", "action": "block", "hits": 1, "examples": ["00000000000002"]},
        ],
    }
    setting.shelf.documents = [document("A.md"), document("B.md", tags=("private",))]
    await setting.note_library.scan()
    found = await setting.service.test(None, None)
    assert found["rules"][0]["examples"] == ["00000000000002"]
    await setting.note_library.aclose()


@pytest.mark.parametrize(("asked_to", "action"), [("cloud", "redirect"), ("local", "block")])
async def test_a_request_that_was_redirected_is_judged_as_it_came_in(asked_to: Place, action: str) -> None:
    setting = Setting(document("A.md", tags=("private",)))
    setting.record(1, "vault/A.md", to="local", asked_to=asked_to, decision=Decision("redirect", "private stays"))
    assert (await setting.service.test(None, None))["actions"] == {action: 1}
    await setting.note_library.aclose()


async def test_rules_that_are_given_are_tried_beside_the_targets_of_the_configuration() -> None:
    setting = Setting(document("A.md"))
    setting.record(1, "vault/A.md")
    given = [{"name": "home", "when": {"to": "cloud"}, "then": "redirect", "targets": ["ollama"]}]
    found = await setting.service.test(None, given)
    assert (found["actions"], [rule["name"] for rule in found["rules"]]) == ({"redirect": 1}, ["home"])
    with pytest.raises(RulesError) as raised:
        await setting.service.test(None, [{"name": "x", "when": {"tgas": "a"}, "then": "block"}])
    assert str(raised.value) == "rules[0].when.tgas: no such key; mend: did you mean `tags`?"
    await setting.note_library.aclose()


async def test_rules_may_be_tried_where_none_is_applied() -> None:
    setting = Setting(document("A.md"), mode="annotate")
    setting.record(1, "vault/A.md")
    assert setting.service.to_json()["mode"] == "annotate"
    assert (await setting.service.test(None, None))["actions"] == {"block": 1}
    await setting.note_library.aclose()


async def test_a_changed_configuration_counts_at_once() -> None:
    setting = Setting()
    setting.config = replace(setting.config, rules=RULES[:1])
    assert [rule["name"] for rule in setting.service.to_json()["rules"]] == ["private stays"]


def test_a_rule_is_hit_once_by_each_request_that_is_over() -> None:
    parts = (RulePart("a", "allow", ("n1",)), RulePart("a", "block", ("n2",)), RulePart("b", "block"))
    desk = Desk(exchange_of(scan=Scan("complete"), decision=Decision("block", "a", parts)))
    desk.record.request(desk.flow)
    assert desk.record.hits == {}
    desk.answer(400)
    desk.fail("the connection is gone")
    assert desk.record.hits == {"a": 1, "b": 1}


async def test_a_run_that_nobody_waits_for_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting()
    begun, over = threading.Event(), threading.Event()

    def many(_: datetime | None) -> Iterator[dict[str, Any]]:
        try:
            for _ in range(10**6):
                begun.set()
                yield finished("1").to_json()
        except GeneratorExit:
            over.set()
            raise

    monkeypatch.setattr(setting.activity, "requests", many)
    testing = asyncio.create_task(setting.service.test(None, None))
    assert await asyncio.to_thread(begun.wait, 60)
    testing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await testing
    assert await asyncio.to_thread(over.wait, 60)
