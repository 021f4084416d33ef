"""One try to get an answer for a request: connect, release the body, wait for the first byte, then stream."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict

from addons.credentials import Headers
from addons.outgoing import Outgoing
from addons.sessions import KeptSessions, Tls, session_to
from memory.exchange import SentTo

_LOOK_EVERY = 2.0
"""Seconds of silence after which reading begins anew. Over chunks that are no chunks aiohttp (3.14) closes the connection
without a word to who waits already.
"""
BROKEN = (aiohttp.ClientError, HttpProcessingError, OSError)
"""What `Answer.read` raises where an answer breaks off, or goes on in a way that is not HTTP."""

type OnSent = Callable[[SentTo], None]


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

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


class _Progress:
    """How a request gets on (`sessions.Listening`): its time limits, and who is told that it is sent, once."""

    def __init__(self, outgoing: Outgoing, on_sent: OnSent) -> None:
        self._outgoing = outgoing
        self._on_sent = on_sent
        self._loop = asyncio.get_running_loop()
        self.limit = asyncio.timeout(outgoing.connect_timeout)
        self.was_released = False
        self.was_reused = False

    def reused(self) -> None:
        self.was_reused = True

    def released(self) -> None:
        if not self.was_released:
            try:
                self._on_sent(self._outgoing.sent_to)
            except Exception as error:  # whatever it is, what is not recorded is not sent
                raise NotRecordedError(type(error).__name__) from error
        self.was_released = True
        self._wait(self._outgoing.first_byte_timeout)

    def begins_anew(self) -> None:
        self._wait(self._outgoing.connect_timeout)

    def _wait(self, seconds: float | None) -> None:
        self.limit.reschedule(None if seconds is None else self._loop.time() + seconds)


@asynccontextmanager
async def attempt(
    outgoing: Outgoing, tls: Tls, *, on_sent: OnSent, kept: KeptSessions | None = None
) -> AsyncIterator[Answer]:
    """Send the request to one of its addresses.

    `on_sent` is called when the connection stands, TLS included, right before head and body are written to it. `kept` None:
    over a connection of its own, which is closed at the end. Else over one that was kept, if there is any: should that turn
    out dead before anything of an answer came, the request is sent once more, over one of its own.

    Raises:
        AttemptError: no connection, no first byte of an answer's body in time, or a status that is no answer.
        NotRecordedError: `on_sent` failed.

    """
    progress = _Progress(outgoing, on_sent)
    async with AsyncExitStack() as held:
        sessions = kept.session(outgoing, tls) if kept else session_to(outgoing.addresses, tls)
        session = await held.enter_async_context(sessions)
        try:
            async with progress.limit:
                try:
                    response = await _asked(session, outgoing, progress)
                except (aiohttp.ClientConnectionError, OSError):
                    if not progress.was_reused:
                        raise
                    progress.begins_anew()
                    fresh = await held.enter_async_context(session_to(outgoing.addresses, tls))
                    response = await _asked(fresh, outgoing, progress)
                held.callback(response.close)
                _check_status(outgoing, response.status)
                first = await response.content.readany()
        except TimeoutError:
            raise AttemptError(_too_late(outgoing, released=progress.was_released)) from None
        except (*BROKEN, ValueError) as error:  # ValueError: what no URL and no header can hold
            raise AttemptError(_why(error, released=progress.was_released)) from error
        headers = tuple((_text(name), _text(value)) for name, value in response.raw_headers)
        yield Answer(response.status, response.reason or "", headers, outgoing.last, first, lambda: _read(response))


async def _asked(session: aiohttp.ClientSession, outgoing: Outgoing, progress: _Progress) -> aiohttp.ClientResponse:
    return await session.request(
        outgoing.method,
        outgoing.url,
        data=io.BytesIO(outgoing.body) if outgoing.body else None,
        headers=CIMultiDict(outgoing.headers),
        allow_redirects=False,
        trace_request_ctx=progress,
    )


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
