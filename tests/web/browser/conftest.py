"""Fixtures of the browser tests: a dashboard and a page of it. All of them live on the loop of the session."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from tests.web.browser.support import NO_WEBGL, PATIENCE, MemoryPage, Shelf, Suite, Visitor, chromium, running, visiting

SCHEMES: tuple[Literal["dark"], Literal["light"]] = ("dark", "light")
AT_REST = """Promise.allSettled(
    document.getAnimations().filter((one) => one.effect.getComputedTiming().endTime !== Infinity).map((one) => one.finished)
)"""
# A busy machine draws a map without a graphics card for seconds; nothing is measured by this.
expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest_asyncio.fixture(loop_scope="session")
async def suite(shelf: Shelf) -> AsyncIterator[Suite]:
    async with running(shelf) as one:
        yield one


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as one:
        yield one


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(browser: Browser) -> AsyncIterator[Visitor]:
    async with visiting(browser, color_scheme="dark") as one:
        yield one


@pytest_asyncio.fixture(loop_scope="session")
async def memory_page(suite: Suite, visitor: Visitor) -> MemoryPage:
    return await MemoryPage(await visitor.open(suite.sidecar.link())).ready(suite)


@pytest_asyncio.fixture(loop_scope="session")
async def browser_without_webgl() -> AsyncIterator[Browser]:
    async with chromium(*NO_WEBGL) as one:
        yield one


@pytest.fixture
def axe() -> Callable[[Page], Awaitable[None]]:
    """`await axe(page)` fails when axe-core finds something on the page as it is now, dark or light."""

    async def find_nothing(page: Page) -> None:
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme)
            await page.evaluate(AT_REST)  # colours on their way from one scheme to the other are neither
            found = await Axe().run(page)
            assert not found.response["violations"], found.generate_report()

    return find_nothing
