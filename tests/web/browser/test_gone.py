"""What was there and is gone: the notes, one of them, the right to look; and answers that do not come, or come late."""

import asyncio

import pytest
from playwright.async_api import Route, expect

from tests.web.browser.support import MemoryPage, Suite, Visitor, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

HARBOUR = "shelf/sea/Harbour.md"
FAILED = {"error": {"code": "internal", "message": "for a moment nothing works"}}


def forget_complaints(visitor: Visitor, status: int) -> None:
    """The browser's own, of a status that the page has shown."""
    assert visitor.complaints
    assert all(str(status) in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()


async def test_nothing_of_the_notes_lies_over_the_page_once_all_are_gone(suite: Suite, memory_page: MemoryPage) -> None:
    page = memory_page.page
    await page.goto(f"{page.url}#note={HARBOUR}")
    await page.get_by_role("button", name="Filters").click()
    await expect(page.locator("#panel")).to_be_visible()
    notes = list(suite.shelf.documents)
    suite.shelf.documents.clear()
    await suite.services.note_library.scan()
    await expect(page.locator("#cover h2")).to_have_text("Your notes will be here")
    await expect(page.locator("#panel")).to_be_hidden()
    await expect(page.locator("#filters")).to_be_hidden()
    await expect(page.get_by_role("link", name="Add MCP graph")).to_be_in_viewport(ratio=1)
    suite.shelf.documents.extend(notes)
    await suite.services.note_library.scan()
    await expect(page.locator("#panel h2")).to_have_text("Harbour")


async def test_an_address_that_names_no_note_says_so_once(suite: Suite, memory_page: MemoryPage) -> None:
    page = memory_page.page
    await page.goto(f"{page.url}#note=shelf/Gone.md")
    said = page.get_by_text("shelf/Gone.md is not on the map: it was moved or deleted, or its source is switched off.")
    await expect(said).to_have_count(1)
    suite.shelf.documents.pop()
    await suite.services.note_library.scan()
    await until(lambda: memory_page.ask("notes()"), lambda notes: notes == 6)
    await expect(said).to_have_count(1)


async def test_an_address_that_somebody_mistyped_leaves_the_map_alive(suite: Suite, visitor: Visitor) -> None:
    page = await visitor.enter(suite, "#note=100%")
    memory = await MemoryPage(page).ready(suite)
    await expect(page.locator("#count")).to_have_text("7 notes, 7 links")
    await expect(page.locator(".toast")).to_have_count(0)
    suite.route("cloud", (HARBOUR, 1, 2))
    await until(lambda: memory.ask("events()"), lambda events: events == 1)


async def test_who_is_not_let_in_any_more_is_told_what_to_do(suite: Suite, visitor: Visitor) -> None:
    page = await visitor.enter(suite, "live")
    await page.wait_for_selector("html[data-live=ready]", state="attached")
    await visitor.context.clear_cookies()
    await expect(page.locator("#status")).to_contain_text("This browser is not let in any more")
    await expect(page.locator("#status")).to_contain_text("open the link that it printed")
    forget_complaints(visitor, 401)


@pytest.mark.parametrize(
    ("path", "name", "place", "then"),
    [
        ("status", "rules", "#test", "role=button[name=Test]"),
        ("clients", "conversations", "#conversations", "#conversations h2:text-is('No client yet')"),
    ],
)
async def test_what_needs_to_know_who_asks_comes_once_that_is_known(
    suite: Suite, visitor: Visitor, path: str, name: str, place: str, then: str
) -> None:
    await visitor.context.route(f"**/api/{path}", lambda route: route.fulfill(status=500, json=FAILED))
    page = await visitor.enter(suite, name)
    await expect(page.locator(place)).to_contain_text("for a moment nothing works")
    await visitor.context.unroute(f"**/api/{path}")
    await expect(page.locator(then)).to_be_visible()
    forget_complaints(visitor, 500)


async def test_a_suite_that_is_slow_is_asked_one_thing_at_a_time(suite: Suite, visitor: Visitor) -> None:
    under_way = most = asked = 0
    let_go = asyncio.Event()

    async def slow(route: Route) -> None:
        nonlocal under_way, most, asked
        asked += 1
        under_way += 1
        most = max(most, under_way)
        await let_go.wait()
        under_way -= 1
        await route.continue_()

    await visitor.context.route("**/api/status", slow)
    page = await visitor.enter(suite, "live")
    await expect(page.get_by_text("No request went through the proxy yet.")).to_be_visible()
    for _ in range(3):
        async with page.expect_response("**/api/activity?**"):
            suite.services.events.publish("resync", {})  # the page looks at the status too
    assert (most, asked) == (1, 1)
    let_go.set()
    await expect(page.locator("#status")).to_contain_text("7 notes")


async def test_pages_say_that_they_load(suite: Suite, visitor: Visitor) -> None:
    let_go = asyncio.Event()

    async def slow(route: Route) -> None:
        await let_go.wait()
        await route.continue_()

    await visitor.context.route("**/api/activity?**", slow)
    await visitor.context.route("**/api/rules", slow)
    pages = [await visitor.enter(suite, path) for path in ("live", "rules")]
    for page in pages:
        await expect(page.get_by_text("Loading…")).to_be_visible()
    let_go.set()
    for page in pages:
        await expect(page.get_by_text("Loading…")).to_have_count(0)
