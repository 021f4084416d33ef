"""The Setup page: sources, clients, the authority, what is not seen. Its mitm.yaml is a real file."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, Route, expect

from addons.certificates import Certificates
from addons.client_states import clients_json, lines_json, mcp_json
from addons.config import load_config
from addons.config_writing import ConfigFile
from addons.file_settings import FileSettings
from addons.record import Seen
from memory.conversations.store import Store
from memory.notes import MemoryDocument
from tests.web.browser.support import Shelf, Suite, Visitor, is_heard, running, until, visiting
from web.client_tokens import ClientTokens
from web.conversations_api import NoConversations

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXT = """\
# Where my notes are.
memory:
  sources:
    - {name: shelf, path: notes, exclude: ["Old/*"]}   # all of them
clients:
  - {name: Editor, match: {listen: 127.0.0.1:8082, user_agent: "ed/*"}}
  - {name: nightly, match: {api_key: "hmac:%s"}}
dashboard: {allow_process_settings: %s}
"""


@dataclass
class Place:
    """A mitm.yaml, and the suite that runs on it."""

    file: Path
    suite: Suite
    seen: Seen
    allowed: bool = False
    taken_over: list[Path] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.file.read_text("utf-8")


@dataclass
class Kept(NoConversations):
    """Conversations of which only the tokens of clients are kept."""

    file: Path
    store: Any

    def is_on(self, client: str) -> bool | None:
        return client in load_config(self.file).remembered


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(location=str(tmp_path / "notes"))
    shelf.documents.append(MemoryDocument("craft/Wheel.md", "Round.\n"))
    return shelf


@pytest_asyncio.fixture(loop_scope="session")
async def place(shelf: Shelf, tmp_path: Path, request: Any) -> AsyncIterator[Place]:
    allowed = getattr(request, "param", False)
    file = tmp_path / "mitm.yaml"
    file.write_text(TEXT % ("0a" * 32, str(allowed).lower()), "utf-8")
    seen = Seen()
    taken_over: list[Path] = []

    async def take_over(written: Path) -> None:
        taken_over.append(written)

    def clients() -> dict[str, Any]:
        config = load_config(file)
        certificates = Certificates(tmp_path / "mitmproxy")
        return {
            "clients": clients_json(config, seen),
            "lines": lines_json(config, "127.0.0.1:8080", certificates, {}),
            "mcp": mcp_json(config),
            "conversations": str(config.conversations_directory),
        }

    settings = FileSettings(ConfigFile(file), allow_process_settings=allowed, take_over=take_over)
    store = Store(tmp_path / "memory")
    store.open()
    async with running(shelf, settings=settings, clients=clients, conversations=Kept(file, store)) as suite:
        state = {"notes": 6, "skipped": 2, "enabled": True, "scannedAt": "2026-03-04T05:06:07.890Z", "error": None}
        warnings = [{"path": f"sea/{number}.md", "reason": "not UTF-8"} for number in range(7)]
        suite.state |= {
            "sources": [
                {
                    "name": "shelf",
                    "kind": "markdown",
                    "location": str(tmp_path / "notes"),
                    "warnings": warnings,
                    **state,
                }
            ],
            "versions": {"mitmemory": "1.2.3", "mitmproxy": "12.3.1", "python": "3.12.9"},
            "inspector": None,
            "dashboard": "127.0.0.1:8090",
            "configuration": str(file),
            "program": "/opt/mitmemory",
            "configFlag": "--config /notes/mitm.yaml",
            "authority": {
                "certificate": str(tmp_path / "mitmproxy" / "mitmproxy-ca-cert.pem"),
                "bundle": str(tmp_path / "mitmproxy" / "ca-bundle.pem"),
                "made": True,
                "validUntil": "2036-03-04T05:06:07.890Z",
                "systemTrusts": False,
                "problem": None,
            },
            "notSeen": {
                "reasons": {"the body is not JSON": 1},
                "untrustingHosts": ["api.openai.com"],
                "passedThroughHosts": ["llm.example.com"],
            },
            "warnings": ["llm.example.com looks like a model provider and is passed through unseen"],
        }
        yield Place(file, suite, seen, allowed, taken_over)
    store.close()


async def open_setup(place: Place, visitor: Visitor, role: Any = "admin") -> Page:
    page = await visitor.enter(place.suite, "setup", role)
    await page.wait_for_selector("html[data-setup=ready]", state="attached")
    await is_heard(place.suite)
    return page


def line_of(page: Page, name: str) -> Locator:
    return page.locator("li.source").filter(has=page.get_by_text(name, exact=True))


async def text_of(place: Place) -> str:
    return place.text


async def test_the_sources_and_what_was_found_in_them(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor)
    shelf = line_of(page, "shelf")
    await expect(shelf.locator("small").first).to_have_text("Markdown folder")
    await expect(shelf.locator("code")).to_have_text(str(place.file.parent / "notes"))
    await expect(shelf).to_contain_text("without Old/*")
    await expect(shelf).to_contain_text("6 notes, 2 files skipped, read")
    await shelf.get_by_text("7 warnings").click()
    await expect(shelf.locator("details details summary")).to_have_text("2 more")
    await expect(shelf.locator("details li").first).to_have_text("sea/0.md: not UTF-8")
    await expect(page.locator("#begin")).to_contain_text("Say where your notes are: 8 notes on the map")

    place.suite.state["sources"] = [
        {**place.suite.state["sources"][0], "error": "notes does not exist", "notes": 0},
        {"name": "code", "kind": "own", "location": "here", "enabled": True, "notes": 1, "skipped": 0}
        | {"warnings": [], "error": None, "scannedAt": "2026-03-04T05:06:07.890Z"},
    ]
    place.suite.services.events.publish("map", {})
    await expect(shelf.locator(".problem")).to_have_text("notes does not exist")
    await expect(line_of(page, "code")).to_contain_text("here not in mitm.yaml")
    await expect(line_of(page, "code").get_by_role("button")).to_have_count(0)
    link = page.get_by_role("link", name="Source shelf: notes does not exist")
    await expect(link).to_have_attribute("href", re.compile(r"/setup#sources$"))


async def test_a_source_is_switched_off_and_on_by_keyboard_and_removed(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor)
    await page.get_by_role("button", name="Switch shelf off").press("Enter")
    await expect(page.locator(".toast").first).to_contain_text("shelf is switched off.")
    on = page.get_by_role("button", name="Switch shelf on")
    await expect(on).to_be_focused()
    old = '{name: shelf, path: notes, exclude: ["Old/*"]}   # all'
    written = TEXT % ("0a" * 32, "false")
    assert place.text == written.replace(old, '{name: shelf, path: notes, exclude: ["Old/*"], enabled: false} # all')
    assert place.taken_over == [place.file]
    await expect(line_of(page, "shelf")).to_contain_text("Switched off: its notes are not on the map")
    await on.press("Enter")
    await until(lambda: text_of(place), lambda text: "enabled: true" in text)

    await page.get_by_role("button", name="Remove shelf").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("rules no longer keep them at home")
    await expect(dialog).to_contain_text("To have it back, edit mitm.yaml")
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Remove shelf").click()
    await dialog.get_by_role("button", name="Remove").click()
    await until(lambda: text_of(place), lambda text: "shelf" not in text)
    assert "# Where my notes are." in place.text


async def test_claude_code_is_added_in_its_own_place(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor)
    add = page.locator("#sources").get_by_role("button", name="Add Claude Code").first
    await add.press("Enter")
    form = page.get_by_role("form", name="Add Claude Code")
    await expect(form).to_contain_text("CLAUDE.md and the memory folders of its projects")
    await expect(form.get_by_role("button")).to_be_focused()
    await form.get_by_role("button").press("Enter")
    await expect(page.locator(".toast")).to_contain_text("claude-code is added, and being read.")
    await expect(line_of(page, "claude-code")).to_contain_text("Being read")
    line = "    - {name: claude-code, type: claude_code}\n"
    assert place.text == (TEXT % ("0a" * 32, "false")).replace("clients:", f"{line}clients:", 1)
    await expect(add).to_have_attribute("aria-expanded", "false")
    await add.click()
    await expect(page.locator(".adding")).to_have_text("Claude Code's memory is among the sources already.")


async def test_a_folder_becomes_a_line_to_paste(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor)
    await page.get_by_role("button", name="Add folder").click()
    form = page.get_by_role("form", name="Add folder")
    await expect(form.get_by_label("Name")).to_be_focused()
    await expect(form.locator(".refused")).to_contain_text("could have mitmemory read any file of yours")
    await expect(form.locator(".refused code").nth(1)).to_have_text(str(place.file))
    await expect(form.get_by_role("button", name="Add folder")).to_have_count(0)
    await form.get_by_label("Name").fill("no")
    await form.get_by_label("Folder").fill('~/My "Notes"')
    await form.get_by_label("Leave out").fill("Old/*, , Inbox.md")
    await expect(form.locator("pre")).to_have_text(
        '    - {name: "no", type: markdown, path: "~/My \\"Notes\\"", exclude: ["Old/*","Inbox.md"]}'
    )
    before = place.text
    await form.get_by_label("Folder").press("Enter")
    await page.get_by_role("button", name="Add MCP graph").click()
    await expect(page.get_by_role("form", name="Add folder")).to_have_count(0)
    await expect(page.get_by_role("form", name="Add MCP graph").locator("pre")).to_have_text(
        '    - {name: mcp-memory, type: knowledge_graph, path: "~/.mcp/memory.jsonl"}'
    )
    assert place.text == before


@pytest.mark.parametrize("place", [True], indirect=True)
async def test_a_folder_is_added_where_the_configuration_allows_it(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor)
    await page.get_by_role("button", name="Add folder").click()
    form = page.get_by_role("form", name="Add folder")
    await expect(form.locator(".refused")).to_have_count(0)
    await form.get_by_label("Name").fill("shelf")
    await form.get_by_label("Folder").fill("more")
    await form.get_by_role("button", name="Add folder").click()
    await expect(page.locator(".toast.failed")).to_contain_text("`shelf` is the name of `memory.sources[0]` too")
    await form.get_by_label("Name").fill("more notes")
    await form.get_by_label("Folder").press("Enter")
    line = '    - {name: "more notes", type: markdown, path: more}\n'
    await until(lambda: text_of(place), lambda text: line in text)
    await expect(page.locator(".adding")).to_be_empty()
    visitor.complaints.clear()  # the browser itself notes the 400


async def test_a_file_that_changed_meanwhile_is_read_again(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor)
    changed = place.text.replace("name: shelf", "name: other")
    place.file.write_text(changed, "utf-8")
    await page.get_by_role("button", name="Switch shelf off").click()
    await expect(page.locator(".toast.failed")).to_contain_text("was changed meanwhile")
    await expect(page.get_by_role("button", name="Switch other off")).to_be_visible()
    assert place.text == changed
    place.file.write_text("memory: [\n", "utf-8")
    await page.get_by_role("button", name="Switch other off").click()
    await expect(page.locator("#sources > .problem")).to_contain_text(f"Mend {place.file} first")
    await expect(page.get_by_role("button", name="Add folder")).to_be_hidden()
    visitor.complaints.clear()  # the browser itself notes each 409


async def test_the_read_only_link_changes_nothing(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor, "read_only")
    await expect(page.get_by_text("You look with the read-only token")).to_be_visible()
    await expect(line_of(page, "shelf")).to_be_visible()
    await expect(page.locator("#sources").get_by_role("button")).to_have_count(0)
    await expect(page.locator("#clients pre").first).to_contain_text("export HTTPS_PROXY=")
    await expect(page.locator("#clients tbody tr").first).to_contain_text("off")
    await expect(page.locator("#clients tbody").get_by_role("button")).to_have_count(0)


async def test_the_clients_and_their_lines(place: Place, visitor: Visitor) -> None:
    place.seen.add("curl")
    page = await open_setup(place, visitor)
    rows = page.locator("#clients tbody tr")
    await expect(rows).to_have_text(
        [
            re.compile(r"^editorEditorthe listener 127\.0\.0\.1:8082 and a User-Agent like ed/\*0neveroffSwitch on$"),
            re.compile(r"^nightlyits API key0neveroffSwitch on$"),
            re.compile(r"^curlits User-Agent, by itself1(now|\d+ s ago)off; it needs a name in mitm\.yaml$"),
        ]
    )
    lines = page.locator("#clients .how pre")
    await page.get_by_role("combobox", name="Client").select_option("Editor")
    await expect(lines).to_contain_text("export HTTPS_PROXY=http://127.0.0.1:8082\n")
    await expect(page.locator("#clients .how")).to_contain_text(
        "/opt/mitmemory with --config /notes/mitm.yaml --client editor -- COMMAND"
    )
    await page.get_by_role("combobox", name="Client").select_option("Codex")
    await page.get_by_role("combobox", name="Shell").select_option("fish")
    await expect(lines).to_contain_text("set -gx CODEX_CA_CERTIFICATE '")
    await expect(page.locator("#clients .how")).to_contain_text(
        "/opt/mitmemory with --config /notes/mitm.yaml -- codex"
    )
    await page.get_by_text("Tell a client by its API key").click()
    await expect(page.locator("#clients details")).to_contain_text("/opt/mitmemory hmac --config /notes/mitm.yaml")
    assert "0a" * 32 not in await page.content()

    place.seen.add("nightly")
    place.suite.finish(place.suite.route("cloud"))
    await expect(rows.nth(1)).to_contain_text("its API key1")
    await expect(page.get_by_role("combobox", name="Shell")).to_have_value("fish")


async def test_a_client_that_mitm_yaml_names_later_is_shown(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor)
    switch = page.get_by_role("button", name="Switch on the memory of nightly")
    await switch.focus()
    place.file.write_text(
        place.text.replace('user_agent: "ed/*"}}', 'user_agent: "ed/*"}, memory_enabled: true}'), "utf-8"
    )
    await expect(page.get_by_role("button", name="Switch off the memory of editor")).to_be_visible()
    await expect(switch).to_be_focused()


async def test_the_memory_of_a_client_is_switched(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor)
    await page.get_by_role("button", name="Switch on the memory of nightly").click()
    dialog = page.get_by_role("dialog")
    folder = load_config(place.file).conversations_directory
    await expect(dialog).to_contain_text(f"Full conversations of nightly will be stored in {folder} from now on, until")
    await dialog.get_by_role("button", name="Cancel").click()
    assert "memory_enabled" not in place.text
    await page.get_by_role("button", name="Switch on the memory of nightly").click()
    await dialog.get_by_role("button", name="Switch on").click()
    off = page.get_by_role("button", name="Switch off the memory of nightly")
    await expect(off).to_be_visible()
    assert load_config(place.file).remembered == {"nightly"}
    await off.click()
    await expect(page.locator(".toast").last).to_contain_text("Nothing more of nightly is stored")
    await until(lambda: text_of(place), lambda text: "memory_enabled: false" in text)


async def test_a_client_is_given_its_memory(
    place: Place, visitor: Visitor, axe: Callable[[Page], Awaitable[None]]
) -> None:
    page = await open_setup(place, visitor)
    part, mine = page.locator("#mcp"), ClientTokens(place.suite.services.conversations)
    await expect(part).to_be_hidden()
    await page.get_by_role("button", name="Switch on the memory of nightly").click()
    await page.get_by_role("dialog").get_by_role("button", name="Switch on").click()
    await expect(part).to_contain_text("These lines hold the token, which is shown this once.")
    pasted = part.locator("pre")
    start = f"claude mcp add --transport http --scope user mitmemory {place.suite.services.access.origin}/mcp/nightly --header "
    await expect(pasted.first).to_contain_text(start)
    first = await token_in(pasted.first)
    assert mine.proves("nightly", first)
    await axe(page)
    await part.get_by_label("Program").select_option("Codex")
    await expect(pasted).to_contain_text(
        ["export MITMEMORY_TOKEN=", "bearer_token_env_var", "codex mcp add", "command ="]
    )

    await page.reload()
    await expect(part).to_contain_text("Paste this, and the program starts an MCP server that asks the suite:")
    await expect(pasted).to_have_count(1)
    await expect(pasted).to_contain_text(f"mcp --client nightly --config {place.file}")
    assert first not in await page.content()
    await part.get_by_role("button", name="Make a new token").click()
    await page.get_by_role("dialog").get_by_role("button", name="Make a new token").click()
    await expect(pasted.first).to_contain_text(start)
    second = await token_in(pasted.first)
    assert [mine.proves("nightly", token) for token in (first, second)] == [False, True]

    place.file.write_text(place.text.replace("{name: nightly,", "{name: nightly, mode: mcp_via_llm,"), "utf-8")
    await page.reload()
    await expect(part).to_contain_text("what nightly remembers comes inside its conversations")
    await expect(part.get_by_role("button")).to_have_count(0)


async def test_a_second_click_makes_no_second_token(place: Place, visitor: Visitor) -> None:
    place.file.write_text(place.text.replace("{name: nightly,", "{name: nightly, memory_enabled: true,"), "utf-8")
    page = await open_setup(place, visitor)
    make = page.locator("#mcp").get_by_role("button", name="Make a token")
    asked: list[str] = []
    let_go = asyncio.Event()

    async def hold(route: Route) -> None:
        asked.append(route.request.url)
        await let_go.wait()
        await route.continue_()

    await page.route("**/api/clients/nightly/token", hold)
    await make.focus()
    await make.dblclick()
    await expect(make).to_have_attribute("aria-disabled", "true")
    let_go.set()
    await expect(page.locator("#mcp")).to_contain_text("These lines hold the token, which is shown this once.")
    again = page.get_by_role("button", name="Make a new token")
    await expect(again).to_be_focused()
    await expect(again).not_to_have_attribute("aria-disabled", "true")
    assert len(asked) == 1


async def test_clients_are_asked_for_one_after_the_other(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor)
    counts = await page.evaluate(
        """async () => {
            const {Clients} = await import(new URL("static/setup_clients.js", location.href));
            const clients = new Clients(document.createElement("div"));
            const {fetch} = window;
            let asked = 0;
            window.fetch = (...how) => (asked++, fetch(...how));
            const loads = [clients.load(), clients.load(), clients.load()];
            const atOnce = asked;
            window.fetch = fetch;
            const seen = await Promise.all(loads);
            return [atOnce, seen, clients.asking, clients.next];
        }"""
    )
    assert counts == [1, [0, 0, 0], None, None]


async def token_in(line: Locator) -> str:
    found = re.search(r"Bearer ([\w-]{43})", await line.inner_text())
    assert found
    return found[1]


async def test_what_is_not_seen_and_why(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor)
    await expect(page.locator("#authority dd")).to_have_text(
        [
            "yes",
            str(place.file.parent / "mitmproxy" / "mitmproxy-ca-cert.pem"),
            str(place.file.parent / "mitmproxy" / "ca-bundle.pem"),
            re.compile(r"2036"),
            re.compile(r"^no: start programs with the lines above"),
        ]
    )
    await expect(page.locator("#unseen dd")).to_have_text(
        [
            "3 scanned, 0 partly, 1 not",
            "the body is not JSON: 1 request",
            re.compile(r"^api\.openai\.comNothing of it is seen or sent"),
            re.compile(r"^llm\.example\.comThey look like model providers"),
        ]
    )
    await expect(page.locator("#undetected")).to_contain_text(
        "2 notes of 8 can only be recognised by name or by quotes"
    )
    await expect(page.locator("#undetected .note-link")).to_have_text(["Lampshelf", "Wheelshelf"])
    await expect(page.locator("#undetected")).to_contain_text("shelf: 2 files")
    await expect(page.locator("#warnings dd")).to_have_text(
        [
            "mitmemory 1.2.3, mitmproxy 12.3.1, python 3.12.9",
            str(place.file),
            "127.0.0.1:8080",
            "off",
            "127.0.0.1:8090",
        ]
    )
    await expect(page.locator("#warnings .problem")).to_contain_text("passed through unseen")
    place.suite.state |= {"authority": None, "warnings": [], "notSeen": None}
    place.suite.services.events.publish("map", {})
    await expect(page.locator("#warnings")).to_contain_text("There is no warning.")
    await expect(page.locator("#authority")).to_contain_text("There is none yet")
    await expect(page.locator("#unseen dd")).to_have_count(1)


async def test_a_first_visit_explains_itself(place: Place, visitor: Visitor) -> None:
    place.file.write_text("", "utf-8")
    place.suite.shelf.documents.clear()
    place.suite.state |= {"notes": 0, "sources": [], "requests": {"complete": 0, "partial": 0, "unscanned": 0}}
    page = await open_setup(place, visitor)
    begin = page.get_by_role("region", name="How to begin")
    await expect(begin.locator("li")).to_have_text(
        ["Say where your notes are", "Point a program at the proxy", "Ask it something, and watch the map"]
    )
    await expect(page.locator("#sources")).to_contain_text("No source yet. Add one")
    await expect(page.locator("#clients tbody")).to_contain_text("none has sent anything yet")
    await expect(page.locator("#undetected")).to_contain_text("There is no note yet.")
    await begin.get_by_role("link", name="Point a program at the proxy").click()
    await expect(page.locator("#clients")).to_be_in_viewport()

    place.seen.add("curl")
    place.suite.state |= {"notes": 7, "requests": {"complete": 1, "partial": 0, "unscanned": 0}}
    place.suite.services.events.publish("map", {})
    place.suite.finish(place.suite.route("cloud"))
    await expect(begin).to_have_count(0)


async def test_names_are_text(place: Place, visitor: Visitor) -> None:
    name = "<img src=x onerror=alert(1)>"
    place.file.write_text(f"memory: {{sources: [{{name: '{name}', path: '{name}'}}]}}\n", "utf-8")
    state = {**place.suite.state["sources"][0], "name": name, "error": name}
    place.suite.state |= {"sources": [state], "warnings": [name], "notSeen": None}
    place.seen.add(name)
    page = await open_setup(place, visitor)
    await expect(line_of(page, name)).to_be_visible()
    await expect(page.locator("#warnings .problem")).to_have_text(name)
    await expect(page.locator("#clients tbody td").first).to_contain_text("img-src-x-onerror-alert-1")
    await expect(page.locator("img")).to_have_count(0)


async def test_the_rail_leads_everywhere(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor)
    await page.set_viewport_size({"width": 1000, "height": 700})
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    await expect(links).to_have_text(["Memory", "Live", "Activity", "Conversations", "Rules", "Setup"])
    await expect(page.locator("#rail [aria-current=page]")).to_have_text("Setup")
    await expect(page.locator(".rail .badge")).to_be_hidden()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 1000
    place.suite.state["held"] = 2
    place.suite.services.events.publish("map", {})
    await expect(links.nth(1)).to_have_text("Live2 on hold")
    await expect(page.get_by_role("link", name="2 requests on hold")).to_have_attribute("href", re.compile(r"/live$"))
    await links.first.focus()
    for _ in range(5):
        await page.keyboard.press("Tab")
    await expect(links.nth(5)).to_be_focused()
    await page.set_viewport_size({"width": 900, "height": 700})
    await expect(links.nth(4).locator("svg")).to_be_visible()
    await expect(links.nth(4)).to_have_attribute("title", "Rules")


async def test_access(place: Place, browser: Browser, axe: Callable[[Page], Awaitable[None]]) -> None:
    async with visiting(browser, reduced_motion="reduce") as visitor:
        page = await open_setup(place, visitor)
        for details in await page.locator("summary").all():
            await details.click()
        await page.get_by_role("button", name="Add folder").click()
        await axe(page)
        await page.get_by_role("button", name="Remove shelf").click()
        await axe(page)


async def test_a_double_click_changes_the_sources_once(place: Place, visitor: Visitor) -> None:
    page = await open_setup(place, visitor)
    let_go, asked = asyncio.Event(), 0

    async def slow(route: Route) -> None:
        nonlocal asked
        if route.request.method == "PUT":
            asked += 1
            await let_go.wait()
        await route.continue_()

    await page.route("**/api/memory/sources", slow)
    await page.get_by_role("button", name="Switch shelf off").dblclick()
    let_go.set()
    await expect(page.locator(".toast")).to_have_text("shelf is switched off.Close")
    await expect(page.get_by_role("button", name="Switch shelf on")).to_be_visible()
    assert asked == 1


async def test_a_long_list_is_not_made_again_with_each_look_at_the_status(place: Place, visitor: Visitor) -> None:
    await visitor.context.add_init_script("""
        window.made = 0;
        const {createElement} = document;
        document.createElement = (tag) => {
            if (tag === "a") window.made++;
            return createElement.call(document, tag);
        };
    """)
    place.suite.shelf.documents += [MemoryDocument(f"short/{number}.md", "Short.\n") for number in range(200)]
    page = await open_setup(place, visitor)
    await expect(page.locator("#undetected")).to_contain_text("202 notes of 208")
    await page.evaluate("window.made = 0")
    place.suite.state["notes"] = 9
    await expect(page.locator("#status")).to_contain_text("9 notes")
    await expect(page.locator("#warnings")).to_contain_text("mitmemory 1.2.3")
    assert await page.evaluate("window.made") < 200
