"""Every page by axe-core: no violation, dark and light; and, as on all visits, no console error nor violated policy."""

from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Browser, Page, expect

from memory.exchange import Decision, Scan
from tests.web.browser.support import MemoryPage, Suite, visiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

HARBOUR = "shelf/sea/Harbour.md"
KILN = "shelf/craft/Kiln.md"

type Axe = Callable[[Page], Awaitable[None]]


def play(suite: Suite) -> None:
    """Requests of every kind that a page shows in its own way."""
    suite.finish(suite.route("cloud", (HARBOUR, 1, 2), (KILN, 0, 1)))
    suite.finish(suite.route("local", (KILN, 1, 1), resent=True))
    suite.finish(suite.route("cloud", (HARBOUR, 2, 2), decision=Decision("block", "the sea stays home")), "blocked")
    suite.finish(suite.route("cloud", scan=Scan("unscanned", ("the body is encrypted",))), "failed")
    suite.route("cloud", (HARBOUR, 2, 2), decision=Decision("redact", "the sea is left out"))


async def test_the_memory_page_with_all_that_it_opens(suite: Suite, browser: Browser, axe: Axe) -> None:
    play(suite)
    async with visiting(browser, reduced_motion="reduce") as visitor:
        page = (await MemoryPage(await visitor.open(suite.sidecar.link())).ready()).page
        await page.locator("#filters-button").click()
        await page.get_by_role("button", name="Add notes").click()
        await axe(page)
        await page.locator("#table-button").click()
        await page.locator("#drawer").get_by_role("link", name="Harbour").click()
        await expect(page.locator("#panel .carried li")).to_have_count(3)
        await axe(page)
        await page.get_by_role("button", name="Clear sharing").click()
        await axe(page)


async def test_the_memory_page_of_a_first_visit(suite: Suite, browser: Browser, axe: Axe) -> None:
    suite.shelf.documents.clear()
    async with visiting(browser, reduced_motion="reduce") as visitor:
        page = await visitor.open(suite.sidecar.link())
        await expect(page.locator("#cover h2")).to_have_text("Your notes will be here")
        await axe(page)


@pytest.mark.parametrize("path", ["live", "activity", "conversations", "rules", "setup"])
async def test_the_other_pages(suite: Suite, browser: Browser, axe: Axe, path: str) -> None:
    play(suite)
    async with visiting(browser, reduced_motion="reduce") as visitor:
        page = await visitor.enter(suite, path)
        await expect(page.locator("#status .facts")).to_contain_text("127.0.0.1:8080")
        await expect(page.locator("h1")).to_be_visible()
        await page.wait_for_load_state("networkidle")
        await axe(page)
