"""What an answer is found again by, when its client sends it back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from addons.wire.shapes import clean
from memory.conversations.messages import visible

_SPACE = b" \t\n\r\x0b\x0c"


def print_of(texts: Iterable[str], calls: Iterable[str]) -> str | None:
    """What an answer says: its texts and the ids of its calls, in their order. None: there is nothing in it.

    Clients join texts, cut them and change their white space, so none of it counts.
    """
    text, ids = _plain("".join(texts)), list(calls)
    return _hash(text, *map(_plain, ids)) if text or ids else None


def key_of(before: str, texts: Iterable[str], calls: Iterable[str]) -> str | None:
    """The key of an answer: what it follows, and what it says. None: it says nothing."""
    said = print_of(texts, calls)
    return None if said is None else placed(before, said)


def placed(before: str, said: str) -> str:
    """The key of an answer that is known by its print."""
    return _hash(before.encode(), said.encode())


def before_of(texts: Iterable[str], results: Iterable[str], earlier: str | None = None) -> str:
    """What an answer follows: the texts of the user's message, without what the client puts in, the ids of results in it,
    and the print of the answer before it: "Done." may follow "Go on." many times.
    """
    text = "".join(visible(text) for text in texts)
    return _hash((earlier or "").encode(), _plain(text), *map(_plain, results))


def _plain(text: str) -> bytes:
    """Without white space; half surrogate pairs, which a stream may cut, are put together."""
    return clean(text).encode().translate(None, _SPACE)


def _hash(*parts: bytes) -> str:
    state = hashlib.sha256()
    for part in parts:
        state.update(b"%d:" % len(part) + part)
    return state.hexdigest()
