"""The real dashboard in this process and a real Chromium beside it: one loop for both, so that a test can publish."""

import asyncio
import shutil
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright

from memory.activity import Activity
from memory.exchange import Decision, Exchange, Outcome, Place, Scan, SentTo, Sighting
from memory.exposure import Exposure
from memory.note_library import LibraryOptions, NoteLibrary
from memory.notes import Link, MemoryDocument
from web.access import Access, Role, Tokens
from web.app import Services
from web.events import EventHub
from web.server import Sidecar

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-unsafe-swiftshader",  # WebGL without a graphics card; the page itself is put together without it
)
NO_WEBGL = ("--disable-webgl", "--disable-webgl2", "--disable-3d-apis")
PATIENCE = 90.0
"""Seconds that a page may take on a busy machine."""

HOLDS_TIME = """
    const now = performance.now.bind(performance);
    let behind = 0, at = null;
    window.holdTime = () => { at = now() - behind; };
    window.letTimeGo = () => { behind = now() - at; at = null; };
    performance.now = () => at ?? now() - behind;
"""
"""A script for a page: what fades in seconds stays as it is until it was looked at, however slow the machine."""

HARBOUR = "The harbour master keeps the tide table in the drawer under the lamp."
KILN = "The kiln needs eleven hours to reach the heat at which the glaze runs."


def documents() -> list[MemoryDocument]:
    """Seven notes in three folders; the first one has what a panel can show."""

    def note(path: str, text: str, *links: str, **more: Any) -> MemoryDocument:
        return MemoryDocument(path, text, links=tuple(Link(link) for link in links), **more)

    return [
        note(
            "sea/Harbour.md",
            f"{HARBOUR}\nBoats that come in after dark tie up at the outer wall.\n[[Tides]]\n",
            "Tides",
            "Lamp",
            "Nowhere",
            tags=("sea", "work/keys"),
            aliases=("The port",),
        ),
        note("sea/Tides.md", "Spring tides follow two days after the full moon here.\n", "Harbour"),
        note("sea/Lamp.md", "Short.\n", "Tides"),
        note("craft/Kiln.md", f"{KILN}\n", "Glaze"),
        note("craft/Glaze.md", "Ash glaze is one part clay and two parts wood ash by weight.\n", "Kiln"),
        note("craft/Clay <b>wet<i>.md", "Wedge the clay forty times before it goes on the wheel.\n", "Kiln"),
        note("Inbox.md", "Nothing here is sorted yet, look again at the weekend.\n"),
    ]


@dataclass
class Shelf:
    """A source whose documents a test can change."""

    documents: list[MemoryDocument] = field(default_factory=documents)
    name: str = "shelf"
    kind: str = "markdown"
    location: str = "~/shelf"
    gate: asyncio.Event | None = None
    """When set, loading waits for it."""

    async def load(self) -> list[MemoryDocument]:
        if self.gate is not None:
            await self.gate.wait()
        return list(self.documents)


@dataclass
class Suite:
    """The dashboard and what lies behind it."""

    services: Services
    sidecar: Sidecar
    shelf: Shelf
    state: dict[str, Any]
    count: int = 0

    def route(
        self,
        to: Place,
        *notes: tuple[str, int, int],
        decision: Decision | None = None,
        scan: Scan | None = None,
        resent: bool = False,
    ) -> Exchange:
        """A request with these notes (id, matched, distinctive) is routed: the first event."""
        self.count += 1
        sightings = tuple(
            Sighting(
                note=note,
                title=note.rpartition("/")[2].removesuffix(".md"),
                by="content" if matched else "reference",
                grade="line" if matched else "reference",
                matched=matched,
                distinctive=distinctive,
                resent=resent,
            )
            for note, matched, distinctive in notes
        )
        scan = scan or Scan("complete")
        exchange = Exchange(
            id=f"{self.count:06}",
            started_at=datetime.now(UTC),
            provider="anthropic" if to == "cloud" else "ollama",
            protocol="anthropic" if to == "cloud" else "ollama",
            model="claude-sonnet-4" if to == "cloud" else "llama3.2:3b",
            client="claude-code",
            conversation="one",
            to=to,
            upstream="api.anthropic.com:443" if to == "cloud" else "127.0.0.1:11434",
            scan=Scan(scan.state, scan.reasons, sightings),
            decision=decision or Decision(),
            request_bytes=12_345,
        )
        self.publish(exchange)
        return exchange

    def finish(self, exchange: Exchange, outcome: Outcome = "answered") -> None:
        """The request is over: the second event."""
        exchange.finished_at = datetime.now(UTC)
        exchange.outcome = outcome
        if outcome == "answered":
            exchange.status = 200
            exchange.response_bytes = 2_500_000
            sent = SentTo(exchange.model, exchange.to, exchange.upstream)
            exchange.sent_to.append(sent)
            self.services.exposure.record(exchange.scan.sightings, sent, datetime.now(UTC))
        self.publish(exchange)

    def publish(self, exchange: Exchange) -> None:
        self.services.events.publish("activity", self.services.activity.put(exchange))


@asynccontextmanager
async def running(shelf: Shelf, prefix: str = "/", **more: Any) -> AsyncIterator[Suite]:
    library = NoteLibrary([shelf], options=LibraryOptions())
    sock = socket.create_server(("127.0.0.1", 0))
    state = {
        "proxy": "127.0.0.1:8080",
        "mode": "dispatch",
        "notes": len(shelf.documents),
        "clients": ["claude-code"],
        "requests": {"complete": 3, "partial": 0, "unscanned": 1},
        "sources": [],
        "warnings": [],
    }
    services = Services(
        note_library=library,
        exposure=Exposure(),
        activity=Activity(),
        events=EventHub(),
        access=Access(Tokens("admin-token-of-the-tests", "read-only-token-of-the-tests"), sock.getsockname()[1]),
        status=lambda: dict(state),
        prefix=prefix,
        **more,
    )
    sidecar = Sidecar(services)
    await sidecar.start(sock=sock)
    try:
        yield Suite(services, sidecar, shelf, state)
    finally:
        await sidecar.stop()
        await library.aclose()


@dataclass
class Visitor:
    """Opens pages in a browser, and collects every complaint of theirs."""

    context: BrowserContext
    complaints: list[str] = field(default_factory=list)

    async def open(self, address: str) -> Page:
        page = await self.context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        # A refused resource or a violated policy is a console error too.
        page.on("console", self.hear)
        await page.goto(address)
        return page

    async def enter(self, suite: Suite, path: str, role: Role = "admin") -> Page:
        """Open a page by its address. The link lets the browser in all the same, but the map is not drawn for it."""
        answer = await self.context.request.get(suite.sidecar.link(role), max_redirects=0)
        assert answer.status == 303
        return await self.open(f"{suite.services.access.origin}{suite.services.root}{path}")

    def hear(self, message: ConsoleMessage) -> None:
        # The software renderer, and what the tests themselves read from the canvas, are no fault of the page.
        ours = "GPU stall due to ReadPixels" not in message.text and "willReadFrequently" not in message.text
        if message.type in ("error", "warning") and ours:
            self.complaints.append(message.text)


async def until[T](ask: Callable[[], Awaitable[T]], holds: Callable[[T], bool] = bool) -> T:
    """Ask until the answer holds. From here and not in the page, whose policy forbids the polling of playwright."""
    end = time.monotonic() + PATIENCE
    while not holds(answer := await ask()):
        assert time.monotonic() < end, f"still {answer!r}"
        await asyncio.sleep(0.05)
    return answer


async def is_heard(suite: Suite) -> None:
    """A page listens: the next event comes to it."""

    async def readers() -> int:
        return suite.services.events.readers

    await until(readers)


@dataclass
class MemoryPage:
    """The Memory page by its test hook (the end of static/memory.js)."""

    page: Page

    async def ask(self, what: str) -> Any:
        return await self.page.evaluate(f"__mitmemory.{what}")

    async def ready(self, suite: Suite | None = None) -> "MemoryPage":
        """The map has come to rest, and, with `suite`, its events come in."""
        await self.page.wait_for_selector("html[data-layout=done]", state="attached", timeout=PATIENCE * 1000)
        if suite is not None:
            await is_heard(suite)
        return self

    async def place(self, note: str) -> tuple[float, float]:
        """Where the note is in the window, by the hook."""
        spot = await self.ask(f"spot({note!r})")
        box = await self.page.locator("#map").bounding_box()
        assert box is not None
        return box["x"] + spot["x"], box["y"] + spot["y"]

    async def hover(self, note: str) -> None:
        await self.page.mouse.move(*await self.place(note))

    async def click(self, note: str) -> None:
        await self.page.mouse.click(*await self.place(note))

    async def pixel(self, note: str, beside: float = 0) -> list[int]:
        """Red, green, blue, alpha of the glow's canvas, `beside` px right of the edge of the dot; 0: its centre."""
        channels: list[int] = await self.page.evaluate(
            """([note, beside]) => {
                const {x, y, radius} = __mitmemory.spot(note), scale = devicePixelRatio;
                const context = document.querySelector("canvas.glow").getContext("2d");
                const at = beside ? x + radius + beside : x;
                return [...context.getImageData(Math.floor(at * scale), Math.floor(y * scale), 1, 1).data];
            }""",
            [note, beside],
        )
        return channels


@asynccontextmanager
async def chromium(*more: str) -> AsyncIterator[Browser]:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.fail(f"install Chromium: none of {', '.join(BROWSERS)} is on the PATH")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=[*FLAGS, *more], timeout=PATIENCE * 1000)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def visiting(browser: Browser, **more: Any) -> AsyncIterator[Visitor]:
    context = await browser.new_context(viewport={"width": 1280, "height": 800}, **more)
    context.set_default_timeout(PATIENCE * 1000)
    visitor = Visitor(context)
    try:
        yield visitor
    finally:
        await context.close()
    assert visitor.complaints == []
