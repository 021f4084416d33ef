"""The format of a session's transcript (docs/conversations.md): markdown that reads well, and reads back exactly.

Pure. A file is written piece by piece, a `Part` at a time, and never otherwise changed but by deletion:

    ---
    client: claude-code
    session: 2026-11-30T041233Z-k3f9
    started: 2026-11-30T04:12:33Z
    ---

    # Conversation 1 (2026-11-30 04:12:33 UTC)

    ## User (2026-11-30 04:12:33 UTC, conversation 1, turn 1)

    Where is the key?

    ## Assistant (2026-11-30 04:12:41 UTC, claude-sonnet-4, conversation 1, turn 1)

    I look it up.

    > Called Read: {"file_path": "/notes/keys.md"}

    > Result of 812 characters: # Keys …

    In the blue box.

A search finds pieces of a file without the headings above them, so each heading says all by itself. Conversations that
take turns are told apart by their numbers: a later part of one stands below `# Conversation 1 (…, continued)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from memory.conversations.escaping import escape, escape_inline, unescape, unescape_inline

LONGEST_SUMMARY = 200
"""Characters of a tool's arguments or result that are kept."""
LONGEST_MODEL = 80

_TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_HEADING = re.compile(
    rf"^(?:# Conversation (?P<number>\d{{1,9}}) \((?P<begun>{_TIME}) UTC(?P<continued>, continued)?\)"
    rf"|## (?:User \((?P<asked>{_TIME}) UTC|Assistant \((?P<answered>{_TIME}) UTC, (?P<model>[^\s,()]+))"
    r", conversation (?P<of>\d{1,9}), turn (?P<turn>\d{1,9})(?:, instead of turn (?P<instead>\d{1,9}))?"
    r"(?P<more>, continued)?(?P<again>, again)?(?P<cut>, cut off)?\))$",
    re.MULTILINE,
)
_LINK = re.compile(r"^Goes on from conversation (\d{1,9}) of \[\[([0-9A-Za-z-]{1,40})\]\]\.$", re.MULTILINE)
_TOOL = re.compile(
    r"^> (?:Called (?P<name>[^\s:]+): (?P<arguments>.*)|Result of (?P<size>\d+) characters: (?P<result>.*))$",
    re.MULTILINE,
)
_FRONT = re.compile(r"\A---\nclient: (.*)\nsession: (.*)\nstarted: (.*)\n---\n")


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call in one line. `arguments` is cut to LONGEST_SUMMARY."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Returned:
    """What a tool gave back: how many characters, and the beginning of them in one line."""

    characters: int
    beginning: str


type Piece = str | Called | Returned
"""What a part is made of. Two texts never follow each other."""


@dataclass(frozen=True, slots=True)
class Link:
    """The conversation of an earlier session that one goes on from."""

    session: str
    conversation: int


@dataclass(frozen=True, slots=True)
class Part:
    """What one side said in a turn; a turn that took several requests may have several of the assistant's."""

    conversation: int
    turn: int
    at: datetime
    pieces: tuple[Piece, ...] = ()
    model: str | None = None
    """None: the user's part."""
    instead_of: int | None = None
    """The turn which this one stands instead of: a message was edited, or an answer asked for again."""
    continued: bool = False
    """More of an assistant's part that has been written already."""
    again: bool = False
    """The answer to the same request once more."""
    cut_off: bool = False
    """The answer did not come to its end."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where something stands in a file: bytes from `start` to before `end`, lines from `first_line` (1 is the first) to
    `last_line`, which includes the empty line below.
    """

    start: int
    end: int
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the user with its answer."""

    number: int
    parts: tuple[Part, ...]
    spans: tuple[Span, ...]
    """One for each part."""

    @property
    def started(self) -> datetime:
        return self.parts[0].at

    @property
    def instead_of(self) -> int | None:
        return next((part.instead_of for part in self.parts if part.instead_of is not None), None)


@dataclass(frozen=True, slots=True)
class Conversation:
    """One chat of a session, its turns in the order they began."""

    number: int
    started: datetime
    turns: tuple[Turn, ...]
    headings: tuple[Span, ...]
    """Of its `# Conversation` headings, each up to the next heading."""
    goes_on_from: Link | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """A whole file. `client`, `session` and `started` are as the frontmatter has them, empty where it has not."""

    client: str = ""
    session: str = ""
    started: str = ""
    conversations: tuple[Conversation, ...] = ()


def frontmatter(client: str, session: str, started: datetime) -> str:
    """What a file begins with. `client` is the slug."""
    return f"---\nclient: {client}\nsession: {session}\nstarted: {started.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}\n---\n\n"


def conversation_heading(
    number: int, at: datetime, *, continued: bool = False, goes_on_from: Link | None = None
) -> str:
    heading = f"# Conversation {number} ({_written(at)}{', continued' if continued else ''})\n\n"
    if goes_on_from is None:
        return heading
    return f"{heading}Goes on from conversation {goes_on_from.conversation} of [[{goes_on_from.session}]].\n\n"


def render(part: Part) -> str:
    """The part with its heading. `parse` gives back exactly what `pieces` held; of `model` see `model_name`."""
    who = "User (" if part.model is None else "Assistant ("
    marks = [_written(part.at)]
    if part.model is not None:
        marks.append(part.model)
    marks += [f"conversation {part.conversation}", f"turn {part.turn}"]
    if part.instead_of is not None:
        marks.append(f"instead of turn {part.instead_of}")
    marks += [
        mark for mark, said in (("continued", part.continued), ("again", part.again), ("cut off", part.cut_off)) if said
    ]
    return f"## {who}{', '.join(marks)})\n\n" + "".join(f"{_rendered(piece)}\n\n" for piece in part.pieces)


def model_name(model: str) -> str:
    """The model's name as a heading can hold it."""
    return (
        re.sub(r"[^\w.:/@+~-]+", "-", model.encode("utf-8", "replace").decode())[:LONGEST_MODEL].strip("-") or "unknown"
    )


def called(name: str, arguments: str) -> Called:
    return Called(
        re.sub(r"[^\w./@+-]+", "-", name.encode("utf-8", "replace").decode())[:LONGEST_MODEL] or "-",
        one_line(arguments),
    )


def one_line(text: str) -> str:
    """Cut to LONGEST_SUMMARY, and in one line."""
    cut = " ".join(text[: LONGEST_SUMMARY * 8].split())
    cut = cut.replace("```", "'''").replace("~~~", "'''")  # would open a code block that has no end
    return cut if len(cut) <= LONGEST_SUMMARY else f"{cut[:LONGEST_SUMMARY]}…"


def parse(content: bytes) -> Transcript:
    """What a file holds. It may have been edited by hand: what has no heading of ours above it belongs to no turn."""
    text = content.decode("utf-8", "surrogateescape")
    front = _FRONT.match(text)
    reading = _Reading(text)
    for match, following in reading.headings():
        reading.take(match, following)
    client, session, started = front.groups() if front else ("", "", "")
    return Transcript(client, session, started, reading.conversations())


@dataclass(slots=True)
class _Chat:
    started: datetime
    turns: dict[int, list[tuple[Part, Span]]] = field(default_factory=dict)
    headings: list[Span] = field(default_factory=list)
    link: Link | None = None


class _Reading:
    def __init__(self, text: str) -> None:
        self._text = text
        self._chats: dict[int, _Chat] = {}
        self._offset, self._line, self._at = 0, 1, 0
        """Bytes and lines before the character that was last asked for: they are counted on from there."""

    def headings(self) -> Iterator[tuple[re.Match[str], int]]:
        """Each heading with the place where the next one begins."""
        before: re.Match[str] | None = None
        for match in _HEADING.finditer(self._text):
            if before is not None:
                yield before, match.start()
            before = match
        if before is not None:
            yield before, len(self._text)

    def take(self, match: re.Match[str], following: int) -> None:
        start, first_line = self._place(match.start())
        end, next_line = self._place(following)
        span = Span(start, end, first_line, max(first_line, next_line - 1))
        at = _read(match["begun"] or match["asked"] or match["answered"])
        if at is None:
            return
        body = self._text[match.end() + 1 : following]
        if match["number"]:
            chat = self._chats.setdefault(int(match["number"]), _Chat(at))
            chat.headings.append(span)
            if link := _LINK.search(body):
                chat.link = Link(link[2], int(link[1]))
            return
        part = Part(
            conversation=int(match["of"]),
            turn=int(match["turn"]),
            at=at,
            pieces=tuple(_pieces(body)),
            model=match["model"],
            instead_of=int(match["instead"]) if match["instead"] else None,
            continued=match["more"] is not None,
            again=match["again"] is not None,
            cut_off=match["cut"] is not None,
        )
        chat = self._chats.setdefault(part.conversation, _Chat(at))
        chat.turns.setdefault(part.turn, []).append((part, span))

    def conversations(self) -> tuple[Conversation, ...]:
        return tuple(
            Conversation(
                number,
                chat.started,
                tuple(
                    Turn(turn, tuple(part for part, _ in said), tuple(span for _, span in said))
                    for turn, said in chat.turns.items()
                ),
                tuple(chat.headings),
                chat.link,
            )
            for number, chat in sorted(self._chats.items())
        )

    def _place(self, at: int) -> tuple[int, int]:
        between = self._text[self._at : at]
        self._offset += len(between.encode("utf-8", "surrogateescape"))
        self._line += between.count("\n")
        self._at = at
        return self._offset, self._line


def _pieces(body: str) -> Iterator[Piece]:
    """What stands below a heading, after the empty line."""
    body = body.removeprefix("\n")
    at = 0
    for match in _TOOL.finditer(body):
        if text := body[at : match.start()].removesuffix("\n\n"):
            yield unescape(text)
        if match["name"]:
            yield Called(match["name"], unescape_inline(match["arguments"]))
        else:
            yield Returned(int(match["size"]), unescape_inline(match["result"]))
        at = match.end() + 2
    if text := body[at:].removesuffix("\n\n"):
        yield unescape(text)


def _rendered(piece: Piece) -> str:
    match piece:
        case Called(name, arguments):
            return f"> Called {name}: {escape_inline(arguments)}"
        case Returned(characters, beginning):
            return f"> Result of {characters} characters: {escape_inline(beginning)}"
        case text:
            return escape(text)


def _written(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _read(written: str) -> datetime | None:
    try:
        return datetime.fromisoformat(written).replace(tzinfo=UTC)
    except ValueError:  # written by hand: no such day
        return None
