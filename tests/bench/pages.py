"""The Memory page in headless Chromium (goals: dashboard.md, "To reach"): until its map can be used, and until an event
is on it.

Usable: the dots and links have been drawn, and the page answers: search, hover, panel and table work. On a first visit the
notes lie by their folders then, and the layout runs on in its worker.

Times are the clock's, with the browser, its software renderer and the suite on the same cores. Beside them stands the
CPU time of the page's process (its layout worker included) and of the one that draws, which other work disturbs less.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from statistics import median

from playwright.async_api import CDPSession

from tests.bench.measure import Figure
from tests.bench.synthetic import Writer
from tests.bench.web import Shelf
from tests.web.browser.support import BROWSERS, MemoryPage, Suite, chromium, running, until, visiting

USABLE = {5_000: 2.0, 20_000: 6.0}
"""Notes -> seconds."""
LATENCY = 100.0
"""Milliseconds from the decision to the page."""
OPENINGS = 3
EVENTS = 20
LAID_OUT = 300_000
"""Milliseconds that the first layout may take."""

ARRIVALS = """() => {
    window.arrivals = [];
    new MutationObserver(() => arrivals.push(Date.now())).observe(document.getElementById("sent"), {childList: true});
}"""
DRAWN = "() => new Promise((tell) => requestAnimationFrame(() => requestAnimationFrame(() => tell(performance.now()))))"


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    if not any(map(shutil.which, BROWSERS)):
        return
    for count in USABLE if large else [5_000]:
        yield from asyncio.run(_measured(Shelf([note.document() for note in Writer(seed).vault(count)])))


async def _measured(shelf: Shelf) -> list[Figure]:
    count = len(shelf.documents)
    async with running(shelf) as suite, chromium() as browser, visiting(browser) as visitor:
        await suite.services.note_library.scan()
        processor = await browser.new_browser_cdp_session()
        page = await visitor.open(suite.sidecar.link())
        first = await _usable(MemoryPage(page))
        spent_first = await _spent(processor)
        await page.wait_for_selector("html[data-layout=done]", state="attached", timeout=LAID_OUT)
        await until(lambda: MemoryPage(page).ask("saves()"))
        again, spent_again = [], []
        for _ in range(OPENINGS):
            before = await _spent(processor)
            await page.reload()
            again.append(await _usable(MemoryPage(page)))
            after = await _spent(processor)
            spent_again.append((after[0] - before[0], after[1] - before[1]))
        latencies = await _latencies(suite, MemoryPage(page))
        await page.close()
    return [
        Figure(
            f"Memory page, {count:,} notes, usable, first visit",
            first,
            "s",
            USABLE[count],
            note=f"the browser's start included; {_cpu(spent_first)}",
        ),
        Figure(
            f"Memory page, {count:,} notes, usable, with its saved layout",
            median(again),
            "s",
            USABLE[count],
            baseline="the first visit",
            ratio=first / median(again),
            note=_cpu(min(spent_again)),
        ),
        Figure(
            f"from the decision to the page, {count:,} notes",
            median(latencies) * 1e3,
            "ms",
            LATENCY,
            note=f"the slowest of {EVENTS}: {max(latencies) * 1e3:.0f} ms",
        ),
    ]


async def _usable(page: MemoryPage) -> float:
    """Seconds from the start of the visit until the map is drawn and answers."""
    await page.page.wait_for_selector("html[data-map=ready]", state="attached", timeout=LAID_OUT)
    return float(await page.page.evaluate(DRAWN)) / 1e3


async def _spent(processor: CDPSession) -> tuple[float, float]:
    """CPU seconds of the pages' processes and of the one that draws, since the browser started."""
    found = (await processor.send("SystemInfo.getProcessInfo"))["processInfo"]
    page, drawing = (sum(one["cpuTime"] for one in found if one["type"] == kind) for kind in ("renderer", "GPU"))
    return page, drawing


def _cpu(spent: tuple[float, float]) -> str:
    return f"CPU: page {spent[0]:.1f} s, drawing {spent[1]:.1f} s"


async def _latencies(suite: Suite, page: MemoryPage) -> list[float]:
    note = next(iter(suite.services.note_library.snapshot.map.notes))
    await page.page.evaluate(ARRIVALS)
    latencies = []
    for number in range(EVENTS):
        decided = time.time()
        suite.route("cloud", (note, 1, 1))
        await until(lambda: page.ask("events()"), lambda events, number=number: events > number)
        arrivals = await until(lambda: page.page.evaluate("arrivals"))
        latencies.append(arrivals[0] / 1e3 - decided)
        await page.page.evaluate("arrivals.length = 0")
    return latencies
