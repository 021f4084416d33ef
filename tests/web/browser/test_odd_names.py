"""Names that are long, have no place to break at, or are written from right to left: they stay where they belong."""

from dataclasses import replace
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from memory.exchange import Decision
from memory.notes import MemoryDocument
from tests.web.browser.support import MemoryPage, Shelf, Suite, Visitor, running, visiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

HARBOUR = "shelf/sea/Harbour.md"
UNBROKEN = "tidewater" * 14
MINUTES = "Minutes of the committee for the renewal of the outer harbour wall " * 4
PATH = "/home/ada" + "/tidewater" * 20
BESIDE = "(element) => element.scrollWidth - element.clientWidth"
"""Pixels of an element's content that lie beside what it shows."""


async def fits(page: Page, *selectors: str) -> None:
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    for selector in selectors:
        await expect(page.locator(selector).first).to_be_visible()
        assert await page.locator(selector).first.evaluate(BESIDE) <= 0, selector


@pytest.mark.parametrize("width", [390, 1280])
async def test_a_warning_about_a_long_path_leaves_the_page_as_wide_as_its_window(
    suite: Suite, visitor: Visitor, width: int
) -> None:
    suite.state["warnings"] = [f"targets[0].url: {PATH} cannot be read"]
    page = await visitor.enter(suite, "live")
    await page.set_viewport_size({"width": width, "height": 800})
    await expect(page.locator("#status .attention").first).to_contain_text("cannot be read")
    await fits(page)


async def test_long_names_of_rules_and_targets_on_the_live_page(shelf: Shelf, visitor: Visitor) -> None:
    async with running(shelf, targets=lambda _: [UNBROKEN]) as suite:
        held = suite.route("cloud", (HARBOUR, 1, 2), decision=Decision("hold", UNBROKEN, hold_for=300))
        suite.services.held.begin(held, 300)
        page = await visitor.enter(suite, "live")
        await page.set_viewport_size({"width": 390, "height": 800})
        await expect(page.get_by_role("button", name=f"Send to {UNBROKEN}")).to_be_in_viewport(ratio=1)
        await fits(page, ".held-list", ".held-card")
        await page.set_viewport_size({"width": 1280, "height": 800})
        await fits(page, "#requests .decision small")


async def test_long_titles_and_tags_on_the_memory_page(suite: Suite, visitor: Visitor) -> None:
    suite.shelf.documents += [
        MemoryDocument("a/One.md", "Nothing of it is distinctive.\n", title=MINUTES, tags=(UNBROKEN,)),
        MemoryDocument("a/Two.md", "Nothing of this either.\n", title=f"Minutes {UNBROKEN}"),
    ]
    page = (await MemoryPage(await visitor.open(suite.sidecar.link())).ready()).page
    await page.locator("#query").fill("minutes")
    results = page.locator("#results li")
    await expect(results).to_have_count(2)
    for width in (1280, 390):
        await page.set_viewport_size({"width": width, "height": 800})
        for result in await results.all():
            assert await result.evaluate(BESIDE) <= 0
            await expect(result.locator("small")).to_be_visible()
    await page.goto(f"{page.url}#note=shelf/a/One.md")
    await expect(page.locator("#panel")).to_be_visible()
    await fits(page, "#panel")


async def test_long_names_on_the_setup_page_and_in_what_floats_over_it(shelf: Shelf, browser: Browser) -> None:
    lines = [{"client": UNBROKEN, "name": UNBROKEN, "command": None, "problem": None, "shells": {"bash": "export A=1"}}]
    client = {"client": UNBROKEN, "name": UNBROKEN, "requests": 0, "lastSeen": None, "configured": True}
    client |= {"mode": "both", "memoryEnabled": False, "matches": None}

    def clients() -> dict[str, Any]:
        return {"clients": [dict(client)], "lines": lines, "mcp": [], "conversations": PATH}

    async with running(shelf, clients=clients) as suite, visiting(browser, reduced_motion="reduce") as visitor:
        page = await visitor.enter(suite, "setup")
        await page.set_viewport_size({"width": 390, "height": 800})
        await page.wait_for_selector("html[data-setup=ready]", state="attached")
        await fits(page, ".setup", "#clients tbody td .stack")
        await page.get_by_role("button", name="Switch on the memory").click()
        await expect(page.get_by_role("dialog")).to_contain_text(PATH)
        await fits(page, "dialog")
        said = {"error": {"code": "not_writable", "message": f"{PATH} cannot be written"}}
        await page.route("**/api/clients/*", lambda route: route.fulfill(status=409, json=said))
        await page.get_by_role("dialog").get_by_role("button", name="Switch on").click()
        await expect(page.locator(".toast")).to_contain_text("cannot be written")
        await fits(page, ".toast")
        await expect(page.locator(".toast").get_by_role("button", name="Close")).to_be_in_viewport(ratio=1)
        assert all("409" in complaint for complaint in visitor.complaints)
        visitor.complaints.clear()


async def test_conditions_of_a_rule_can_be_read_in_a_narrow_window(browser: Browser, shelf: Shelf) -> None:
    rule = {"name": UNBROKEN, "when": {"tags": "private", "to": "cloud"}, "then": "redact", "hits": 0}
    rule |= {"placeholder": f"[withheld: {UNBROKEN}]", "otherwise": "block"}

    class Rules:
        def to_json(self) -> dict[str, Any]:
            return {"mode": "dispatch", "countedSince": None, "rules": [rule], "notes": [], "unscanned": None}

        async def test(self, *_: Any) -> dict[str, Any]:
            return {"tested": 0, "actions": {}, "rules": []}

    async with running(shelf, rules=Rules()) as suite, visiting(browser) as visitor:
        page = await visitor.enter(suite, "rules")
        await page.set_viewport_size({"width": 390, "height": 800})
        await expect(page.locator(".conditions li").first).to_have_text("tags: private")
        assert await page.locator(".conditions li").first.evaluate("(element) => element.clientHeight") < 30
        await fits(page, ".rule-then small")


@pytest.mark.parametrize("title", ["שלום עולם", "a\u202egnp.exe"])
async def test_a_title_from_right_to_left_takes_nothing_of_the_sentence_along(
    suite: Suite, visitor: Visitor, title: str
) -> None:
    suite.shelf.documents.append(MemoryDocument("a/One.md", "Nothing of it is distinctive.\n", title=title))
    page = (await MemoryPage(await visitor.open(suite.sidecar.link())).ready(suite)).page
    exchange = suite.route("cloud", ("shelf/a/One.md", 1, 2))
    sighting = replace(exchange.scan.sightings[0], title=title)
    suite.publish(replace(exchange, id="000002", scan=replace(exchange.scan, sightings=(sighting,))))
    said = page.locator("#sent li span").first
    await expect(said).to_have_text(f"\u2068{title}\u2069 went to claude-sonnet-4 (cloud), 1/2 lines, first time")
    at = "(element) => {const range = document.createRange(), text = element.firstChild;"
    at += " range.setStart(text, text.data.indexOf(' went')); range.setEnd(text, text.data.length);"
    at += " return range.getBoundingClientRect().right - range.getClientRects()[0].left}"
    assert await said.evaluate(at) > 150  # the rest of the sentence is in one piece
