"""Whoever is at a place of a page stays there: in a table below a panel, on a link, in a note that another one leads to."""

import asyncio

import pytest
from playwright.async_api import Route, expect

from memory.notes import MemoryDocument
from tests.web.browser.support import MemoryPage, Suite, Visitor, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

HARBOUR = "shelf/sea/Harbour.md"
IN_SIGHT = """() => {
    const at = document.activeElement, {left, top, height} = at.getBoundingClientRect();
    return at.tagName === "TR" && at.contains(document.elementFromPoint(left + 30, top + height / 2));
}"""
"""Whether the row that has the focus can be seen."""


@pytest.mark.parametrize("size", [(768, 900), (390, 844)], ids=["tablet", "phone"])
async def test_the_row_that_opens_a_panel_is_not_covered_by_it(memory_page: MemoryPage, size: tuple[int, int]) -> None:
    page = memory_page.page
    await page.emulate_media(reduced_motion="reduce")
    await page.set_viewport_size({"width": size[0], "height": size[1]})
    await page.get_by_role("button", name="Table").click()
    await page.locator("#drawer tbody tr").first.focus()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(page.locator("#panel")).to_be_visible()
    await until(lambda: page.evaluate(IN_SIGHT))
    await expect(page.locator("#query")).to_be_in_viewport(ratio=1)


async def test_a_panel_that_was_opened_from_the_table_is_closed_and_opened_again(memory_page: MemoryPage) -> None:
    page = memory_page.page
    await page.get_by_role("button", name="Table").click()
    row, panel = page.locator("#drawer tbody tr").nth(1), page.locator("#panel")
    for again in range(2):
        await row.locator("td").nth(2).click()
        await expect(panel.locator("h2")).to_be_visible()
        await panel.get_by_role("button", name="Close").click()
        await expect(panel).to_be_hidden()
        await expect(row, f"{again}").to_be_focused()
    await page.keyboard.press("Enter")
    await expect(panel).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()
    await expect(row).to_be_focused()


async def test_who_follows_a_link_of_the_panel_is_in_the_panel_of_that_note(memory_page: MemoryPage) -> None:
    page = memory_page.page
    await page.goto(f"{page.url}#note={HARBOUR}")
    await page.locator("#panel").get_by_role("link", name="Lamp").press("Enter")
    await expect(page.locator("#panel h2")).to_have_text("Lamp")
    await expect(page.locator("#panel")).to_be_focused()


async def test_a_link_below_the_requests_keeps_the_focus_when_another_comes(
    suite: Suite, memory_page: MemoryPage
) -> None:
    page = memory_page.page
    for _ in range(21):
        suite.finish(suite.route("cloud", (HARBOUR, 1, 2)))
    await page.goto(f"{page.url}#note={HARBOUR}")
    everything = page.get_by_role("link", name="All of them")
    await everything.focus()
    exchange = suite.route("local", (HARBOUR, 2, 2))
    suite.finish(exchange)
    await expect(page.locator("#panel .carried li").first).to_contain_text("llama3.2:3b")
    await expect(everything).to_be_focused()


async def test_the_last_answer_about_the_requests_counts(suite: Suite, memory_page: MemoryPage) -> None:
    page = memory_page.page
    let_go, answers = asyncio.Event(), 0

    async def hold_the_first(route: Route) -> None:
        nonlocal answers
        answers += 1
        is_first, answer = answers == 1, await route.fetch()
        if is_first:
            asked.set()
            await let_go.wait()
        await route.fulfill(response=answer)

    asked = asyncio.Event()
    await page.route("**/api/activity?note=**", hold_the_first)
    await page.goto(f"{page.url}#note={HARBOUR}")
    await asked.wait()
    suite.finish(suite.route("cloud", (HARBOUR, 1, 2)))
    await expect(page.locator("#panel .carried li")).to_have_count(1)
    async with page.expect_response("**/api/activity?note=**"):
        let_go.set()
    await page.evaluate("new Promise((done) => setTimeout(done))")
    await expect(page.locator("#panel .carried li")).to_have_count(1)


async def test_who_chooses_how_far_around_stays_on_that_while_notes_change(
    suite: Suite, memory_page: MemoryPage
) -> None:
    page = memory_page.page
    await page.goto(f"{page.url}#note={HARBOUR}")
    one = page.get_by_role("radio", name="1 link")
    await page.get_by_role("radio", name="All").focus()
    await page.keyboard.press("ArrowRight")
    await expect(one).to_be_checked()
    suite.shelf.documents.append(MemoryDocument("New.md", "It was not there when the page was opened.\n[[Harbour]]\n"))
    await suite.services.note_library.scan()
    await until(lambda: memory_page.ask("notes()"), lambda notes: notes == 8)
    await expect(one).to_be_focused()
    await expect(one).to_be_checked()


async def test_who_has_scrolled_down_the_table_stays_there_when_a_note_is_sent(suite: Suite, visitor: Visitor) -> None:
    suite.shelf.documents += [MemoryDocument(f"many/{number}.md", "Short.\n") for number in range(450)]
    memory = await MemoryPage(await visitor.open(suite.sidecar.link())).ready()
    page = memory.page
    await page.get_by_role("button", name="Table").click()
    rows, table = page.locator("#drawer tbody tr"), page.locator("#drawer .table")
    await expect(rows).to_have_count(200)
    for count in (400, 457):
        await table.evaluate("(element) => { element.scrollTop = element.scrollHeight; }")
        await expect(rows).to_have_count(count)
    before = await table.evaluate("(element) => element.scrollTop")
    suite.finish(suite.route("cloud", (HARBOUR, 1, 2)))
    await expect(rows.first).to_contain_text("cloud")
    assert await rows.count() == 457
    assert await table.evaluate("(element) => element.scrollTop") == before
