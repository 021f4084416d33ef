"""The requests on hold at the top of the Live page: they are seen, heard, and decided on, with the keyboard alone."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from memory.exchange import Decision, Exchange
from memory.held import Released
from tests.web.browser.support import Shelf, Suite, Visitor, running, until, visiting
from web.access import Role

pytestmark = pytest.mark.asyncio(loop_scope="session")

HARBOUR = "shelf/sea/Harbour.md"
KILN = "shelf/craft/Kiln.md"
ASK = Decision("hold", "ask me", hold_for=65)
MOST_STEPS = 60


def speak(protocol: str) -> list[str]:
    return ["ollama", "lab <b>"] if protocol == "anthropic" else []


@pytest_asyncio.fixture(loop_scope="session")
async def suite(shelf: Shelf) -> AsyncIterator[Suite]:
    async with running(shelf, targets=speak) as one:
        yield one


def hold(suite: Suite, *notes: tuple[str, int, int], seconds: float = 65) -> tuple[Exchange, asyncio.Future[Released]]:
    """A request with these notes is routed and put on hold."""
    exchange = suite.route("cloud", *notes, decision=ASK)
    answer = suite.services.held.begin(exchange, seconds)
    suite.state["held"] = len(suite.services.held)
    return exchange, answer


async def open_live(suite: Suite, visitor: Visitor, role: Role = "admin") -> Page:
    page = await visitor.enter(suite, "live", role)
    await page.wait_for_selector("html[data-live=ready]", state="attached")

    async def readers() -> int:
        return suite.services.events.readers

    await until(readers, lambda count: count == 1)
    return page


def cards(page: Page) -> Locator:
    return page.locator(".held-card")


async def walk_to(page: Page, name: str) -> None:
    """With the Tab key from the top of the page to the button with this name."""
    for _ in range(MOST_STEPS):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.textContent") == name:
            return
    raise AssertionError(f"no {name!r} by the keyboard")


async def test_a_held_request_is_found_and_released_with_the_keyboard(suite: Suite, visitor: Visitor) -> None:
    page = await open_live(suite, visitor)
    await expect(page.get_by_role("heading", name="on hold")).to_have_count(0)
    _, answer = hold(suite, (HARBOUR, 1, 2), (KILN, 0, 1))
    await expect(page.get_by_role("heading", name="1 request on hold")).to_be_visible()
    await expect(page.locator("[role=status]").filter(has_text="claude-code")).to_have_text(
        "claude-code to claude-sonnet-4 (cloud) is on hold with 2 notes."
    )
    await expect(page.get_by_role("link", name=re.compile("^1 request on hold"))).to_be_visible()
    await walk_to(page, "Release")
    await page.keyboard.press("Enter")
    assert await answer == Released("released")
    await expect(cards(page)).to_have_count(0)
    await expect(page.get_by_role("heading", name="on hold")).to_have_count(0)
    await expect(page.locator("[role=status]").filter(has_text="claude-code")).to_have_text(
        "claude-code to claude-sonnet-4 (cloud) was released."
    )
    await expect(page.locator("#requests tr[tabindex='0']")).to_be_focused()


async def test_a_card_says_what_is_asked_for(suite: Suite, visitor: Visitor) -> None:
    hold(suite, (HARBOUR, 1, 2), (KILN, 0, 1))
    page = await open_live(suite, visitor)
    card = cards(page)
    for said in ("claude-code", "claude-sonnet-4", "cloud, anthropic", "Heldby ask me", "Scanned"):
        await expect(card).to_contain_text(said)
    await expect(card.locator(".held-notes li")).to_have_text(["Harbour1/2 linesfirst", "Kilnby name onlyfirst"])
    await expect(card.locator("button")).to_have_text(["Release", "Block", "Send to ollama", "Send to lab <b>"])
    left = card.locator(".held-left")
    await expect(left).to_have_text(re.compile(r"^(1:0\d|0:\d\d) left$"))
    shown = await left.text_content()
    await expect(left).not_to_have_text(shown or "")


@pytest.mark.parametrize(
    ("button", "expected", "said"),
    [
        ("Block", Released("blocked"), "was blocked"),
        ("Send to lab <b>", Released("redirected", "lab <b>"), "was sent to a target"),
    ],
)
async def test_the_other_buttons(suite: Suite, visitor: Visitor, button: str, expected: Released, said: str) -> None:
    _, answer = hold(suite, (HARBOUR, 1, 2))
    page = await open_live(suite, visitor)
    await page.get_by_role("button", name=button, exact=True).click()
    assert await answer == expected
    await expect(cards(page)).to_have_count(0)
    await expect(page.locator("[role=status]").filter(has_text=said)).to_have_count(1)


async def test_after_one_the_focus_is_on_the_next(suite: Suite, visitor: Visitor) -> None:
    answers = [hold(suite, (note, 1, 2))[1] for note in (HARBOUR, KILN)]
    page = await open_live(suite, visitor)
    await expect(cards(page)).to_have_count(2)
    first = cards(page).first.get_by_role("button", name="Block")
    await first.focus()
    await page.keyboard.press("Space")
    assert await answers[0] == Released("blocked")
    await expect(cards(page)).to_have_count(1)
    await expect(cards(page)).to_contain_text("Kiln")
    await expect(cards(page).get_by_role("button", name="Release")).to_be_focused()
    assert not answers[1].done()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Released("expired"), "waited until its time ran out"),
        (Released("left"), "waits no longer: its client left"),
        (Released("released"), "was released"),
    ],
)
async def test_what_ends_by_itself_or_elsewhere_goes_and_is_said(
    suite: Suite, visitor: Visitor, answer: Released, said: str
) -> None:
    exchange, _ = hold(suite)
    page = await open_live(suite, visitor)
    await expect(cards(page)).to_have_count(1)
    suite.services.held.decide(exchange.id, answer)
    await expect(cards(page)).to_have_count(0)
    await expect(page.locator("[role=status]").filter(has_text=said)).to_have_count(1)


async def test_who_was_too_slow_is_told(suite: Suite, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, _ = hold(suite)
    page = await open_live(suite, visitor)
    with monkeypatch.context() as late:
        late.setattr(suite.services.held, "on_change", [])  # the event is still on its way
        suite.services.held.decide(exchange.id, Released("blocked"))
    await page.get_by_role("button", name="Release").click()
    await expect(page.locator(".toast")).to_contain_text("somebody was faster: this request was blocked")
    await expect(cards(page)).to_have_count(0)
    [complaint] = visitor.complaints  # Chromium's own, about the answer
    assert "409" in complaint
    visitor.complaints.clear()


async def test_the_read_only_token_sees_them_without_buttons(suite: Suite, visitor: Visitor) -> None:
    hold(suite, (HARBOUR, 1, 2))
    page = await open_live(suite, visitor, role="read_only")
    await expect(cards(page)).to_contain_text("Harbour")
    await expect(page.locator("#status")).to_contain_text("1 request on hold")
    await expect(cards(page).locator("button")).to_have_count(0)


async def test_a_long_wait_and_one_that_is_over(suite: Suite, visitor: Visitor) -> None:
    hold(suite, seconds=3600 * 2 + 90)
    hold(suite, seconds=-1)
    page = await open_live(suite, visitor)
    await expect(page.locator(".held-left")).to_have_text([re.compile(r"^2:0[01]:\d\d left$"), "time is up"])


async def test_it_is_accessible(suite: Suite, browser: Browser, axe: Callable[[Page], Awaitable[None]]) -> None:
    hold(suite, (HARBOUR, 1, 2), (KILN, 0, 1))
    async with visiting(browser, reduced_motion="reduce") as visitor:
        page = await open_live(suite, visitor)
        await expect(cards(page).locator("button")).to_have_count(4)
        await axe(page)
        await page.set_viewport_size({"width": 1000, "height": 700})
        await axe(page)
