"""A picture of every page, dark and light, at 1,280 and 1,000 px, for the documentation.

python -m tests.web.browser.pictures docs/pictures

What they show is played by this module on the demo's vault: a rule of each kind, a request on hold, two clients. No
path in them is one of the machine that they are taken on.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.async_api import Page, expect

from addons.certificates import Certificates
from addons.client_states import clients_json, lines_json, mcp_json
from addons.config import load_config
from addons.config_writing import ConfigFile
from addons.demo.sample import VAULT
from addons.file_settings import FileSettings
from addons.record import Seen
from addons.rules_service import RulesService
from memory.conversations.engine import Engine
from memory.conversations.memories import Memories, Overview
from memory.conversations.recorder import Recorder
from memory.conversations.said import Call, Message, Result, Said
from memory.conversations.store import Store
from memory.exchange import Decision, Scan
from memory.rules.book import UNSCANNED_RULE
from memory.sources import make_source
from tests.web.browser.support import PATIENCE, MemoryPage, Shelf, Suite, chromium, running, until, visiting

WIDTHS = (1280, 1000)
HEIGHT = 800
HOME = Path("/home/ada")
FOLDER = "/home/ada/Documents/Vault"
MEMORY = HOME / ".mitmemory" / "memory"
CLIENT = "claude-code"
CONFIGURATION = f"""\
memory:
  sources:
    - {{name: vault, type: markdown, path: "{FOLDER}", exclude: ["Templates/*"]}}
targets:
  - {{name: ollama, url: "http://127.0.0.1:11434", protocols: [anthropic, openai-chat], model: "qwen3:8b"}}
rules:
  - {{name: private notes stay home, when: {{tags: [private], to: cloud}}, then: redirect, targets: [ollama]}}
  - {{name: health is never sent, when: {{folder: "vault/areas/**", by: content, to: cloud}}, then: block}}
  - {{name: ask about people, when: {{folder: "vault/people/**", to: cloud}}, then: hold, hold_for: 5m}}
clients:
  - {{name: claude-code, match: {{listen: 127.0.0.1:8082}}, memory_enabled: true}}
  - {{name: nightly report, match: {{user_agent: "report/*"}}}}
"""
CLOCK = "vault/projects/Tide Clock 2.md"
PRICING = "vault/projects/Pricing.md"
HEALTH = "vault/areas/Health.md"
PERSON = "vault/people/Mira Szabo.md"
RYE = "vault/recipes/Rye Sourdough.md"
CHATS: dict[int, dict[str, str]] = {
    27 * 60: {
        "Which driver does the tide clock take?": "The A4988, with the current limit at 0.4 A.",
        "And how many steps for one turn?": "200 full steps, or 3,200 with sixteen microsteps.",
    },
    50: {"What did we decide about the price of the workshop?": "80 for one evening, 220 for all three."},
    20: {
        "Find where the tide table is read, and say what happens when the server is away.": (
            "It is read in `tides.py`. When the server does not answer within 5 s, the table of yesterday is shown, "
            "with a small mark at the corner.\n\nThe mark goes once a new table came."
        ),
        "Add a test for that.": "Done: `test_tides.py` lets the server be away for a day.",
    },
}
"""Minutes ago, and what was asked and answered."""


class Rules:
    """The suite's own rules, once there is a dashboard whose notes and activity they can ask."""

    service: RulesService

    def to_json(self) -> dict[str, Any]:
        return self.service.to_json()

    async def test(self, since: datetime | None, rules: Any | None) -> dict[str, Any]:
        return await self.service.test(since, rules)


class Shown(Memories):
    """As if they lay on somebody's own machine."""

    async def overview(self, client: str) -> Overview | None:
        found = await super().overview(client)
        return found and replace(found, folder=MEMORY / client)


class Kept:
    """Conversations of one client, in a folder that is not shown."""

    compactor = trouble = None
    directory = MEMORY

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.store.open()
        self.store.configure([CLIENT])
        self.memories = Shown(self.store, Engine(self.store.folder_of))
        recorder = Recorder(self.store)
        for ago, turns in CHATS.items():
            history: list[Message] = []
            for asked, answered in turns.items():
                at = datetime.now(UTC) - timedelta(minutes=ago)
                looks = Message("assistant", calls=(Call("1", "Grep", '{"pattern": "tide_table"}'),))
                finds = Message("tool", results=(Result("1", "tides.py:14: tide_table = await fetch(server)"),))
                history += [Message("user", asked), *((looks, finds) if "Find" in asked else ())]
                answer = Message("assistant", answered)
                took = at + timedelta(seconds=8)
                said = Said(str(ago), tuple(history), answer, "claude-sonnet-4", at, took, complete=True)
                recorder.record(CLIENT, said)
                history.append(answer)

    @property
    def summariser(self) -> dict[str, Any]:
        return {"enabled": True, "provider": "openai", "model": "qwen3:8b", "upstream": "http://127.0.0.1:11434"}

    def is_on(self, client: str) -> bool | None:
        return client == CLIENT

    async def close(self) -> None:
        await self.memories.aclose()
        self.store.close()


@asynccontextmanager
async def played(folder: Path) -> AsyncIterator[Suite]:
    """The dashboard as it is after a morning's work; its mitm.yaml lies in `folder`."""
    file = folder / "mitm.yaml"
    file.write_text(CONFIGURATION, "utf-8")
    config = load_config(file)
    seen = Seen()
    seen.add("claude-code")
    rules = Rules()
    vault = make_source("vault", "markdown", VAULT)
    shelf = Shelf(documents=list(await vault.load()), name="vault", location=FOLDER)
    certificates = Certificates(HOME / ".mitmemory" / "mitmproxy")

    async def take_over(_: Path) -> None:
        pass

    kept = await asyncio.to_thread(Kept, folder / "memory")
    async with running(
        shelf,
        rules=rules,
        targets=lambda _: ["ollama"],
        settings=FileSettings(ConfigFile(file), allow_process_settings=False, take_over=take_over),
        clients=lambda: {
            "clients": clients_json(config, seen),
            "lines": lines_json(config, "127.0.0.1:8080", certificates, {}),
            "mcp": mcp_json(config),
            "conversations": str(MEMORY),
        },
        conversations=kept,
    ) as suite:
        await suite.services.note_library.scan()
        hits = Counter({"health is never sent": 1, "ask about people": 1})
        rules.service = RulesService(
            lambda: config, suite.services.note_library, suite.services.activity, lambda rule: hits[rule]
        )
        play(suite, file.name)
        yield suite
    await kept.close()


def play(suite: Suite, file: str) -> None:
    suite.finish(suite.route("local", (RYE, 4, 9), (CLOCK, 0, 12)))
    suite.finish(suite.route("cloud", (CLOCK, 12, 12), (PRICING, 2, 3)))
    suite.finish(suite.route("cloud", (PRICING, 3, 3), resent=True))
    unread = Scan("unscanned", ("the body is compressed in a way that cannot be read",))
    suite.finish(suite.route("cloud", scan=unread, decision=Decision("block", UNSCANNED_RULE)), "blocked")
    suite.finish(suite.route("cloud", (HEALTH, 5, 6), decision=Decision("block", "health is never sent")), "blocked")
    suite.finish(suite.route("cloud", (CLOCK, 3, 12), resent=True))
    held = suite.route("cloud", (PERSON, 2, 7), decision=Decision("hold", "ask about people", hold_for=300))
    suite.services.held.begin(held, 300)
    state = suite.services.note_library.snapshot.sources[0].to_json()
    suite.state |= {
        "notes": state["notes"],
        "held": 1,
        "clients": ["claude-code", "nightly report"],
        "requests": {"complete": 6, "partial": 0, "unscanned": 1},
        "sources": [state],
        "versions": {"mitmemory": "0.1.0", "mitmproxy": "12.3.1", "python": "3.12.9"},
        "inspector": "127.0.0.1:8081",
        "dashboard": "127.0.0.1:8090",
        "configuration": file,
        "authority": {
            "certificate": str(HOME / ".mitmemory/mitmproxy/mitmproxy-ca-cert.pem"),
            "bundle": str(HOME / ".mitmemory/mitmproxy/ca-bundle.pem"),
            "made": True,
            "validUntil": "2036-03-04T05:06:07.890Z",
            "systemTrusts": False,
            "problem": None,
        },
        "notSeen": {
            "reasons": {"the body is compressed in a way that cannot be read": 1},
            "untrustingHosts": [],
            "passedThroughHosts": [],
        },
        "scannedAt": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
    }


async def take_pictures(folder: Path) -> None:
    """Save `{page}-{scheme}-{width}.png` of each page in `folder`, which is there. Fails if a page complained."""
    with tempfile.TemporaryDirectory() as place:
        async with (
            played(Path(place)) as suite,
            chromium() as browser,
            visiting(browser, reduced_motion="reduce") as visitor,
        ):
            visitor.context.set_default_timeout(120_000)
            page = await visitor.open(suite.sidecar.link())
            root = page.url
            for name in ("memory", "live", "activity", "conversations", "rules", "setup"):
                await page.goto(root + name.replace("memory", f"#note={CLOCK}"))
                if name == "memory":
                    await page.reload()
                    await MemoryPage(page).ready()
                    await expect(page.locator("#panel .carried li").first).to_be_visible(timeout=PATIENCE * 1000)
                if name == "conversations":
                    await page.get_by_role("navigation", name="Sessions").get_by_role("link").first.click()
                    await expect(page.locator(".turn")).to_have_count(3, timeout=PATIENCE * 1000)
                    await expect(page.locator(".client-head .facts")).to_contain_text("of 2 files", timeout=60_000)
                await expect(page.locator("#status a").first).to_be_visible(timeout=PATIENCE * 1000)
                await page.wait_for_load_state("networkidle")
                for width in WIDTHS:
                    await page.set_viewport_size({"width": width, "height": HEIGHT})
                    for scheme in ("dark", "light"):
                        await page.emulate_media(color_scheme=scheme)
                        if name == "memory":
                            await lit(suite, page)
                        await page.screenshot(path=folder / f"{name}-{scheme}-{width}.png")
            await page.close()


async def lit(suite: Suite, page: Page) -> None:
    """A request goes out now: its notes are lit."""
    suite.finish(suite.route("cloud", (CLOCK, 4, 12), resent=True))
    await until(lambda: MemoryPage(page).ask("lit()"))
    await page.wait_for_timeout(300)  # until it is drawn, in the new size and colours too


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.web.browser.pictures FOLDER")
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(take_pictures(target))
