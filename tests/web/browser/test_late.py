"""An answer that comes late tells of before: what was asked for last is what is shown and kept."""

from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.web.browser.conversing import Place, mitm_yaml, open_page, place
from tests.web.browser.support import MemoryPage, Suite, Visitor, is_heard
from tests.web.browser.test_meanwhile import Held

__all__ = ["mitm_yaml", "place"]  # fixtures

pytestmark = pytest.mark.asyncio(loop_scope="session")

ANSWERS = """
    const load = (name) => import(new URL(`static/${name}.js`, location.href));
    const asked = [];
    const {fetch, setTimeout} = window;
    window.fetch = (_, {body}) => new Promise((resolve) => {
        asked.push({body: JSON.parse(body ?? "null"), answer: (value) => resolve(new Response(JSON.stringify(value)))});
    });
    const settled = () => new Promise((seen) => setTimeout(seen));
"""
"""Requests of a part of a page that are answered by hand."""


async def by_hand(page: Page, script: str) -> Any:
    return await page.evaluate(
        f"async () => {{ {ANSWERS} try {{ {script} }} finally {{ Object.assign(window, {{fetch, setTimeout}}); }} }}"
    )


async def test_parts_that_are_answered_late(suite: Suite, visitor: Visitor) -> None:
    page = await visitor.enter(suite, "live")
    await page.wait_for_selector("html[data-live=ready]", state="attached")
    folder = await by_hand(
        page,
        """
        const [{ClientHead}, {Once}] = [await load("conversations_client"), await load("once")];
        const head = new ClientHead(new Once(), {onSwitch() {}, onChange() {}, onCompact() {}});
        const client = (client) => ({client, name: client, configured: true, memoryEnabled: false});
        const memory = (client) => ({client, folder: "/" + client, sessions: 1, bytes: {sessions: 1, archive: 0, index: 1}});
        head.show(client("one"), {...memory("one"), rebuilding: null}, null);
        const open = head.element.querySelector("[data-key=open]");
        open.click();
        head.show(client("two"), {...memory("two"), rebuilding: null}, null);
        asked[0].answer({path: "/one", opened: false});
        while (open.ariaDisabled === "true") await settled();
        return head.opened.textContent;
        """,
    )
    assert folder == ""
    sources = await by_hand(
        page,
        """
        const {Sources} = await load("setup_sources");
        const sources = new Sources(document.createElement("div"), () => {});
        const loads = [sources.load(), sources.load()];
        asked[1].answer({sources: [], file: "mitm.yaml", version: "new"});
        await loads[1];
        asked[0].answer({sources: [], file: "mitm.yaml", version: "old"});
        await loads[0];
        return sources.settings.version;
        """,
    )
    assert sources == "new"
    kept = await by_hand(
        page,
        """
        const {SavedLayout} = await load("saving");
        const layout = new SavedLayout(() => {});
        layout.allow(true);
        window.setTimeout = (act) => (act(), 0);
        for (const x of [1, 2, 3]) layout.save(new Map([["a", [x, 0]]]));
        const atOnce = asked.length;
        asked[0].answer({});
        while (asked.length < 2) await settled();
        return [atOnce, ...asked.map(({body}) => body.positions.a[0])];
        """,
    )
    assert kept == [1, 1, 3]


async def test_still_lights_wait_for_one_time_all_together(suite: Suite, visitor: Visitor) -> None:
    page = await visitor.enter(suite, "live")
    await page.emulate_media(reduced_motion="reduce")
    await page.wait_for_selector("html[data-live=ready]", state="attached")
    waiting = await by_hand(
        page,
        """
        const {Glow} = await load("glow");
        const {clearTimeout} = window;
        const timers = new Set();
        window.setTimeout = (act, ms) => { const timer = setTimeout(act, 1e6); timers.add(timer); return timer; };
        window.clearTimeout = (timer) => (timers.delete(timer), clearTimeout(timer));
        const glow = new Glow(document.createElement("div"), {spot: () => null, onChange() {}});
        for (const id of ["a", "b", "c"]) {
            glow.light([id], ["cloud"]);
            await new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)));
        }
        window.clearTimeout = clearTimeout;
        for (const timer of timers) clearTimeout(timer);
        return timers.size;
        """,
    )
    assert waiting == 1


async def test_the_search_box_names_no_result_that_is_gone(memory_page: MemoryPage) -> None:
    query = memory_page.page.locator("#query")
    await query.fill("a")
    await query.press("ArrowDown")
    await expect(query).to_have_attribute("aria-activedescendant", "result-0")
    await query.fill("ti")
    await expect(query).not_to_have_attribute("aria-activedescendant", "result-0")
    await query.press("ArrowDown")
    await query.press("Enter")
    await expect(memory_page.page.locator("#results")).to_be_hidden()
    await expect(query).not_to_have_attribute("aria-activedescendant", "result-0")


async def test_rules_that_come_late_are_not_shown(suite: Suite, visitor: Visitor) -> None:
    first = Held()
    hits = 0

    async def rules(route: Route) -> None:
        nonlocal hits
        hits += 1
        found = {"cloud": "block", "local": "allow", "setting": "block", "hits": hits}
        json: dict[str, Any] = {"rules": [], "notes": [], "mode": "dispatch", "countedSince": None, "unscanned": found}
        if hits == 1:
            first.asked.set()
            await first.let_go.wait()
        await route.fulfill(json=json)

    await visitor.context.route("**/api/rules", rules)
    page = await visitor.enter(suite, "rules")
    await first.asked.wait()
    await is_heard(suite)
    suite.services.events.publish("map", {"reason": "refresh", "loadedAt": None})
    shown = page.locator("section[aria-labelledby=unscanned]")
    await expect(shown).to_contain_text("2 hits")
    first.let_go.set()
    await page.wait_for_selector("html[data-rules=ready]", state="attached")
    assert " 1 hit" not in await shown.inner_text()  # at once: the next look mends it
    await page.unroute_all(behavior="ignoreErrors")


async def test_a_memory_is_looked_at_one_time_after_the_other(place: Place, visitor: Visitor) -> None:
    place.morning()
    page = await open_page(place, visitor)
    first = Held()
    asked = 0

    async def memory(route: Route) -> None:
        nonlocal asked
        asked += 1
        mine = asked
        response = await route.fetch()
        if mine == 1:
            first.asked.set()
            await first.let_go.wait()
        state = {"rebuilding": {"done": mine, "total": 9}}
        await route.fulfill(response=response, json=await response.json() | state)

    await page.route("**/api/clients/editor/memory", memory)
    look = "() => document.dispatchEvent(new Event('visibilitychange'))"
    await page.evaluate(look)
    await first.asked.wait()
    async with page.expect_response("**/api/status"):
        await page.evaluate(look)
        await page.evaluate(
            """async () => {
                await new Promise((seen) => setTimeout(seen)); // a second look would have begun
                for (const path of ["clients", "clients/editor/memory/sessions", "status"]) await fetch(`api/${path}`);
            }"""
        )
    assert asked == 1
    first.let_go.set()
    await expect(page.locator(".under-way").first).to_contain_text("2 of 9 files")
    await page.unroute_all(behavior="ignoreErrors")
