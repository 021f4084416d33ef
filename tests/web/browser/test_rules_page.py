"""The Rules page: each rule with its hits, what notes say themselves, and the dry run."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from addons.config import Config
from addons.config_values import Upstream
from addons.rules_service import RulesService
from addons.targets import TargetConfig
from memory.notes import MemoryDocument
from memory.rules import Rule, When
from memory.rules.conditions import Comparison
from tests.memory.exchanges import finished
from tests.web.browser.support import Shelf, Suite, Visitor, running, visiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

HARBOUR = "shelf/sea/Harbour.md"
CONFIG = Config(
    rules=(
        Rule("work <b>stays", When(tags=("work", "sea"), to="cloud"), "redirect", ("ollama", "spare")),
        Rule("kiln", When(folder=("shelf/craft/**",), by=("content",), coverage=Comparison(">=", 50)), "block"),
        Rule("ask me", When(notes=Comparison(">=", 5)), "hold", hold_for=90),
        Rule("strip", When(note=("shelf/Inbox.md",)), "redact", placeholder="[withheld: {title}]"),
    ),
    targets=tuple(
        TargetConfig(name, Upstream("http", "127.0.0.1", 11434), ("anthropic",), model="qwen3:8b")
        for name in ("ollama", "spare")
    ),
)


@dataclass
class Rules:
    """The suite's own, once there is a dashboard whose notes and activity they can ask."""

    config: Config = CONFIG
    hits: Counter[str] = field(default_factory=Counter)
    service: RulesService | None = None

    def to_json(self) -> dict[str, Any]:
        assert self.service
        return self.service.to_json()

    async def test(self, since: datetime | None, rules: Any | None) -> dict[str, Any]:
        assert self.service
        return await self.service.test(since, rules)


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest_asyncio.fixture(loop_scope="session")
async def suite(shelf: Shelf, rules: Rules) -> AsyncIterator[Suite]:
    async with running(shelf, rules=rules) as one:
        services = one.services
        rules.service = RulesService(
            lambda: rules.config, services.note_library, services.activity, lambda rule: rules.hits[rule]
        )
        await services.note_library.scan()
        yield one


def identifier(ago: timedelta) -> str:
    return f"{int((datetime.now(UTC) - ago).timestamp() * 1e6):014x}"


async def open_rules(suite: Suite, visitor: Visitor, role: Literal["admin", "read_only"] = "admin") -> Page:
    page = await visitor.enter(suite, "rules", role)
    await page.wait_for_selector("html[data-rules=ready]", state="attached")
    return page


async def test_each_rule_with_its_conditions_and_hits(suite: Suite, rules: Rules, visitor: Visitor) -> None:
    rules.hits["kiln"] = 1234
    page = await open_rules(suite, visitor)
    lines = page.get_by_role("table", name="Rules in their order").locator("tbody tr")
    await expect(lines.locator("td:first-child")).to_have_text(["work <b>stays", "kiln", "ask me", "strip"])
    await expect(lines.nth(0).locator(".conditions li")).to_have_text(["tags: work or sea", "to: cloud"])
    await expect(lines.nth(0).locator("td").nth(2)).to_have_text("Redirectto ollama, then spareotherwise block")
    await expect(lines.nth(1).locator(".conditions li")).to_have_text(
        ["folder: shelf/craft/**", "by: content", "coverage: >=50%"]
    )
    await expect(lines.nth(1).locator("td").nth(2)).to_have_text("Block")
    await expect(lines.locator("td:last-child")).to_have_text(["0", "1\u202f234", "0", "0"])
    await expect(lines.nth(2).locator("td").nth(2)).to_have_text("Holdfor 90 sotherwise block")
    await expect(lines.nth(3).locator("td").nth(2)).to_have_text("Redactas [withheld: {title}]otherwise block")
    await expect(page.get_by_text("counted since")).to_be_visible()
    await expect(page.locator("[aria-labelledby=unscanned]")).to_contain_text(
        "To a cloud model it is blocked, to a local one sent: something restricts what goes to cloud models. 0 hits"
    )


async def test_hits_and_rules_are_brought_up_to_date(suite: Suite, rules: Rules, visitor: Visitor) -> None:
    page = await open_rules(suite, visitor)
    rules.hits["kiln"] = 5
    rules.config = replace(CONFIG, rules=CONFIG.rules[1:2])
    lines = page.get_by_role("table", name="Rules in their order").locator("tbody tr")
    await expect(lines).to_have_count(1)
    await expect(lines.locator("td:last-child")).to_have_text(["5"])


async def test_what_notes_say_themselves(suite: Suite, visitor: Visitor) -> None:
    suite.shelf.documents.append(MemoryDocument("Diary.md", "Dear diary, it rained again today.\n", share="never"))
    await suite.services.note_library.scan()
    page = await open_rules(suite, visitor)
    line = page.get_by_role("table", name="What notes say of sharing").locator("tbody tr")
    await expect(line.locator("td:first-child")).to_have_text(["share: never"])
    await line.get_by_text("1 note").click()
    await line.get_by_role("link", name="Diary").click()
    await page.wait_for_url("**/#note=shelf%2FDiary.md")


async def test_what_was_opened_stays_open_while_hits_are_counted(suite: Suite, rules: Rules, visitor: Visitor) -> None:
    suite.shelf.documents.append(MemoryDocument("Diary.md", "Dear diary, it rained again today.\n", share="never"))
    await suite.services.note_library.scan()
    page = await open_rules(suite, visitor)
    line = page.get_by_role("table", name="What notes say of sharing").locator("tbody tr")
    await line.get_by_text("1 note").focus()
    await page.keyboard.press("Enter")
    rules.hits["kiln"] = 5
    hits = page.get_by_role("table", name="Rules in their order").locator("tbody tr").nth(1).locator("td:last-child")
    await expect(hits).to_have_text("5")
    await expect(line.get_by_role("link", name="Diary")).to_be_visible()
    await expect(line.get_by_text("1 note")).to_be_focused()


async def test_without_rules_it_says_what_they_are(suite: Suite, rules: Rules, visitor: Visitor) -> None:
    rules.config = Config(mode="annotate")
    page = await open_rules(suite, visitor)
    await expect(page.get_by_role("heading", name="No rules yet")).to_be_visible()
    await expect(page.locator("pre")).to_contain_text("when: {tags: [private], to: cloud}")
    await expect(page.locator("[aria-labelledby=unscanned]")).to_contain_text("To a cloud model it is sent")
    await page.get_by_role("button", name="Test").click()
    await expect(page.get_by_text("No request was recorded in the last 30 days.")).to_be_visible()
    suite.publish(finished(identifier(timedelta(days=1)), notes=(HARBOUR,)))
    await page.get_by_role("button", name="Test").click()
    await expect(page.get_by_text("Of 1 request in the last 30 days, 1 would have been allowed.")).to_be_visible()
    await expect(page.get_by_text("There are no rules: every request would have been sent.")).to_be_visible()


async def test_rules_that_are_not_applied_say_so(suite: Suite, rules: Rules, visitor: Visitor) -> None:
    rules.config = replace(CONFIG, mode="annotate")
    page = await open_rules(suite, visitor)
    await expect(page.get_by_text("These rules are not applied")).to_be_visible()


async def test_the_dry_run_leads_to_its_examples(suite: Suite, visitor: Visitor) -> None:
    ids = [identifier(timedelta(days=days)) for days in (20, 2, 1)]
    suite.publish(finished(ids[0], notes=("shelf/craft/Kiln.md",)))
    suite.publish(finished(ids[1], notes=(HARBOUR,)))
    suite.publish(finished(ids[2]))
    page = await open_rules(suite, visitor)
    await page.get_by_label("Over").select_option("7d")
    await page.get_by_role("button", name="Test").press("Enter")
    said = "Of 2 requests in the last 7 days, 1 would have been redirected, 1 allowed."
    await expect(page.get_by_text(said)).to_be_visible()
    await page.get_by_label("Over").select_option("")
    await page.get_by_role("button", name="Test").click()
    said = "Of 3 requests in all that is kept, 1 would have been blocked, 1 redirected, 1 allowed."
    await expect(page.get_by_text(said)).to_be_visible()
    lines = page.get_by_role("table", name="What each rule would have done").locator("tbody tr")
    await expect(lines.locator("td:nth-child(3)")).to_have_text(["1", "1", "0", "0"])
    await expect(lines.last).to_contain_text("none")
    await lines.first.get_by_role("link").click()
    await page.wait_for_selector("html[data-activity=ready]", state="attached")
    await expect(page.locator("#detail .path")).to_have_text(ids[1])


async def test_other_rules_can_be_tried(suite: Suite, visitor: Visitor) -> None:
    suite.publish(finished(identifier(timedelta(hours=1)), notes=(HARBOUR,)))
    page = await open_rules(suite, visitor)
    await page.get_by_text("Try other rules").click()
    box = page.get_by_label("Other rules as JSON")
    filled = '[\n  {"name":"work <b>stays","when":{"tags":["work","sea"],"to":"cloud"},"then":"redirect",'
    await expect(box).to_have_value(re.compile(f"^{re.escape(filled)}"))
    assert "hits" not in await box.input_value()
    await box.fill('[{"name": "x", "when": {"tgas": "sea"}, "then": "block"}]')
    await page.get_by_role("button", name="Test").click()
    alert = page.get_by_role("alert")
    await expect(alert).to_have_text("rules[0].when.tgas: no such key; mend: did you mean `tags`?")
    await box.fill("[")
    await page.get_by_role("button", name="Test").click()
    await expect(alert).to_contain_text("This is not JSON:")
    assert len(visitor.complaints) == 1  # the browser's own, of the status 400
    visitor.complaints.clear()
    await box.fill('[{"name": "x", "when": {"tags": "sea"}, "then": "block"}]')
    await page.get_by_role("button", name="Test").click()
    await expect(page.get_by_text("1 would have been blocked.")).to_be_visible()


async def test_who_may_only_read_sees_the_rules_and_no_button(suite: Suite, visitor: Visitor) -> None:
    suite.state |= {"program": "/opt/mitmemory", "configFlag": "--config mitm.yaml"}
    page = await open_rules(suite, visitor, "read_only")
    await expect(page.get_by_role("table", name="Rules in their order").locator("tbody tr")).to_have_count(4)
    await expect(page.get_by_text("or run /opt/mitmemory rules --config mitm.yaml test.")).to_be_visible()
    await expect(page.get_by_role("button", name="Test")).to_have_count(0)


async def test_what_went_wrong_is_said(suite: Suite, visitor: Visitor) -> None:
    page = await open_rules(suite, visitor)
    said = {"error": {"code": "internal", "message": "the disk is gone"}}
    await page.route("**/api/rules", lambda route: route.fulfill(status=500, json=said))
    await expect(page.get_by_role("heading", name="The rules could not be loaded")).to_be_visible()
    await expect(page.get_by_text("the disk is gone")).to_be_visible()
    await page.unroute("**/api/rules")
    await expect(page.get_by_role("table", name="Rules in their order")).to_be_visible()
    assert all("500" in complaint for complaint in visitor.complaints)  # the browser's own
    visitor.complaints.clear()


async def test_axe_and_a_narrow_window(suite: Suite, browser: Browser, axe: Callable[[Page], Awaitable[None]]) -> None:
    suite.shelf.documents.append(MemoryDocument("Diary.md", "Dear diary, it rained again today.\n", share="never"))
    await suite.services.note_library.scan()
    suite.publish(finished(identifier(timedelta(hours=1)), notes=(HARBOUR,)))
    async with visiting(browser, reduced_motion="reduce") as visitor:
        page = await open_rules(suite, visitor)
        await page.set_viewport_size({"width": 1000, "height": 700})
        await page.get_by_role("button", name="Test").click()
        await expect(page.get_by_role("table", name="What each rule would have done")).to_be_visible()
        await page.get_by_text("Try other rules").click()
        await axe(page)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
