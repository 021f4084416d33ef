"""One answer of OpenAI Responses, as it grows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from addons.loop.events import Event, decoded
from addons.loop.places import Place, elements, members
from addons.loop.responses_items import Item, item_of
from addons.wire.shapes import string


@dataclass(frozen=True, slots=True)
class Response:
    """The JSON that describes an answer as a whole, and where its values stand."""

    text: str = ""
    found: dict[str, Place] = field(default_factory=dict)

    def json(self, key: str) -> str:
        """Empty: it has no such value."""
        return self.found[key].of(self.text) if key in self.found else ""

    def value(self, key: str) -> Any:
        return decoded(self.json(key))


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
    response: Response = field(default_factory=Response)
    """Empty: it is not over, or nothing describes it."""
    output: list[Item] = field(default_factory=list)
    status: str = ""

    def end(self, response: str, status: str) -> None:
        """Raises ValueError and RecursionError."""
        self.response = whole = Response(response, members(response))
        self.status = status or string(whole.value("status"))
        if whole.json("output") not in ("", "null"):
            self.output = [item_of(place.of(response)) for place in elements(response, whole.found["output"].start)]
        # Some hosts stream the items, and name none at the end.
        self.output = self.output or [item_of(item) for _, item in sorted(self.done.items()) if item]
