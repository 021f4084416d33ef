"""The Memory page in a real browser: the map, what lights up on it, the panel, the search, the table."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, expect

from memory.exchange import Decision
from memory.notes import Link, MemoryDocument
from tests.web.browser.support import HOLDS_TIME, MemoryPage, Shelf, Suite, Visitor, is_heard, until, visiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

TIMES = "\N{MULTIPLICATION SIGN}"
HARBOUR = "shelf/sea/Harbour.md"
TIDES = "shelf/sea/Tides.md"
LAMP = "shelf/sea/Lamp.md"
KILN = "shelf/craft/Kiln.md"
DARK = {"local": [0x6C, 0xC0, 0xF5, 255], "cloud": [0xFF, 0xAB, 0x5E, 255]}
LIGHT = {"local": [0x00, 0x5F, 0x96, 255], "cloud": [0xA8, 0x43, 0x00, 255]}


async def test_map_draws_every_note_and_link(memory_page: MemoryPage) -> None:
    assert await memory_page.ask("notes()") == 7
    assert await memory_page.ask("links()") == 7  # Harbour and Tides, Kiln and Glaze link both ways
    await expect(memory_page.page.locator("#count")).to_have_text("7 notes, 7 links")
    await expect(memory_page.page.locator("#legend")).to_contain_text("to a cloud model")
    await expect(memory_page.page.locator("#legend .folders li")).to_have_text(["craft", "sea", "shelf"])


async def test_the_same_notes_come_to_lie_in_the_same_places(memory_page: MemoryPage) -> None:
    notes = [HARBOUR, TIDES, KILN, "shelf/Inbox.md"]
    before = [await memory_page.ask(f"spot({note!r})") for note in notes]
    await memory_page.page.reload()
    await memory_page.ready()
    assert [await memory_page.ask(f"spot({note!r})") for note in notes] == before


async def test_hover_lights_the_neighbours(memory_page: MemoryPage) -> None:
    await memory_page.hover(TIDES)
    await until(lambda: memory_page.ask("hovered()"), lambda hovered: hovered == TIDES)
    assert sorted(await memory_page.ask("meant()")) == [HARBOUR, LAMP, TIDES]
    await memory_page.page.mouse.move(*(await corner(memory_page)))
    await until(lambda: memory_page.ask("meant()"), lambda meant: meant == [])


async def test_click_opens_the_panel_with_every_fact(memory_page: MemoryPage, suite: Suite) -> None:
    carried = suite.route("cloud", (HARBOUR, 1, 2), (TIDES, 0, 1), resent=True)
    suite.finish(carried)
    await memory_page.click(HARBOUR)
    panel = memory_page.page.locator("#panel")
    await expect(panel.locator("h2")).to_have_text("Harbour")
    await expect(panel.locator(".path")).to_have_text(HARBOUR)
    await expect(panel.locator(".chips li")).to_have_text(["#sea", "#work/keys"])
    await expect(panel).to_contain_text("2 distinctive lines")
    await expect(panel).to_contain_text("The port")
    await expect(panel).to_contain_text("1 link to no note")
    await expect(panel.locator(".links").first.locator("a")).to_have_text(["Lamp", "Tides"])
    await expect(panel.locator(".links").last.locator("a")).to_have_text(["Tides"])
    await expect(panel.locator(".places li")).to_have_text([f"cloud1{TIMES} its text"])
    await expect(panel).to_contain_text(f"claude-sonnet-4 1{TIMES}")
    request = panel.locator(".carried li")
    await expect(request).to_contain_text("claude-code")
    await expect(request).to_contain_text("claude-sonnet-4 (cloud)")
    await expect(request).to_contain_text("1/2 lines")
    await expect(request).to_contain_text("again")
    box = await panel.bounding_box()
    assert box is not None
    assert round(box["width"]) == 360  # sub-pixel layout may add a hundred-thousandth

    await panel.locator("a", has_text="Lamp").click()
    await expect(panel.locator("h2")).to_have_text("Lamp")
    await expect(panel).to_contain_text("by mention only")
    await expect(panel).to_contain_text("Not since mitmemory was started")
    await memory_page.page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()


async def test_panel_follows_what_is_sent(memory_page: MemoryPage, suite: Suite) -> None:
    await memory_page.click(KILN)
    panel = memory_page.page.locator("#panel")
    await expect(panel).to_contain_text("None in the activity kept")
    suite.finish(suite.route("local", (KILN, 0, 1)))
    await expect(panel.locator(".places li")).to_have_text([f"local1{TIMES} its name only"])
    await expect(panel.locator(".carried li")).to_have_count(1)


@pytest.mark.parametrize(("scheme", "colours"), [("dark", DARK), ("light", LIGHT)])
async def test_notes_light_up_as_they_are_sent(
    suite: Suite, browser: Browser, scheme: str, colours: dict[str, list[int]]
) -> None:
    """With reduced motion the light is a still ring, so its colour is exact."""
    async with visiting(browser, color_scheme=scheme, reduced_motion="reduce") as visitor:
        await visitor.context.add_init_script(HOLDS_TIME)
        page = await MemoryPage(await visitor.open(suite.sidecar.link())).ready(suite)
        assert await page.pixel(KILN) == [0, 0, 0, 0]
        await page.page.evaluate("holdTime()")
        local = suite.route("local", (KILN, 1, 1))
        cloud = suite.route("cloud", (HARBOUR, 2, 2))
        await until(lambda: page.ask("lit()"), lambda lit: lit == {KILN: ["local"], HARBOUR: ["cloud"]})
        await until(lambda: page.pixel(KILN), lambda pixel: near(pixel, colours["local"]))
        assert await page.pixel(HARBOUR) == [0, 0, 0, 0]  # a ring is empty in the middle
        await until(lambda: page.pixel(HARBOUR, beside=3.5), lambda pixel: near(pixel, colours["cloud"]))
        await expect(page.page.locator("#sent li").first).to_have_text(
            "Harbour went to claude-sonnet-4 (cloud), 2/2 lines, first time"
        )
        await page.page.evaluate("letTimeGo()")
        suite.finish(local)
        suite.finish(cloud)
        await until(lambda: page.ask("lit()"), lambda lit: lit == {})
        assert await page.ask("marks()") == {KILN: ["local"], HARBOUR: ["cloud"]}
        await until(lambda: page.pixel(KILN), lambda pixel: pixel == [0, 0, 0, 0])
        red, _, blue, alpha = await page.pixel(KILN, beside=2)
        assert blue > red  # the ring that stays
        assert alpha > 0


async def test_a_lit_note_pulses_and_fades(suite: Suite, visitor: Visitor) -> None:
    await visitor.context.add_init_script(HOLDS_TIME)
    page = await MemoryPage(await visitor.open(suite.sidecar.link())).ready(suite)
    await page.page.evaluate("holdTime()")
    suite.route("local", (KILN, 1, 1))
    *_, strong = await until(lambda: page.pixel(KILN), lambda pixel: pixel[3] > 0)
    await page.page.evaluate("letTimeGo()")
    await until(lambda: page.pixel(KILN), lambda pixel: pixel[3] < strong)
    await until(lambda: page.ask("lit()"), lambda lit: lit == {})


async def test_a_blocked_note_does_not_light_up(memory_page: MemoryPage, suite: Suite) -> None:
    blocked = suite.route("cloud", (HARBOUR, 1, 2), decision=Decision("block", "the sea stays home"))
    suite.finish(blocked, "blocked")
    await expect(memory_page.page.locator("#sent li")).to_have_text("Blocked by the sea stays home: Harbour")
    assert await memory_page.ask("lit()") == {}
    assert await memory_page.ask("marks()") == {}


@pytest.mark.parametrize(("status", "said"), [(None, "was not reached: Harbour"), (400, None)])
async def test_a_note_that_did_not_arrive_is_taken_back(
    memory_page: MemoryPage, suite: Suite, status: int | None, said: str | None
) -> None:
    items = memory_page.page.locator("#sent li")
    exchange = suite.route("cloud", (HARBOUR, 1, 2))
    await expect(items).to_have_count(1)
    exchange.status, exchange.outcome, exchange.finished_at = status, "failed", datetime.now(UTC)
    suite.publish(exchange)
    await until(lambda: memory_page.ask("events()"), lambda events: events == 2)
    await expect(items).to_have_count(2 if said else 1)
    await expect(items.first).to_contain_text(said or "Harbour went to claude-sonnet-4 (cloud)")


async def test_search_finds_by_title_alias_and_tag(memory_page: MemoryPage) -> None:
    page = memory_page.page
    await page.keyboard.press("/")
    await expect(page.locator("#query")).to_be_focused()
    for asked, found in (("the port", [HARBOUR]), ("#work", [HARBOUR]), ("kil", [KILN]), ("no such", [])):
        await page.locator("#query").fill(asked)
        await expect(page.locator("#count")).to_have_text(f"{len(found)} of 7 notes")
        assert await memory_page.ask("meant()") == found
    await page.locator("#query").fill("ki")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page.locator("#panel h2")).to_have_text("Kiln")
    await page.keyboard.press("Escape")
    await expect(page.locator("#query")).to_have_value("")
    await expect(page.locator("#count")).to_have_text("7 notes, 7 links")
    await page.keyboard.press("Escape")
    await expect(page.locator("#panel")).to_be_hidden()


async def test_keyboard_alone_finds_a_note_and_its_requests(memory_page: MemoryPage, suite: Suite) -> None:
    suite.finish(suite.route("cloud", (TIDES, 1, 1)))
    page = memory_page.page
    await until(lambda: memory_page.ask("marks()"))
    await page.keyboard.press("/")
    for _ in ("Filters", "Whole map", "Table"):
        await page.keyboard.press("Tab")
    await expect(page.locator("#table-button")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("#drawer tbody tr")).to_have_count(7)
    await expect(page.locator("#drawer tbody tr").first).to_contain_text("Tides")
    for _ in ("Rescan", "Clear sharing", "Add notes", "the table's one row in the tab order"):
        await page.keyboard.press("Tab")
    await expect(page.locator("#panel h2")).to_have_text("Tides")
    await page.keyboard.press("ArrowDown")
    await expect(page.locator("#panel h2")).not_to_have_text("Tides")
    await page.keyboard.press("Home")
    await page.keyboard.press("Enter")
    await expect(page.locator("#panel")).to_be_focused()
    await expect(page.locator("#panel .carried li")).to_contain_text("1/1 lines")
    await page.keyboard.press("Escape")
    await expect(page.locator("#drawer tbody tr").first).to_be_focused()


async def test_keyboard_alone_searches_a_note_and_reads_its_panel(memory_page: MemoryPage, suite: Suite) -> None:
    suite.finish(suite.route("cloud", (TIDES, 1, 1)))
    page = memory_page.page
    await page.keyboard.press("/")
    await page.keyboard.type("tides")
    await page.keyboard.press("Enter")
    await expect(page.locator("#panel")).to_be_focused()
    await expect(page.locator("#panel .carried li")).to_contain_text("1/1 lines")
    await page.keyboard.press("Escape")  # the search
    await page.keyboard.press("Escape")
    await expect(page.locator("#panel")).to_be_hidden()
    await expect(page.locator("#query")).to_be_focused()


async def test_markup_in_a_title_stays_text(memory_page: MemoryPage) -> None:
    await memory_page.page.locator("#table-button").click()
    await expect(memory_page.page.get_by_role("link", name="Clay <b>wet<i>")).to_be_visible()
    assert await memory_page.page.locator("#drawer b").count() == 0


async def test_rescan_shows_new_notes_and_keeps_the_others_in_place(memory_page: MemoryPage, shelf: Shelf) -> None:
    shelf.documents.append(MemoryDocument("sea/Buoy.md", "Red to the left.\n", links=(Link("Harbour"),)))
    await memory_page.page.get_by_role("button", name="Rescan").click()
    await expect(memory_page.page.locator(".toast")).to_contain_text("Rescanned: 8 notes in 1 source.")
    assert await memory_page.ask("notes()") == 8
    await memory_page.ready()


async def test_clear_sharing_asks_first(memory_page: MemoryPage, suite: Suite) -> None:
    page = memory_page.page
    suite.finish(suite.route("cloud", (HARBOUR, 1, 2)))
    await until(lambda: memory_page.ask("marks()"))
    await page.get_by_role("button", name="Clear sharing").click()
    await page.get_by_role("button", name="Cancel").click()
    assert await memory_page.ask("marks()") == {HARBOUR: ["cloud"]}
    await page.get_by_role("button", name="Clear sharing").click()
    await page.get_by_role("dialog").get_by_role("button", name="Clear sharing").click()
    await until(lambda: memory_page.ask("marks()"), lambda marks: marks == {})
    assert suite.services.exposure.to_json() == {}


async def test_who_may_only_read_gets_no_buttons_that_change(suite: Suite, visitor: Visitor) -> None:
    page = await MemoryPage(await visitor.open(suite.sidecar.link("read_only"))).ready()
    await expect(page.page.get_by_role("button", name="Clear sharing")).to_be_hidden()
    await expect(page.page.get_by_role("button", name="Rescan")).to_be_hidden()
    await expect(page.page.get_by_role("button", name="Table")).to_be_visible()


async def test_a_refusal_says_why(memory_page: MemoryPage, visitor: Visitor) -> None:
    message = '{"error": {"code": "admin_only", "message": "this needs the admin token"}}'
    await memory_page.page.route(
        "**/api/memory/refresh", lambda route: route.fulfill(status=403, content_type="application/json", body=message)
    )
    await memory_page.page.get_by_role("button", name="Rescan").click()
    await expect(memory_page.page.locator(".toast")).to_contain_text("Not allowed: this needs the admin token")
    [complaint] = visitor.complaints
    assert "403" in complaint  # the browser itself logs a refused call
    visitor.complaints.clear()


async def test_a_link_opens_a_note(suite: Suite, visitor: Visitor) -> None:
    page = await visitor.open(suite.sidecar.link() + "#note=shelf%2Fsea%2FTides.md")
    await expect(page.locator("#panel h2")).to_have_text("Tides")


async def test_without_notes_the_page_explains_itself(suite: Suite, visitor: Visitor, shelf: Shelf) -> None:
    shelf.documents.clear()
    page = await visitor.open(suite.sidecar.link())
    await page.wait_for_selector("html[data-map=empty]", state="attached")
    await expect(page.locator("#cover h2")).to_have_text("Your notes will be here")
    await expect(page.locator("#cover pre")).to_contain_text("type: markdown")
    await expect(page.locator("#cover")).to_contain_text("shelf: no note in ~/shelf")
    await expect(page.locator("#tools")).to_be_hidden()


async def test_one_note_is_a_map_too(suite: Suite, visitor: Visitor, shelf: Shelf) -> None:
    del shelf.documents[1:]
    page = await MemoryPage(await visitor.open(suite.sidecar.link())).ready()
    assert await page.ask("notes()") == 1
    await page.click(HARBOUR)
    await expect(page.page.locator("#panel h2")).to_have_text("Harbour")
    await expect(page.page.locator("#count")).to_have_text("1 note, 0 links")


async def test_the_first_scan_shows_that_it_is_under_way(suite: Suite, visitor: Visitor, shelf: Shelf) -> None:
    shelf.gate = asyncio.Event()
    page = await visitor.open(suite.sidecar.link())
    await expect(page.locator("#cover progress")).to_be_visible()
    await expect(page.locator("#cover")).to_contain_text("Reading your notes")
    shelf.gate.set()
    await MemoryPage(page).ready()
    await expect(page.locator("#cover")).to_be_empty()


async def test_without_webgl_the_table_says_it(suite: Suite, browser_without_webgl: Browser) -> None:
    async with visiting(browser_without_webgl) as visitor:
        page = await visitor.open(suite.sidecar.link())
        await page.wait_for_selector("html[data-map=table]", state="attached")
        await expect(page.locator(".notice")).to_contain_text("no WebGL")
        await expect(page.locator("#drawer tbody tr")).to_have_count(7)
        await page.get_by_role("link", name="Harbour").click()
        await expect(page.locator("#panel h2")).to_have_text("Harbour")
        await is_heard(suite)
        suite.finish(suite.route("cloud", (KILN, 1, 1)))
        await page.keyboard.press("Escape")
        await page.locator("#query").focus()
        await expect(page.locator("#drawer tbody tr").first).to_contain_text(f"1{TIMES} cloud")


async def test_the_table_waits_for_who_walks_its_rows(suite: Suite, memory_page: MemoryPage) -> None:
    page = memory_page.page
    await page.get_by_role("button", name="Table").click()
    first = page.locator("#drawer tbody tr").first
    await first.focus()
    suite.finish(suite.route("cloud", (KILN, 1, 1)))
    await until(lambda: memory_page.ask("events()"), lambda events: events == 2)
    await page.wait_for_timeout(700)  # longer than the table ever waits by itself
    await expect(first).to_contain_text("Harbour")
    await expect(first).to_be_focused()
    await page.locator("#query").focus()
    await expect(first).to_contain_text("Kiln")
    await expect(first).to_contain_text(f"1{TIMES} cloud")


async def test_where_two_labels_have_no_room_the_larger_note_keeps_its_own(memory_page: MemoryPage) -> None:
    drawn = await memory_page.page.evaluate(
        """async () => {
            const {Look} = await import("/static/map_look.js");
            const look = new Look({ends: () => ["", ""], isLit: () => false});
            const context = document.createElement("canvas").getContext("2d");
            look.begin();
            for (const size of [4, 9, 6]) look.want(context, {key: `${size}`, label: "Harbour", x: 100 + size, y: 100 - size, size});
            look.want(context, {key: "far", label: "Kiln", x: 500, y: 100, size: 3});
            look.finish();
            return look.labels.map(({left, right}) => (left + right) / 2);
        }"""
    )
    assert drawn == [109, 500]


async def test_the_faintest_label_of_the_map_can_be_read(memory_page: MemoryPage) -> None:
    """A canvas is nothing that axe looks at."""
    schemes: tuple[Literal["dark"], Literal["light"]] = ("dark", "light")
    for scheme in schemes:
        await memory_page.page.emulate_media(color_scheme=scheme)
        faintest, muted, below = await memory_page.page.evaluate(
            """async () => {
                const {FAINTEST} = await import("/static/map_look.js");
                const style = getComputedStyle(document.documentElement);
                return [FAINTEST, style.getPropertyValue("--muted"), style.getPropertyValue("--page")];
            }"""
        )
        text, page = channels(muted), channels(below)
        drawn = [faintest * one + (1 - faintest) * other for one, other in zip(text, page, strict=True)]
        light, dark = sorted((luminance(drawn), luminance(page)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, scheme


def channels(colour: str) -> list[float]:
    """Red, green, blue of `#rrggbb`, each from 0 to 1."""
    return [value / 255 for value in bytes.fromhex(colour.strip().removeprefix("#"))]


def luminance(rgb: list[float]) -> float:
    """https://www.w3.org/TR/WCAG21/#dfn-relative-luminance"""
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def near(pixel: list[int], colour: list[int]) -> bool:
    """The same colour, but for what smoothing an edge does to it."""
    return all(abs(one - other) <= 8 for one, other in zip(pixel, colour, strict=True))


async def corner(page: MemoryPage) -> tuple[Any, Any]:
    """An empty place of the map."""
    box = await page.page.locator("#map").bounding_box()
    assert box is not None
    return box["x"] + box["width"] - 4, box["y"] + box["height"] - 4
