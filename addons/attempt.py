"""One try to get an answer for a request: connect, release the body, wait for the first byte, then stream."""

from __future__ import annotations

import asyncio
import io
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict

from addons.credentials import Headers
from addons.guard import Address
from addons.outgoing import Outgoing
from memory.exchange import SentTo

LONGEST_HEADER = 1 << 16
"""Bytes in a header, or a status line, of an answer."""
_LOOK_EVERY = 2.0
"""Seconds of silence after which reading begins anew. Over chunks that are no chunks aiohttp (3.14) closes the connection
without a word to who waits already.
"""
BROKEN = (aiohttp.ClientError, HttpProcessingError, OSError)
"""What `Answer.read` raises where an answer breaks off, or goes on in a way that is not HTTP."""


class AttemptError(Exception):
    """No answer came. The message says why, after the name of where it was to come from."""


class NotRecordedError(Exception):
    """That the body is sent could not be written down, so it was not sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that has begun. Its body is as it came, still encoded.

    `read` gives what came since, and empty bytes at the end; it raises one of BROKEN. `first` are the first bytes, empty if the body is.
    """

    status: int
    reason: str
    headers: Headers
    from_provider: bool
    """It comes from the provider that the client asked, not from a target."""
    first: bytes
    read: Callable[[], Awaitable[bytes]]


@asynccontextmanager
async def attempt(
    outgoing: Outgoing, tls: ssl.SSLContext | Literal[True], *, on_sent: Callable[[SentTo], None]
) -> AsyncIterator[Answer]:
    """Send the request to one of its addresses, over a connection of its own, which is closed at the end.

    `on_sent` is called when the connection stands, TLS included, right before head and body are written to it.

    Raises:
        AttemptError: no connection, no first byte of an answer's body in time, or a status that is no answer.
        NotRecordedError: `on_sent` failed.

    """
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(outgoing.connect_timeout)
    released = False

    async def release(*_: object) -> None:
        nonlocal released
        try:
            on_sent(outgoing.sent_to)
        except Exception as error:  # whatever it is, what is not recorded is not sent
            raise NotRecordedError(type(error).__name__) from error
        released = True
        seconds = outgoing.first_byte_timeout
        limit.reschedule(None if seconds is None else loop.time() + seconds)

    async with AsyncExitStack() as held:
        session = await held.enter_async_context(_session(outgoing, tls, release))
        try:
            async with limit:
                response = await session.request(
                    outgoing.method,
                    outgoing.url,
                    data=io.BytesIO(outgoing.body) if outgoing.body else None,
                    headers=CIMultiDict(outgoing.headers),
                    allow_redirects=False,
                )
                held.callback(response.close)
                _check_status(outgoing, response.status)
                first = await response.content.readany()
        except TimeoutError:
            raise AttemptError(_too_late(outgoing, released=released)) from None
        except (*BROKEN, ValueError) as error:  # ValueError: what no URL and no header can hold
            raise AttemptError(_why(error, released=released)) from error
        headers = tuple((_text(name), _text(value)) for name, value in response.raw_headers)
        yield Answer(response.status, response.reason or "", headers, outgoing.last, first, lambda: _read(response))


def _session(
    outgoing: Outgoing, tls: ssl.SSLContext | Literal[True], release: Callable[..., Any]
) -> aiohttp.ClientSession:
    trace = aiohttp.TraceConfig()
    trace.on_request_headers_sent.append(release)
    connector = aiohttp.TCPConnector(
        resolver=_Judged(outgoing.addresses),
        use_dns_cache=False,
        ssl=tls,
        # A connection that was kept may be dead: it would take the body, and it would count as sent.
        force_close=True,
    )
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


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """What has come of the body since; empty bytes at its end."""
    while True:
        try:
            async with asyncio.timeout(_LOOK_EVERY):
                return await response.content.readany()
        except TimeoutError:
            continue
        except RuntimeError as error:  # what aiohttp says to who reads on from a connection that it has closed
            raise aiohttp.ClientPayloadError("the answer goes on in no HTTP") from error


def _check_status(outgoing: Outgoing, status: int) -> None:
    # A client that is led elsewhere takes the body with it, past every rule.
    if not outgoing.last and (status >= 500 or 300 <= status < 400):
        raise AttemptError(f"answered with status {status}")


def _too_late(outgoing: Outgoing, *, released: bool) -> str:
    if released:
        return f"gave no answer within {outgoing.first_byte_timeout:g} s"
    return f"could not be connected to within {outgoing.connect_timeout:g} s"


def _why(error: Exception, *, released: bool) -> str:
    if released:
        if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
            return "did not answer in HTTP"
        return "closed the connection before it answered"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "has a certificate that was not accepted, or speaks no TLS"
    if isinstance(error, ConnectionRefusedError) or isinstance(error.__cause__, ConnectionRefusedError):
        return "refused the connection"
    return "could not be connected to"


def _text(header: bytes) -> str:
    return header.decode("utf-8", "replace")
