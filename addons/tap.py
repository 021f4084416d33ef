"""Tap: lets every answer stream through as it comes, and reads a copy of it on the way.

Whoever records answers is told of each before its client has the end of it: with the last event of a stream, or with the
last byte of a document of known length, before these are passed on; else before the end of the message is.

An exception in mitmproxy's stream callable would kill the connection, so nothing that reads the copy may raise out of it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from mitmproxy import http

from addons.conversation_keys import ConversationKeys
from addons.encodings import Decoder, EncodingError
from addons.faults import traced
from addons.flows import Flows
from addons.headers import plain
from addons.wire import lane_of, wire_for
from addons.wire.answer import Answer, AnswerParts
from addons.wire.streams import AnswerReader
from memory.exchange import Exchange

logger = logging.getLogger(__name__)

MOST_FAILURES = 20
INLINE_BYTES = 256 * 1024
"""An answer that is one JSON document larger than this is read in a thread, so that the streams of others do not stall."""

type OnAnswer = Callable[[http.HTTPFlow, Exchange, Answer], None]


class Listener:
    """Reads the copy of one answer. `feed` and `close` never raise: what goes wrong is told to `failed`, once."""

    def __init__(self, parts: AnswerParts, headers: Mapping[str, str], limit: int) -> None:
        self._decoder = Decoder(headers.get("content-encoding", ""), limit)
        self._parts = parts
        self._reader = AnswerReader(parts, headers.get("content-type", ""))
        self._reading = True
        self._was_over = False
        self.fault: Exception | None = None
        """A fault of our own, which ended the reading."""

    def feed(self, chunk: bytes) -> None:
        if not self._reading:
            return
        try:
            self._reader.feed(self._decoder.feed(chunk))
        except EncodingError:
            self._reading = False  # the server's doing: the answer stays incomplete
        except Exception as error:  # noqa: BLE001 - the client gets its answer whatever becomes of the copy
            logger.error("An answer could not be read: %s", traced(error))  # noqa: TRY400 - without its message
            self._reading, self.fault = False, error

    def over(self) -> Answer | None:
        """The answer of a stream that has just said that it is over; None: it has not, or it has been given before."""
        if self._was_over or not self._reading or not self._parts.done:
            return None
        self._was_over = True
        try:
            return self._parts.answer()
        except Exception as error:  # noqa: BLE001 - as in `feed`
            self.fault = self.fault or error
            return None

    def close(self) -> Answer | None:
        try:
            answer = self._reader.close()
            # Where the reading ended before the answer did, nothing is known of its end.
            return answer if self._reading else replace(answer, cut=False)
        except Exception as error:  # noqa: BLE001 - as in `feed`
            logger.error("An answer could not be read: %s", traced(error))  # noqa: TRY400 - without its message
            self.fault = self.fault or error
            return None


class Tap:
    """Streams the answers of all flows, requests to models or not, to the byte and without waiting."""

    def __init__(
        self,
        flows: Flows,
        conversations: ConversationKeys,
        *,
        largest_answer: int,
        on_answer: OnAnswer = lambda _flow, _exchange, _answer: None,
    ) -> None:
        self._flows = flows
        self._on_answer = on_answer
        self._conversations = conversations
        self._largest_answer = largest_answer
        self._listeners: dict[str, Listener] = {}
        self._sockets: dict[str, AnswerParts] = {}
        """Exchange -> what each turn on a WebSocket has been answered so far."""
        self.failures: deque[str] = deque(maxlen=MOST_FAILURES)
        """The last faults of our own, for the status line."""

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        if flow.response is None or flow.response.status_code == 101 or not flow.server_conn.timestamp_tcp_setup:
            return  # an upgrade, or an answer of our own
        exchange = self._flows.of(flow)
        if exchange is None:
            flow.response.stream = True
            return
        if exchange.decision.action == "block":
            return
        headers = plain(flow.response.headers)
        listener = self._listen(flow, headers)
        is_recorded = listener is not None and self._flows.asked_of(exchange) is not None
        length = _length_of(headers) if is_recorded else None
        if length is not None and INLINE_BYTES < length <= self._largest_answer and _is_document(headers):
            return  # it is read in a thread, and nothing of it may be passed on before

        def tee(chunk: bytes) -> bytes:
            exchange.response_bytes += len(chunk)
            if listener is not None:
                listener.feed(chunk)
                if is_recorded:
                    is_last = exchange.response_bytes == length
                    answer = listener.close() if is_last else listener.over()
                    if answer is not None:
                        self._on_answer(flow, exchange, answer)
            return chunk

        flow.response.stream = tee

    def _listen(self, flow: http.HTTPFlow, headers: Mapping[str, str]) -> Listener | None:
        parts = wire_for(flow.request.path).answer()
        if parts is None:
            return None
        listener = self._listeners[flow.id] = Listener(parts, headers, self._largest_answer)
        return listener

    async def response(self, flow: http.HTTPFlow) -> None:
        await self._end(flow)

    async def error(self, flow: http.HTTPFlow) -> None:
        await self._end(flow)

    async def _end(self, flow: http.HTTPFlow) -> None:
        listener, exchange = self._listeners.pop(flow.id, None), self._flows.of(flow)
        if listener is None or exchange is None:
            return
        if flow.response and not flow.response.stream and (body := flow.response.raw_content):
            exchange.response_bytes = len(body)
            answer = await asyncio.to_thread(_read_whole, listener, body)
        elif exchange.response_bytes > INLINE_BYTES:
            answer = await asyncio.to_thread(listener.close)
        else:
            answer = listener.close()
        if listener.fault is not None:
            self._fail(listener.fault)
        if answer is not None:
            self._take(flow, exchange, answer)

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        exchange = self._flows.of(flow)
        if exchange is None or flow.websocket is None:
            return
        message = flow.websocket.messages[-1]
        if message.from_client:
            if self._flows.awaits_answer(flow) and (parts := wire_for(flow.request.path).answer()) is not None:
                self._sockets[exchange.id] = parts
            return
        try:
            event = json.loads(message.content)
        except (ValueError, RecursionError):
            event = None  # no JSON
        exchange = self._flows.turn_to(flow, lane_of(event))
        if exchange is None:
            return
        exchange.response_bytes += len(message.content)
        if (parts := self._sockets.get(exchange.id)) is None:
            return
        try:
            parts.add(event)
            if parts.done:
                self._take(flow, exchange, self._sockets.pop(exchange.id).answer())
        except Exception as error:  # noqa: BLE001 - as in `Listener`
            logger.error("An answer could not be read: %s", traced(error))  # noqa: TRY400 - without its message
            self._fail(error)

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        for exchange in self._flows.under_way(flow):
            if (parts := self._sockets.pop(exchange.id, None)) is not None:
                self._take(flow, exchange, parts.answer())

    def _take(self, flow: http.HTTPFlow, exchange: Exchange, answer: Answer) -> None:
        exchange.usage = answer.usage
        self._conversations.answered(exchange, answer.id)
        self._flows.answered(flow, answer)
        self._on_answer(flow, exchange, answer)

    def _fail(self, error: Exception) -> None:
        self.failures.append(f"An answer was not read: {type(error).__name__}")


def _read_whole(listener: Listener, body: bytes) -> Answer | None:
    listener.feed(body)
    return listener.close()


def _length_of(headers: Mapping[str, str]) -> int | None:
    """The bytes that the answer says it has."""
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() else None


def _is_document(headers: Mapping[str, str]) -> bool:
    kind = headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower() == "application/json"
