"""One answer of OpenAI Responses, as it grows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from addons.loop.events import Event, decoded
from addons.loop.places import elements, members
from addons.wire.shapes import member, string


@dataclass(slots=True)
class Answer:
    """The answer to one request, as far as it has come."""

    hidden: set[int | str] = field(default_factory=set)
    """The places and the ids of items that the client does not see."""
    places: dict[int, int] = field(default_factory=dict)
    """The place of an item in the stream -> its place for the client."""
    done: dict[int, str] = field(default_factory=dict)
    """Place -> the finished item, as it came."""
    held: list[Event] = field(default_factory=list)
    """The last events, from the one on that says that it is over."""
    document: bytes | None = None
    response: str = ""
    """The JSON that describes it as a whole, once it is over; empty where nothing does."""
    output: list[str] = field(default_factory=list)
    status: str = ""
    size: int = 0
    trouble: str | None = None
    is_given_up: bool = False
    """Not all of it has been read."""

    def give_up(self, trouble: str) -> None:
        self.trouble, self.is_given_up = trouble, True

    @property
    def is_over(self) -> bool:
        return self.document is not None or bool(self.held)

    def end(self, response: str, status: str) -> None:
        """Raises ValueError and RecursionError."""
        found = members(response)
        self.response = response
        self.status = status or string(self.value("status"))
        output = found.get("output")
        if output is not None and output.of(response) != "null":
            self.output = [place.of(response) for place in elements(response, output.start)]
        # Some hosts stream the items, and name none at the end.
        self.output = self.output or [item for _, item in sorted(self.done.items()) if item]

    def value(self, key: str) -> Any:
        """Of the response."""
        return member(decoded(self.response), key) if self.response else None
