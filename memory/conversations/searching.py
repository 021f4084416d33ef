"""Answers a question from one client's index: candidates from memsearch, our ranking, and the turns around the best.

Belongs to the client's worker thread, as the index does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path

import numpy as np

from memory.conversations.chunk_store import ChunkStore
from memory.conversations.embedding import Builtin, Vectors
from memory.conversations.pieces import Pieces, Rows, text_of
from memory.conversations.pieces_file import Piece, PiecesFile, Stamp
from memory.conversations.ranking import Candidate, Language, focused, joined, least, scores
from memory.conversations.recall import Holdings, Memory, Recalled, capped
from memory.conversations.sections import Section, parts_of, section_at, session_of, session_started
from memory.conversations.transcript import parse

LANE = 50
"""Candidates of each lane."""
STEPS = 2
"""How far in a conversation the neighbours of a candidate are looked at."""
LEAST_PART = 0.25
"""Of the best score, that another must have to stand beside it."""


@dataclass(frozen=True, slots=True)
class Own:
    """The conversation that asks: what it knows already is not recalled."""

    session: str
    conversation: int


@dataclass(frozen=True, slots=True)
class Question:
    """`after` and `before` bound when a turn began; both count in."""

    text: str
    limit: int = 5
    after: datetime | None = None
    before: datetime | None = None
    own: Own | None = None


@dataclass(frozen=True, slots=True)
class _Scope:
    """Where a lane looks. `sources` None: everywhere."""

    sources: frozenset[str] | None = None
    own: tuple[str, int] | None = None
    """The file and the number of the conversation that asks."""

    def has(self, piece: Piece) -> bool:
        if self.sources is not None and piece.source not in self.sources:
            return False
        return self.own is None or piece.said is None or (piece.source, piece.said.conversation) != self.own


EVERYWHERE = _Scope()


class Searching:
    """Over the files of one client. `files` is what is indexed: it is looked at, and belongs to the index. `kept` is
    where is kept what would be read from it.
    """

    def __init__(
        self, sessions: Path, files: Mapping[str, Stamp], language: str, builtin: Builtin, kept: PiecesFile
    ) -> None:
        self._sessions = sessions
        self._files = files
        self._builtin = builtin
        self._language = Language(language)
        self._pieces = Pieces(self._language, kept)

    @property
    def unsaved(self) -> int:
        """How many pieces would have to be read from the index again."""
        return self._pieces.unsaved

    def save(self) -> None:
        """Raises OSError."""
        self._pieces.save()

    def search(self, chunk_store: ChunkStore, question: Question) -> Recalled:
        """The best first. Raises what the libraries raise."""
        holdings = self._holdings()
        scope = self._scope(question)
        if scope is None or not question.text.strip():
            return Recalled((), holdings)
        kept: dict[tuple[str, tuple[int, ...]], tuple[Memory, str]] = {}
        read = _Reading()
        turns = _by_turn(self.ranked(chunk_store, question.text, scope))
        is_found = turns and turns[0][0] >= least(len(self._pieces.all))
        bound = turns[0][0] * LEAST_PART if is_found else inf
        for score, piece in turns:
            if score < bound or len(kept) == question.limit:
                break
            section = read.section(piece)
            if section is not None and _is_wanted(question, piece, section):
                kept.setdefault((piece.source, section.key), (_memory(piece, section, score), piece.lead))
        return Recalled(capped([memory for memory, _ in kept.values()], [lead for _, lead in kept.values()]), holdings)

    def ranked(self, chunk_store: ChunkStore, text: str, scope: _Scope = EVERYWHERE) -> list[tuple[float, Piece]]:
        """The pieces that come into question, best first."""
        pieces = self._pieces
        pieces.follow(self._files, chunk_store)
        if not pieces.all:
            return []
        words = " ".join(self._language.words(text)) or text
        # the mean of a question's vectors is clearer without the words that say nothing; a model wants the whole sentence
        vector = chunk_store.vector(words if chunk_store.embeds_words else text)
        lanes = list(
            dict.fromkeys((*self._lane(pieces.cosines(vector), scope), *self._lane(pieces.by_words(text), scope)))
        )
        if chunk_store.embeds_words:
            said = [pieces.all[place].words for place in lanes]
            sharper = focused(text, said, self._language, self._builtin.word_vectors)
            vector = vector if sharper is None else sharper
        found = [place for place in self._with_neighbours(lanes) if not pieces.all[place].says_nothing]
        scored = zip(self._scores(text, vector, found), (pieces.all[place] for place in found), strict=True)
        return sorted(scored, key=lambda each: (-each[0], each[1].id))

    def _lane(self, scores: Vectors, scope: _Scope) -> list[int]:
        """The places of the best pieces."""
        if scope != EVERYWHERE:
            scores[[not scope.has(piece) for piece in self._pieces.all]] = -inf
        order: Rows = np.argsort(-scores, kind="stable")[:LANE]
        return [place for place in order.tolist() if scores[place] > -inf]

    def _with_neighbours(self, lanes: Sequence[int]) -> list[int]:
        wanted = dict.fromkeys(lanes)
        for place in lanes:
            for step in (self._pieces.before, self._pieces.after):
                at: int | None = place
                for _ in range(STEPS):
                    at = None if at is None else step(at)
                    if at is not None:
                        wanted[at] = None
        return list(wanted)

    def _scores(self, text: str, vector: Vectors, found: Sequence[int]) -> list[float]:
        pieces = self._pieces
        place = {at: index for index, at in enumerate(found)}
        candidates = [
            Candidate(
                pieces.all[at].words,
                cosine,
                None if (before := pieces.before(at)) is None else place.get(before),
                None if (after := pieces.after(at)) is None else place.get(after),
            )
            for at, cosine in zip(found, pieces.cosines(vector, found).tolist(), strict=True)
        ]
        return scores(text, candidates, self._language, self._builtin.word_vectors)

    def _scope(self, question: Question) -> _Scope | None:
        """Where to look, by time only roughly: `_is_wanted` is exact. None: nowhere."""
        own = question.own
        asking = None if own is None else (str(self._sessions / f"{own.session}.md"), own.conversation)
        if question.after is None and question.before is None:
            return _Scope(None, asking)
        sources = frozenset(source for source, stamp in self._files.items() if _may_hold(question, source, stamp))
        return _Scope(sources, asking) if sources else None

    def _holdings(self) -> Holdings:
        sessions = {session_of(source) for source in self._files}
        started = sorted(at for session in sessions if (at := session_started(session)))
        return Holdings(len(sessions), started[0] if started else None, started[-1] if started else None)


def _by_turn(ranked: Sequence[tuple[float, Piece]]) -> list[tuple[float, Piece]]:
    """Each turn once, by its best piece, and each piece that belongs to none; the best first."""
    turns: dict[tuple[str, int, int], list[tuple[float, Piece]]] = {}
    for score, piece in ranked:
        said = piece.said
        key = (piece.source, said.conversation, said.turn) if said else (piece.source, -1, piece.start_line)
        turns.setdefault(key, []).append((score, piece))
    found = [(joined([score for score, _ in pieces]), pieces[0][1]) for pieces in turns.values()]
    return sorted(found, key=lambda each: (-each[0], each[1].id))


class _Reading:
    """Of files, each once for a search."""

    def __init__(self) -> None:
        self._read: dict[str, str | None] = {}

    def section(self, piece: Piece) -> Section | None:
        """What stands around it; None: the file was deleted since."""
        if piece.source not in self._read:
            self._read[piece.source] = text_of(piece.source)
        content = self._read[piece.source]
        if content is None:
            return None
        if piece.said is not None and (parts := parts_of(content, piece.said)):
            return section_at(parts, parse(parts.encode()), 1)
        return section_at(content, parse(content.encode()), piece.start_line)


def _memory(piece: Piece, section: Section, score: float) -> Memory:
    path, session = Path(piece.source), session_of(piece.source)
    return Memory(
        source=f"{path.parent.name}/{path.name}",
        session=session,
        conversation=section.conversation,
        heading=section.heading,
        started_at=section.at or session_started(session),
        score=score,
        text=section.text,
    )


def _is_wanted(question: Question, piece: Piece, section: Section) -> bool:
    own = question.own
    if own is not None and own.session == session_of(piece.source) and own.conversation == section.conversation:
        return False
    at = section.at or session_started(session_of(piece.source))
    if at is None:  # a file of the person's own: it has no time
        return question.after is None and question.before is None
    return (question.after is None or at >= question.after) and (question.before is None or at <= question.before)


def _may_hold(question: Question, source: str, stamp: Stamp) -> bool:
    started = session_started(session_of(source))
    if started is not None and question.before is not None and started > question.before:
        return False
    return question.after is None or stamp[0] >= question.after.timestamp() * 1e9
