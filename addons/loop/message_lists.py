"""Requests whose history is a list of messages, each with a role: those of Anthropic and of OpenAI Chat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from addons.loop.keys import before_of, placed, print_of
from addons.loop.places import Place, opened


class Told(NamedTuple):
    """What an entry of the history tells the model: texts, and the ids of calls of which it holds the results."""

    texts: Iterable[str] = ()
    results: Iterable[str] = ()


class Opened(NamedTuple):
    """A request and its values, by their places and decoded."""

    found: dict[str, Place]
    values: dict[str, Any]
    messages: list[Any]


def open_request(text: str, is_message: Callable[[Any], bool]) -> Opened | None:
    """None: there is nothing in it that the model is to answer. Raises as `places.members` does."""
    found, values = opened(text)
    messages = values.get("messages")
    if not messages or not isinstance(messages, list) or not all(map(is_message, messages)):
        return None
    return None if messages[-1]["role"] == "assistant" else Opened(found, values, messages)


def keys_of(
    messages: Sequence[Any],
    said: Callable[[Any], Iterable[str]],
    calls: Callable[[Any], Iterable[str]],
    told: Callable[[Any], Told | None],
) -> Iterator[str | None]:
    """The key of each message that is an answer, by what it says and calls; at last what the answer to come is known by: what
    the model was `told` last (None: the message is neither the user's nor a tool's), and the answer before that.
    """
    before, earlier = before_of((), ()), None
    for message in messages:
        if message["role"] == "assistant":
            earlier = print_of(said(message), calls(message))
            yield earlier and placed(before, earlier)
            continue
        if (last := told(message)) is not None:
            before = before_of(last.texts, last.results, earlier)
        yield None
    yield before
