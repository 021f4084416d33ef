"""Events in the tabs of one browser: who leads, what a tab that takes over gets, a connection that breaks, a resync."""

import asyncio

import pytest
from playwright.async_api import Page, Route, expect

from memory.notes import MemoryDocument
from tests.web.browser.support import PATIENCE, MemoryPage, Suite, Visitor, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

HARBOUR = "shelf/sea/Harbour.md"
KILN = "shelf/craft/Kiln.md"


async def readers(suite: Suite) -> int:
    return suite.services.events.readers


async def tab(suite: Suite, visitor: Visitor, address: str) -> MemoryPage:
    page = await MemoryPage(await visitor.open(address)).ready()
    await until(lambda: readers(suite), lambda count: count == 1)
    return page


async def loads(page: Page) -> list[str]:
    """Count the calls for the map from now on."""
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url) if request.url.endswith("/api/memory") else None)
    return seen


async def test_a_tab_that_saw_no_event_and_takes_over_asks_for_all_of_it(suite: Suite, visitor: Visitor) -> None:
    """It cannot say after which event to go on, so what came while nobody led would be lost."""
    first = await tab(suite, visitor, suite.sidecar.link())
    second = await tab(suite, visitor, first.page.url)
    asked = await loads(second.page)
    suite.shelf.documents.append(MemoryDocument("New.md", "It came while nobody listened.\n"))
    await first.page.close()
    await suite.services.note_library.scan()
    await until(lambda: second.ask("notes()"), lambda notes: notes == 8)
    await until(lambda: readers(suite), lambda count: count == 1)
    assert asked


async def test_a_tab_that_takes_over_gets_what_was_told_while_nobody_led(suite: Suite, visitor: Visitor) -> None:
    first = await tab(suite, visitor, suite.sidecar.link())
    second = await tab(suite, visitor, first.page.url)
    suite.route("local", (KILN, 1, 1))
    await until(lambda: second.ask("events()"), lambda events: events == 1)
    asked = await loads(second.page)
    await first.page.close()
    suite.route("cloud", (HARBOUR, 1, 2))
    await until(lambda: second.ask("events()"), lambda events: events == 2)
    await expect(second.page.locator("#sent li").first).to_contain_text("Harbour")
    assert asked == []  # it said after which event to go on


async def test_after_a_break_what_was_missed_comes_once_and_the_page_says_that_it_waits(
    suite: Suite, visitor: Visitor
) -> None:
    page = await tab(suite, visitor, suite.sidecar.link())
    suite.route("local", (KILN, 1, 1))
    await until(lambda: page.ask("events()"), lambda events: events == 1)
    asked = await loads(page.page)
    let_go = asyncio.Event()

    async def held(route: Route) -> None:
        await let_go.wait()
        await route.continue_()

    await page.page.route("**/api/events", held)
    hub = suite.services.events
    for reader in list(hub._readers):
        reader.abort()
    suite.route("cloud", (HARBOUR, 1, 2))
    await expect(page.page.get_by_text("Live events are interrupted")).to_be_visible()
    let_go.set()
    await until(lambda: page.ask("events()"), lambda events: events == 2)
    await expect(page.page.get_by_text("Live events are interrupted")).to_be_hidden()
    assert asked == []
    visitor.complaints.clear()  # the browser itself logs that its connection broke


async def test_a_reader_that_was_away_too_long_loads_all_anew(suite: Suite, visitor: Visitor) -> None:
    page = await tab(suite, visitor, suite.sidecar.link())
    other = await tab(suite, visitor, page.page.url)
    suite.route("local", (KILN, 1, 1))
    await until(lambda: other.ask("events()"), lambda events: events == 1)
    hub = suite.services.events
    hub._ring_events = 2
    for reader in list(hub._readers):
        reader.abort()
    for _ in range(4):
        suite.finish(suite.route("cloud", (HARBOUR, 1, 2)))
    for one in (page, other):  # the one that leads passes the resync on
        async with asyncio.timeout(PATIENCE):
            await until(lambda one=one: one.ask("marks()"), lambda marks: marks == {HARBOUR: ["cloud"]})
    visitor.complaints.clear()  # the browser itself logs that its connection broke
