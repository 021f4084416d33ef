"""A picture of the Memory page, for the documentation.

await take_picture(link, Path("docs/map.png"))
python -m tests.web.browser.screenshot LINK FILE [dark|light]
"""

import asyncio
import sys
from pathlib import Path
from typing import Literal

from playwright.async_api import expect

from tests.web.browser.support import PATIENCE, MemoryPage, chromium, until, visiting


async def take_picture(
    link: str,
    file: Path,
    *,
    scheme: Literal["dark", "light"] = "dark",
    lit: bool = False,
    width: int = 1280,
    height: int = 800,
) -> None:
    """Save the page that `link` opens, once its map has come to rest, as a PNG.

    `link` holds a one-time code or a session's address. With `lit` it waits until a note is lit.
    Fails if the page complained.
    """
    async with chromium() as browser, visiting(browser, color_scheme=scheme) as visitor:
        page = await visitor.open(link)
        await page.set_viewport_size({"width": width, "height": height})
        map_page = await MemoryPage(page).ready()
        await expect(page.locator("#status a").first).to_be_visible(timeout=PATIENCE * 1000)
        if lit:
            await until(lambda: map_page.ask("lit()"))
        await page.wait_for_timeout(400)  # the pulse is at its best
        await page.screenshot(path=file)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["dark"], ["light"]):
        sys.exit("usage: python -m tests.web.browser.screenshot LINK FILE [dark|light]")
    asyncio.run(take_picture(sys.argv[1], Path(sys.argv[2]), scheme="light" if sys.argv[3:] == ["light"] else "dark"))
