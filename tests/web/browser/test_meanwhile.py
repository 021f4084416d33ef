"""What happens while a page is busy with something (a row in focus, a panel open, a list on its way) is shown all the same."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from memory.exchange import Decision
from memory.notes import MemoryDocument
from tests.web.browser.support import MemoryPage, Suite, Visitor, is_heard, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

HARBOUR = "shelf/sea/Harbour.md"
TIDES = "shelf/sea/Tides.md"
KILN = "shelf/craft/Kiln.md"
HEARS = """
    window.heard = 0;
    const {addEventListener} = EventSource.prototype;
    EventSource.prototype.addEventListener = function (kind, hear) {
        addEventListener.call(this, kind, (event) => {
            hear(event);
            if (kind === "activity") window.heard++;
        });
    };
"""
"""Counts the activity events that a page has handled."""
TELLS = """
    const {json} = Response.prototype;
    Response.prototype.json = async function () {
        const value = await json.call(this);
        if (this.status === 500) setTimeout(() => (window.told = true));
        return value;
    };
"""
"""Says when a page has handled a failure."""


async def listening(suite: Suite, visitor: Visitor, path: str, ready: str) -> Page:
    """The page, once events come in."""
    await visitor.context.add_init_script(HEARS)
    page = await visitor.enter(suite, path)
    await page.wait_for_selector(f"html[{ready}]", state="attached")

    async def readers() -> int:
        return suite.services.events.readers

    await until(readers, lambda count: count == 1)
    return page


async def heard(page: Page, events: int) -> None:
    await until(lambda: page.evaluate("heard"), lambda count: count == events)


def forget_failures(visitor: Visitor) -> None:
    """The browser's own complaints, of a status that the page has shown."""
    assert visitor.complaints
    assert all("500" in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()


class Held:
    """Answers to one address that are kept back until they are let go; they say what was so when they were asked for."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let_go = asyncio.Event()

    async def __call__(self, route: Route) -> None:
        answer = await route.fetch()
        self.asked.set()
        await self.let_go.wait()
        await route.fulfill(response=answer)


async def test_a_new_request_is_counted_once_however_much_is_told_of_it(suite: Suite, visitor: Visitor) -> None:
    suite.finish(suite.route("local", (KILN, 1, 1)))
    page = await listening(suite, visitor, "activity", "data-activity=ready")
    for _ in range(2):
        suite.finish(suite.route("cloud", (HARBOUR, 1, 2)))
    await heard(page, 4)
    await expect(page.get_by_role("button", name="new request")).to_have_text("Show 2 new requests")


async def test_the_panel_of_a_request_says_how_it_ended(suite: Suite, visitor: Visitor) -> None:
    exchange = suite.route("cloud", (HARBOUR, 1, 2))
    page = await listening(suite, visitor, "activity", "data-activity=ready")
    row = page.locator("#entries tbody tr").first
    await row.locator("td").nth(1).click()
    detail = page.locator("#detail")
    await expect(detail).to_contain_text("Under way")
    await detail.get_by_role("button", name="Only requests with it").focus()
    suite.finish(exchange)
    await expect(detail).to_contain_text("Answered")
    await expect(detail).to_contain_text("api.anthropic.com:443")
    await expect(detail.get_by_role("button", name="Only requests with it")).to_be_focused()
    await expect(row).to_have_class("open")


async def test_what_comes_while_the_list_is_on_its_way_is_in_it(suite: Suite, visitor: Visitor) -> None:
    exchange = suite.route("cloud", (HARBOUR, 1, 2))
    page = await listening(suite, visitor, "activity", "data-activity=ready")
    held = Held()
    await page.route("**/api/activity?**", held)
    await page.get_by_label("Only with notes").check()
    await held.asked.wait()
    suite.finish(exchange)
    suite.finish(suite.route("local", (KILN, 1, 1)))
    await heard(page, 3)
    held.let_go.set()
    await expect(page.locator("#entries tbody tr")).to_have_count(1)
    await expect(page.locator("#entries tbody tr")).to_contain_text("Answered")
    await expect(page.get_by_role("button", name="new request")).to_have_text("Show 1 new request")


async def test_live_comes_back_after_a_failure(suite: Suite, visitor: Visitor) -> None:
    said = {"error": {"code": "internal", "message": "the disk is gone"}}
    await visitor.context.route("**/api/activity?**", lambda route: route.fulfill(status=500, json=said))
    page = await listening(suite, visitor, "live", "data-live=ready")
    await expect(page.get_by_text("the disk is gone")).to_be_visible()
    await visitor.context.unroute("**/api/activity?**")
    suite.route("cloud", (HARBOUR, 1, 2))
    await expect(page.locator("#requests tbody tr")).to_contain_text("Harbour")
    forget_failures(visitor)


async def test_a_request_on_hold_is_shown_although_the_first_answer_was_lost(suite: Suite, visitor: Visitor) -> None:
    page = await listening(suite, visitor, "live", "data-live=ready")
    said = {"error": {"code": "internal", "message": "for a moment nothing works"}}
    await page.route("**/api/held", lambda route: route.fulfill(status=500, json=said))
    held = suite.route("cloud", (HARBOUR, 1, 2), decision=Decision("hold", "ask me", hold_for=300))
    suite.services.held.begin(held, 300)
    suite.state["held"] = 1
    await expect(page.get_by_text("for a moment nothing works").first).to_be_visible()
    await page.unroute("**/api/held")
    await expect(page.get_by_role("button", name="Release")).to_be_visible()
    forget_failures(visitor)


async def test_a_row_that_is_told_anew_keeps_what_was_opened_and_who_is_on_it(suite: Suite, visitor: Visitor) -> None:
    many = tuple((f"shelf/n{number}.md", 1, 2) for number in range(5))
    exchange = suite.route("cloud", *many)
    page = await listening(suite, visitor, "live", "data-live=ready")
    row = page.locator("#requests tbody tr")
    await row.get_by_text("2 more notes").click()
    await row.get_by_role("link", name="n4").focus()
    suite.finish(exchange)
    await expect(row).to_contain_text("Answered")
    await expect(row.get_by_role("link", name="n4")).to_be_visible()
    await expect(row.get_by_role("link", name="n4")).to_be_focused()


async def test_what_is_sent_while_the_map_is_loaded_again_is_marked(suite: Suite, visitor: Visitor) -> None:
    page = await listening(suite, visitor, "", "data-layout=done")
    memory = MemoryPage(page)
    held = Held()
    await page.route("**/api/memory", held)
    suite.shelf.documents.append(MemoryDocument("New.md", "It was not there when the page was opened.\n"))
    await suite.services.note_library.scan()
    await held.asked.wait()
    suite.finish(suite.route("cloud", (HARBOUR, 1, 2)))
    await heard(page, 2)
    held.let_go.set()
    await until(lambda: memory.ask("notes()"), lambda notes: notes == 8)
    assert await memory.ask("marks()") == {HARBOUR: ["cloud"]}
    await page.goto(f"{page.url}#note={HARBOUR}")
    await expect(page.locator("#panel .places")).to_have_text("cloud1× its text")


async def test_the_map_comes_back_after_a_failure(suite: Suite, visitor: Visitor) -> None:
    said = {"error": {"code": "internal", "message": "the disk is gone"}}
    await visitor.context.route("**/api/memory", lambda route: route.fulfill(status=500, json=said))
    await visitor.context.add_init_script(HEARS)
    page = await visitor.enter(suite, "")
    await expect(page.get_by_text("the disk is gone")).to_be_visible()
    await visitor.context.unroute("**/api/memory")
    await page.get_by_role("button", name="Try again").click()
    memory = await MemoryPage(page).ready()
    assert await memory.ask("notes()") == 7
    forget_failures(visitor)


async def test_who_walks_the_table_is_not_thrown_out_by_a_filter_or_a_new_map(
    suite: Suite, memory_page: MemoryPage
) -> None:
    page = memory_page.page
    suite.finish(suite.route("cloud", (KILN, 1, 1), (TIDES, 1, 1)))
    await page.get_by_role("button", name="Filters").click()
    await page.get_by_label("Sent", exact=True).select_option("ever")
    await page.get_by_role("button", name="Table").click()
    rows = page.locator("#drawer tbody tr")
    await expect(rows).to_have_count(2)
    await rows.nth(1).focus()
    suite.finish(suite.route("cloud", (HARBOUR, 1, 1)))
    await until(lambda: memory_page.ask("shown()"), lambda shown: shown == [HARBOUR, KILN, TIDES] or len(shown) == 3)
    suite.shelf.documents.append(MemoryDocument("New.md", "It was not there when the page was opened.\n"))
    await suite.services.note_library.scan()
    await until(lambda: memory_page.ask("notes()"), lambda notes: notes == 8)
    await expect(rows.nth(1)).to_be_focused()
    await page.locator("#query").focus()
    await expect(rows).to_have_count(3)


async def test_who_reads_the_panel_stays_there_while_notes_change(suite: Suite, memory_page: MemoryPage) -> None:
    page = memory_page.page
    await page.goto(f"{page.url}#note={HARBOUR}")
    link = page.locator("#panel").get_by_role("link", name="Tides").first
    await link.focus()
    suite.shelf.documents.append(MemoryDocument("New.md", "It was not there when the page was opened.\n[[Harbour]]\n"))
    await suite.services.note_library.scan()
    await until(lambda: memory_page.ask("notes()"), lambda notes: notes == 8)
    await expect(link).to_be_focused()


async def test_a_moment_of_the_past_stays_while_notes_change(suite: Suite, memory_page: MemoryPage) -> None:
    page = memory_page.page
    for note in (HARBOUR, KILN, TIDES):
        suite.finish(suite.route("cloud", (note, 1, 1)))
    await until(lambda: memory_page.ask("events()"), lambda events: events == 6)
    slider = page.get_by_role("slider", name="Moment that the map shows")
    await slider.focus()
    await page.keyboard.press("Home")
    suite.shelf.documents.append(MemoryDocument("New.md", "It was not there when the page was opened.\n"))
    await suite.services.note_library.scan()
    await until(lambda: memory_page.ask("notes()"), lambda notes: notes == 8)
    await expect(slider).to_have_js_property("value", "0")
    assert await memory_page.ask("marks()") == {HARBOUR: ["cloud"]}


async def test_what_was_skipped_is_said_when_the_status_comes_last(suite: Suite, visitor: Visitor) -> None:
    source: dict[str, Any] = {"name": "shelf", "kind": "markdown", "location": "~/shelf", "warnings": [], "notes": 7}
    source |= {"skipped": 3, "enabled": True, "scannedAt": "2026-03-04T05:06:07.890Z", "error": None}
    suite.state["sources"] = [source]
    held = Held()
    await visitor.context.route("**/api/status", held)
    page = await listening(suite, visitor, "setup", "data-setup=ready")
    held.let_go.set()
    await expect(page.locator("#undetected")).to_contain_text("shelf: 3 files")


async def test_what_was_opened_on_the_setup_page_stays_open(suite: Suite, visitor: Visitor) -> None:
    warnings = [{"path": f"sea/{number}.md", "reason": "not UTF-8"} for number in range(7)]
    source: dict[str, Any] = {"name": "shelf", "kind": "markdown", "location": "~/shelf", "warnings": warnings}
    source |= {"skipped": 3, "enabled": True, "scannedAt": "2026-03-04T05:06:07.890Z", "error": None, "notes": 7}
    suite.state["sources"] = [source]
    page = await listening(suite, visitor, "setup", "data-setup=ready")
    await page.get_by_text("7 warnings").click()
    suite.state["sources"] = [source | {"notes": 8}]
    await expect(page.locator("#sources")).to_contain_text("8 notes")
    await expect(page.get_by_text("sea/0.md: not UTF-8")).to_be_visible()


async def test_a_second_click_does_not_go_to_the_same_page_again(suite: Suite, visitor: Visitor) -> None:
    for _ in range(101):
        suite.finish(suite.route("cloud", (HARBOUR, 1, 2)))
    page = await listening(suite, visitor, "activity", "data-activity=ready")
    held = Held()
    await page.route("**/api/activity?**before=**", held)
    await page.get_by_role("button", name="Older").dblclick()
    await held.asked.wait()
    held.let_go.set()
    await expect(page.locator("#entries tbody tr")).to_have_count(1)
    await page.get_by_role("button", name="Newer").click()
    await expect(page.locator("#entries tbody tr")).to_have_count(100)
    await expect(page.get_by_role("button", name="Newer")).to_be_disabled()


async def test_communities_are_asked_for_once(suite: Suite, memory_page: MemoryPage) -> None:
    page = memory_page.page
    asked: list[str] = []
    held = Held()

    async def count(route: Route) -> None:
        asked.append(route.request.url)
        await held(route)

    await page.route("**/api/memory/communities", count)
    await page.get_by_role("button", name="Filters").click()
    await page.get_by_label("Colour by").select_option("community")
    for sent in ("ever", "never", ""):
        await page.get_by_label("Sent", exact=True).select_option(sent)
    await held.asked.wait()
    held.let_go.set()
    await expect(page.locator("#legend")).to_contain_text("Communities, by their hub")
    await expect(page.locator("#legend .folders li").first).to_be_visible()
    assert len(asked) == 1


async def test_a_failure_of_before_is_not_said_of_the_map_that_is_there(suite: Suite, visitor: Visitor) -> None:
    said = {"error": {"code": "internal", "message": "the disk was gone"}}
    asked, let_go = asyncio.Event(), asyncio.Event()

    async def fail_late(route: Route) -> None:
        if asked.is_set():
            await route.continue_()
            return
        asked.set()
        await let_go.wait()
        await route.fulfill(status=500, json=said)

    await visitor.context.route("**/api/memory", fail_late)
    await visitor.context.add_init_script(TELLS)
    page = await visitor.enter(suite, "")
    await asked.wait()
    await is_heard(suite)
    suite.services.events.publish("map", {"reason": "refresh", "loadedAt": None})
    await MemoryPage(page).ready()
    let_go.set()
    await until(lambda: page.evaluate("window.told === true"))
    assert await page.get_by_text("the disk was gone").count() == 0  # it would go by itself after a while
    forget_failures(visitor)
