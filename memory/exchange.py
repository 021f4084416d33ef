"""One request to a model and its answer, as it is judged, recorded and shown.

An `Exchange` is made by the first stage that a flow meets and filled in by each stage after it. It holds no text
of a request: titles, ids, counts, and JSON pointers only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

type Place = Literal["cloud", "local"]
type Protocol = Literal["anthropic", "openai-chat", "openai-responses", "gemini", "ollama", "bedrock", "unknown"]
type By = Literal["content", "reference"]
type Grade = Literal["line", "quote", "reference", "listing"]
type ScanState = Literal["complete", "partial", "unscanned"]
type Action = Literal["allow", "block", "redact", "redirect", "hold"]
type Outcome = Literal["answered", "blocked", "failed", "aborted"]

MOST_EVIDENCE = 50
"""Pieces of evidence kept per sighting (design.md, the activity entry)."""


class Evidence(NamedTuple):
    """Where in a body a note was found: a JSON pointer (RFC 6901), how many of its lines, and how sure that is.

    A pointer into JSON that was decoded from a string goes on after `!`: `/messages/3/content/0/content!/output`.
    """

    pointer: str
    lines: int
    grade: Grade


@dataclass(frozen=True, slots=True)
class Sighting:
    """One note found in one request. `matched` of `distinctive` lines; 0 matched for a mention."""

    note: str
    title: str
    by: By
    grade: Grade
    matched: int
    distinctive: int
    evidence: tuple[Evidence, ...] = ()
    resent: bool = False
    """This conversation already carried the note."""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.note,
            "title": self.title,
            "by": self.by,
            "grade": self.grade,
            "matched": self.matched,
            "distinctive": self.distinctive,
            "resent": self.resent,
            "evidence": [
                {"pointer": one.pointer, "lines": one.lines, "grade": one.grade}
                for one in self.evidence[:MOST_EVIDENCE]
            ],
        }


@dataclass(frozen=True, slots=True)
class Scan:
    """What looking for notes in one body came to. `reasons` says why it is not complete."""

    state: ScanState
    reasons: tuple[str, ...] = ()
    sightings: tuple[Sighting, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"state": self.state, "reasons": list(self.reasons)}


@dataclass(frozen=True, slots=True)
class RulePart:
    """What one rule had to do with a decision: the action that it asked for, and the ids of the notes it asked it for.

    No notes: it judged the request itself. The action is what became of it: that of a rule which redirects is `block` when
    no target took the request.
    """

    rule: str
    action: Action
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"name": self.rule, "action": self.action, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class Redaction:
    """A note whose text is withheld, and what stands in its place."""

    note: str
    placeholder: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done with a request, and by which rule (None: no rule had a part in it).

    `rule` is the first of those that asked for the action, `parts` are all that had a part in it, in their order.
    """

    action: Action = "allow"
    rule: str | None = None
    parts: tuple[RulePart, ...] = ()
    redactions: tuple[Redaction, ...] = ()
    """To be made whenever the request is sent, whatever the action is."""
    targets: tuple[str, ...] = ()
    """Where it may be sent instead, in the order in which they are tried; empty unless a rule redirects."""
    hold_for: float | None = None
    """Seconds that a request waits for a person; None unless a rule holds it."""

    def to_json(self) -> dict[str, Any]:
        return {"action": self.action, "rule": self.rule, "rules": [part.to_json() for part in self.parts]}


@dataclass(frozen=True, slots=True)
class SentTo:
    """A model that received the body. `upstream` is `host:port`."""

    model: str
    to: Place
    upstream: str

    def to_json(self) -> dict[str, Any]:
        return {"model": self.model, "to": self.to, "upstream": self.upstream}


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; None where it said nothing."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "input": self.input,
            "output": self.output,
            "cacheRead": self.cache_read,
            "cacheWrite": self.cache_write,
        }


@dataclass(frozen=True, slots=True)
class Recalls:
    """How often the model has searched the memory for its answer, and how many memories were handed to it."""

    searches: int = 0
    memories: int = 0

    def plus(self, searches: int, memories: int) -> Recalls:
        return Recalls(self.searches + searches, self.memories + memories)

    def to_json(self) -> dict[str, Any]:
        return {"searches": self.searches, "memories": self.memories}


@dataclass(slots=True)
class Exchange:
    """One request to a model and its answer. Sizes are bytes of the bodies as they went over the wire."""

    id: str
    started_at: datetime
    provider: str
    protocol: Protocol
    model: str
    client: str
    conversation: str | None
    to: Place
    upstream: str
    """`host:port` that the request is for, before any redirect."""
    asked_to: Place | None = None
    """Where the request was for, once it went elsewhere: `to` is where it went. None: it did not."""
    side_request: bool = False
    scan: Scan = field(default_factory=lambda: Scan("unscanned", ("not yet scanned",)))
    """What was found in the body as its client sent it."""
    left: Scan | None = None
    """What is found in the body that is sent, where something was withheld from it; None: it is sent as it came."""
    decision: Decision = field(default_factory=Decision)
    is_led: bool = False
    """It goes through the gateway, which says who receives the body."""
    sent_to: list[SentTo] = field(default_factory=list)
    recalls: Recalls = Recalls()
    usage: Usage = field(default_factory=Usage)
    request_bytes: int = 0
    response_bytes: int = 0
    status: int | None = None
    outcome: Outcome | None = None
    finished_at: datetime | None = None
    _shown: tuple[tuple[Sighting, ...], list[dict[str, Any]]] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    """Sightings, and they as JSON."""

    @property
    def shared(self) -> tuple[Sighting, ...]:
        """The notes that a model gets to see, or would."""
        return (self.left or self.scan).sightings

    def to_json(self) -> dict[str, Any]:
        """The activity entry of design.md. It holds no text of the request.

        It is asked for several times, and may hold hundreds of notes: those are the same list each time, not to be changed.
        """
        return {
            "id": self.id,
            "startedAt": timestamp(self.started_at),
            "finishedAt": timestamp(self.finished_at) if self.finished_at else None,
            "client": self.client,
            "conversation": self.conversation,
            "provider": self.provider,
            "protocol": self.protocol,
            "model": self.model,
            "to": self.to,
            "askedTo": self.asked_to or self.to,
            "sentTo": [one.to_json() for one in self.sent_to],
            "notes": self._notes_json(),
            "decision": self.decision.to_json(),
            "scan": self.scan.to_json(),
            "usage": self.usage.to_json(),
            "recalls": self.recalls.to_json(),
            "bytes": {"request": self.request_bytes, "response": self.response_bytes},
            "status": self.status,
            "outcome": self.outcome,
            "sideRequest": self.side_request,
        }

    def _notes_json(self) -> list[dict[str, Any]]:
        sightings = self.scan.sightings
        if self._shown is None or self._shown[0] is not sightings:
            self._shown = sightings, [sighting.to_json() for sighting in sightings]
        return self._shown[1]


def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds and `Z`, the form of every time in the API."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
