"""A request and its answer as what was said: in the words of `memory.conversations`, the same for every protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from addons.wire import content
from addons.wire.answer import Answer, ToolCall
from addons.wire.own_words import own_words
from memory.conversations.said import Call, Message, Result


def said_messages(messages: Iterable[content.Message]) -> Iterator[Message]:
    """The messages of a request. What the tools gave back stands by itself, before what the person wrote beside it.

    Left out are system messages, what the provider's own tools gave back, and what is nothing but a client's own block.
    """
    for one in messages:
        if one.role == "assistant":
            yield Message("assistant", one.text, _calls(one.tool_calls))
        elif one.role != "system":
            if one.tool_results:
                yield Message("tool", results=tuple(Result(each.id, each.text) for each in one.tool_results))
            words = own_words(one.text)
            if words or not (one.text or one.tool_results):  # a picture alone is a message too
                yield Message("user", words)


def said_answer(answer: Answer) -> Message:
    return Message("assistant", answer.text, _calls(answer.tool_calls))


def _calls(calls: Iterable[ToolCall]) -> tuple[Call, ...]:
    return tuple(Call(call.id, call.name, call.arguments) for call in calls)
