"""The loop: attempts and searches in turns, of which the client sees one answer.

It runs inside the gateway, in place of passing an answer on. What the model says streams on as it comes; while the memory is
searched, and until the model goes on, the stream is kept alive.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol as Shape

from aiohttp import web

from addons.attempt import BROKEN, Answer, AttemptError, NotRecordedError, OnSent
from addons.encodings import Decoder, EncodingError
from addons.faults import traced
from addons.flows import INLINE_BYTES, Offering
from addons.gateway import Begin
from addons.loop.dialect import Ask, BrokenAnswerError, Hop, Passage, Weave
from addons.loop.heads import encoding_of, is_stream, unencoded
from addons.loop.searcher import Found
from addons.loop.telling import ClientLeftError, Telling
from addons.loop.without_tool import without_tool
from addons.outgoing import Outgoing
from addons.passing import hang_up, pass_on, told
from addons.refusals import STATUS, refusal
from addons.wire.shapes import member
from memory.exchange import Protocol, SentTo

logger = logging.getLogger(__name__)

MOST_HOPS = 4
"""Requests for one answer."""
PING_SECONDS = 5.0
LONGEST_WAIT = 600.0
"""Seconds until the model must go on after a search: a client that gets pings waits forever. SDKs wait as long by themselves."""
LAST_SEARCH = "\n\n(This was the last search for this answer: answer with what is known now.)"
REFUSED = frozenset({400, 404, 422})
"""The statuses by which providers refuse a tool: OpenRouter finds no endpoint that takes one, and Mistral cannot process it."""
_BAD_GATEWAY = 502
_LONGEST_ERROR = 1 << 16
"""Bytes of an error's body in which its message is looked for."""
_LONGEST_MESSAGE = 1000


class Search(Shape):
    """Searches the memory of the client that asked, under the rules."""

    async def search(self, ask: Ask, outgoing: Outgoing) -> Found:
        """For a model that gets the result where `outgoing` goes. Never raises."""

    def hand_over(self, found: Sequence[Found], sent: SentTo) -> None:
        """Write down that a model receives it now. If it raises, nothing is sent."""

    def keep(self, found: Sequence[Found]) -> None:
        """Write down that it will go with the client's next request."""


@dataclass(frozen=True, slots=True)
class Loop:
    """How one request is answered (`gateway.Answering`).

    `keep` is given what was hidden from the client before it has the end of its answer. `refused` is called when the provider
    refuses the tool. `largest_answer` is in bytes, decoded.
    """

    offering: Offering
    protocol: Protocol
    search: Search
    keep: Callable[[Mapping[str, Passage]], None]
    refused: Callable[[], None]
    largest_answer: int
    ping_seconds: float = PING_SECONDS
    longest_wait: float = LONGEST_WAIT

    async def __call__(
        self, request: web.Request, outgoing: Outgoing, begin: Begin, on_sent: OnSent
    ) -> web.StreamResponse:
        outgoing = unencoded(outgoing)
        async with begin(outgoing, on_sent) as answer:
            if answer.is_good:
                return await self._tell(answer, request, outgoing, begin)
            refused = answer.status in REFUSED
            without = without_tool(self.offering.offered, outgoing.body.decode()) if refused else None
            if without is None:
                return await pass_on(answer, request)
        # Nothing is counted twice: it is the same request, to the same model.
        async with begin(replace(outgoing, body=without.encode()), lambda _sent: None) as answer:
            if answer.is_good:
                self.refused()
            return await pass_on(answer, request)

    async def _tell(self, first: Answer, request: web.Request, outgoing: Outgoing, begin: Begin) -> web.StreamResponse:
        """Answer the client. `first` is the answer to the first request."""
        offering = self.offering
        is_streamed = is_stream(first) if offering.offered.is_streamed else False
        if is_streamed is None:
            return await pass_on(first, request)
        weave = offering.dialect.weave(offering.offered, outgoing.body.decode(), offering.tool)
        telling = Telling(request, first, weave.ping if is_streamed else b"", self.ping_seconds)
        try:
            return await _Hops(self, request, outgoing, begin, weave, telling, is_streamed=is_streamed).tell(first)
        except ClientLeftError:
            logger.debug("the client has left")
        except Exception as error:  # nothing else can be said any more, once an answer has begun
            if not telling.has_begun:
                raise
            logger.error("An answer could not be passed on: %s", traced(error))  # noqa: TRY400 - without its message
            hang_up(request)
        finally:
            await telling.fall_silent()
        return telling.response


class _NoWayOnError(Exception):
    """The model said no more. The message is for the client; `kind` is a word of its protocol."""

    def __init__(self, message: str, kind: str = "api_error", *, status: int = _BAD_GATEWAY) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


class _Hops:
    """One answer of several, as it comes about."""

    def __init__(
        self,
        loop: Loop,
        request: web.Request,
        outgoing: Outgoing,
        begin: Begin,
        weave: Weave,
        telling: Telling,
        *,
        is_streamed: bool,
    ) -> None:
        self._loop = loop
        self._request = request
        self._outgoing = outgoing
        self._begin = begin
        self._weave = weave
        self._telling = telling
        self._is_streamed = is_streamed
        self._broke_off = False
        """The connection did, though perhaps not the answer."""
        self._size = len(outgoing.body)
        """Bytes of what the weave has at hand."""

    async def tell(self, first: Answer) -> web.StreamResponse:
        try:
            hops, hop = 1, await self._hear(first, is_first=True)
            while isinstance(hop, Hop) and hop.asks and not hop.calls_others and hops < MOST_HOPS:
                found = await self._search(hop)
                hops += 1
                results = _results(hop, found, LAST_SEARCH if hops == MOST_HOPS else "")
                hop = await self._go_on(await self._next_body(results), found)
            if not isinstance(hop, Hop):
                return hop
        except _NoWayOnError as error:
            logger.warning("An answer could not be gone on with after a search of the memory")
            if not self._is_streamed:
                return told(refusal(self._loop.protocol, str(error))._replace(status=error.status))
            return await self._telling.end(self._weave.error(str(error), error.kind))
        results = {}
        if hop.asks and hop.calls_others:
            found = await self._search(hop)
            self._loop.search.keep(found)
            results = _results(hop, found)
        last = await self._aside(self._weave.finish, results)
        # The client may go on as soon as it has read this.
        self._loop.keep(self._weave.passages())
        if not self._is_streamed:
            return await self._telling.end_document(last)
        return await self._telling.end(last, is_whole=not self._broke_off)

    async def _search(self, hop: Hop) -> Sequence[Found]:
        self._telling.keep_alive()
        return await asyncio.gather(*(self._loop.search.search(ask, self._outgoing) for ask in hop.asks))

    async def _next_body(self, results: Mapping[str, str]) -> str:
        try:
            return await self._aside(self._weave.go_on, results)
        except BrokenAnswerError as error:
            message = "mitmemory could not go on with this request after a search of the memory"
            raise _NoWayOnError(message, status=STATUS) from error

    async def _aside[Given, Made](self, work: Callable[[Given], Made], given: Given) -> Made:
        """Beside the streams of others, where it may take long."""
        return work(given) if self._size <= INLINE_BYTES else await asyncio.to_thread(work, given)

    async def _go_on(self, body: str, found: Sequence[Found]) -> Hop | web.StreamResponse:
        """The next request, and what its answer came to; or the answer itself, where the client gets that."""
        wait = self._outgoing.first_byte_timeout or (self._loop.longest_wait if self._is_streamed else None)
        outgoing = replace(self._outgoing, body=body.encode("utf-8", "surrogatepass"), first_byte_timeout=wait)
        try:
            async with self._begin(outgoing, partial(self._loop.search.hand_over, found)) as answer:
                await self._telling.fall_silent()  # from now on it is as quiet as the model is
                if answer.is_good:
                    return await self._hear(answer)
                if not self._is_streamed:
                    return await pass_on(answer, self._request)
                raise await _error_of(answer)
        except AttemptError as error:
            raise _NoWayOnError(f"{self._outgoing.name} {error}") from error
        except NotRecordedError as error:
            message = "mitmemory has sent nothing more, because it could not write that down (see its log)"
            logger.error("What a search found could not be recorded (%s)", error)  # noqa: TRY400 - it says the type
            raise _NoWayOnError(message, status=STATUS) from error

    async def _hear(self, answer: Answer, *, is_first: bool = False) -> Hop | web.StreamResponse:
        """Listen to an answer up to its end. The first one is the client's as it came, where nothing can be made of it."""
        raw: list[bytes] = []
        document: bytes | None = None
        self._broke_off = False
        try:
            try:
                document = await self._read(answer, raw if is_first else None)
            except (*BROKEN, EncodingError):
                if not self._is_streamed or (is_first and not self._telling.has_begun):
                    raise
                self._broke_off = True
            return await self._aside(self._heard, document)
        except (*BROKEN, EncodingError, BrokenAnswerError) as error:
            if is_first and not self._telling.has_begun:
                return await pass_on(replace(answer, first=b"".join(raw)), self._request)
            raise _NoWayOnError(f"the answer of {self._outgoing.name} broke off") from error

    def _heard(self, document: bytes | None) -> Hop:
        if document is not None:
            self._weave.whole(document)
        return self._weave.over()

    async def _read(self, answer: Answer, raw: list[bytes] | None) -> bytes | None:
        """Give the client what can be given of an answer at once. `raw` takes what came, as long as nothing could.

        Gives the answer, where it is one document.
        """
        encoding = encoding_of(answer)
        decoder = Decoder(encoding, self._loop.largest_answer)
        document = bytearray()
        chunk = answer.first
        while chunk:
            if raw is not None and not self._telling.has_begun:
                raw.append(chunk)
            data = decoder.feed(chunk) if encoding or not self._is_streamed else chunk
            self._size += len(data)
            if not self._is_streamed:
                document += data
            elif given := self._weave.feed(data):
                await self._telling.give(given)
            chunk = await answer.read()
        decoder.check_end()
        return None if self._is_streamed else bytes(document)


def _results(hop: Hop, found: Sequence[Found], remark: str = "") -> dict[str, str]:
    return {ask.id: one.text + remark for ask, one in zip(hop.asks, found, strict=True)}


async def _error_of(answer: Answer) -> _NoWayOnError:
    """What a provider says instead of an answer, in its own words."""
    data = answer.first
    try:
        while len(data) < _LONGEST_ERROR and (chunk := await answer.read()):
            data += chunk
        error = member(json.loads(data), "error")
    except (*BROKEN, ValueError, RecursionError):
        error = None
    message = member(error, "message") or f"the model answered with status {answer.status}"
    kind = member(error, "type") or member(error, "status") or "api_error"
    return _NoWayOnError(str(message)[:_LONGEST_MESSAGE], str(kind)[:_LONGEST_MESSAGE])
