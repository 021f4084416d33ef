"""What every wire format reads from a request, and the few shapes that several of them share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What a request says of itself."""

    model: str = ""
    conversation: str | None = None
    """The client's own key of the conversation; None: it gives none."""
    opening: str | None = None
    """The first message as canonical JSON: what tells conversations apart where the client gives no key. None: it does, or there
    is no message. It may be long, and has to be decoded for this.
    """
    previous: str | None = None
    """The id of the answer that this request goes on from, instead of repeating what came before it."""
    continues: bool = False
    """It holds only what is new: what came before it is kept by the provider."""
    side_request: bool = False
    """Not a turn of a conversation: counting tokens, choosing a model, naming a chat."""


def text_of(body: Any, *path: str) -> str | None:
    """The string at a path of keys; None where the shape is another or the string is empty."""
    for key in path:
        if not isinstance(body, dict):
            return None
        body = body.get(key)
    # Half a surrogate pair, which JSON may hold, can be written to no file and no terminal.
    return body.encode("utf-8", "replace").decode() if isinstance(body, str) and body else None


def first_of_role(messages: Any, role: str = "user") -> str | None:
    """The first message of a role as canonical JSON, without the cache markers that move from turn to turn."""
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return None
    for message in messages:
        if isinstance(message, dict) and message.get("role") == role:
            return canonical(message)
    return None


def canonical(message: Any) -> str | None:
    """A message as canonical JSON, without cache markers; None: it is nested deeper than can be followed."""
    try:
        return json.dumps(_without_cache_markers(message), sort_keys=True)
    except RecursionError:
        return None


def header(headers: Mapping[str, str], *names: str) -> str | None:
    """The first of these headers that is there and not empty."""
    return next((value for name in names if (value := headers.get(name))), None)


def _without_cache_markers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_cache_markers(inner) for key, inner in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [_without_cache_markers(inner) for inner in value]
    return value
