"""Reading JSON of any shape: what is of another shape than expected is as good as absent, and nothing raises."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

_MOST_TOKENS = 2**53
_LONGEST_ERROR = 10_000


def member(value: Any, *path: str) -> Any:
    """The value at a path of keys; None where an object or a key is missing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def items(value: Any) -> Sequence[Any]:
    """An array; empty where it is none. Bodies that were cut for scanning hold lazy arrays, which are no lists."""
    if isinstance(value, list):
        return value
    if value is None or isinstance(value, str):  # asking for a Sequence takes its time
        return ()
    return value if isinstance(value, Sequence) else ()


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of an array."""
    return (one for one in items(value) if isinstance(one, dict))


def string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def first_string(value: Any, *keys: str) -> str:
    """The string of the first of these keys that has one which is not empty."""
    return next((text for key in keys if (text := string(member(value, key)))), "")


def tokens(value: Any) -> int | None:
    """A count of tokens."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS else None


def clean(text: str) -> str:
    """Text that can be written. JSON may hold half a surrogate pair, and a stream may cut a pair in two."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def joined(texts: Iterable[str]) -> str:
    """Texts joined by newlines, without the empty ones."""
    return clean("\n".join([text for text in texts if text]))


def json_text(value: Any) -> str:
    """A string as it is, nothing for None, anything else as JSON; empty where it is nested too deep."""
    if isinstance(value, str) or value is None:
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False, default=list)  # a lazy array is none to the encoder
    except RecursionError:
        return ""


def error_of(body: Any) -> str | None:
    """The message of an error answer, as the providers word it; None: it is none.

    `{"error": {"message"}}` of nearly all, `{"error": "…"}` of Ollama, `{"object": "error", "message"}` of Mistral,
    `{"detail": …}` of servers made with FastAPI.
    """
    error = member(body, "error") or (body if member(body, "object") == "error" else member(body, "detail"))
    if not error:
        return None
    if isinstance(error, dict):
        error = first_string(error, "message", "code", "type", "status") or error
    return clean(json_text(error))[:_LONGEST_ERROR] or "error"
