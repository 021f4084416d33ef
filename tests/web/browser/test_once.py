"""A button that changes something does it once: while the answer is on its way it keeps the focus, and does nothing."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.web.browser.conversing import (
    COMPACTION,
    Place,
    forget_complaints,
    mitm_yaml,
    open_page,
    open_session,
    place,
    say_yes,
)
from tests.web.browser.support import MemoryPage, Visitor

__all__ = ["mitm_yaml", "place"]  # fixtures

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Asked:
    """Requests that change something: counted, and kept back until they are let go."""

    def __init__(self, status: int) -> None:
        self.count = 0
        self.status = status
        self.let_go = asyncio.Event()

    async def __call__(self, route: Route) -> None:
        if route.request.method == "GET":
            await route.fallback()
            return
        self.count += 1
        await self.let_go.wait()
        await route.fulfill(status=self.status, json={"compacted": [{"turns": 1, "leftOut": 0}], "path": "a folder"})


async def asks_once(page: Page, address: str, button: Locator, yes: str = "", status: int = 200) -> None:
    """Its request goes out once, however often it is clicked. `yes` answers its dialog, `status` the request."""
    asked = Asked(status)
    await page.route(address, asked)
    label = await button.get_attribute("aria-label") or await button.inner_text()
    await button.click()
    if yes:
        await say_yes(page, yes)
    await expect(button).to_have_attribute("aria-disabled", "true")
    await expect(button, label).to_be_focused()
    await button.dispatch_event("click")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    asked.let_go.set()
    await expect(button).not_to_have_attribute("aria-disabled", "true")
    assert asked.count == 1, label
    await page.unroute(address)


async def test_the_buttons_of_a_memory(place: Place, visitor: Visitor) -> None:
    place.morning()
    old = {"session": "2026-03-01", "message": "no answer", "tries": 1, "nextAt": "2026-03-04T05:06:07Z"}

    async def memory(route: Any) -> None:
        if route.request.method != "GET":
            await route.fallback()
            return
        response = await route.fetch()
        await route.fulfill(
            response=response, json=await response.json() | {"compaction": COMPACTION | {"failures": [old]}}
        )

    page = await open_page(place, visitor)
    await page.route("**/api/clients/editor/memory", memory)
    await page.reload()
    await asks_once(page, "**/api/clients/editor", page.get_by_label("Switch off the memory of editor"))
    await asks_once(page, "**/api/clients/editor/rebuild", page.get_by_label("Rebuild index of editor"))
    await asks_once(page, "**/api/conversations/open", page.get_by_label("Open folder of editor"))
    again = page.get_by_label("Try again to compact 2026-03-01")
    await asks_once(page, "**/api/clients/editor/compact", again, "Compact")
    await open_session(page)
    where = "**/api/clients/editor/memory/sessions/**"
    await asks_once(page, where, page.get_by_label("Delete turn 1 of conversation 1"), "Delete turn", status=500)
    await asks_once(page, where, page.get_by_label("Delete conversation 2"), "Delete conversation", status=500)
    await asks_once(page, where, page.get_by_role("button", name="Delete session"), "Delete session", status=500)
    await page.unroute_all(behavior="wait")
    forget_complaints(visitor, 500)


async def test_the_memory_switch_of_the_setup_page(place: Place, visitor: Visitor) -> None:
    page = await visitor.enter(place.suite, "setup")
    await page.wait_for_selector("html[data-setup=ready]", state="attached")
    await asks_once(page, "**/api/clients/editor", page.get_by_label("Switch off the memory of editor"))


async def test_the_buttons_of_the_map(memory_page: MemoryPage) -> None:
    page = memory_page.page
    await asks_once(
        page, "**/api/memory/exposure/reset", page.get_by_role("button", name="Clear sharing"), "Clear sharing"
    )
