"""Remember: what clients with a memory say to models, and what they are answered, on this disk (conversation-memory.md).

A turn is written down before the client has the end of its answer: then it is there whatever happens next. Of clients
without a memory nothing is read, kept or converted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from mitmproxy import http

from addons.conversation_keys import LONGEST_KEY
from addons.faults import traced
from addons.flows import Asked, Flows, Heard
from addons.wire import bare_path, wire_for
from addons.wire.answer import Answer
from addons.wire.said import said_answer, said_messages
from memory.conversations.said import Message, Prepared, Said
from memory.exchange import Exchange

logger = logging.getLogger(__name__)

MOST_FAILURES = 20
INLINE_BYTES = 16 * 1024
"""Requests above this are converted in a thread: it takes a millisecond or so for each of this size."""


class Recorder(Protocol):
    """Writes down what was said (`memory.conversations.recorder`). Methods may be called from any thread."""

    def prepare(self, messages: Sequence[Message]) -> Prepared:
        """What can be done before the answer is there: it takes some milliseconds for each megabyte."""

    def record(self, client: str, said: Said) -> object:
        """Append a turn. Raises OSError."""


class Remember:
    """Keeps what a request said until its answer is over, then has both recorded.

    `recorder_of` gives the recorder for a client's slug; None: it has no memory, or not any more.
    """

    def __init__(
        self,
        flows: Flows,
        recorder_of: Callable[[str], Recorder | None],
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._flows = flows
        self._recorder_of = recorder_of
        self._clock = clock
        self._fault: str | None = None
        """Why the last turn could not be written; None: it was."""
        self.failures: deque[str] = deque(maxlen=MOST_FAILURES)
        """The last faults of our own, for the status line."""

    @property
    def warnings(self) -> list[str]:
        return [*([self._fault] if self._fault else []), *self.failures]

    def remembers(self, client: str) -> bool:
        return self._recorder_of(client) is not None

    async def request(self, flow: http.HTTPFlow) -> None:
        if (exchange := self._flows.of(flow)) is not None and flow.response is None:
            await self._keep(flow, exchange)

    async def websocket_message(self, flow: http.HTTPFlow) -> None:
        exchange = self._flows.of(flow)
        if exchange is not None and flow.websocket and flow.websocket.messages[-1].from_client:
            await self._keep(flow, exchange)

    async def _keep(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        """Convert the body that was kept for us, unless it is sent to nobody or is no turn of a conversation."""
        heard, recorder = self._flows.take_heard(exchange), self._recorder_of(exchange.client)
        if heard is None or recorder is None or exchange.side_request or exchange.decision.action == "block":
            return
        try:
            if heard.body.size <= INLINE_BYTES:
                asked = _asked(flow.request.path, heard, recorder)
            else:
                asked = await asyncio.to_thread(_asked, flow.request.path, heard, recorder)
        except Exception as error:  # noqa: BLE001 - the request goes its way whatever becomes of its record
            self._fail(error)
        else:
            self._flows.ask(exchange, asked)

    def answered(self, flow: http.HTTPFlow, exchange: Exchange, answer: Answer) -> None:
        """Record an answer that is over, for whatever reason. It may be told again, with more in it. Never raises."""
        asked, recorder = self._flows.asked_of(exchange), self._recorder_of(exchange.client)
        if asked is None or recorder is None or not _is_answer(flow) or exchange.decision.action == "block":
            return
        try:
            self._record(recorder, exchange, asked, answer)
        except OSError as error:
            self._tell(error)
        except Exception as error:  # noqa: BLE001 - the client gets its answer whatever becomes of its record
            self._fail(error)

    def _record(self, recorder: Recorder, exchange: Exchange, asked: Asked, answer: Answer) -> None:
        message = said_answer(answer)
        complete = answer.complete and not answer.cut
        if message == asked.recorded or not (complete or message.text or message.calls):
            return
        asked.recorded = message  # whatever comes of it: a full disk is told once for each turn
        said = Said(
            key=asked.key,
            messages=asked.messages,
            answer=message,
            model=answer.model or exchange.model,
            at=exchange.started_at,
            answered_at=self._clock(),
            complete=complete,
            continues=asked.continues,
            previous=asked.previous,
            answer_id=answer.id,
            prepared=asked.prepared,
        )
        recorder.record(exchange.client, said)
        self._fault = None

    def _tell(self, error: OSError) -> None:
        fault = (
            f"Conversations cannot be written down ({error.strerror or type(error).__name__}): they go on unrecorded"
        )
        if fault != self._fault:
            logger.warning("%s", fault)
        self._fault = fault

    def _fail(self, error: Exception) -> None:
        logger.error("A conversation could not be recorded: %s", traced(error))
        self.failures.append(f"A conversation was not recorded: {type(error).__name__}")


def _asked(path: str, heard: Heard, recorder: Recorder) -> Asked:
    path = bare_path(path)
    content = wire_for(path).content(path, heard.body.outline)
    messages = tuple(said_messages(content.messages))
    facts = heard.facts
    return Asked(
        key=facts.conversation and facts.conversation[:LONGEST_KEY],
        messages=messages,
        prepared=recorder.prepare(messages),
        continues=facts.continues,
        previous=facts.previous,
    )


def _is_answer(flow: http.HTTPFlow) -> bool:
    """Whether the model has answered: a status of an error says that it has not."""
    status = flow.response.status_code if flow.response else 0
    return 200 <= status < 300 or flow.websocket is not None
