"""What an answer is found again by, when its client sends it back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from addons.wire.shapes import clean
from memory.conversations.messages import visible


def key_of(before: str, texts: Iterable[str], calls: Iterable[str]) -> str | None:
    """The key of an answer: what it follows, its texts and the ids of its calls, in their order. None: there is nothing in it.

    Clients join texts, cut them and change their white space, so none of it counts.
    """
    text, ids = "".join("".join(texts).split()), list(calls)
    return _hash(before, clean(text), *ids) if text or ids else None


def before_of(texts: Iterable[str], results: Iterable[str], earlier: str | None = None) -> str:
    """What an answer follows: the texts of the user's message, without what the client puts in, the ids of results in it,
    and the key of the answer before it: "Done." may follow "Go on." many times.
    """
    return _hash(earlier or "", "".join("".join(visible(text) for text in texts).split()), *results)


def _hash(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
