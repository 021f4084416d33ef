"""A loop without its sockets: answers that a model gives one after the other go through a weave."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from addons.loop.dialect import Ask, Dialect, Hop, Offered, Passage, Request, Weave
from memory.conversations.recall_tool import RecallTool

TOOL = RecallTool()
MOST_HOPS = 4


@dataclass
class Kept:
    """What was hidden from one client."""

    passages: dict[str, Passage] = field(default_factory=dict)

    def passage(self, key: str) -> Passage | None:
        return self.passages.get(key)


@dataclass
class Woven:
    """What came of it. `bodies` are the requests that were sent, the first one included."""

    answer: bytes
    bodies: list[str]
    asks: list[tuple[Ask, ...]]
    last: Hop
    passages: Mapping[str, Passage]
    given: list[bytes]
    """What the client got at once, by the piece that came."""


def request(path: str, body: Any) -> Request:
    return Request(path, body if isinstance(body, str) else json.dumps(body, separators=(",", ":")))


def offered(dialect: Dialect, path: str, body: Any, past: Kept | None = None) -> Offered:
    found = dialect.offer(request(path, body), TOOL, past or Kept())
    assert found is not None
    return found


def pieces(data: bytes, cuts: Iterable[int]) -> Iterator[bytes]:
    start = 0
    for cut in sorted({cut for cut in cuts if 0 < cut < len(data)}):
        yield data[start:cut]
        start = cut
    yield data[start:]


def play(
    weave: Weave,
    offer: Offered,
    answers: Sequence[bytes],
    *,
    cuts: Iterable[int] = (),
    most: int = MOST_HOPS,
    unanswered: bool = False,
) -> Woven:
    """The loop. An ask is answered with `found: ` and its id; `unanswered`: not those beside the client's own calls."""
    cuts, given, bodies, asks, said = list(cuts), [], [offer.text], [], b""
    for number, answer in enumerate(answers, 1):
        if offer.is_streamed:
            given += [weave.feed(piece) for piece in pieces(answer, cuts)]
        else:
            weave.whole(answer)
        hop = weave.over()
        asks.append(hop.asks)
        results = {ask.id: f"found: {ask.id}" for ask in hop.asks}
        if not hop.asks or hop.calls_others or number == most:
            said = weave.finish(results if hop.calls_others and not unanswered else {})
            assert number == len(answers), "there are more answers than the loop asked for"
            break
        bodies.append(weave.go_on(results))
    else:
        raise AssertionError("the loop asked for more answers than there are")
    return Woven(b"".join(given) + said, bodies, asks, hop, weave.passages(), given)
