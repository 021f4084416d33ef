"""The loop: attempts and searches in turns, of which the client sees one answer.

It runs inside the gateway, in place of passing an answer on. What the model says streams on as it comes; while the memory is
searched, and until the model goes on, the stream is kept alive.
"""

from __future__ import annotations

import asyncio
import json
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol as Shape

from aiohttp import web

from addons.attempt import BROKEN, Answer, AttemptError, NotRecordedError, OnSent
from addons.encodings import Decoder, EncodingError
from addons.faults import traced
from addons.flows import Offering
from addons.gateway import Begin
from addons.identify import INLINE_BYTES
from addons.loop.dialect import Ask, BrokenAnswerError, Hop, Offered, Passage
from addons.loop.searcher import Found
from addons.outgoing import Outgoing
from addons.passing import Passed, hang_up, pass_on, told
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
REFUSED = 400
"""The status by which a provider refuses a tool."""
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
        outgoing = _unencoded(outgoing)
        async with begin(outgoing, on_sent) as answer:
            without = _without_tool(self.offering.offered, outgoing.body.decode()) if answer.status == REFUSED else None
            if without is None:
                return await _OneAnswer(self, request, outgoing, begin).tell(answer)
        # Nothing is counted twice: it is the same request, to the same model.
        async with begin(replace(outgoing, body=without.encode()), lambda _sent: None) as answer:
            if answer.is_good:
                self.refused()
            return await pass_on(answer, request)


class _ClientLeftError(Exception):
    pass


class _NoWayOnError(Exception):
    """The model said no more. The message is for the client; `kind` is a word of its protocol."""

    def __init__(self, message: str, kind: str = "api_error", *, status: int = _BAD_GATEWAY) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


class _OneAnswer:
    """One answer of several, as it comes about."""

    def __init__(self, loop: Loop, request: web.Request, outgoing: Outgoing, begin: Begin) -> None:
        self._loop = loop
        self._request = request
        self._outgoing = outgoing
        self._begin = begin
        offering = loop.offering
        self._is_streamed = offering.offered.is_streamed
        self._weave = offering.dialect.weave(offering.offered, outgoing.body.decode(), offering.tool)
        self._pings = _Pings(self._weave.ping if self._is_streamed else b"", self._write, loop.ping_seconds)
        self._broke_off = False

    async def tell(self, first: Answer) -> web.StreamResponse:
        """Answer the client. `first` is the answer to the first request."""
        if not first.is_good or (self._is_streamed and not (_is_event_stream(first) or _is_json(first))):
            return await pass_on(first, self._request)
        if self._is_streamed and _is_json(first):  # some servers stream nothing
            self._is_streamed, self._pings = False, _Pings(b"", self._write, self._loop.ping_seconds)
        self._response = Passed(first, another=True)
        try:
            return await self._tell(first)
        except _ClientLeftError:
            logger.debug("the client has left")
        except Exception as error:  # nothing else can be said any more, once an answer has begun
            if not self._response.prepared:
                raise
            logger.error("An answer could not be passed on: %s", traced(error))  # noqa: TRY400 - without its message
            hang_up(self._request)
        finally:
            await self._pings.stop()
        return self._response

    async def _tell(self, first: Answer) -> web.StreamResponse:
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
            self._broke_off = False
            return await self._end(self._weave.error(str(error), error.kind))
        results = {}
        if hop.asks and hop.calls_others:
            found = await self._search(hop)
            self._loop.search.keep(found)
            results = _results(hop, found)
        last = self._weave.finish(results)
        # The client may go on as soon as it has read this.
        self._loop.keep(self._weave.passages())
        return await self._end(last)

    async def _search(self, hop: Hop) -> Sequence[Found]:
        self._pings.start()
        return await asyncio.gather(*(self._loop.search.search(ask, self._outgoing) for ask in hop.asks))

    async def _next_body(self, results: Mapping[str, str]) -> str:
        if len(self._outgoing.body) <= INLINE_BYTES:
            return self._weave.go_on(results)
        return await asyncio.to_thread(self._weave.go_on, results)

    async def _go_on(self, body: str, found: Sequence[Found]) -> Hop | web.StreamResponse:
        """The next request, and what its answer came to; or the answer itself, where the client gets that."""
        self._broke_off = False  # what was heard so far was enough
        wait = self._outgoing.first_byte_timeout or (self._loop.longest_wait if self._is_streamed else None)
        outgoing = replace(self._outgoing, body=body.encode("utf-8", "surrogatepass"), first_byte_timeout=wait)
        try:
            async with self._begin(outgoing, partial(self._loop.search.hand_over, found)) as answer:
                await self._pings.stop()  # from now on it is as quiet as the model is
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
        """Listen to an answer up to its end."""
        raw: list[bytes] = []
        try:
            await self._read(answer, raw if is_first else None)
        except (*BROKEN, EncodingError) as error:
            if is_first and not self._response.prepared:
                return await pass_on(replace(answer, first=b"".join(raw)), self._request)
            if not self._is_streamed:
                raise _NoWayOnError(f"the answer of {self._outgoing.name} broke off") from error
            self._broke_off = True
        try:
            return self._weave.over()
        except BrokenAnswerError as error:
            if is_first and not self._response.prepared:
                return await pass_on(replace(answer, first=b"".join(raw)), self._request)
            raise _NoWayOnError(f"the answer of {self._outgoing.name} broke off") from error

    async def _read(self, answer: Answer, raw: list[bytes] | None) -> None:
        """Give the client what can be given of an answer. `raw` takes what came, as long as nothing could."""
        encoding = _header(answer, "content-encoding")
        decoder = Decoder(encoding, self._loop.largest_answer)
        document = bytearray()
        chunk = answer.first
        while chunk:
            if raw is not None and not self._response.prepared:
                raw.append(chunk)
            if not self._is_streamed:
                document += decoder.feed(chunk)
            elif given := self._weave.feed(decoder.feed(chunk) if encoding else chunk):
                await self._give(given)
            chunk = await answer.read()
        decoder.check_end()
        if not self._is_streamed:
            self._weave.whole(bytes(document))

    async def _give(self, data: bytes) -> None:
        await self._pings.stop()
        await self._write(data)

    async def _write(self, data: bytes) -> None:
        try:
            if not self._response.prepared:
                await self._response.prepare(self._request)
            await self._response.write(data)
        except ConnectionError:
            raise _ClientLeftError from None

    async def _end(self, last: bytes) -> web.StreamResponse:
        if not self._is_streamed:
            self._response.content_length = len(last)
        await self._give(last)
        if self._broke_off:
            hang_up(self._request)  # so that it does not look whole
            return self._response
        try:
            await self._response.write_eof()
        except ConnectionError:
            raise _ClientLeftError from None
        return self._response


class _Pings:
    """Keeps a stream alive while nothing else is written to it: the first ping comes at once. No `ping`: does nothing."""

    def __init__(self, ping: bytes, write: Callable[[bytes], Awaitable[None]], seconds: float) -> None:
        self._ping = ping
        self._write = write
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._ping and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="pings")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)  # that the client has left is noticed elsewhere

    async def _run(self) -> None:
        while True:
            await self._write(self._ping)
            await asyncio.sleep(self._seconds)


def _results(hop: Hop, found: Sequence[Found], remark: str = "") -> dict[str, str]:
    return {ask.id: one.text + remark for ask, one in zip(hop.asks, found, strict=True)}


def _unencoded(outgoing: Outgoing) -> Outgoing:
    """The same, its answer asked for as it is read."""
    headers = tuple(one for one in outgoing.headers if one[0].lower() != "accept-encoding")
    return replace(outgoing, headers=(*headers, ("Accept-Encoding", "identity")))


def _without_tool(offered: Offered, sent: str) -> str | None:
    """What is sent to a provider that refuses the tool, where notes may have been withheld or the model named otherwise.

    None: it would be the same, or it cannot be told.
    """
    if offered.without_tool is None:
        return None
    start = _alike(offered.text, offered.without_tool)
    put_in, instead = offered.text[start:], offered.without_tool[start:]
    if rest := _alike(put_in[::-1], instead[::-1]):
        put_in, instead = put_in[:-rest], instead[:-rest]
    return sent.replace(put_in, instead) if put_in and sent.count(put_in) == 1 else None


def _alike(one: str, other: str) -> int:
    """With how many of the same characters they begin."""
    return bisect_left(range(min(len(one), len(other))), True, key=lambda at: one[: at + 1] != other[: at + 1])


def _header(answer: Answer, name: str) -> str:
    return ",".join(value for key, value in answer.headers if key.lower() == name)


def _is_event_stream(answer: Answer) -> bool:
    return _kind(answer) == "text/event-stream"


def _is_json(answer: Answer) -> bool:
    return _kind(answer) == "application/json"


def _kind(answer: Answer) -> str:
    return _header(answer, "content-type").partition(";")[0].strip().lower()


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
