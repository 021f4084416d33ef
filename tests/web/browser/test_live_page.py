"""The Live page, the frame around every page, and the events that the tabs share."""

from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import BrowserContext, Page, expect

from memory.exchange import Decision, Recalls, Scan
from tests.web.browser.support import PATIENCE, MemoryPage, Shelf, Suite, Visitor, running, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

HARBOUR = "shelf/sea/Harbour.md"
KILN = "shelf/craft/Kiln.md"


async def open_live(suite: Suite, visitor: Visitor) -> Page:
    """The Live page with its events running."""
    page = await visitor.enter(suite, "live")
    await page.wait_for_selector("html[data-live=ready]", state="attached")
    await until(readers(suite), lambda count: count == 1)
    return page


def readers(suite: Suite) -> Callable[[], Awaitable[int]]:
    async def count() -> int:
        return suite.services.events.readers

    return count


async def test_a_request_is_shown_and_then_brought_up_to_date(suite: Suite, visitor: Visitor) -> None:
    page = await open_live(suite, visitor)
    await expect(page.locator("tbody")).to_contain_text("No request went through the proxy yet")
    exchange = suite.route("cloud", (HARBOUR, 1, 2), (KILN, 0, 1))
    row = page.locator("tbody tr")
    await expect(row).to_have_count(1)
    cells = row.locator("td")
    await expect(cells.nth(0)).to_have_text("now")
    await expect(cells.nth(1)).to_have_text("claude-code")
    await expect(cells.nth(2)).to_have_text("claude-sonnet-4cloud, anthropic")
    await expect(cells.nth(3).locator("li")).to_have_text(["Harbour1/2 linesfirst", "Kilnby name onlyfirst"])
    await expect(cells.nth(4)).to_have_text("Allowed")
    await expect(cells.nth(5)).to_have_text("Scanned")
    await expect(cells.nth(6)).to_have_text("Under way")
    await expect(cells.nth(7)).to_have_text("12 kB")
    suite.finish(exchange)
    await expect(cells.nth(6)).to_have_text("Answeredstatus 200")
    await expect(cells.nth(7)).to_have_text("12 kB2.5 MB back")
    exchange.recalls = Recalls(searches=2, memories=1)
    suite.publish(exchange)
    await expect(cells.nth(6)).to_have_text("Answeredstatus 2001 memory recalled")
    await expect(row).to_have_count(1)


async def test_past_requests_are_there_and_new_ones_come_first(suite: Suite, visitor: Visitor) -> None:
    reasons = ("the body is compressed in a way that cannot be read",)
    suite.finish(suite.route("local", scan=Scan("unscanned", reasons)))
    page = await open_live(suite, visitor)
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(1)
    await expect(rows.first).to_contain_text(f"Not scanned{reasons[0]}")
    await expect(rows.first).to_contain_text("not looked at")
    await expect(rows.first).to_contain_text("llama3.2:3blocal, ollama")
    blocked = suite.route("cloud", (HARBOUR, 2, 2), decision=Decision("block", "the sea stays home"), resent=True)
    suite.finish(blocked, "blocked")
    await expect(rows).to_have_count(2)
    await expect(rows.first).to_contain_text("Blockedby the sea stays home")
    await expect(rows.first).to_contain_text("again")
    await expect(rows.last).to_contain_text("Not scanned")


async def test_many_notes_fold(suite: Suite, visitor: Visitor) -> None:
    page = await open_live(suite, visitor)
    suite.route("cloud", *((f"shelf/{name}.md", 1, 1) for name in "abcde"))
    await expect(page.locator("tbody li:visible")).to_have_count(3)
    await page.get_by_text("2 more notes").click()
    await expect(page.locator("tbody li:visible")).to_have_count(5)


async def test_a_note_leads_to_the_map(suite: Suite, visitor: Visitor) -> None:
    page = await open_live(suite, visitor)
    suite.route("cloud", (HARBOUR, 1, 2))
    await page.get_by_role("link", name="Harbour").click()
    await expect(page.locator("#panel h2")).to_have_text("Harbour")
    await expect(page.locator("#rail [aria-current=page]")).to_have_text("Memory")


async def test_rows_are_walked_with_the_arrow_keys(suite: Suite, visitor: Visitor) -> None:
    for _ in range(3):
        suite.finish(suite.route("local"))
    page = await open_live(suite, visitor)
    await page.locator("tbody tr").first.focus()
    await page.keyboard.press("ArrowDown")
    await expect(page.locator("tbody tr").nth(1)).to_be_focused()
    suite.route("cloud")
    await expect(page.locator("tbody tr")).to_have_count(4)
    await expect(page.locator("tbody tr").nth(2)).to_be_focused()  # the same row, one further down
    await page.keyboard.press("End")
    await expect(page.locator("tbody tr").last).to_be_focused()


async def test_status_line_says_how_the_suite_is(suite: Suite, visitor: Visitor) -> None:
    suite.state["sources"] = [{"name": "vault", "error": "not a folder: ~/vault", "enabled": True}]
    suite.state["trackSharing"] = False
    suite.state["warnings"] = ["The index is old."]
    page = await open_live(suite, visitor)
    line = page.locator("#status")
    for said in ("127.0.0.1:8080", "dispatch", "7 notes", "1 client", "75 % of 4 requests scanned"):
        await expect(line).to_contain_text(said)
    await expect(line.locator(".attention:visible")).to_have_text(
        [
            "Source vault: not a folder: ~/vault",
            "Requests are not scanned: memory.track_sharing is false",
            "The index is old.",
        ]
    )
    await line.get_by_role("link", name="7 notes").click()
    await MemoryPage(page).ready()


async def test_tabs_share_one_connection_and_pass_it_on(suite: Suite, visitor: Visitor) -> None:
    first = await open_live(suite, visitor)
    context: BrowserContext = visitor.context
    others = []
    for _ in range(2):
        tab = await visitor.open(first.url)
        await tab.wait_for_selector("html[data-live=ready]", state="attached")
        others.append(tab)
    assert suite.services.events.readers == 1
    suite.route("cloud", (HARBOUR, 1, 2))
    for tab in (first, *others):
        await expect(tab.locator("tbody tr")).to_have_count(1)
        await expect(tab.locator("tbody")).to_contain_text("Harbour")
    await first.close()
    await expect(others[0].locator("tbody tr")).to_have_count(1)
    suite.route("local", (KILN, 1, 1))
    for tab in others:
        await expect(tab.locator("tbody tr").first).to_contain_text("Kiln", timeout=PATIENCE * 1000)
        await expect(tab.locator("tbody tr")).to_have_count(2)
    await until(readers(suite), lambda count: count == 1)
    assert len(context.pages) == 2


async def test_pages_work_under_a_prefix(shelf: Shelf, visitor: Visitor) -> None:
    async with running(shelf, prefix="/notes") as suite:
        page = await open_live(suite, visitor)
        assert page.url.endswith("/notes/live")
        await page.get_by_role("link", name="Memory").click()
        await MemoryPage(page).ready()
        assert page.url.endswith("/notes/")
