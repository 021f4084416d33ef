"""What of a client's messages counts: without what the client itself puts into them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memory.conversations.said import Message

_TAGS = ("system-reminder", "environment_context", "user_instructions", "session_context")
"""What Claude Code, Codex and Gemini CLI put around text that is theirs, in a message of the user's."""
_BILLING = "x-anthropic-billing-header:"
"""Begins a line of Claude Code's that is another one with each request."""


def visible(text: str) -> str:
    """The text without blocks that the client put in, and the space around it then; the same text where it has none."""
    shown = text
    for tag in _TAGS:
        shown = _without(shown, f"<{tag}>", f"</{tag}>")
    if _BILLING in shown:
        shown = "\n".join(line for line in shown.split("\n") if not line.startswith(_BILLING))
    return text if shown is text else shown.strip()


def is_persons(message: Message) -> bool:
    """Whether a person wrote something in it: tools answer in the user's role too."""
    return message.role == "user" and bool(visible(message.text).strip())


def merged(messages: Iterable[Message]) -> tuple[Message, ...]:
    """With one message of the assistant's, and one of tools, where several follow each other.

    An answer that was one message comes back as several in some protocols: its text, and an item for each call.
    """
    found: list[Message] = []
    for message in messages:
        if message.role == "user" and not is_persons(message):
            if not message.results:
                continue  # nothing but the client's own
            message = Message("tool", "", message.calls, message.results)  # noqa: PLW2901 - the same, by its meaning
        if found and message.role != "user" and found[-1].role == message.role:
            found[-1] = _joined(found[-1], message)
        else:
            found.append(message)
    return tuple(found)


def last_persons(messages: Sequence[Message]) -> range:
    """The last message of a person with those of persons right before it; empty where there is none."""
    end = next((at + 1 for at in reversed(range(len(messages))) if is_persons(messages[at])), 0)
    begin = end
    while begin and is_persons(messages[begin - 1]):
        begin -= 1
    return range(begin, end)


def _joined(first: Message, second: Message) -> Message:
    return Message(first.role, first.text + second.text, first.calls + second.calls, first.results + second.results)


def _without(text: str, opening: str, closing: str) -> str:
    start = text.find(opening)
    if start < 0:
        return text
    kept: list[str] = []
    at = 0
    while start >= 0 and (end := text.find(closing, start)) >= 0:
        kept.append(text[at:start])
        at = end + len(closing)
        start = text.find(opening, at)
    return "".join((*kept, text[at:])) if kept else text
