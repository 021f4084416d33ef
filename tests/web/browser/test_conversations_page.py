"""Sessions on the Conversations page, on real transcripts, a real index and the real routes; mitm.yaml is a real file."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from memory.conversations.said import Call, Message, Result
from tests.web.browser.conversing import (
    COMPACTION,
    HOSTILE,
    KEY,
    KEY_ANSWER,
    Place,
    forget_complaints,
    mitm_yaml,
    open_page,
    open_session,
    place,
    say_yes,
)
from tests.web.browser.support import Visitor, until, visiting

__all__ = ["mitm_yaml", "place"]  # fixtures

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_session_is_read(place: Place, visitor: Visitor) -> None:
    place.morning()
    page = await open_page(place, visitor)
    await expect(page.get_by_text("Experimental")).to_be_visible()
    await expect(page.locator("h2#client-title")).to_have_text("Editor")
    await expect(page.locator(".client-head")).to_contain_text("Memory is on")
    await expect(page.locator(".client-head .facts")).to_contain_text(
        re.compile(r"1 session · [\d.]+ k?B of transcripts")
    )
    await expect(page.locator(".client-head .facts code")).to_have_text(str(place.folder))
    line = page.get_by_role("navigation", name="Sessions").get_by_role("link")
    await expect(line).to_contain_text(KEY)
    await expect(line).to_contain_text("2 conversations")
    await expect(line).to_contain_text("goes on")
    await line.press("Enter")
    await expect(page.locator("#session-title")).to_be_focused()
    await expect(line).to_have_attribute("aria-current", "true")
    first = page.locator("#turn-1-1 .said")
    await expect(first.first).to_have_class("said user")
    await expect(first.first).to_contain_text(KEY)
    await expect(first.first.locator("b")).to_have_text("User")
    await expect(first.last).to_have_class("said assistant")
    await expect(first.last).to_contain_text(KEY_ANSWER)
    await expect(first.last.locator(".said-head")).to_contain_text("claude-sonnet-4")
    await expect(first.first.locator("time")).to_have_attribute("datetime", "2026-03-04T05:06:07Z")
    await expect(page.locator(".turn")).to_have_count(3)
    await page.get_by_role("link", name="Conversation 2").click()
    await expect(page.locator("#conversation-2-title")).to_be_focused()
    await page.reload()
    await expect(page.locator("#conversation-2-title")).to_be_focused()
    await page.go_back()
    await page.go_back()
    await expect(page.get_by_role("heading", name="Choose a session")).to_be_visible()


async def test_what_was_said_is_shown_as_text(place: Place, visitor: Visitor) -> None:
    call = Message("assistant", "I look.", calls=(Call("1", "Read", '{"path": "<b>keys</b>.md"}'),))
    result = Message("tool", results=(Result("1", "<i>one</i>\ntwo"),))
    place.say("hostile", HOSTILE, Message("assistant", f"# Heading\n{HOSTILE}"), call, result)
    page = await open_page(place, visitor)
    await open_session(page)
    assert await page.title() == "Conversations – mitmemory"
    await expect(page.locator(".shown script, .shown img, .shown i")).to_have_count(0)
    await expect(page.locator(".conversation")).to_have_count(1)
    await expect(page.locator(".turn")).to_have_count(1)
    # What is out of sight is not drawn, and a text that is not drawn yet is empty here.
    await until(page.locator(".said.user .words").inner_text, lambda text: text == HOSTILE)
    await until(page.locator(".said.assistant .words").last.inner_text, lambda text: text == f"# Heading\n{HOSTILE}")
    tools = page.locator(".said.assistant .tool")
    await expect(tools).to_have_text(
        ['Called Read {"path": "<b>keys</b>.md"}', "Result of 14 characters: <i>one</i> two"]
    )
    # The title of the session is somebody's words as well.
    await expect(page.get_by_role("navigation", name="Sessions").get_by_role("link")).to_contain_text("<script>")


async def test_a_tool_call_is_one_line_until_it_is_opened(place: Place, visitor: Visitor) -> None:
    call = Message("assistant", calls=(Call("1", "Read", f'{{"path": "{"long " * 37}"}}'),))
    place.say("long", "Look", Message("assistant", "Done."), call, Message("tool", results=(Result("1", "x"),)))
    page = await open_page(place, visitor)
    await open_session(page)
    tool = page.locator(".tool").first
    one_line = await tool.bounding_box()
    await tool.locator("summary").press("Enter")
    opened = await tool.bounding_box()
    assert one_line
    assert opened
    assert one_line["height"] < 24 < opened["height"]


async def test_a_very_long_text_is_shown_in_full_when_asked_for(place: Place, visitor: Visitor) -> None:
    place.say("long", "x " * 20_000 + "end", Message("assistant", "I see."))
    page = await open_page(place, visitor)
    await open_session(page)
    text = page.locator(".said.user .words")
    await until(text.inner_text, lambda shown: len(shown) == 4001)
    await page.get_by_role("button", name="Show all 40\u202f003 characters").click()
    await expect(text).to_contain_text("end")


async def test_a_session_grows_while_it_is_read(place: Place, visitor: Visitor) -> None:
    call = Message("assistant", calls=(Call("1", "Read", "{}"),))
    place.say("one", "First", Message("assistant", "Yes."), call, Message("tool", results=(Result("1", "x"),)))
    page = await open_page(place, visitor)
    await open_session(page)
    await page.locator(".tool summary").first.click()
    place.say("one", "Second", Message("assistant", "No."), later=60)
    await expect(page.locator(".turn")).to_have_count(2)
    await expect(page.locator(".tool[open]")).to_have_count(1)  # as it was opened


async def test_what_is_searched_is_found(place: Place, visitor: Visitor) -> None:
    session = place.morning().session
    assert place.conversations.memories
    memories = place.conversations.memories

    async def hits() -> int:
        return len((await memories.recall("editor", KEY)).memories)

    await until(hits)
    page = await open_page(place, visitor)
    field = page.get_by_role("searchbox", name="Search these conversations")
    await field.fill("spare key of the boat house")
    await field.press("Enter")
    first = page.locator(".memories li").first
    await expect(first).to_contain_text(KEY_ANSWER)
    await expect(first).to_contain_text(f"sessions/{session}.md")
    await expect(first).to_contain_text("relevance")
    await expect(page.locator(".client [role=status]").first).to_have_text(re.compile(r"^\d memor(y|ies)$"))
    await first.get_by_role("link").click()
    await expect(page.locator("#conversation-1-title")).to_be_focused()
    await page.go_back()
    await expect(first).to_contain_text(KEY_ANSWER)
    await expect(field).to_have_value("spare key of the boat house")
    await field.fill("quantum chromodynamics lattice gauge")
    await page.get_by_role("button", name="Search", exact=True).click()
    nothing = page.get_by_role("heading", name="No relevant memories found")
    await expect(nothing).to_be_visible()
    await expect(page.locator(".shown")).to_contain_text("1 session is searched, begun")
    await field.fill(KEY)
    await page.get_by_label("before").fill("2026-03-04")
    await page.get_by_role("button", name="Search", exact=True).click()
    await expect(page.locator(".client [role=status]").first).to_have_text("No relevant memories found")
    await page.get_by_role("link", name="Back to the sessions").click()
    await expect(page.get_by_role("heading", name="Choose a session")).to_be_visible()
    await expect(field).to_have_value("")


async def test_a_turn_a_conversation_and_a_session_are_deleted(place: Place, visitor: Visitor) -> None:
    recorded = place.morning()
    page = await open_page(place, visitor)
    await open_session(page)
    await page.get_by_role("button", name="Delete turn 1 of conversation 1").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert KEY in recorded.path.read_text("utf-8")
    await page.get_by_role("button", name="Delete turn 1 of conversation 1").click()
    assert "leave the transcript and the index" in await say_yes(page, "Delete turn")
    await expect(page.locator(".turn")).to_have_count(2)
    await expect(page.get_by_role("status").filter(has_text="Turn 1 of conversation 1 is deleted.")).to_be_visible()
    content = recorded.path.read_text("utf-8")
    assert KEY not in content
    assert "Is there a second one?" in content
    await page.get_by_role("button", name="Delete conversation 1").click()
    assert "1 turn: what the transcript" in await say_yes(page, "Delete conversation")
    await expect(page.locator(".conversation")).to_have_count(1)
    assert "Is there a second one?" not in recorded.path.read_text("utf-8")
    await page.get_by_role("button", name="Delete session").click()
    assert "1 conversation:" in await say_yes(page, "Delete session")
    await expect(page.get_by_role("heading", name="No conversations yet")).to_be_visible()
    assert not recorded.path.exists()


async def test_the_last_turn_takes_its_session_with_it(place: Place, visitor: Visitor) -> None:
    place.say("one", "Only this", Message("assistant", "Yes."))
    page = await open_page(place, visitor)
    await open_session(page)
    await page.get_by_role("button", name="Delete turn 1 of conversation 1").click()
    await say_yes(page, "Delete turn")
    await expect(page.get_by_role("heading", name="No conversations yet")).to_be_visible()


async def test_a_session_is_compacted_and_errors_are_told(place: Place, visitor: Visitor) -> None:
    old = place.say("one", "Old", Message("assistant", "Yes.")).session
    place.say("two", "New", Message("assistant", "No."), later=24 * 3600)
    failure = {"session": old, "message": "the model does not answer", "tries": 2, "nextAt": "2026-03-04T05:06:07Z"}
    state: dict[str, Any] = COMPACTION | {"failures": [failure]}
    asked: list[Any] = []
    is_done = asyncio.Event()

    async def memory(route: Any) -> None:
        response = await route.fetch()
        await route.fulfill(response=response, json=await response.json() | {"compaction": state})

    async def compact(route: Any) -> None:
        asked.append(route.request.post_data_json)
        state.update(working=old, failures=[])
        await is_done.wait()
        state.update(working=None)
        await route.fulfill(json={"compacted": [{"session": old, "turns": 1, "leftOut": 2}], "failed": []})

    page = await open_page(place, visitor)
    await page.route("**/api/clients/editor/memory", memory)
    await page.route("**/api/clients/editor/compact", compact)
    await page.reload()
    problem = page.locator(".notices .problem")
    said = f"The session {old} could not be summarised, tried 2 times: the model does not answer."
    await expect(problem).to_contain_text(said)
    await expect(problem.get_by_role("button", name=f"Try again to compact {old}")).to_be_visible()
    await open_session(page, 0)
    await expect(page.get_by_role("button", name="Compact", exact=True)).to_have_count(0)  # it goes on
    await open_session(page, 1)
    await page.get_by_role("button", name="Compact", exact=True).click()
    text = await say_yes(page, "Compact")
    assert "What was said in it is sent to small-model at http://127.0.0.1:11434, but for turns" in text
    await expect(page.locator(".notices")).to_have_text(f"The session {old} is being summarised")
    await expect(page.get_by_role("button", name="Compacting…")).to_be_disabled()
    assert asked == [{"session": old, "again": False}]
    assert place.conversations.store
    store = place.conversations.store.memory_of("editor")
    (store.sessions / f"{old}-summary.md").write_text("# Summary\n\nThe <b>old</b> one.\n", "utf-8")
    (store.sessions / f"{old}.md").rename(store.archive / f"{old}.md")
    is_done.set()
    await expect(page.locator(".toast")).to_contain_text("1 turn summarised, 2 left out: rules keep them")
    again = page.get_by_role("button", name="Compact again")
    await expect(again).to_be_enabled()
    await page.get_by_text("Summary: this is what is searched").click()
    await expect(page.locator(".summary .words")).to_have_text("# Summary\n\nThe <b>old</b> one.\n")
    await expect(page.locator(".session-head")).to_contain_text("summarised, in the archive")
    await again.click()
    assert "the earlier one goes to the archive" in await say_yes(page, "Compact again")
    await expect(page.locator(".toast")).to_have_count(2)
    assert asked[1:] == [{"session": old, "again": True}]
    await page.unroute_all(behavior="wait")


async def test_what_went_wrong_is_said(place: Place, visitor: Visitor) -> None:
    place.morning()
    page = await open_page(place, visitor)
    said = {"error": {"code": "not_open", "message": "another mitmemory uses the conversations"}}
    await page.route("**/api/clients/editor/memory", lambda route: route.fulfill(status=409, json=said))
    await page.reload()
    await expect(page.get_by_role("heading", name="This memory could not be read")).to_be_visible()
    await expect(page.locator(".shown")).to_contain_text("another mitmemory uses the conversations")
    await page.unroute("**/api/clients/editor/memory")
    await page.goto(f"{page.url.partition('?')[0]}?client=editor&session=2026-01-01T000000Z-none")
    await expect(page.get_by_role("heading", name="This session could not be read")).to_be_visible()
    assert visitor.complaints.pop().count("404")
    forget_complaints(visitor, 409)


async def test_a_client_that_never_pauses_is_followed_all_the_same(place: Place, visitor: Visitor) -> None:
    place.morning()
    page = await open_page(place, visitor)
    await open_session(page)
    place.say("key", "And a third one?", Message("assistant", "No."), later=180)

    async def third() -> bool:
        exchange = place.suite.route("cloud")
        exchange.client = "editor"
        place.suite.finish(exchange)
        return await page.get_by_text("And a third one?").is_visible()

    await until(third)


async def test_what_could_not_be_read_is_read_again(place: Place, visitor: Visitor) -> None:
    place.morning()
    page = await open_page(place, visitor)
    said = {"error": {"code": "internal", "message": "the disk is gone"}}
    await page.route("**/api/clients/editor/memory", lambda route: route.fulfill(status=500, json=said))
    await page.get_by_role("navigation", name="Sessions").get_by_role("link").first.click()
    await expect(page.get_by_role("heading", name="This memory could not be read")).to_be_visible()
    await page.unroute("**/api/clients/editor/memory")
    await expect(page.locator("#session-title")).to_be_visible()
    forget_complaints(visitor, 500)


async def test_who_reads_far_down_stays_there(place: Place, visitor: Visitor) -> None:
    """While a turn is deleted, and when events may have been missed, as after the tab that heard them was closed."""
    for number in range(30):
        place.say("key", f"Question {number}", Message("assistant", "An answer.\n" * 5), later=number)
    page = await open_page(place, visitor)
    await open_session(page)
    await page.get_by_role("button", name="Delete turn 20 of conversation 1").focus()
    scrolled = "document.querySelector('.shown').scrollTop"
    before = await until(lambda: page.evaluate(scrolled), lambda top: top > 500)
    await page.keyboard.press("Enter")
    await say_yes(page, "Delete turn")
    await expect(page.locator(".turn")).to_have_count(29)
    await expect(page.locator("#conversation-1-title")).to_be_focused()
    assert await page.evaluate(scrolled) > before - 400
    await page.get_by_role("searchbox").fill("half a quest")
    place.say("key", "Question 30", Message("assistant", "Yes."), later=40)
    place.suite.services.events.publish("resync", {})
    await expect(page.locator(".turn")).to_have_count(30)
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await expect(page.get_by_role("searchbox")).to_have_value("half a quest")
    assert await page.evaluate(scrolled) > before - 400


async def test_who_deletes_a_session_is_at_its_client(place: Place, visitor: Visitor) -> None:
    place.morning()
    page = await open_page(place, visitor)
    await open_session(page)
    await page.get_by_role("button", name="Delete session").press("Enter")
    await say_yes(page, "Delete session")
    await expect(page.get_by_role("heading", name="No conversations yet")).to_be_visible()
    await expect(page.locator("#client-title")).to_be_focused()


async def test_axe_and_a_narrow_window(place: Place, browser: Browser, axe: Callable[[Page], Awaitable[None]]) -> None:
    place.morning()
    call = Message("assistant", "I look.", calls=(Call("1", "Read", "{}"),))
    result_of = Message("tool", results=(Result("1", "word " * 300),))
    place.say("hostile", HOSTILE + "unbroken" * 60, Message("assistant", HOSTILE), call, result_of, later=180)
    async with visiting(browser, reduced_motion="reduce") as visitor:
        page = await open_page(place, visitor)
        await page.set_viewport_size({"width": 1000, "height": 700})
        await axe(page)
        await open_session(page)
        await expect(page.locator(".turn")).to_have_count(4)
        await axe(page)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await page.evaluate(
            "document.querySelector('.shown').scrollWidth <= document.querySelector('.shown').clientWidth"
        )
        await page.get_by_role("searchbox").fill(KEY)
        await page.get_by_role("searchbox").press("Enter")
        await expect(page.locator(".shown h2")).to_be_visible()
        await axe(page)
        await page.get_by_role("button", name="Delete everything of editor").click()
        await axe(page)
