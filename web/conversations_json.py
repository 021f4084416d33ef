"""What people said to models, as the API gives it (docs/api.md). Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memory.conversations.deleting import Deleted
from memory.conversations.memories import Listed, Overview, Progress, SessionRead
from memory.conversations.recall import Holdings
from memory.conversations.transcript import Called, Conversation, Link, Part, Piece, Returned, Turn


def overview_json(found: Overview | None) -> dict[str, Any]:
    """None: nothing was ever kept."""
    if found is None:
        return {
            "folder": None,
            "sessions": 0,
            "bytes": {"sessions": 0, "archive": 0, "index": 0},
            "index": None,
            "problem": None,
        }
    sizes, index = found.sizes, found.index
    return {
        "folder": str(found.folder),
        "sessions": found.sessions,
        "bytes": {"sessions": sizes.sessions, "archive": sizes.archive, "index": sizes.other},
        "index": index
        and {"files": index.files, "chunks": index.chunks, "pending": index.pending, "failed": index.failed},
        "problem": found.problem,
    }


def progress_json(progress: Progress | None) -> dict[str, int] | None:
    return progress and {"done": progress[0], "total": progress[1]}


def listed_json(listed: Listed) -> dict[str, Any]:
    info = listed.info
    return {
        "session": info.id,
        "startedAt": moment(info.started),
        "writtenAt": moment(info.written),
        "state": info.state,
        "summarised": info.summarised,
        "bytes": info.size,
        "title": listed.title,
        "conversations": listed.conversations,
    }


def session_json(read: SessionRead) -> dict[str, Any]:
    return {
        "session": read.info.id,
        "startedAt": moment(read.info.started),
        "state": read.info.state,
        "summary": read.summary,
        "conversations": [conversation_json(chat) for chat in read.transcript.conversations],
    }


def conversation_json(chat: Conversation) -> dict[str, Any]:
    return {
        "conversation": chat.number,
        "startedAt": moment(chat.started),
        "goesOnFrom": _link(chat.goes_on_from),
        "turns": [_turn(turn) for turn in chat.turns],
    }


def deleted_json(deleted: Deleted) -> dict[str, Any]:
    return {"deleted": len(deleted.gone), "changed": len(deleted.changed)}


def holdings_json(holdings: Holdings) -> dict[str, Any]:
    return {
        "sessions": holdings.sessions,
        "first": holdings.first and moment(holdings.first),
        "last": holdings.last and moment(holdings.last),
    }


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _link(link: Link | None) -> dict[str, Any] | None:
    return {"session": link.session, "conversation": link.conversation} if link else None


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "turn": turn.number,
        "startedAt": moment(turn.started),
        "insteadOf": turn.instead_of,
        "parts": [_part(part) for part in turn.parts],
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "role": "user" if part.model is None else "assistant",
        "at": moment(part.at),
        "model": part.model,
        "pieces": [_piece(piece) for piece in part.pieces],
        "continued": part.continued,
        "again": part.again,
        "cutOff": part.cut_off,
    }


def _piece(piece: Piece) -> dict[str, Any]:
    match piece:
        case Called(name, arguments):
            return {"kind": "called", "name": name, "arguments": _sent(arguments)}
        case Returned(characters, beginning):
            return {"kind": "returned", "characters": characters, "beginning": _sent(beginning)}
        case text:
            return {"kind": "text", "text": _sent(text)}


def _sent(text: str) -> str:
    """What was no UTF-8, in a file that a person edited, is nothing that JSON could carry."""
    return text.encode("utf-8", "replace").decode()
