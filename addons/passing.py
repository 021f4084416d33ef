"""Somebody else's answer, passed on to the byte and without waiting."""

from __future__ import annotations

import logging

from aiohttp import web

from addons.attempt import BROKEN, Answer
from addons.faults import traced
from addons.refusals import Refusal

logger = logging.getLogger(__name__)

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OF_THE_HOST = frozenset({"alt-svc", "set-cookie", "strict-transport-security"})
"""Headers that a client applies to the host that it has asked, which is not the target."""
_OF_THE_BODY = frozenset({"content-encoding", "content-length"})
_MADE_HERE = ("Content-Type", "Date", "Server")
"""Headers that aiohttp adds where there are none."""


class Passed(web.StreamResponse):
    """Somebody else's answer, with no header but its own; those that tell of its body are left out where that is `another`."""

    def __init__(self, answer: Answer, *, another: bool = False) -> None:
        super().__init__(status=answer.status, reason=answer.reason)
        own = {name.lower() for name, _ in answer.headers}
        named = {
            one.strip().lower()
            for name, value in answer.headers
            if name.lower() == "connection"
            for one in value.split(",")
        }
        dropped = _HOP_BY_HOP | named | (frozenset() if answer.from_provider else _OF_THE_HOST)
        dropped |= _OF_THE_BODY if another else frozenset()
        for name, value in answer.headers:
            if name.lower() not in dropped:
                self.headers.add(name, value)
        self.made_here = [name for name in _MADE_HERE if name.lower() not in own]


async def add_nothing(_: web.Request, response: web.StreamResponse) -> None:
    """For `on_response_prepare`: an answer that is passed on has no header of aiohttp's."""
    if isinstance(response, Passed):
        for name in response.made_here:
            response.headers.popall(name, None)


async def pass_on(answer: Answer, request: web.Request) -> web.StreamResponse:
    """Stream the answer as it comes. Where it breaks off, the connection does, so that it does not look whole."""
    response = Passed(answer)
    try:
        await response.prepare(request)
        chunk: bytes | None = answer.first
        while chunk:
            await response.write(chunk)
            chunk = await _next(answer)
        if chunk is None:
            logger.warning("The answer of a target broke off")
            hang_up(request)
        else:
            await response.write_eof()
    except ConnectionError:
        logger.debug("the client has left")
    except Exception as error:  # nothing else can be said any more, once an answer has begun
        if not response.prepared:
            raise
        logger.error("The answer of a target could not be passed on: %s", traced(error))  # noqa: TRY400 - without its message
        hang_up(request)
    return response


def told(answer: Refusal) -> web.Response:
    """An answer of our own."""
    return web.Response(status=answer.status, headers=answer.headers, body=answer.body)


async def _next(answer: Answer) -> bytes | None:
    """None: it broke off."""
    try:
        return await answer.read()
    except BROKEN:
        return None


def hang_up(request: web.Request) -> None:
    """Close the connection, once what was written to it has gone."""
    if request.transport is not None:
        request.transport.close()
