"""Deleting what was recorded, at each level; what is deleted is looked for afterwards.

A summary tells of what was deleted, so the session's summaries go too, and those of sessions that were summarised together
with it; their transcripts are indexed again as they are, until they are summarised once more. The caller tells the index
which files are gone and which have changed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from memory.conversations import files
from memory.conversations.archive import bring_back, earlier_summaries
from memory.conversations.journal import FILE_NAME
from memory.conversations.known import Entry
from memory.conversations.reading import NotThereError, conversation, path_of, read, turn
from memory.conversations.store import ClientMemory, Store
from memory.conversations.transcript import Conversation, Span, Transcript, parse


class NotGoneError(OSError):
    """What was deleted is still there. The message says where."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion did to files: their paths."""

    gone: list[Path] = field(default_factory=list)
    changed: list[Path] = field(default_factory=list)
    """With other contents than before, or in another place: there anew."""


def delete_turn(memory: ClientMemory, session: str, number: int, turn_number: int) -> Deleted:
    """Take a user's message and its answer out of the transcript. The conversation goes on from where it is.

    Raises NotThereError and OSError; what was not done then can be done again.
    """
    with memory.lock:
        spans = turn(memory, session, number, turn_number).spans
        deleted = _without(memory, session, spans, stays=lambda _: True)
        _verify(memory, session, number, turn_number)
        return deleted


def delete_conversation(memory: ClientMemory, session: str, number: int) -> Deleted:
    """Take a conversation out of a session. If the client goes on with it, that is a new one. Raises as `delete_turn`."""
    with memory.lock:
        chat = conversation(memory, session, number)
        spans = [*chat.headings, *(span for one in chat.turns for span in one.spans)]
        deleted = _without(
            memory, session, spans, stays=lambda entry: (entry.session, entry.number) != (session, number)
        )
        _verify(memory, session, number)
        return deleted


def delete_session(memory: ClientMemory, session: str) -> Deleted:
    """Delete the transcript of a session and its summaries. Raises as `delete_turn`."""
    with memory.lock:
        path_of(memory, session)
        memory.known = memory.journal.rewrite(lambda entry: entry.session != session)
        deleted = _drop_summaries(memory, session)
        for path in (memory.transcript(session), memory.archive / f"{session}.md"):
            if path.exists():
                path.unlink()
                deleted.gone.append(path)
        deleted.changed[:] = [path for path in deleted.changed if path.exists()]
        _verify(memory, session)
        return deleted


def delete_client(store: Store, client: str) -> Deleted:
    """Delete everything of a client, its index too, which must be closed. What is recorded later has another folder.

    Raises OSError.
    """
    memory = store.memory_of(client)
    with memory.lock:
        found = list(memory.sessions.rglob("*.md"))

        def remove(folder: Path) -> None:
            # First what says what is known of it: a deletion that ends half way must not go on with conversations.
            (folder / FILE_NAME).unlink(missing_ok=True)
            shutil.rmtree(folder)

        store.forget(client, remove)
        if memory.folder.exists():
            raise NotGoneError(f"{memory.folder} is still there")
    return Deleted(found)


def _without(memory: ClientMemory, session: str, spans: Iterable[Span], *, stays: Callable[[Entry], bool]) -> Deleted:
    """The transcript without these spans, and without headings of conversations that have nothing below them then."""
    # First the journal: its last line must not ask for what is about to be gone.
    memory.known = memory.journal.rewrite(stays)
    deleted = _drop_summaries(memory, session)
    path = path_of(memory, session)
    content = _cut(path.read_bytes(), spans)
    left = parse(content)
    content = _cut(content, _empty_headings(left))
    if any(chat.turns for chat in left.conversations):
        files.replace(path, content, memory.unfinished)
        if path not in deleted.changed:
            deleted.changed.append(path)
    else:
        path.unlink()
        deleted.gone.append(path)
        deleted.changed[:] = [one for one in deleted.changed if one != path]
    return deleted


def _drop_summaries(memory: ClientMemory, session: str) -> Deleted:
    deleted = Deleted()
    for one in (session, *_told_together(memory, session)):
        anew, gone = bring_back(memory.folder, one)
        deleted.changed.extend(anew)
        deleted.gone.extend(gone)
    return deleted


def _told_together(memory: ClientMemory, session: str) -> list[str]:
    """Sessions with a summary that go on from a conversation of this one."""
    found: list[str] = []
    for path in sorted({*memory.sessions.glob("*.md"), *memory.archive.glob("*.md")}):
        other = path.stem
        has_summary = (memory.sessions / f"{other}-summary.md").exists() or earlier_summaries(memory.folder, other)
        if other == session or not has_summary:
            continue
        links = (chat.goes_on_from for chat in parse(path.read_bytes()).conversations)
        if any(link is not None and link.session == session for link in links):
            found.append(other)
    return found


def _empty_headings(transcript: Transcript) -> list[Span]:
    """Of conversations without turns, and those `continued` that are followed by another heading at once."""
    spans = [span for chat in transcript.conversations for one in chat.turns for span in one.spans]
    starts = {span.start for span in spans}
    return [
        heading
        for chat in transcript.conversations
        for place, heading in enumerate(chat.headings)
        if not chat.turns or (place and heading.end not in starts)
    ]


def _cut(content: bytes, spans: Iterable[Span]) -> bytes:
    kept: list[bytes] = []
    at = 0
    for span in sorted(spans, key=lambda span: span.start):
        kept.append(content[at : span.start])
        at = span.end
    return b"".join((*kept, content[at:]))


def _verify(memory: ClientMemory, session: str, number: int | None = None, turn_number: int | None = None) -> None:
    try:
        transcript = read(memory, session)
    except NotThereError:
        return
    found: list[Conversation] = [one for one in transcript.conversations if number in {None, one.number}]
    if number is None or any(turn_number in {None, one.number} for chat in found for one in chat.turns):
        raise NotGoneError(f"{path_of(memory, session)} still holds what was to be deleted")
