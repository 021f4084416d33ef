"""What connections to models are made with, and those that are kept between requests.

A connection leads to addresses that were judged, and to no other; one that is kept is used again only where the very same
addresses were judged once more.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from addons.guard import Address, resolve
from addons.outgoing import Outgoing

LONGEST_HEADER = 1 << 16
"""Bytes in a header, or a status line, of an answer."""
KEPT_SECONDS = 30.0
"""How long a connection may lie unused. Whoever is in between forgets it without a word after minutes."""
MOST_KEPT = 32
"""Servers to which connections are kept; those that were not used for longest are closed first."""

type Tls = ssl.SSLContext | Literal[True]
type _Key = tuple[str, str | None, int | None, frozenset[Address], Tls]


class Listening(Protocol):
    """Is told how a request gets on: what is given to it as `trace_request_ctx`."""

    def reused(self) -> None:
        """It goes out on a connection that was kept."""

    def released(self) -> None:
        """The connection stands, and head and body are written now. An exception ends it unsent."""


def session_to(addresses: tuple[Address, ...], tls: Tls, *, keeps: bool = False) -> aiohttp.ClientSession:
    """A session that dials these addresses, whatever a name means by now."""
    trace = aiohttp.TraceConfig()
    trace.on_request_headers_sent.append(_telling(lambda listening: listening.released()))
    trace.on_connection_reuseconn.append(_telling(lambda listening: listening.reused()))
    resolver = _Judged(addresses)
    if keeps:
        connector = aiohttp.TCPConnector(
            resolver=resolver, use_dns_cache=False, ssl=tls, limit=0, keepalive_timeout=KEPT_SECONDS
        )
    else:
        # A connection that was kept may be dead: it would take the body, and it would count as sent.
        connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, ssl=tls, force_close=True)
    return aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        # What the environment names as a proxy may be this very proxy.
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None),
        trace_configs=[trace],
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        max_line_size=LONGEST_HEADER,
        max_field_size=LONGEST_HEADER,
    )


class KeptSessions:
    """Sessions whose connections are used again. Used from the event loop's thread only."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._sessions: OrderedDict[_Key, aiohttp.ClientSession] = OrderedDict()
        self._users: Counter[_Key] = Counter()

    @asynccontextmanager
    async def session(self, outgoing: Outgoing, tls: Tls) -> AsyncIterator[aiohttp.ClientSession]:
        """That of the server to which a request goes."""
        url = outgoing.url
        key = url.scheme, url.host, url.port, frozenset(outgoing.addresses), tls
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = session_to(outgoing.addresses, tls, keeps=True)
        self._sessions.move_to_end(key)
        self._users[key] += 1
        try:
            yield session
        finally:
            self._users[key] -= 1
            await self._close_idle()

    async def close(self) -> None:
        sessions, self._sessions = self._sessions, OrderedDict()
        for session in sessions.values():
            await session.close()

    async def _close_idle(self) -> None:
        idle = [key for key in self._sessions if not self._users[key]]
        for key in idle[: max(len(self._sessions) - self._most, 0)]:
            del self._users[key]
            await self._sessions.pop(key).close()


class KeptAddresses:
    """The addresses of servers, looked up again after a while, or where they were of no use. As `KeptSessions`."""

    def __init__(self, look_up: Callable[[str, int], Awaitable[Sequence[Address]]] = resolve) -> None:
        self._look_up = look_up
        self._found: dict[tuple[str, int], tuple[tuple[Address, ...], float]] = {}

    async def of(self, host: str, port: int) -> tuple[Address, ...]:
        now = asyncio.get_running_loop().time()
        self._found = {place: found for place, found in self._found.items() if found[1] > now}
        if (host, port) not in self._found:
            addresses = tuple(await self._look_up(host, port))
            if not addresses:
                return ()
            self._found[host, port] = addresses, now + KEPT_SECONDS
        return self._found[host, port][0]

    def forget(self, host: str, port: int) -> None:
        self._found.pop((host, port), None)


def _telling(tell: Callable[[Listening], None]) -> Callable[..., Awaitable[None]]:
    async def told(_session: object, context: Any, _parameters: object) -> None:
        tell(context.trace_request_ctx)

    return told


class _Judged(AbstractResolver):
    """Leads to the addresses that were looked at before, whatever the name means by now."""

    def __init__(self, addresses: tuple[Address, ...]) -> None:
        self._addresses = addresses

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - each address says it itself
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET6 if address.version == 6 else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Nothing is held."""
