"""What a summary is made from, and the file that it becomes. It blocks; `compaction.py` calls it in threads."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memory.conversations.reading import NotThereError, path_of
from memory.conversations.store import ClientMemory
from memory.conversations.summary_calls import CompactionError
from memory.conversations.transcript import Called, Conversation, Piece, Returned, Turn, parse, render

LONGEST_HEADING = 200
"""Characters; memsearch cannot index a file with a heading of more than 1,024."""

_FORGED = re.compile(r"^#{1,2}(?= (?:Conversation|User|Assistant)\b)", re.MULTILINE)
_LONG_HEADING = re.compile(rf"^#+ +(?=.{{{LONGEST_HEADING}}})", re.MULTILINE)


class NotOverError(CompactionError):
    """Turns still go to the session."""


class DoneError(CompactionError):
    """The session is summarised already."""


@dataclass(frozen=True, slots=True)
class Source:
    """The transcripts that a summary is made from, as they were read, and their turns."""

    contents: tuple[tuple[str, bytes], ...]
    turns: tuple[tuple[str, str], ...]
    """Of each what is sent, and what was said, in which notes are looked for."""


def as_file(session: str, summary: str, left_out: int = 0) -> str:
    """The file of a summary. What the model wrote cannot pass for a turn of a transcript. Pure."""
    summary = _LONG_HEADING.sub("", _FORGED.sub("###", summary)).strip()
    text = f"# Summary of session {session}\n\n{summary}\n"
    if left_out:
        turns = "1 turn was" if left_out == 1 else f"{left_out} turns were"
        text += f"\n{turns} left out: rules keep notes in them from the model that wrote this.\n"
    return text


def source_of(memory: ClientMemory, session: str, *, again: bool) -> Source | None:
    """What is to be summarised; None: it is, and is yet to be put away. Raises NotThereError, CompactionError, OSError."""
    with memory.lock:
        path = path_of(memory, session)
        if memory.known.session is not None and memory.known.session.id == session:
            raise NotOverError("this session still goes on: it can be summarised when it is over")
        if not again and path.parent == memory.archive:
            raise DoneError("this session is summarised already: --again, or `again`, makes a new summary")
        if not again and (memory.sessions / f"{session}-summary.md").exists():
            return None
        content = path.read_bytes()
    transcript = parse(content)  # without the lock: whoever records would wait
    contents, turns = [(session, content)], []
    for conversation in transcript.conversations:
        link = conversation.goes_on_from
        if link is not None and link.session != session and (earlier := content_of(memory, link.session)) is not None:
            contents.append((link.session, earlier))
            begun = [one for one in parse(earlier).conversations if one.number == link.conversation]
            turns += [made for one in begun for made in _turns(one)]
        turns += _turns(conversation)
    if not transcript.conversations and content.strip():  # a person wrote it
        text = content.decode("utf-8", "replace")
        turns.append((text, text))
    return Source(tuple(contents), tuple(turns))


def content_of(memory: ClientMemory, session: str) -> bytes | None:
    """Its transcript; None: it is not there. Raises OSError."""
    try:
        return path_of(memory, session).read_bytes()
    except NotThereError:
        return None


def _turns(conversation: Conversation) -> list[tuple[str, str]]:
    return [("".join(map(render, turn.parts)).strip(), _said(turn)) for turn in conversation.turns]


def _said(turn: Turn) -> str:
    return "\n\n".join(_plain(piece) for part in turn.parts for piece in part.pieces)


def _plain(piece: Piece) -> str:
    match piece:
        case Called(_, arguments):
            return arguments
        case Returned(_, beginning):
            return beginning
        case text:
            return text
