"""Writes down what was said: each request with its answer once, at the end of the client's current transcript."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from memory.conversations import files
from memory.conversations.asking import Asking, Conversation
from memory.conversations.journal import written
from memory.conversations.known import Chat, Entry, Known
from memory.conversations.messages import merged, visible
from memory.conversations.placing import Placed, Placing
from memory.conversations.prefixes import START, Hash, Place, Verdict
from memory.conversations.recall_tool import DEFAULT_NAME
from memory.conversations.said import Message, Prepared, Said
from memory.conversations.secrets import mask
from memory.conversations.sessions import Session, new_id
from memory.conversations.store import ClientMemory, Store
from memory.conversations.transcript import (
    LONGEST_SUMMARY,
    Link,
    Part,
    Piece,
    Returned,
    called,
    conversation_heading,
    frontmatter,
    model_name,
    one_line,
    render,
)

MOST_PASSED = 50
"""Places of a history that was not recorded which are remembered, the newest."""
_MASKED = LONGEST_SUMMARY * 20
"""Characters that are looked at for secrets where only the beginning is kept."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Where something was written: the numbers of conversation and turn are those in the transcript at `path`."""

    session: str
    conversation: int
    turn: int
    path: Path


class Recorder:
    """Records for all clients of a store. Methods may be called from any thread."""

    def __init__(self, store: Store, *, redact_secrets: bool = True, recall_tool: str = DEFAULT_NAME) -> None:
        self._store = store
        self.redact_secrets = redact_secrets
        self.recall_tool = recall_tool
        """The name of the tool by which models search."""
        self.on_recorded: list[Callable[[str, Path], None]] = []
        """Called with the client and the transcript that has grown, in the thread that recorded."""
        self._placing = Placing(store)
        self._asking = Asking()

    def prepare(self, messages: Iterable[Message]) -> Prepared:
        """The part of `record` that takes long with a long history; it needs no client and changes nothing."""
        one_each = merged(messages)
        digests = self._store.hasher.digests(one_each)
        return Prepared(one_each, digests, tuple(self._store.hasher.places(START, digests)))

    def record(self, client: str, said: Said) -> Recorded | None:
        """Append what is new in it; it is in the file when this returns. None: nothing is, or it is recorded already.

        `client` is the slug. Raises OSError; then nothing was written.
        """
        if not said.answer.text.strip() and not said.answer.calls:
            return None
        prepared = said.prepared or self.prepare(said.messages)
        memory = self._store.memory_of(client)
        with memory.lock:
            if memory.left:
                return self.record(client, said)
            try:
                recorded = self._add(memory, said, prepared)
            except FileNotFoundError:  # a person has deleted the folder, or a part of it
                self._store.make_again(memory)
                recorded = self._add(memory, said, prepared)
        if recorded is None:
            return None
        self._asking.answered(client, (recorded.session, recorded.conversation), said.answer, self.recall_tool)
        for callback in self.on_recorded:
            callback(client, recorded.path)
        return recorded

    def conversation_of(
        self,
        client: str,
        *,
        key: str | None,
        messages: Iterable[Message],
        prepared: Prepared | None = None,
        continues: bool = False,
        previous: str | None = None,
    ) -> Conversation | None:
        """The session and the number of the conversation that a request goes on with; None: it begins one.

        It writes nothing. The arguments are those of `Said`. Raises OSError.
        """
        prepared = prepared or self.prepare(messages)
        with self._known(client) as known:
            chat = self._placing.goes_on_with(known, prepared, key=key, continues=continues, previous=previous)
            return None if chat is None else (chat.session, chat.number)

    def asking(self, client: str) -> Conversation | None:
        """The session and the number of the conversation that calls the recall tool just now, as far as can be told."""
        return self._asking.of(client)

    @contextlib.contextmanager
    def _known(self, client: str) -> Iterator[Known]:
        """What is known of a client, for as long as nobody records; nobody who only asks gets a folder."""
        memory = self._store.existing(client)
        if memory is None:
            yield Known()
            return
        with memory.lock:
            yield Known() if memory.left else memory.known

    def _add(self, memory: ClientMemory, said: Said, prepared: Prepared) -> Recorded | None:
        placed = self._placing.place(memory.client, memory.known, said, prepared)
        if placed.verdict.kind == "retry":
            return None
        recorded = self._write(memory, said, prepared, placed)
        self._placing.remember(memory.client, placed.places[-1], said)
        return recorded

    def _write(self, memory: ClientMemory, said: Said, prepared: Prepared, placed: Placed) -> Recorded:
        known = memory.known
        verdict, chat = placed.verdict, placed.chat
        session, lines, size = self._session(memory, said)
        path = memory.transcript(session.id)
        new_file = size is None
        parent = None if chat is None or verdict.parent is None else chat.places.get(verdict.parent)
        here = chat is not None and chat.session == session.id
        number = chat.number if chat is not None and here else known.next_number(session.id)
        user, assistant = self._pieces(prepared.messages[verdict.start :], placed.answer)
        turn, extends = _turn(chat if here else None, parent, verdict, session, number, has_user=bool(user))
        instead_of = verdict.instead_of if parent and (parent.session, parent.number) == (session.id, number) else None
        text = "" if not new_file else frontmatter(memory.client, session.id, session.started)
        if known.writing != (session.id, number) or new_file:
            link = Link(chat.session, chat.number) if chat is not None and not here else None
            text += conversation_heading(number, said.at, continued=here, goes_on_from=link)
        if user:
            text += render(Part(number, turn, said.at, (user,), instead_of=instead_of))
        text += render(
            Part(
                number,
                turn,
                said.answered_at,
                assistant,
                model=model_name(said.model),
                continued=extends and verdict.kind != "again",
                again=verdict.kind == "again" or (extends and instead_of is not None),
                cut_off=not said.complete,
            )
        )
        offset = size or 0
        content = text.encode("utf-8")
        if offset not in {0, known.end} and not _ends_line(path, offset):
            content = b"\n" + content  # edited by hand
        entry = Entry(
            at=said.answered_at.timestamp(),
            session=session.id,
            started=session.started.timestamp(),
            conversation=chat.id if chat is not None else known.last_id + 1,
            number=number,
            turn=turn,
            parent=verdict.parent,
            base=placed.places[0],
            passed=_passed(prepared.messages, placed.places, chat.places if chat is not None else {}),
            asked=placed.places[-1],
            answered=placed.answered,
            complete=said.complete,
            key=self._placing.key(said.key),
            answer=self._placing.answer_id(said.answer_id),
            written=written(offset, content),
        )
        take_back = memory.journal.append(*lines, entry)
        try:
            files.append(path, content, make="new" if new_file else "no")
        except BaseException:
            take_back()
            raise
        known.apply(entry)
        return Recorded(session.id, number, turn, path)

    def _session(self, memory: ClientMemory, said: Said) -> tuple[Session, list[str], int | None]:
        """The session, the lines that end the one before, and how many bytes its file has; None: it is yet to be made."""
        session = memory.known.session
        if session is not None and not session.is_over(said.answered_at, self._store.limits):
            with contextlib.suppress(FileNotFoundError):  # a person may have deleted it
                return session, [], memory.transcript(session.id).stat().st_size
        at = said.at.astimezone(UTC).replace(microsecond=0)
        new = Session(new_id(at), at, at)
        return new, [session.id] if session is not None else [], None

    def _pieces(self, new: Sequence[Message], answer: Message) -> tuple[str, tuple[Piece, ...]]:
        """What the user said, and what the assistant did."""
        user: list[str] = []
        assistant: list[Piece] = []
        for message in (*new, answer):
            text = visible(message.text) if message.role == "user" else message.text
            assistant += [self._returned(result.text) for result in message.results]
            if text.strip():
                text = mask(text) if self.redact_secrets else text
                if message.role == "user":
                    user.append(text)
                elif assistant and isinstance(assistant[-1], str):
                    assistant[-1] += f"\n\n{text}"
                else:
                    assistant.append(text)
            assistant += [called(call.name, self._summary(call.arguments)) for call in message.calls]
        return "\n\n".join(user), tuple(assistant)

    def _returned(self, text: str) -> Returned:
        return Returned(len(text), one_line(self._summary(text)))

    def _summary(self, text: str) -> str:
        return mask(text[:_MASKED]) if self.redact_secrets else text[:_MASKED]


def _turn(
    chat: Chat | None, parent: Place | None, verdict: Verdict, session: Session, number: int, *, has_user: bool
) -> tuple[int, bool]:
    """The turn's number, and whether it is there already. `chat`: if it is in this session."""
    if chat is None:
        return 1, False
    if verdict.kind in {"more", "again"} and parent and (parent.session, parent.number) == (session.id, number):
        return parent.turn, True
    if not has_user and verdict.kind == "new":
        return chat.turn, True
    return chat.turn + 1, False


def _passed(
    messages: Sequence[Message], places: Sequence[Hash], known: Mapping[Hash, Place]
) -> tuple[tuple[Hash, bool], ...]:
    """Places before the request's last message that are new: a later request may go on from one of them."""
    return tuple(
        (places[at], messages[at - 1].role == "assistant")
        for at in range(max(1, len(messages) - MOST_PASSED), len(messages))
        if places[at] not in known
    )


def _ends_line(path: Path, size: int) -> bool:
    with path.open("rb") as file:
        file.seek(size - 1)
        return file.read(1) == b"\n"
