"""A running dashboard on loopback, on two small notes, as a program or a browser would meet it."""

import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from memory.activity import Activity
from memory.exposure import Exposure
from memory.note_library import LibraryOptions, NoteLibrary
from memory.notes import MemoryDocument
from web.access import Access, Tokens
from web.app import Services
from web.events import EventHub
from web.server import Sidecar
from web.settings import NotChangedError

ADMIN = "admin-token-of-the-tests"
READ_ONLY = "read-only-token-of-the-tests"
CANARY = "The canary sits in the third cage and sings only when nobody listens."


@dataclass
class Shelf:
    """A source whose documents a test can change."""

    documents: list[MemoryDocument] = field(
        default_factory=lambda: [
            MemoryDocument("birds/Canary.md", f"{CANARY}\n\nSee [[Cage]].\n", tags=("birds",), links=("Cage",)),
            MemoryDocument("Cage.md", "Made of willow.\n", aliases=("Aviary",)),
        ]
    )
    loads: int = 0
    name: str = "shelf"
    kind: str = "markdown"
    location: str = "the test"

    async def load(self) -> list[MemoryDocument]:
        self.loads += 1
        return list(self.documents)


@dataclass
class Written:
    """Stands for mitm.yaml: keeps what it is given."""

    kept: list[dict[str, Any]] = field(default_factory=list)
    versions: list[str | None] = field(default_factory=list)
    memories: dict[str, bool] = field(default_factory=dict)
    refuse: NotChangedError | None = None

    async def sources(self) -> dict[str, Any]:
        if self.refuse is not None:
            raise self.refuse
        return {"sources": self.kept}

    async def change_sources(self, sources: Sequence[Mapping[str, Any]], version: str | None) -> dict[str, Any]:
        if self.refuse is not None:
            raise self.refuse
        self.kept = [dict(source) for source in sources]
        self.versions.append(version)
        return await self.sources()

    async def switch_memory(self, client: str, *, enabled: bool) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.memories[client] = enabled


@dataclass
class Dashboard:
    """A client of the dashboard, and what lies behind it."""

    services: Services
    sidecar: Sidecar
    shelf: Shelf
    port: int
    session: aiohttp.ClientSession

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, method: str, path: str, *, token: str | None = ADMIN, headers: dict[str, str] | None = None, **more: Any
    ) -> Any:
        """One request, redirects not followed. A write without a body of its own carries `{}`."""
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        if method not in ("GET", "HEAD") and "data" not in more:
            more.setdefault("json", {})
        return self.session.request(
            method, self.origin + path, headers=sent | (headers or {}), allow_redirects=False, **more
        )

    async def log_in(self, role: Any = "admin") -> dict[str, str]:
        """Open a link; the `Cookie` header of the session."""
        async with self.session.get(self.sidecar.link(role), allow_redirects=False) as answer:
            assert answer.status == 303
            return {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}


type Opener = Callable[..., Any]


@pytest.fixture
def open_dashboard() -> Opener:
    @asynccontextmanager
    async def opened(*, events: EventHub | None = None, **more: Any) -> AsyncIterator[Dashboard]:
        shelf = Shelf()
        library = NoteLibrary([shelf], options=LibraryOptions())
        sock = socket.create_server(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        services = Services(
            note_library=library,
            exposure=Exposure(),
            activity=Activity(),
            events=events or EventHub(),
            access=more.pop("access", None) or Access(Tokens(ADMIN, READ_ONLY), port),
            status=lambda: {"version": "0"},
            settings=more.pop("settings", None) or Written(),
            **more,
        )
        sidecar = Sidecar(services)
        await sidecar.start(sock=sock)
        # Cookies are sent by hand: a jar would hide which requests carry one.
        async with aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), headers={"Accept-Encoding": "identity"}, auto_decompress=False
        ) as session:
            try:
                yield Dashboard(services, sidecar, shelf, port, session)
            finally:
                await sidecar.stop()
                await library.aclose()

    return opened


@pytest.fixture
async def dashboard(open_dashboard: Opener) -> AsyncIterator[Dashboard]:
    async with open_dashboard() as running:
        yield running
