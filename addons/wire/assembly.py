"""What answers are put together with: texts and tool calls that grow piece by piece, and no further than allowed."""

from __future__ import annotations

from collections.abc import Hashable
from io import StringIO
from typing import Any

from addons.wire.answer import MOST_TEXT, ToolCall
from addons.wire.shapes import clean, json_text

_CALL = 100
"""Characters that a tool call counts for beside its own: calls of no text at all would otherwise have no end."""


class Room:
    """How much of an answer may still be kept: all its texts together."""

    __slots__ = ("left",)

    def __init__(self, characters: int = MOST_TEXT) -> None:
        self.left = characters

    def fit(self, text: str) -> str:
        """As much of a text as there is room for; that room is then taken."""
        kept = text if len(text) <= self.left else text[: self.left]
        self.left -= len(kept)
        return kept


class Text:
    """A text that grows."""

    __slots__ = ("_length", "_room", "_written")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._written = StringIO()
        self._length = 0

    def add(self, piece: Any) -> None:
        """Append a piece; anything but a string is passed over."""
        if isinstance(piece, str) and piece:
            self._length += self._written.write(self._room.fit(piece))

    def replace(self, whole: Any) -> None:
        """The text in place of what came; anything but a string is passed over."""
        if isinstance(whole, str):
            self._room.left += self._length
            self._written, self._length = StringIO(), 0
            self.add(whole)

    def __str__(self) -> str:
        return clean(self._written.getvalue())


class Call:
    """A tool call that grows."""

    __slots__ = ("_room", "arguments", "id", "name")

    def __init__(self, room: Room) -> None:
        self._room = room
        self.id = ""
        self.name = ""
        self.arguments = Text(room)

    def add(self, name: Any, arguments: Any) -> None:
        """More of the name, and more of the arguments: a piece of JSON, or an object that is all of them.

        Some servers repeat the name in every piece.
        """
        if isinstance(name, str) and name != self.name:
            self.name += self._room.fit(name)
        self.arguments.add(json_text(arguments))

    def identify(self, call_id: Any) -> None:
        if isinstance(call_id, str) and not self.id:
            self.id = self._room.fit(call_id)

    def done(self) -> ToolCall:
        return ToolCall(clean(self.id), clean(self.name), str(self.arguments))


class Calls:
    """The tool calls of an answer, in the order in which they began. A key (an index, an id) stands for its latest."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._calls: list[Call] = []
        self._by_key: dict[Hashable, Call] = {}

    @property
    def last(self) -> Call | None:
        return self._calls[-1] if self._calls else None

    def get(self, key: Hashable) -> Call | None:
        return self._by_key.get(key)

    def begin(self, key: Hashable = None) -> Call:
        """A new call. Where there is no room for one more, it is kept nowhere."""
        call = Call(self._room)
        if self._room.left >= _CALL:
            self._room.left -= _CALL
            self._calls.append(call)
            self._by_key[key] = call
        return call

    def done(self) -> tuple[ToolCall, ...]:
        return tuple([call.done() for call in self._calls])
