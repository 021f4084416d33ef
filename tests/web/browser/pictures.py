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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.async_api import Page, expect

from addons.certificates import Certificates
from addons.client_states import clients_json, lines_json
from addons.config import load_config
from addons.config_writing import ConfigFile
from addons.demo.sample import VAULT
from addons.file_settings import FileSettings
from addons.record import Seen
from addons.rules_service import RulesService
from memory.exchange import Decision, Scan
from memory.sources import make_source
from tests.web.browser.support import PATIENCE, MemoryPage, Shelf, Suite, chromium, running, until, visiting

WIDTHS = (1280, 1000)
HEIGHT = 800
HOME = Path("/home/ada")
FOLDER = "/home/ada/Documents/Vault"
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
  - {{name: claude-code, match: {{listen: 127.0.0.1:8082}}}}
  - {{name: nightly report, match: {{user_agent: "report/*"}}}}
"""
CLOCK = "vault/projects/Tide Clock 2.md"
PRICING = "vault/projects/Pricing.md"
HEALTH = "vault/areas/Health.md"
PERSON = "vault/people/Mira Szabo.md"
RYE = "vault/recipes/Rye Sourdough.md"


class Rules:
    """The suite's own rules, once there is a dashboard whose notes and activity they can ask."""

    service: RulesService

    def to_json(self) -> dict[str, Any]:
        return self.service.to_json()

    async def test(self, since: datetime | None, rules: Any | None) -> dict[str, Any]:
        return await self.service.test(since, rules)


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

    async with running(
        shelf,
        rules=rules,
        targets=lambda _: ["ollama"],
        settings=FileSettings(ConfigFile(file), allow_process_settings=False, take_over=take_over),
        clients=lambda: {
            "clients": clients_json(config, seen),
            "lines": lines_json(config, "127.0.0.1:8080", certificates, {}),
        },
    ) as suite:
        await suite.services.note_library.scan()
        hits = Counter({"health is never sent": 1, "ask about people": 1})
        rules.service = RulesService(
            lambda: config, suite.services.note_library, suite.services.activity, lambda rule: hits[rule]
        )
        play(suite, file.name)
        yield suite


def play(suite: Suite, file: str) -> None:
    suite.finish(suite.route("local", (RYE, 4, 9), (CLOCK, 0, 12)))
    suite.finish(suite.route("cloud", (CLOCK, 12, 12), (PRICING, 2, 3)))
    suite.finish(suite.route("cloud", (PRICING, 3, 3), resent=True))
    suite.finish(suite.route("cloud", scan=Scan("unscanned", ("the body is compressed in a way that cannot be read",))))
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
            for name in ("memory", "live", "activity", "rules", "setup"):
                await page.goto(root + name.replace("memory", f"#note={CLOCK}"))
                if name == "memory":
                    await page.reload()
                    await MemoryPage(page).ready()
                    await expect(page.locator("#panel .carried li").first).to_be_visible(timeout=PATIENCE * 1000)
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
