"""What of a body's structure matters to redacting it: what is signed, and which strings stand in one array."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from memory.json_text import decode_json

_TOKEN = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"?(\s*+:)?|[{}\[\]]', re.DOTALL)
_SIGNED_BY_ANY = frozenset({"thoughtSignature", "thought_signature", "encrypted_content"})
_SIGNATURES = _SIGNED_BY_ANY | {"signature", "data"}
_THOUGHTS = ("thinking", "reasoning")


class Structure(NamedTuple):
    """Of JSON in a body, torn or not. Places are those of its characters."""

    arrays: dict[int, int]
    """Where a string begins that stands directly in an array -> where the array begins."""
    signed: list[tuple[int, int]]
    """Where objects begin and end, in order, that a provider checks, and refuses when a letter in them has changed.

    Of objects in each other, the outer one.
    """

    @classmethod
    def of(cls, text: str) -> Structure:
        """The structure of a body's JSON (not of the JSON in its strings, which nobody has signed).

        Signed are blocks of Anthropic of type `thinking` with a `signature` and of type `redacted_thinking`, the
        `reasoningText` of Bedrock and the reasoning of others with a `signature`, parts of Gemini with a
        `thoughtSignature` (behind its OpenAI interface: tool calls with one in `extra_content.google`), and whatever of
        OpenAI has `encrypted_content`.
        """
        arrays: dict[int, int] = {}
        signed: list[tuple[int, int]] = []
        root = _Container(0, None, None, is_array=False)
        inside = root
        for token in _TOKEN.finditer(text):
            match token[0]:
                case "{" | "[":
                    inside = _Container(token.start(), inside, inside.key, is_array=token[0] == "[")
                case "}" | "]":
                    _close(inside, token.end(), signed)
                    inside = inside.parent or root
                case _ if inside.is_array:
                    arrays[token.start(1)] = inside.start
                case _ if token[2]:
                    inside.key = _text(token[1])
                case _ if inside.key in _SIGNATURES:
                    inside.signatures |= {inside.key} if token[1] else frozenset()
                case _ if inside.key == "type":
                    inside.types += (_text(token[1]),)
        while inside is not root:
            _close(inside, len(text), signed)
            inside = inside.parent or root
        return cls(arrays, signed)

    def is_signed(self, place: int) -> bool:
        """Whether what is at a place is in something that is signed."""
        number = bisect_right(self.signed, place, key=itemgetter(0)) - 1
        return number >= 0 and place < self.signed[number][1]


def _close(container: _Container, end: int, signed: list[tuple[int, int]]) -> None:
    """A container ends: note it if it is signed, instead of those in it."""
    if not container.is_signed:
        return
    while signed and signed[-1][0] > container.start:
        signed.pop()
    signed.append((container.start, end))
    above = container.parent
    if container.name == "google" and above and above.name == "extra_content" and above.parent:
        above.parent.is_signed_below = True


@dataclass(slots=True)
class _Container:
    """An object or an array that has begun."""

    start: int
    parent: _Container | None
    name: str | None
    """The key whose value it is."""
    is_array: bool
    key: str | None = None
    """The last one in it."""
    types: tuple[str, ...] = ()
    signatures: frozenset[str] = frozenset()
    """Keys of signatures that are not empty."""
    is_signed_below: bool = False
    """A signature further down is its own."""

    @property
    def is_signed(self) -> bool:
        if self.is_signed_below or self.signatures & _SIGNED_BY_ANY:
            return True
        if "redacted_thinking" in self.types and self.signatures:
            return True
        is_thought = self.name == "reasoningText" or any(type_.startswith(_THOUGHTS) for type_ in self.types)
        return is_thought and "signature" in self.signatures


def _text(raw: str) -> str:
    """What a JSON string says."""
    if "\\" not in raw:
        return raw
    try:
        return str(decode_json(f'"{raw}"'))
    except ValueError:
        return raw
