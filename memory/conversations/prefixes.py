"""Which conversation a request goes on, where the client does not say it: found by the messages that it sends again.

Pure. Each message has a hash, and each place in a conversation one made of all hashes up to it. The place of a request's
last message, and that of its answer, are remembered; a later request goes on from the furthest of its own places that is
known. Where somebody went on from there already, it is a fork: a message was edited, or an answer asked for again.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from memory.conversations.messages import last_persons, visible
from memory.conversations.said import Message

type Hash = str
"""32 hex digits, made under a key of this installation: they say nothing to whoever has no key."""

START: Hash = "0" * 32
"""The place before the first message."""

_SPACE = b" \t\n\r\x0b\x0c"


@dataclass(slots=True)
class Place:
    """A place in a conversation: after a message of a request, or after an answer."""

    conversation: int
    session: str
    number: int
    turn: int
    answered: bool
    """After the assistant's message, else before it."""
    complete: bool = False
    """Before an answer: it came to its end."""
    next: int | None = None
    """After an answer: the turn that went on from here."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a request belongs.

    `new`: to no conversation that is known. `turn`: it begins a turn. `more`: it goes on with the turn of `parent`, in
    which tools were run. `again`: it asks for the answer of that turn once more. `retry`: all of it is recorded.
    """

    kind: Literal["new", "turn", "more", "again", "retry"]
    parent: Hash | None
    start: int
    """The first of the messages that is new."""
    instead_of: int | None = None
    """The turn that this one stands instead of, where it is a fork."""


class Hasher:
    """Makes hashes under a key of 16 bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def message(self, message: Message) -> bytes:
        """Its role and content; not what the client puts in, ids of calls, white space and the spelling of JSON.

        White space is left out and not only made one: the texts of an answer come back joined otherwise.
        """
        state = hashlib.blake2b(message.role.encode(), key=self._key, digest_size=16)
        state.update(b"\0text" + _plain(visible(message.text)))
        for call in message.calls:
            state.update(b"\0call" + _plain(call.name) + b"\0" + _plain(_arguments(call.arguments)))
        for result in message.results:
            state.update(b"\0result" + _plain(result.text))
        return state.digest()

    def name(self, kind: str, name: str) -> Hash:
        """Of a conversation's key, or of an answer's id."""
        content = f"{kind}\0{name}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, key=self._key, digest_size=16).hexdigest()

    def digests(self, messages: Iterable[Message]) -> tuple[bytes, ...]:
        return tuple(self.message(message) for message in messages)

    def places(self, base: Hash, digests: Iterable[bytes]) -> list[Hash]:
        """`base`, and the place after each message."""
        found = [base]
        place = bytes.fromhex(base)
        for digest in digests:
            place = hashlib.blake2b(place + digest, key=self._key, digest_size=16).digest()
            found.append(place.hex())
        return found


def judge(
    known: Mapping[Hash, Place],
    messages: Sequence[Message],
    places: Sequence[Hash],
    answered: Hash,
    *,
    grown: bool = False,
) -> Verdict:
    """What a request is, of these merged messages. `places` has one more: where it starts, then that after each message;
    `answered` is the place after its answer. `grown`: that begins with the answer which the same request had before.
    """
    persons = last_persons(messages)
    at = next((at for at in reversed(range(len(places))) if places[at] in known), None)
    if at is None:
        return Verdict("new", None, persons.start)
    found, parent = places[at], known[places[at]]
    if at == len(messages) and not parent.answered:
        if answered in known:
            return Verdict("retry", found, at)
        if grown:
            return Verdict("more", found, at)
        if parent.complete and persons and persons.stop == at:
            return Verdict("turn", found, persons.start, parent.turn)
        return Verdict("again", found, at)
    start = at
    if not parent.answered and messages[at].role == "assistant":
        start += 1  # the client's own version of what was recorded
    instead_of = parent.next if parent.answered else parent.turn if parent.complete else None
    if persons.stop > start:
        return Verdict("turn", found, max(start, persons.start), instead_of)
    return Verdict("more", found, start, instead_of)


def _plain(text: str) -> bytes:
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    return text.encode("utf-8", "surrogatepass").translate(None, _SPACE)


def _arguments(arguments: str) -> str:
    """JSON in one spelling; what is none stays as it is."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
