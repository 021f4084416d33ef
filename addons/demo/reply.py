"""What the scripted model is told to say, in no protocol's words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from memory.exchange import Protocol, Usage

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool the model asks for. `arguments` must be a JSON object."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `delay` is the pause in seconds before each event of a stream but the first.

    `usage` None: the answer counts about four characters as one token.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    delay: float = 0.0


type Script = Callable[[Protocol, dict[str, Any]], Reply]
"""The protocol and the decoded body of a request, to what is answered."""

FRIENDLY = Reply("Happy to help. I read what you sent, and it makes sense to me: start with the smallest step first.")


def friendly(_protocol: Protocol, _body: dict[str, Any]) -> Reply:
    return FRIENDLY


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply and the requests it is for: those of `protocol` (None: any) for which `when` holds."""

    reply: Reply
    protocol: Protocol | None = None
    when: Callable[[dict[str, Any]], bool] = lambda _body: True

    def suits(self, protocol: Protocol, body: dict[str, Any]) -> bool:
        return self.protocol in (None, protocol) and self.when(body)


def in_turn(turns: Iterable[Turn], otherwise: Reply = FRIENDLY) -> Script:
    """A script that gives each turn once: a request gets the first unused turn that suits it, else `otherwise`."""
    left = list(turns)

    def script(protocol: Protocol, body: dict[str, Any]) -> Reply:
        for position, turn in enumerate(left):
            if turn.suits(protocol, body):
                return left.pop(position).reply
        return otherwise

    return script


@dataclass(frozen=True, slots=True)
class Moment:
    """What differs between two answers that say the same: the request's serial number and the Unix time."""

    serial: int
    seconds: int

    def token(self, purpose: str, length: int) -> str:
        """An id's random-looking part: the same for the same moment and purpose, `length` letters and digits."""
        number = int.from_bytes(
            hashlib.blake2b(f"{self.serial} {self.seconds} {purpose}".encode(), digest_size=48).digest()
        )
        letters = []
        for _ in range(length):
            number, rest = divmod(number, len(ALPHABET))
            letters.append(ALPHABET[rest])
        return "".join(letters)


def pieces(text: str) -> list[str]:
    """The text as a model streams it: a word and the white space before it at a time; joined they are the text."""
    return re.findall(r"\s*\S+|\s+$", text)


def rough_tokens(text: str) -> int:
    return max(1, len(text) // 4)
