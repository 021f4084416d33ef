"""Where a request belongs among what is known of its client: to which conversation, and what of it is new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memory.conversations.known import Chat, Known
from memory.conversations.messages import is_persons, last_persons
from memory.conversations.prefixes import START, Hash, Hasher, Verdict, judge
from memory.conversations.said import Message, Prepared, Said
from memory.conversations.store import Store

MOST_GROWING = 64
"""Answers whose text is remembered for a moment, in case that they grow: some streams tell their end many times."""
LONGEST_GROWING = 1 << 20


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a request belongs, and what of it is new. `chat` None: to a conversation that begins with it."""

    verdict: Verdict
    chat: Chat | None
    places: Sequence[Hash]
    answered: Hash
    answer: Message
    """What of the answer is to be written."""


class Placing:
    """Whoever asks holds the lock of the client's memory, whose `Known` is given."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._growing: OrderedDict[tuple[str, Hash, datetime], Message] = OrderedDict()
        self._growing_lock = threading.Lock()

    def goes_on_with(
        self, known: Known, prepared: Prepared, *, key: str | None, continues: bool, previous: str | None
    ) -> Chat | None:
        """The conversation of a request that has no answer yet; None: it begins one. The arguments are those of `Said`."""
        chat = known.by_key(self.key(key))
        if continues:
            found = known.by_answer(self.answer_id(previous))
            return chat if found is None else found[0]
        if chat is not None:
            return chat
        places = known.places
        parent = next((places[place] for place in reversed(prepared.places) if place in places), None)
        if parent is None or (key is not None and not parent.answered):
            return None
        return known.chat(parent.conversation)

    def place(self, client: str, known: Known, said: Said, prepared: Prepared) -> Placed:
        """Where a request belongs with its answer."""
        hasher = self._hasher
        chat = known.by_key(self.key(said.key))
        answer = said.answer
        base = START
        if said.continues:
            previous = known.by_answer(self.answer_id(said.previous))
            if previous is not None:
                chat, base = previous
            elif chat is None:
                base = hasher.name("begun elsewhere", said.previous or said.key or "")
            else:
                base = chat.base if self._is_retry(client, chat, said, prepared) else chat.tip
        places = prepared.places if base == START else hasher.places(base, prepared.digests)
        answered = hasher.places(places[-1], (hasher.message(answer),))[-1]
        table = known.places if chat is None else chat.places
        before = self._grown_from((client, places[-1], said.at), answer)
        verdict = judge(table, prepared.messages, places, answered, grown=before is not None)
        if chat is None and verdict.parent is not None:
            parent = table[verdict.parent]
            # Another key, and not one answer in common: two chats that begin alike.
            if said.key is None or parent.answered or verdict.kind == "retry":
                chat = known.chat(parent.conversation)
            else:
                verdict = Verdict("new", None, last_persons(prepared.messages).start)
        if before is not None and verdict.kind == "more":
            answer = Message("assistant", answer.text[len(before.text) :], answer.calls[len(before.calls) :])
        return Placed(verdict, chat, places, answered, answer)

    def remember(self, client: str, asked: Hash, said: Said) -> None:
        """It was written: the same request may come once more, with an answer that goes on."""
        request = client, asked, said.at
        with self._growing_lock:
            self._growing.pop(request, None)
            if len(said.answer.text) <= LONGEST_GROWING:
                self._growing[request] = said.answer
            if len(self._growing) > MOST_GROWING:
                self._growing.popitem(last=False)

    def key(self, key: str | None) -> Hash | None:
        return None if key is None else self._hasher.name("key", key)

    def answer_id(self, identifier: str | None) -> Hash | None:
        return None if identifier is None else self._hasher.name("answer", identifier)

    @property
    def _hasher(self) -> Hasher:
        return self._store.hasher

    def _is_retry(self, client: str, chat: Chat, said: Said, prepared: Prepared) -> bool:
        """Whether the last request came once more, where requests hold only what is new. "Go on" may be said twice: it
        is a retry if the first did not get its answer, or got the same.
        """
        asked = self._hasher.places(chat.base, prepared.digests)[-1]
        if self._grown_from((client, asked, said.at), said.answer) is not None:
            return True
        if not any(is_persons(message) for message in prepared.messages):
            return False
        answered = self._hasher.places(asked, (self._hasher.message(said.answer),))[-1]
        place = chat.places.get(asked)
        return place is not None and (not place.complete or answered in chat.places)

    def _grown_from(self, request: tuple[str, Hash, datetime], answer: Message) -> Message | None:
        """The answer that the very same request had before, if this one begins with it."""
        with self._growing_lock:
            before = self._growing.get(request)
        if before is None or before == answer or not answer.text.startswith(before.text):
            return None
        return before if answer.calls[: len(before.calls)] == before.calls else None
