"""The Memory page in a real browser: the layout that stays, filters, colours, the local graph, the replay of sharing."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from memory.exchange import Decision
from memory.map_layout import MapLayout
from memory.notes import Link, MemoryDocument
from tests.web.browser.support import PATIENCE, MemoryPage, Shelf, Suite, Visitor, running, until, visiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

HARBOUR = "shelf/sea/Harbour.md"
TIDES = "shelf/sea/Tides.md"
LAMP = "shelf/sea/Lamp.md"
KILN = "shelf/craft/Kiln.md"
GLAZE = "shelf/craft/Glaze.md"
CLAY = "shelf/craft/Clay <b>wet<i>.md"
INBOX = "shelf/Inbox.md"
NOTES = sorted([HARBOUR, TIDES, LAMP, KILN, GLAZE, CLAY, INBOX])


async def spots(page: MemoryPage, *notes: str) -> list[Any]:
    return [await page.ask(f"spot({note!r})") for note in notes]


async def choose(page: MemoryPage, name: str, value: str) -> None:
    if not await page.page.locator("#filters").is_visible():
        await page.page.locator("#filters-button").click()
    await page.page.get_by_label(name, exact=True).select_option(value)


async def test_the_layout_is_saved_and_comes_back_in_another_browser(suite: Suite, browser: Browser) -> None:
    async with visiting(browser) as visitor:
        page = await MemoryPage(await visitor.open(suite.sidecar.link())).ready()
        before = await spots(page, HARBOUR, INBOX)
        await until(lambda: page.ask("saves()"))
    saved = suite.services.map_layout.load()
    assert sorted(saved) == NOTES
    saved[KILN] = (saved[KILN][0] + 30, saved[KILN][1])  # a place that no layout gives
    suite.services.map_layout.save(saved)
    async with visiting(browser) as visitor:
        page = await MemoryPage(await visitor.open(suite.sidecar.link())).ready()
        kept = await page.page.evaluate("async () => (await (await fetch('api/memory/layout')).json()).positions")
        assert kept[KILN] == list(saved[KILN])
        after = await spots(page, HARBOUR, INBOX)
        assert [(round(one["x"]), round(one["y"])) for one in after] == [
            (round(one["x"]), round(one["y"])) for one in before
        ]
        assert await page.ask("saves()") == 0  # nothing moved, so there was nothing to save


async def test_who_may_only_read_saves_no_layout(suite: Suite, visitor: Visitor) -> None:
    page = await MemoryPage(await visitor.open(suite.sidecar.link("read_only"))).ready()
    await expect(page.page.locator("#status .facts")).to_contain_text("127.0.0.1:8080")  # and who one is
    await asyncio.sleep(2)  # longer than the pause before a save
    assert (await page.ask("saves()"), suite.services.map_layout.load()) == (0, {})


async def test_filters_show_what_they_name_on_the_map_and_in_the_table(memory_page: MemoryPage, suite: Suite) -> None:
    page = memory_page.page
    suite.finish(suite.route("cloud", (HARBOUR, 1, 2)))
    suite.finish(suite.route("local", (KILN, 1, 1)))
    await until(lambda: memory_page.ask("marks()"), lambda marks: len(marks) == 2)
    for name, value, left in (
        ("Folder", "shelf/craft", [CLAY, GLAZE, KILN]),
        ("Folder", "", NOTES),
        ("Tag", "work", [HARBOUR]),  # it has work/keys, which lies below
        ("Tag", "", NOTES),
        ("Links", "orphans", [INBOX]),
        ("Links", "linked", sorted({*NOTES} - {INBOX})),
        ("Sent", "ever", [KILN, HARBOUR]),
        ("Sent", "cloud", [HARBOUR]),
        ("Sent", "local", [KILN]),
        ("Sent", "never", sorted({*NOTES} - {INBOX, KILN, HARBOUR})),
    ):
        if value == "work":
            await page.evaluate("document.querySelector('#filter-tag').add(new Option('#work', 'work'))")
        await choose(memory_page, name, value)
        assert await memory_page.ask("shown()") == left, (name, value)
        await until(lambda: memory_page.ask("drawn()"), lambda drawn, left=left: drawn == left)
    await expect(page.locator("#filters-button")).to_have_text("Filters (2)")
    await expect(page.locator("#count")).to_have_text("4 of 7 notes")
    await page.locator("#table-button").click()
    await expect(page.locator("#drawer tbody tr")).to_have_count(4)
    await page.locator("#query").fill("ki")
    await expect(page.locator("#count")).to_have_text("0 of 4 notes")
    await page.locator("#query").fill("")
    suite.finish(suite.route("cloud", (TIDES, 1, 1)))
    await expect(page.locator("#count")).to_have_text("3 of 7 notes")  # it has been sent now
    await page.get_by_role("button", name="Show all notes").click()
    assert await memory_page.ask("shown()") == NOTES
    await expect(page.locator("#filters-button")).to_have_text("Filters")


async def test_filters_are_remembered_and_a_note_by_its_link_is_shown_all_the_same(
    memory_page: MemoryPage, visitor: Visitor
) -> None:
    page = memory_page.page
    await choose(memory_page, "Folder", "shelf/craft")
    await choose(memory_page, "Colour by", "source")
    await page.reload()
    await memory_page.ready()
    assert await memory_page.ask("shown()") == [CLAY, GLAZE, KILN]
    await expect(page.locator("#legend .folders li")).to_have_text(["shelf"])
    await page.evaluate("location.hash = '#note=shelf%2FInbox.md'")
    await expect(page.locator("#panel h2")).to_have_text("Inbox")
    await until(lambda: memory_page.ask("drawn()"), lambda drawn: drawn == sorted([INBOX, CLAY, GLAZE, KILN]))
    await page.evaluate('localStorage.setItem(\'mitmemory map /\', \'{"folder": "gone", "sent": [1]}\')')
    await page.reload()
    await memory_page.ready()
    assert await memory_page.ask("shown()") == NOTES


async def test_colours_say_folder_source_community_or_where_notes_went(memory_page: MemoryPage, suite: Suite) -> None:
    legend = memory_page.page.locator("#legend .folders li")
    await choose(memory_page, "Colour by", "exposure")
    await expect(legend).to_have_text(["to a cloud model", "to local models only", "never sent"])
    assert await memory_page.ask(f"hue({KILN!r})") == "hue-rest"
    suite.finish(suite.route("local", (KILN, 1, 1), (HARBOUR, 1, 2)))
    await until(lambda: memory_page.ask(f"hue({KILN!r})"), lambda hue: hue == "local")
    suite.finish(suite.route("cloud", (HARBOUR, 1, 2)))
    await until(lambda: memory_page.ask(f"hue({HARBOUR!r})"), lambda hue: hue == "cloud")
    assert await memory_page.ask(f"hue({KILN!r})") == "local"
    await choose(memory_page, "Colour by", "community")
    await expect(legend).to_have_text(["Kiln", "Harbour", "in none"])
    assert [await memory_page.ask(f"hue({note!r})") for note in (KILN, CLAY, TIDES, INBOX)] == [
        "hue-1",
        "hue-1",
        "hue-2",
        "hue-rest",
    ]
    await choose(memory_page, "Colour by", "folder")
    await expect(legend).to_have_text(["craft", "sea", "shelf"])


async def test_the_local_graph_shows_what_lies_within_one_to_three_links(suite: Suite, browser: Browser) -> None:
    names = ["One", "Two", "Three", "Four", "Five"]
    suite.shelf.documents[:] = [
        MemoryDocument(f"{name}.md", f"{name} is in a row.\n", links=(Link(after),))
        for name, after in zip(names, [*names[1:], ""], strict=True)
    ]
    ids = [f"shelf/{name}.md" for name in names]
    async with visiting(browser, reduced_motion="reduce") as visitor:
        page = await MemoryPage(await visitor.open(suite.sidecar.link())).ready()
        await page.click(ids[1])
        for word, left in (
            ("1 link", ids[:3]),
            ("2 links", ids[:4]),
            ("3 links", ids),
            ("All", ids),
            ("1 link", ids[:3]),
        ):
            await page.page.locator("#panel").get_by_text(word, exact=True).click()
            await until(lambda: page.ask("shown()"), lambda shown, left=left: shown == sorted(left))
        box = await page.page.locator("#panel").bounding_box()
        assert box is not None
        for note in ids[:3]:  # in sight, and not below the panel
            await until(lambda note=note: page.place(note), lambda place: place[0] < box["x"])
        await page.page.locator("#panel .links a", has_text="Three").click()
        await until(lambda: page.ask("shown()"), lambda shown: shown == sorted(ids[1:4]))
        await page.page.keyboard.press("ArrowRight")  # the focus is not in the choice of depths
        await page.page.keyboard.press("Escape")
        await until(lambda: page.ask("shown()"), lambda shown: shown == sorted(ids))


async def test_the_slider_replays_what_was_sent(suite: Suite, browser: Browser) -> None:
    suite.finish(suite.route("cloud", (HARBOUR, 1, 2)))
    suite.finish(suite.route("local", (KILN, 1, 1), (HARBOUR, 0, 2)))
    blocked = suite.route("cloud", (TIDES, 1, 1), decision=Decision("block", "the sea stays home"))
    suite.finish(blocked, "blocked")
    async with visiting(browser, reduced_motion="reduce") as visitor:
        page = await MemoryPage(await visitor.open(suite.sidecar.link())).ready(suite)
        slider = page.page.get_by_role("slider", name="Moment that the map shows")
        everything = {HARBOUR: ["cloud", "local"], KILN: ["local"]}
        await expect(slider).to_have_attribute("aria-valuetext", "Now")
        assert await page.ask("marks()") == {HARBOUR: ["local", "cloud"], KILN: ["local"]}
        await slider.focus()
        await page.page.keyboard.press("ArrowLeft")
        assert await page.ask("marks()") == everything
        assert await page.ask("lit()") == {KILN: ["local"], HARBOUR: ["local"]}
        await page.page.keyboard.press("ArrowLeft")
        assert await page.ask("marks()") == {HARBOUR: ["cloud"]}
        assert await page.ask("lit()") == {HARBOUR: ["cloud"]}
        await expect(page.page.locator("#replay output")).to_contain_text(
            "Harbour went to claude-sonnet-4 (cloud), 1/2 lines, first time"
        )
        suite.finish(suite.route("cloud", (LAMP, 0, 1)))  # what comes meanwhile waits for its place in time
        await until(lambda: page.ask("events()"), lambda events: events == 2)
        assert await page.ask("marks()") == {HARBOUR: ["cloud"]}
        await page.page.keyboard.press("End")
        await expect(slider).to_have_attribute("aria-valuetext", "Now")
        assert sorted(await page.ask("marks()")) == [KILN, HARBOUR, LAMP]
        assert await page.ask("lit()") == {}
        await slider.evaluate(
            """(slider) => {
                slider.moments = [];
                const tell = () => slider.moments.push(slider.value);
                new MutationObserver(tell).observe(slider, {attributeFilter: ["aria-valuetext"]});
            }"""
        )
        await page.page.get_by_role("button", name="Replay").click()
        await expect(slider).to_have_js_property("moments", ["0", "1", "2", "3"])
        await expect(slider).to_have_attribute("aria-valuetext", "Now")  # it played to the end
        await expect(page.page.get_by_role("button", name="Replay")).to_be_visible()


async def test_without_anything_sent_there_is_nothing_to_replay(memory_page: MemoryPage) -> None:
    await expect(memory_page.page.get_by_role("button", name="Replay")).to_be_disabled()
    await expect(memory_page.page.locator("#replay output")).to_contain_text("No note was sent")


async def test_notes_are_added_on_the_setup_page(memory_page: MemoryPage) -> None:
    page = memory_page.page
    await page.get_by_role("button", name="Add notes").click()
    links = page.locator("#add-menu a")
    await expect(links).to_have_text(["Add Claude Code", "Add folder", "Add MCP graph"])
    for link in await links.all():
        assert (await link.get_attribute("href") or "").endswith("/setup#sources")
    await page.keyboard.press("Escape")
    await expect(links.first).to_be_hidden()


@pytest.mark.parametrize("without", ["scripts", "modules"])
async def test_without_modules_each_page_says_what_it_needs(suite: Suite, browser: Browser, without: str) -> None:
    context = await browser.new_context(java_script_enabled=without != "scripts")
    await context.route("**/*.js", lambda route: route.abort())  # as a browser that does not know modules
    await context.request.get(suite.sidecar.link())

    async def says(path: str) -> None:
        page = await context.new_page()
        await page.goto(f"{suite.services.access.origin}/{path}", timeout=PATIENCE * 1000)
        await expect(page.get_by_text("needs JavaScript modules")).to_be_visible()  # after a while

    await asyncio.gather(*map(says, ("", "live", "activity", "conversations", "rules", "setup")))
    await context.close()


async def test_twenty_thousand_notes_are_drawn_and_found(browser: Browser) -> None:
    shelf = Shelf([MemoryDocument(f"{n % 40}/Note {n}.md", "", links=(Link(f"Note {n // 2}"),)) for n in range(20_000)])
    places = {f"shelf/{n % 40}/Note {n}.md": (float(n % 141), n / 141) for n in range(20_000)}
    layout = MapLayout()
    layout.save(places)
    async with running(shelf, map_layout=layout) as suite, visiting(browser, reduced_motion="reduce") as visitor:
        page = MemoryPage(await visitor.open(suite.sidecar.link()))
        await page.page.wait_for_selector("html[data-layout=done]", state="attached", timeout=120_000)
        await expect(page.page.locator("#count")).to_contain_text("20\N{NARROW NO-BREAK SPACE}000 notes")
        await page.page.locator("#query").fill("note 12345")
        await page.page.keyboard.press("Enter")
        await expect(page.page.locator("#panel h2")).to_have_text("Note 12345")
        await page.page.locator("#table-button").press("Enter")
        await expect(page.page.locator("#drawer tbody tr")).to_have_count(1)
