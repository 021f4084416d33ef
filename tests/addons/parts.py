"""What the unit tests of the single addons share: flows, exchanges, a source in memory. No process is started."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mitmproxy import http
from mitmproxy.connection import ConnectionState, Server
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.test import tflow

from memory.exchange import Evidence, Exchange, Scan, Sighting
from memory.notes import MemoryDocument

MESSAGES = "https://api.anthropic.com/v1/messages"
STARTED = datetime(2026, 3, 4, 5, 6, 7, 89000, tzinfo=UTC)
TIDES = "The tide chart hangs beside the harbour master's door.\nNobody has wound the brass clock since autumn.\n"


def flow_to(
    url: str = MESSAGES,
    body: Any = b"",
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    status: int | None = None,
) -> http.HTTPFlow:
    """A flow as the suite meets it: connected, answered with `status` if there is one. A `body` that is no bytes is JSON."""
    flow = tflow.tflow()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    flow.request = http.Request.make(method, url, content)
    # Not through `make`, which would encode the body as they say.
    flow.request.headers.update({"Content-Type": "application/json"} | dict(headers or {}))
    flow.response = None if status is None else http.Response.make(status, b"{}")
    return flow


def exchange_of(identifier: str = "01", **changes: Any) -> Exchange:
    made: dict[str, Any] = {
        "id": identifier,
        "started_at": STARTED,
        "provider": "anthropic",
        "protocol": "anthropic",
        "model": "claude-test",
        "client": "claude-code",
        "conversation": "tulip",
        "to": "cloud",
        "upstream": "api.anthropic.com:443",
        "scan": Scan("complete"),
    }
    return Exchange(**(made | changes))


def content(note: str = "vault/Tides.md", matched: int = 2, distinctive: int = 2, **more: Any) -> Sighting:
    evidence = (Evidence("/messages/0/content", matched, "line"),)
    return Sighting(note, "Tides", "content", "line", matched, distinctive, evidence, **more)


def reference(note: str = "vault/Clock.md", **more: Any) -> Sighting:
    return Sighting(note, "Clock", "reference", "reference", 0, 3, (Evidence("/system", 0, "reference"),), **more)


def listing(note: str = "vault/Index.md") -> Sighting:
    return Sighting(note, "Index", "reference", "listing", 0, 1, (Evidence("/system", 0, "listing"),))


def seen(*sightings: Sighting) -> Scan:
    return Scan("complete", (), sightings)


def connection_to(host: str, port: int) -> ServerConnectionHookData:
    """What mitmproxy's hooks of a connection that is about to be made are given."""
    server = Server(address=(host, port))
    server.state = ConnectionState.CLOSED
    return ServerConnectionHookData(server=server, client=tflow.tclient_conn())


@dataclass
class Shelf:
    """A source in memory. With `fault` its loading fails."""

    documents: list[MemoryDocument] = field(default_factory=lambda: [MemoryDocument("Tides.md", TIDES)])
    loads: int = 0
    name: str = "vault"
    kind: str = "markdown"
    location: str = "the test"

    async def load(self) -> list[MemoryDocument]:
        self.loads += 1
        return list(self.documents)
