"""The Activity page: past requests with filters, pages and details."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page, expect

from memory.exchange import Decision, Evidence, Exchange, RulePart, Scan, SentTo, Sighting, Usage
from tests.memory.exchanges import finished, released
from tests.web.browser.support import Suite, Visitor, is_heard, until, visiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

HARBOUR = "shelf/sea/Harbour.md"
KILN = "shelf/craft/Kiln.md"
START = datetime.now(UTC) - timedelta(hours=5, minutes=30)


def identifier(number: int) -> str:
    """Ids sort by time: these are a minute apart."""
    return f"{int((START + timedelta(minutes=number)).timestamp() * 1e6):014x}"


def past(number: int, *notes: str, **more: Any) -> Exchange:
    began = START + timedelta(minutes=number)
    times = {"started_at": began, "finished_at": began + timedelta(seconds=2.5)}
    return finished(identifier(number), notes=notes, **(times | more))


def rich() -> Exchange:
    """One about which there is much to say."""
    places = (Evidence("/messages/0/content", 2, "line"), Evidence("/messages/3/content!/output", 1, "line"))
    sightings = (
        Sighting(HARBOUR, "Harbour", "content", "line", 2, 3, places, resent=True),
        Sighting(KILN, "Kiln <b>wet<i>", "reference", "reference", 0, 4, (Evidence("/system", 0, "reference"),)),
    )
    parts = (RulePart("the sea stays home", "redirect", (HARBOUR,)), RulePart("all is seen", "allow"))
    return past(
        7,
        decision=Decision("redirect", "the sea stays home", parts),
        scan=Scan("partial", ("an image was not looked at",), sightings),
        sent_to=[SentTo("qwen3:8b", "local", "127.0.0.1:11434"), SentTo("backup", "cloud", "192.0.2.1:443")],
        usage=Usage(1234, 56, 7890, None),
        side_request=True,
    )


async def ready(page: Page) -> Page:
    await page.wait_for_selector("html[data-activity=ready]", state="attached")
    return page


async def open_activity(
    suite: Suite, visitor: Visitor, query: str = "", role: Literal["admin", "read_only"] = "admin"
) -> Page:
    page = await ready(await visitor.enter(suite, f"activity{query}", role))
    await is_heard(suite)
    return page


def rows(page: Page) -> Any:
    return page.locator("#entries tbody tr")


async def test_past_requests_newest_first_and_those_with_notes_marked(suite: Suite, visitor: Visitor) -> None:
    suite.publish(past(1))
    suite.publish(past(2, HARBOUR, decision=Decision("block", "sea"), outcome="blocked", status=400, sent_to=[]))
    page = await open_activity(suite, visitor)
    await expect(rows(page)).to_have_count(2)
    cells = rows(page).first.locator("td")
    await expect(cells.nth(0)).to_have_text("carried notes5 h ago")
    await expect(cells.nth(1)).to_have_text("claude-code")
    await expect(cells.nth(2)).to_have_text("claude-testcloud, anthropic")
    await expect(cells.nth(3)).to_have_text("A title1/2 linesfirst")
    await expect(cells.nth(4)).to_have_text("Blockedby sea")
    await expect(cells.nth(5)).to_have_text("Scanned")
    await expect(cells.nth(6)).to_have_text("Blockedstatus 400")
    await expect(cells.nth(7)).to_have_text("100 B200 B back")
    await expect(rows(page).last.locator("td").nth(0)).to_have_text("5 h ago")
    await expect(page.locator(".pager .count")).to_have_text("2 requests on this page, 1 with notes")


async def test_filters_are_in_the_address_and_outlive_a_reload(suite: Suite, visitor: Visitor) -> None:
    suite.publish(past(1, HARBOUR, client="codex"))
    suite.publish(past(2, KILN, client="codex", model="gpt-5"))
    suite.publish(past(3, client="codex"))
    suite.publish(past(4, HARBOUR))
    page = await open_activity(suite, visitor)
    await expect(rows(page)).to_have_count(4)
    await expect(page.locator("#clients option")).to_have_count(2)
    client = page.get_by_role("combobox", name="Client")
    await client.fill("codex")
    await client.press("Enter")
    await expect(rows(page)).to_have_count(3)
    await page.get_by_label("Only with notes").check()
    await expect(rows(page)).to_have_count(2)
    await page.get_by_role("combobox", name="Note").fill(HARBOUR)
    await page.get_by_role("combobox", name="Note").press("Enter")
    await expect(rows(page)).to_have_count(1)
    assert page.url.endswith("/activity?client=codex&note=shelf%2Fsea%2FHarbour.md&notes=only")
    await page.reload()
    await ready(page)
    await expect(rows(page)).to_have_count(1)
    await expect(client).to_have_value("codex")
    await page.get_by_role("combobox", name="Note").fill("")
    await page.get_by_role("combobox", name="Model").fill("none")
    await page.get_by_role("combobox", name="Model").press("Enter")
    await expect(rows(page)).to_have_text(["No request fits these filters."])


async def test_pages(suite: Suite, visitor: Visitor) -> None:
    for number in range(230):
        suite.publish(past(number))
    page = await open_activity(suite, visitor)
    older, newer = (page.get_by_role("button", name=name, exact=True) for name in ("Older", "Newer"))
    await expect(page.locator(".pager .count")).to_contain_text("100 requests on this page")
    await expect(newer).to_be_disabled()
    await expect(rows(page).first).to_have_attribute("data-key", identifier(229))
    await older.click()
    await expect(rows(page).first).to_have_attribute("data-key", identifier(129))
    await older.click()
    await expect(page.locator(".pager .count")).to_contain_text("30 requests on this page")
    await expect(rows(page).last).to_have_attribute("data-key", identifier(0))
    await expect(older).to_be_disabled()
    await newer.click()
    await expect(rows(page).first).to_have_attribute("data-key", identifier(129))
    await newer.click()
    await expect(rows(page).first).to_have_attribute("data-key", identifier(229))


async def test_all_that_is_known_of_one(suite: Suite, visitor: Visitor) -> None:
    suite.publish(rich())
    page = await open_activity(suite, visitor)
    await rows(page).first.locator("td").nth(1).click()
    panel = page.locator("#detail")
    await expect(panel.get_by_role("heading", level=2)).to_have_text("claude-code to claude-test")
    await expect(panel.locator(".path")).to_have_text(identifier(7))
    facts = panel.locator("dl").first
    await expect(facts).to_contain_text("Took2.5 s")
    await expect(facts).to_contain_text("Provideranthropic (anthropic)")
    await expect(facts).to_contain_text("Conversationc0ffee")
    await expect(facts).to_contain_text("Bytes100 B there, 200 B back")
    await expect(facts).to_contain_text("side request")
    await expect(panel.locator(".receivers li")).to_have_text(
        ["qwen3:8blocal, 127.0.0.1:11434", "backupcloud, 192.0.2.1:443"]
    )
    notes = panel.locator(".carried > li")
    await expect(notes.nth(0)).to_contain_text("Harbour")
    await expect(notes.nth(0)).to_contain_text("2/3 linesagain in this conversation")
    await notes.nth(0).get_by_text("Found at 2 places").click()
    await expect(notes.nth(0).locator(".pointers li")).to_have_text(
        ["/messages/0/content2 lines", "/messages/3/content!/output1 line"]
    )
    await expect(notes.nth(1)).to_contain_text("Kiln <b>wet<i>")
    await expect(notes.nth(1)).to_contain_text("by name onlyfirst time in this conversation")
    await expect(panel.locator(".rule-parts li")).to_have_text(
        ["the sea stays homeredirect: Harbour", "all is seenallow: the request itself"]
    )
    await expect(panel).to_contain_text("Partly scannedan image was not looked at")
    await expect(panel.locator("dl").last).to_have_text("In1\u202f234Out56Cache read7\u202f890")


async def test_by_keyboard_alone(suite: Suite, visitor: Visitor) -> None:
    suite.publish(past(1, HARBOUR))
    suite.publish(past(2))
    page = await open_activity(suite, visitor)
    await rows(page).first.focus()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    heading = page.locator("#detail h2")
    await expect(heading).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Close")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.locator("#detail")).to_be_hidden()
    await expect(rows(page).last).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator("#detail")).to_be_hidden()


async def test_from_one_note_to_all_requests_with_it(suite: Suite, visitor: Visitor) -> None:
    for number, note in enumerate((HARBOUR, KILN, HARBOUR)):
        suite.publish(past(number, note))
    page = await open_activity(suite, visitor)
    await rows(page).first.locator("td").nth(1).click()
    await page.get_by_role("button", name="Only requests with it").click()
    await expect(rows(page)).to_have_count(2)
    await expect(page.locator("#detail")).to_be_hidden()
    assert page.url.endswith("?note=shelf%2Fsea%2FHarbour.md")
    await rows(page).first.get_by_role("link", name="A title").click()
    await page.wait_for_url("**/#note=shelf%2Fsea%2FHarbour.md")


async def test_an_address_that_names_one_opens_it(suite: Suite, visitor: Visitor) -> None:
    for number in range(3):
        suite.publish(past(number))
    page = await open_activity(suite, visitor, f"?entry={identifier(1)}")
    await expect(page.locator("#detail .path")).to_have_text(identifier(1))
    await expect(rows(page)).to_have_count(2)
    await page.get_by_role("button", name="Newer", exact=True).click()
    await expect(rows(page)).to_have_count(3)
    await page.goto(f"{suite.services.access.origin}/activity?entry=0000")
    await ready(page)
    await expect(page.locator(".pager .count")).to_have_text(
        "The request 0000 is not kept any more. 0 requests on this page, 0 with notes"
    )
    await expect(page.locator("#detail")).to_be_hidden()


async def test_new_requests_wait_until_they_are_asked_for(suite: Suite, visitor: Visitor) -> None:
    async def listening() -> int:
        return suite.services.events.readers

    page = await open_activity(suite, visitor)
    await expect(page.get_by_role("heading", name="No activity yet")).to_be_visible()
    await until(listening, lambda readers: readers == 1)
    suite.publish(released(identifier(1), sent_to=[]))
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page).locator("td").nth(6)).to_have_text("Under way")
    suite.publish(past(1))
    await expect(rows(page).locator("td").nth(6)).to_have_text("Answeredstatus 200")
    for number in (2, 3):
        suite.publish(past(number, HARBOUR))
    show = page.get_by_role("button", name="Show 2 new requests")
    await expect(show).to_be_visible()
    await expect(rows(page)).to_have_count(1)
    await show.click()
    await expect(rows(page)).to_have_count(3)
    await expect(show).to_be_hidden()


async def test_export(suite: Suite, visitor: Visitor) -> None:
    suite.publish(past(1, HARBOUR))
    page = await open_activity(suite, visitor, role="read_only")
    csv = page.get_by_role("link", name="CSV")
    await expect(csv).to_have_attribute("href", f"{suite.services.access.origin}/api/activity/export?format=csv")
    await page.get_by_label("What is exported").select_option("7d")
    link = page.get_by_role("link", name="JSONL")
    async with page.expect_download() as coming:
        await link.click()
    file = await coming.value
    assert file.url.endswith("?format=jsonl&since=7d")
    assert file.suggested_filename.endswith(".jsonl")
    assert json.loads((await file.path()).read_text("utf-8"))["id"] == identifier(1)


async def test_what_went_wrong_is_said(suite: Suite, visitor: Visitor) -> None:
    suite.publish(past(1))
    page = await open_activity(suite, visitor)
    said = {"error": {"code": "internal", "message": "the disk is gone"}}
    await page.route("**/api/activity?**", lambda route: route.fulfill(status=500, json=said))
    await page.get_by_label("Only with notes").check()
    await expect(page.get_by_role("heading", name="The requests could not be loaded")).to_be_visible()
    await expect(page.get_by_text("the disk is gone")).to_be_visible()
    assert len(visitor.complaints) == 1  # the browser's own, of the status
    visitor.complaints.clear()
    await page.unroute("**/api/activity?**")
    await page.get_by_label("Only with notes").uncheck()
    await expect(rows(page)).to_have_count(1)


async def test_axe_and_a_narrow_window(suite: Suite, browser: Browser, axe: Callable[[Page], Awaitable[None]]) -> None:
    suite.publish(rich())
    suite.publish(past(8))
    async with visiting(browser, reduced_motion="reduce") as visitor:
        page = await open_activity(suite, visitor)
        await axe(page)
        await page.set_viewport_size({"width": 1000, "height": 700})
        await rows(page).last.locator("td").nth(1).click()
        await expect(page.locator("#detail h2")).to_be_visible()
        await axe(page)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
