"""Searches the memory for a model that asks, and hands over what the rules let that model have.

Whatever goes wrong is told to the model in the result of its call: a search ends no conversation.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from addons.faults import traced
from addons.flows import Asked
from addons.loop.dialect import Ask
from addons.outgoing import Outgoing
from memory.conversations.memories import Memories
from memory.conversations.recall import Memory
from memory.conversations.recall_tool import ArgumentsError, read_arguments
from memory.conversations.recorder import Recorder
from memory.exchange import Decision, Exchange, Scan, SentTo, Sighting
from memory.note_library import NoteLibrary, Snapshot
from memory.rules import Judged, NotesFacts, RuleBook, judge
from memory.scan import scan_value
from memory.sources.conversations import ConversationsSource, note_of

logger = logging.getLogger(__name__)

SEARCH_SECONDS = 3.0
TOO_LATE = "The memory could not be searched in time (3 s). Go on without it."
FAULTY = "The memory could not be searched. Go on without it."
OFF = "There is no memory to search any more. Go on without it."


class Found(NamedTuple):
    """What a search came to. `text` is for the model; `sightings` are the notes in it, of so many `memories`."""

    text: str
    sightings: tuple[Sighting, ...] = ()
    memories: int = 0


class Handed(Protocol):
    """Writes down what a model receives beside the body of a request."""

    def __call__(self, exchange: Exchange, sightings: Sequence[Sighting], sent: SentTo) -> None: ...


@dataclass(frozen=True, slots=True)
class Searcher:
    """What all searches need. Callables are asked anew each time, since what they give may change.

    `rules` None: nothing is judged. `is_scanning`: whether notes are looked for at all.
    """

    memories: Callable[[], Memories | None]
    recorder_of: Callable[[str], Recorder | None]
    notes: NoteLibrary
    rules: Callable[[], RuleBook | None]
    is_scanning: Callable[[], bool]
    handed: Handed
    seconds: float = SEARCH_SECONDS

    def for_exchange(self, exchange: Exchange, asked: Callable[[], Asked | None]) -> ExchangeSearch:
        return ExchangeSearch(self, exchange, asked)


class ExchangeSearch:
    """The searches for one answer (`answering.Search`). `asked` gives what its request said; None: it is not remembered."""

    def __init__(self, searcher: Searcher, exchange: Exchange, asked: Callable[[], Asked | None]) -> None:
        self._searcher = searcher
        self._exchange = exchange
        self._asked = asked
        self._had: tuple[Memory, ...] = ()
        """What the model has of earlier searches, or gets with them."""
        self._judging = asyncio.Lock()

    async def search(self, ask: Ask, outgoing: Outgoing) -> Found:
        self._exchange.recalls = self._exchange.recalls.plus(1, 0)
        try:
            async with asyncio.timeout(self._searcher.seconds):
                return await self._search(ask, outgoing)
        except TimeoutError:
            logger.warning("A search of the memory took longer than %g s", self._searcher.seconds)
            return Found(TOO_LATE)
        except ArgumentsError as error:
            return Found(f"Nothing was searched for: {error}.")
        except Exception as error:  # noqa: BLE001 - the model goes on without a memory, whatever became of it
            logger.error("The memory could not be searched: %s", traced(error))  # noqa: TRY400 - without its message
            return Found(FAULTY)

    def hand_over(self, found: Sequence[Found], sent: SentTo) -> None:
        self.keep(found)
        # One note may be in the results of two searches.
        sightings = {sighting.note: sighting for one in found for sighting in one.sightings}
        self._searcher.handed(self._exchange, tuple(sightings.values()), sent)

    def keep(self, found: Sequence[Found]) -> None:
        self._exchange.recalls = self._exchange.recalls.plus(0, sum(one.memories for one in found))

    async def _search(self, ask: Ask, outgoing: Outgoing) -> Found:
        searcher, client = self._searcher, self._exchange.client
        query = read_arguments(_decoded(ask.arguments), datetime.now(UTC))
        memories = searcher.memories()
        if memories is None or searcher.recorder_of(client) is None:
            return Found(OFF)
        recalled = await memories.recall(
            client,
            query.query,
            limit=query.limit,
            after=query.after,
            before=query.before,
            own=await asyncio.to_thread(self._own),
        )
        kept, sightings = await self._allowed(recalled.memories, outgoing)
        return Found(replace(recalled, memories=kept).as_text(), sightings, len(kept))

    def _own(self) -> tuple[str, int] | None:
        """The conversation that asks: what was said in it the model has before it."""
        asked, recorder = self._asked(), self._searcher.recorder_of(self._exchange.client)
        if asked is None or recorder is None:
            return None
        return recorder.conversation_of(
            self._exchange.client,
            key=asked.key,
            messages=asked.messages,
            prepared=asked.prepared,
            continues=asked.continues,
            previous=asked.previous,
        )

    async def _allowed(
        self, memories: Sequence[Memory], outgoing: Outgoing
    ) -> tuple[tuple[Memory, ...], tuple[Sighting, ...]]:
        """Those that the model may have as they are, and the notes in them."""
        searcher = self._searcher
        rules, is_scanning = searcher.rules(), searcher.is_scanning()
        if not memories or (rules is None and not is_scanning):
            return tuple(memories), ()
        notes = searcher.notes
        snapshot = notes.snapshot if notes.is_ready else await notes.scan()
        judged = _Judged(_judged_at(self._exchange, outgoing), self._exchange.shared, snapshot if is_scanning else None)
        async with self._judging:  # searches beside each other are for one request
            kept, sightings = await asyncio.to_thread(_allowed, rules, judged, self._had, memories)
            self._had = (*self._had, *kept)
        return kept, sightings


def _decoded(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return None


def _judged_at(exchange: Exchange, outgoing: Outgoing) -> Judged:
    """A request to where the model is that asks: the provider, or the target that the request was led to."""
    sent, is_target = outgoing.sent_to, not outgoing.last
    provider = outgoing.name if is_target else exchange.provider
    return Judged(exchange.client, provider, sent.model, sent.to, target=outgoing.name if is_target else None)


@dataclass(frozen=True, slots=True)
class _Judged:
    """What memories are judged as a part of. `carried` are the notes in the request; `snapshot` None: none are looked for."""

    request: Judged
    carried: tuple[Sighting, ...]
    snapshot: Snapshot | None


def _allowed(
    rules: RuleBook | None, judged: _Judged, had: tuple[Memory, ...], memories: Sequence[Memory]
) -> tuple[tuple[Memory, ...], tuple[Sighting, ...]]:
    """Each is judged together with those that the model has already, and with the notes in its request: two may hold what
    neither holds alone.
    """
    notes = judged.snapshot.map.notes if judged.snapshot else {}
    facts = NotesFacts(notes)
    carried = [one for one in judged.carried if one.note in notes]  # others are gone since
    told = {(one.note, one.by) for one in _scanned(judged, had).sightings} if had else set()
    kept: tuple[Memory, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    for memory in memories:
        more = (*kept, memory)
        scan = _scanned(judged, (*had, *more))
        request = replace(judged.request, scan=scan.state)
        if rules is None or _may_go(judge(rules, request, _joined(carried, scan.sightings), facts), scan):
            new = [one for one in scan.sightings if (one.note, one.by) not in told]
            kept, sightings = more, tuple(replace(one, evidence=()) for one in new)
    return kept, sightings


def _scanned(judged: _Judged, memories: Sequence[Memory]) -> Scan:
    """What is found in memories: the notes in their text, and the sessions that they are of, where these are notes."""
    snapshot = judged.snapshot
    if snapshot is None:
        return Scan("unscanned", ("off",))
    scan = scan_value(snapshot.index, "\n".join(one.text for one in memories))
    sources = [one.name for one in snapshot.sources if one.kind == ConversationsSource.kind]
    ids = dict.fromkeys(note_of(source, judged.request.client, one.session) for source in sources for one in memories)
    notes = [note for one in ids if (note := snapshot.map.notes.get(one)) is not None]
    sessions = [Sighting(note.id, note.title, "content", "quote", 0, 0) for note in notes]
    return replace(scan, sightings=tuple(_joined(scan.sightings, sessions)))


def _joined(carried: Iterable[Sighting], found: Iterable[Sighting]) -> list[Sighting]:
    """Each note once; its text says more than its name."""
    every = (*carried, *found)
    return [*{one.note: one for one in (*every, *(one for one in every if one.by == "content"))}.values()]


def _may_go(decision: Decision, scan: Scan) -> bool:
    """Whether nothing is asked for because of what is in a memory. What is asked of the request itself has been done."""
    found = {one.note for one in scan.sightings}
    asked = [part for part in decision.parts if part.action != "allow"]
    return not any(found.intersection(part.notes) or scan.state != "complete" for part in asked)
