"""Clients on the Conversations page: their memory is switched, rebuilt, opened and deleted; those that come later."""

import re
from typing import Any

import pytest
from playwright.async_api import expect

from addons.config import load_config
from memory.conversations.said import Message
from tests.web.browser.conversing import KEY, MITM_YAML, Place, mitm_yaml, open_page, open_session, place, say_yes
from tests.web.browser.support import Visitor, until

__all__ = ["mitm_yaml", "place"]  # fixtures

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_everything_is_deleted_once_the_name_is_typed(place: Place, visitor: Visitor) -> None:
    place.morning()
    page = await open_page(place, visitor)
    await page.get_by_role("button", name="Delete everything of editor").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(
        f"1 session with all conversations, transcripts, summaries and the archive, and the index: the folder {place.folder} is deleted."
    )
    word, yes = dialog.get_by_role("textbox"), dialog.get_by_role("button", name="Delete everything")
    await expect(word).to_be_focused()
    await expect(yes).to_be_disabled()
    await word.fill("edito")
    await word.press("Enter")
    await expect(dialog).to_be_visible()
    await expect(yes).to_be_disabled()
    await word.fill("editor")
    await word.press("Enter")
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_role("heading", name="No conversations yet")).to_be_visible()
    assert not place.folder.exists()
    assert "memory_enabled: true" in place.file.read_text("utf-8")


async def test_memory_is_switched_on_and_off(place: Place, visitor: Visitor) -> None:
    page = await open_page(place, visitor)
    await page.get_by_role("navigation", name="Clients").get_by_role("link", name="nightly").click()
    await expect(page.get_by_role("heading", name="Conversations of nightly are not stored")).to_be_visible()
    await expect(page.get_by_role("search")).to_be_hidden()
    await page.get_by_role("button", name="Switch on the memory of nightly").click()
    text = await say_yes(page, "Switch on")
    assert (
        f"Full conversations of nightly will be stored in {place.folder.parent} from now on, until you switch this off."
        in text
    )
    await expect(page.get_by_role("heading", name="No conversations yet")).to_be_visible()
    assert load_config(place.file).remembered == {"editor", "nightly", "quiet-one"}
    await expect(page.get_by_role("navigation", name="Clients").get_by_role("link", name="nightly")).to_contain_text(
        "memory on"
    )
    place.say("one", "Hello", Message("assistant", "Hello."), client="nightly")
    await expect(page.get_by_role("heading", name="Choose a session")).to_be_visible()
    await page.get_by_role("button", name="Switch off the memory of nightly").click()
    await expect(
        page.get_by_text("Memory is off: nothing new is stored. What is there stays until you delete it.")
    ).to_be_visible()
    await expect(page.get_by_role("search")).to_be_hidden()
    await open_session(page)
    await expect(page.locator(".said.user")).to_contain_text("Hello")
    assert load_config(place.file).remembered == {"editor", "quiet-one"}


async def test_the_index_is_rebuilt(place: Place, visitor: Visitor) -> None:
    place.morning()
    page = await open_page(place, visitor)
    await expect(page.locator(".client-head .facts")).to_contain_text("of 1 file)")
    held = {"done": 2, "total": 5}

    async def answer(route: Any) -> None:
        response = await route.fetch()
        await route.fulfill(response=response, json=await response.json() | {"rebuilding": held})

    await page.route("**/api/clients/editor/memory", answer)
    await page.get_by_role("button", name="Rebuild index of editor").click()
    await expect(page.get_by_text("The index is being made anew: 2 of 5 files")).to_be_visible()
    await expect(page.get_by_role("progressbar", name="Rebuilding the index")).to_have_attribute("value", "2")
    await expect(page.get_by_role("button", name="Rebuild index of editor")).to_be_disabled()
    await page.unroute_all(behavior="wait")
    await expect(page.get_by_role("button", name="Rebuild index of editor")).to_be_enabled()
    await expect(page.locator(".client-head .facts")).to_contain_text("of 1 file)")


async def test_the_folder_is_opened_or_shown(place: Place, visitor: Visitor) -> None:
    place.morning()
    page = await open_page(place, visitor)
    await page.get_by_role("button", name="Open folder of editor").click()
    await expect(page.locator(".opened pre")).to_have_text(str(place.folder))
    await expect(page.locator(".opened")).to_contain_text("could not be opened from here")


async def test_who_may_only_read_sees_an_explanation(place: Place, visitor: Visitor) -> None:
    place.morning()
    page = await open_page(place, visitor, "read_only")
    await expect(page.get_by_role("heading", name="Only an admin reads conversations")).to_be_visible()
    await expect(page.get_by_text("Memory is on for Editor, quiet one.")).to_be_visible()
    assert KEY not in await page.content()
    await expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)


async def test_a_client_that_said_nothing_yet(place: Place, visitor: Visitor) -> None:
    page = await open_page(place, visitor)
    await page.get_by_role("link", name="quiet one").click()
    await expect(page.get_by_role("heading", name="No conversations yet")).to_be_visible()
    await page.get_by_role("link", name="Point it at the proxy").click()
    await expect(page.locator("h1")).to_have_text("Setup")


async def test_a_client_that_is_only_seen_has_no_memory(place: Place, visitor: Visitor) -> None:
    place.seen.add("curl")
    page = await open_page(place, visitor)
    await page.get_by_role("link", name="curl").click()
    await expect(page.get_by_role("heading", name="curl has no name in mitm.yaml")).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile("Switch o"))).to_have_count(0)


@pytest.mark.parametrize("mitm_yaml", ["{}\n"])
async def test_nothing_is_configured(place: Place, visitor: Visitor, mitm_yaml: str) -> None:
    page = await open_page(place, visitor)
    await expect(page.get_by_role("heading", name="No client yet")).to_be_visible()
    await expect(page.locator(".copy pre")).to_contain_text("memory_enabled: true")


@pytest.mark.parametrize("mitm_yaml", ["clients:\n  - {name: Editor, match: {user_agent: x}}\n"])
async def test_no_client_has_a_memory(place: Place, visitor: Visitor, mitm_yaml: str) -> None:
    page = await open_page(place, visitor)
    await expect(page.get_by_role("heading", name="Conversations of Editor are not stored")).to_be_visible()
    await expect(page.get_by_role("button", name="Switch on the memory of editor")).to_be_visible()


@pytest.mark.parametrize("mitm_yaml", ["{}\n"])
async def test_clients_that_come_later_are_shown(place: Place, visitor: Visitor, mitm_yaml: str) -> None:
    page = await open_page(place, visitor)
    await expect(page.get_by_role("heading", name="No client yet")).to_be_visible()
    place.seen.add("curl")
    await expect(page.get_by_role("heading", name="curl has no name in mitm.yaml")).to_be_visible()
    place.file.write_text(MITM_YAML, "utf-8")
    await expect(page.get_by_role("navigation", name="Clients").get_by_role("link")).to_have_count(4)
    place.file.write_text(MITM_YAML.replace('"report/*"}', '"report/*"}, memory_enabled: true'), "utf-8")
    await expect(page.get_by_role("navigation", name="Clients").get_by_role("link", name="nightly")).to_contain_text(
        "memory on"
    )


async def test_who_may_only_read_is_shown_no_more_when_events_were_lost(place: Place, visitor: Visitor) -> None:
    page = await open_page(place, visitor, "read_only")

    async def readers() -> int:
        return place.suite.services.events.readers

    await until(readers, lambda count: count == 1)
    async with page.expect_response("**/api/status"):  # the frame asks again
        place.suite.services.events.publish("resync", {})
    await expect(page.get_by_role("heading", name="Only an admin reads conversations")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Clients")).to_have_count(0)


async def test_the_setup_page_leads_here(place: Place, visitor: Visitor) -> None:
    place.morning()
    page = await visitor.enter(place.suite, "setup")
    await page.get_by_role("link", name="Conversations of editor: memory is on").click()
    await expect(page.locator("h2#client-title")).to_have_text("Editor")
