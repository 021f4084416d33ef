"""What is known of a client's conversations: where each stands, and which places in it are remembered.

It is made of entries, one for each thing that was recorded, in their order; `journal.py` keeps them. Pure.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from memory.conversations.prefixes import Hash, Place
from memory.conversations.sessions import Session

MOST_CONVERSATIONS = 1_000
"""Of a client that are remembered; those that were silent longest are forgotten, and go on as new ones."""
MOST_PLACES = 2_000
"""In each of them."""
MOST_KEYS = 100
"""Of each: some clients have a new key whenever they go on with a conversation."""


class Written(NamedTuple):
    """What was appended to a session's file: `size` bytes at `offset`, their BLAKE2 digest, and the first line of them,
    which is a heading of ours.
    """

    offset: int
    size: int
    digest: str
    first_line: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was recorded."""

    at: float
    """Seconds since 1970, as is `started`."""
    session: str
    started: float
    conversation: int
    """The client's, over all sessions."""
    number: int
    """The conversation's within the session."""
    turn: int
    parent: Hash | None
    base: Hash
    """Where the request's places start."""
    passed: tuple[tuple[Hash, bool], ...]
    """Places of the request before its last message that were new, and whether they are after an answer."""
    asked: Hash
    answered: Hash
    complete: bool
    key: Hash | None = None
    answer: Hash | None = None
    """Of the id that the provider gave to the answer."""
    written: Written | None = None
    """None: the file was changed since, or is older than what is to be looked at."""

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in Entry.__slots__}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Entry:
        """Raises TypeError, ValueError and KeyError for what is no entry."""
        written = content["written"]
        passed = tuple((str(place), bool(answered)) for place, answered in content["passed"])
        return cls(**{**content, "passed": passed, "written": Written(*written) if written else None})


@dataclass(slots=True)
class Chat:
    """A conversation, over all sessions. `session`, `number` and `turn` are those of its last turn."""

    id: int
    session: str
    number: int
    turn: int
    base: Hash
    tip: Hash
    places: OrderedDict[Hash, Place] = field(default_factory=OrderedDict)
    answers: deque[Hash] = field(default_factory=deque)
    keys: deque[Hash] = field(default_factory=deque)


class Known:
    """Everything that is remembered of one client. Not to be used by two threads at a time."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.last_id = 0
        self._numbers: dict[str, int] = {}
        """Session -> the last number of a conversation in it; that of the current one only."""
        self.writing: tuple[str, int] | None = None
        """Session and number of the conversation that the file ends with; None: not known, for it was changed since."""
        self.end: int | None = None
        """Bytes of that file then."""
        self._chats: OrderedDict[int, Chat] = OrderedDict()
        self._keys: dict[Hash, int] = {}
        self._answers: dict[Hash, tuple[int, Hash]] = {}
        self._where: dict[Hash, int] = {}

    def by_key(self, key: Hash | None) -> Chat | None:
        return None if key is None else self._chats.get(self._keys.get(key, 0))

    def by_answer(self, answer: Hash | None) -> tuple[Chat, Hash] | None:
        """The conversation that an answer of this id was given in, and the place after it."""
        found = None if answer is None else self._answers.get(answer)
        chat = None if found is None else self._chats.get(found[0])
        return None if found is None or chat is None else (chat, found[1])

    def chat(self, id_: int) -> Chat:
        return self._chats[id_]

    @property
    def places(self) -> Mapping[Hash, Place]:
        """Of all conversations; where several have the same, that of the one which had it last."""
        return _Everywhere(self._where, self._chats)

    def next_number(self, session: str) -> int:
        return self._numbers.get(session, 0) + 1

    def apply(self, entry: Entry) -> None:
        """Take in what was recorded."""
        active = datetime.fromtimestamp(entry.at, UTC)
        if self.session is None or self.session.id != entry.session:
            self.session = Session(entry.session, datetime.fromtimestamp(entry.started, UTC), active)
            self._numbers = {}
        self.session.active = max(self.session.active, active)
        self._numbers[entry.session] = max(self._numbers.get(entry.session, 0), entry.number)
        written = entry.written
        self.writing = (entry.session, entry.number) if written is not None else None
        self.end = written.offset + written.size if written is not None else None
        self.last_id = max(self.last_id, entry.conversation)
        chat = self._chats.get(entry.conversation)
        if chat is None:
            chat = Chat(entry.conversation, entry.session, entry.number, entry.turn, entry.base, entry.answered)
            self._chats[chat.id] = chat
        elif (chat.session, chat.number) == (entry.session, entry.number):
            chat.turn = max(chat.turn, entry.turn)
        else:
            chat.session, chat.number, chat.turn = entry.session, entry.number, entry.turn
        chat.base, chat.tip = entry.base, entry.answered
        if entry.key is not None and self._keys.get(entry.key) != chat.id:
            self._keys[entry.key] = chat.id
            chat.keys.append(entry.key)
            if len(chat.keys) > MOST_KEYS:
                self._drop(self._keys, chat.keys.popleft(), chat)
        if entry.parent is not None and (parent := chat.places.get(entry.parent)) is not None and parent.answered:
            parent.next = entry.turn
        for place, answered in entry.passed:
            self._put(chat, place, self._place(entry, answered=answered, next_=entry.turn if answered else None))
        self._put(chat, entry.asked, self._place(entry, answered=False, complete=entry.complete))
        self._put(chat, entry.answered, self._place(entry, answered=True))
        if entry.answer is not None:
            self._answers[entry.answer] = chat.id, entry.answered
            chat.answers.append(entry.answer)
            if len(chat.answers) > MOST_PLACES:
                self._answers.pop(chat.answers.popleft(), None)
        self._chats.move_to_end(chat.id)
        while len(self._chats) > MOST_CONVERSATIONS:
            self._forget(self._chats.popitem(last=False)[1])

    def close(self) -> None:
        """The session is over."""
        self.session = None

    @staticmethod
    def _place(entry: Entry, *, answered: bool, complete: bool = False, next_: int | None = None) -> Place:
        return Place(entry.conversation, entry.session, entry.number, entry.turn, answered, complete, next_)

    def _put(self, chat: Chat, hash_: Hash, place: Place) -> None:
        if (before := chat.places.pop(hash_, None)) is not None and place.next is None:
            place.next = before.next
        chat.places[hash_] = place
        self._where[hash_] = chat.id
        if len(chat.places) > MOST_PLACES:
            gone, _ = chat.places.popitem(last=False)
            self._drop(self._where, gone, chat)

    def _forget(self, chat: Chat) -> None:
        for place in chat.places:
            self._drop(self._where, place, chat)
        for key in chat.keys:
            self._drop(self._keys, key, chat)
        for answer in chat.answers:
            self._answers.pop(answer, None)

    @staticmethod
    def _drop(table: dict[Hash, int], hash_: Hash, chat: Chat) -> None:
        """Another conversation may have the same by now."""
        if table.get(hash_) == chat.id:
            del table[hash_]


class _Everywhere(Mapping[Hash, Place]):
    def __init__(self, where: dict[Hash, int], chats: Mapping[int, Chat]) -> None:
        self._where = where
        self._chats = chats

    def __getitem__(self, hash_: Hash) -> Place:
        return self._chats[self._where[hash_]].places[hash_]

    def __contains__(self, hash_: object) -> bool:
        return hash_ in self._where

    def __iter__(self) -> Iterator[Hash]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)
