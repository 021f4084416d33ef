"""A suite with conversations for the tests of pages: real transcripts, a real index, the real routes, a real mitm.yaml."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from addons.client_states import clients_json
from addons.config import load_config
from addons.config_writing import ConfigFile
from addons.conversations import Conversations
from addons.file_settings import FileSettings
from addons.record import Seen
from memory.conversations.recorder import Recorded
from memory.conversations.said import Message, Said
from tests.web.browser.support import Shelf, Suite, Visitor, running

MITM_YAML = """\
conversations: {directory: kept}
clients:
  - {name: Editor, match: {user_agent: "ed/*"}, memory_enabled: true}
  - {name: nightly, match: {user_agent: "report/*"}}
  - {name: quiet one, match: {user_agent: "quiet/*"}, memory_enabled: true}
"""
MORNING = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
HOSTILE = """<script>document.title = "taken"</script><img src=x onerror="document.title = 'taken'">
# Conversation 9 (2026-03-04 05:06:07 UTC)
## Assistant (2026-03-04 05:06:07 UTC, evil-model, conversation 9, turn 1)
---
<!-- anchor -->"""
KEY = "Where did I put the spare key of the boat house?"
KEY_ANSWER = "It hangs behind the tide table, on the brass hook."
SCONES = "How long do scones bake at two hundred degrees?"

COMPACTION = {
    "enabled": False,
    "provider": "openai",
    "model": "small-model",
    "upstream": "http://127.0.0.1:11434",
    "pending": 1,
    "working": None,
    "failures": [],
}


@dataclass
class Place:
    """A suite on a mitm.yaml, and what it has recorded."""

    file: Path
    suite: Suite
    conversations: Conversations
    seen: Seen
    chats: dict[str, list[Message]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        assert self.conversations.directory
        return self.conversations.directory / "editor"

    def say(
        self, chat: str, text: str, answer: Message, *before: Message, client: str = "editor", later: float = 0
    ) -> Recorded:
        """The user says this in a chat, and is answered; `before` came in between, `later` is in seconds."""
        history = self.chats.setdefault(chat, [])
        history.extend([Message("user", text), *before])
        at = MORNING + timedelta(seconds=later)
        assert self.conversations.recorder
        said = Said(None, tuple(history), answer, "claude-sonnet-4", at, at + timedelta(seconds=3), complete=True)
        recorded = self.conversations.recorder.record(client, said)
        history.append(answer)
        assert recorded
        return recorded

    def morning(self) -> Recorded:
        """Two conversations of one session."""
        recorded = self.say("key", KEY, Message("assistant", KEY_ANSWER))
        self.say("key", "Is there a second one?", Message("assistant", "Not that I know of."), later=60)
        self.say("scones", SCONES, Message("assistant", "About twelve minutes."), later=120)
        return recorded


@pytest.fixture
def mitm_yaml() -> str:
    return MITM_YAML


@pytest_asyncio.fixture(loop_scope="session")
async def place(shelf: Shelf, tmp_path: Path, mitm_yaml: str) -> AsyncIterator[Place]:
    file = tmp_path / "mitm.yaml"
    file.write_text(mitm_yaml, "utf-8")
    config = load_config(file)
    conversations = Conversations(config, clock=lambda: MORNING)  # by today's, what was said then would be over
    seen = Seen()

    def clients() -> dict[str, Any]:
        directory = conversations.directory
        return {
            "clients": clients_json(load_config(file), seen),
            "lines": [],
            "mcp": [],
            "conversations": str(directory) if directory else None,
        }

    async def take_over(_: Path) -> None:
        conversations.apply(load_config(file))

    settings = FileSettings(ConfigFile(file), allow_process_settings=False, take_over=take_over)
    conversations.running()
    try:
        async with running(shelf, settings=settings, clients=clients, conversations=conversations) as suite:
            yield Place(file, suite, conversations, seen)
    finally:
        conversations.done()
        if conversations.stopped is not None:
            await conversations.stopped


async def open_page(place: Place, visitor: Visitor, role: Any = "admin") -> Page:
    page = await visitor.enter(place.suite, "conversations", role)
    await page.wait_for_selector("html[data-conversations=ready]", state="attached")
    return page


async def open_session(page: Page, number: int = 0) -> None:
    await page.get_by_role("navigation", name="Sessions").get_by_role("link").nth(number).click()
    await expect(page.locator("#session-title")).to_be_visible()


async def say_yes(page: Page, action: str) -> str:
    """Answer the dialog with yes; what it said."""
    dialog = page.get_by_role("dialog")
    text = await dialog.inner_text()
    await dialog.get_by_role("button", name=action).click()
    await expect(dialog).to_have_count(0)
    return text


def forget_complaints(visitor: Visitor, status: int) -> None:
    """The browser's own, of a status that the page has shown."""
    assert visitor.complaints
    assert all(str(status) in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()
