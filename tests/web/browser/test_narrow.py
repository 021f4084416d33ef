"""Pages in narrow windows, and with long names: nothing lies beside or below what can be seen."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.web.browser.pictures import played
from tests.web.browser.support import MemoryPage, Suite, Visitor, visiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOOLS = ("Whole map", "Table", "Rescan", "Clear sharing", "Add notes")


async def box_of(page: Page, selector: str) -> tuple[float, float, float]:
    """Left, right and width."""
    box = await page.locator(selector).bounding_box()
    assert box is not None, selector
    return box["x"], box["x"] + box["width"], box["width"]


async def test_no_page_is_wider_than_a_narrow_window(browser: Browser, tmp_path: Path) -> None:
    async with played(tmp_path) as suite, visiting(browser, reduced_motion="reduce") as visitor:
        page = await visitor.open(suite.sidecar.link())
        root = page.url
        await page.set_viewport_size({"width": 390, "height": 844})
        await MemoryPage(page).ready()
        assert (await box_of(page, "#query"))[2] > 200
        for name in TOOLS:
            await expect(page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        for name in ("live", "activity", "conversations", "rules", "setup"):
            await page.goto(root + name)
            await page.wait_for_selector(f"html[data-{name}=ready]", state="attached")
            if name == "conversations":
                await page.get_by_role("navigation", name="Sessions").get_by_role("link").first.click()
                await expect(page.locator("#session-title")).to_be_visible()
            await page.wait_for_load_state("networkidle")
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
            await expect(page.locator(".badge")).to_have_text("1 on hold")
            assert (await box_of(page, ".badge"))[1] <= (await box_of(page, "#rail"))[1]


async def test_the_tools_of_the_map_have_room_beside_the_panel(memory_page: MemoryPage) -> None:
    page = memory_page.page
    await page.goto(f"{page.url}#note=shelf/sea/Harbour.md")
    await expect(page.locator("#panel")).to_be_visible()
    await page.emulate_media(reduced_motion="reduce")
    for width in range(1000, 1901, 100):
        await page.set_viewport_size({"width": width, "height": 800})
        assert (await box_of(page, "#query"))[2] > 160, width
        assert (await box_of(page, "#buttons"))[1] <= (await box_of(page, "#panel"))[0], width


async def test_long_names_leave_the_notes_in_sight(suite: Suite, visitor: Visitor) -> None:
    exchange = suite.route("cloud", ("shelf/sea/Harbour.md", 1, 2))
    exchange.client = "a-client-that-" + "says-more-" * 8
    exchange.model = "/home/somebody/models/" + "some-family-70b-" * 6 + "q4.gguf"
    suite.finish(exchange)
    for path, width in (("live", 1280), ("activity", 1280), ("live", 1000)):
        page = await visitor.enter(suite, path)
        await page.set_viewport_size({"width": width, "height": 800})
        await page.wait_for_selector(f"html[data-{path}=ready]", state="attached")
        await expect(page.get_by_role("link", name="Harbour")).to_be_in_viewport(ratio=1)
        await expect(page.locator(".outcome")).to_be_in_viewport(ratio=1)
        await page.close()


async def test_a_finger_hits_a_small_dot_and_a_mouse_only_the_dot(suite: Suite, browser: Browser) -> None:
    async with visiting(browser, has_touch=True, reduced_motion="reduce") as visitor:
        memory_page = MemoryPage(await visitor.open(suite.sidecar.link()))
        page = memory_page.page
        await page.set_viewport_size({"width": 390, "height": 844})
        await memory_page.ready()
        note = "shelf/Inbox.md"
        radius = (await memory_page.ask(f"spot({note!r})"))["radius"]
        assert radius < 8
        x, y = await memory_page.place(note)
        await page.mouse.click(x + radius + 3, y)
        await expect(page.locator("#panel")).to_be_hidden()
        await page.touchscreen.tap(x + radius + 3, y)
        await expect(page.locator("#panel")).to_be_visible()
        assert page.url.endswith("#note=shelf%2FInbox.md")
