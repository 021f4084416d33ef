"""Answers a question from one client's index: candidates from memsearch, our ranking, and the turns around the best.

Belongs to the client's worker thread, as the index does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path

from memory.conversations.embedding import Builtin
from memory.conversations.library import Hit, Library, quoted
from memory.conversations.ranking import Language, Piece, focused, joined, scores
from memory.conversations.recall import Holdings, Memory, Recalled, capped
from memory.conversations.sections import (
    Section,
    label,
    parts_of,
    says_nothing,
    section_at,
    session_of,
    session_started,
    without_heading,
)
from memory.conversations.transcript import parse

LANE = 50
"""Candidates of each lane."""
STEPS = 2
"""How far in a conversation the neighbours of a candidate are looked at."""
LEAST_SCORE = 0.12
"""Where the best scores less, nothing is the answer (measured: `make bench`, area recall)."""
LEAST_PART = 0.25
"""Of the best score, that another must have to stand beside it."""
REMEMBERED_OUTLINES = 400

type Stamp = tuple[int, int]
"""Of a file: when it was modified, in ns, and its size."""


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
class _Outline:
    """The chunks of a file by conversation, in order: who stands beside whom."""

    stamp: Stamp
    place: Mapping[str, tuple[tuple[str, ...], int]]
    """Chunk -> those of its conversation, and where among them it stands."""

    def beside(self, chunk: str, steps: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """So many chunks before it and after it; the nearest is the last of the first, and the first of the second."""
        row, at = self.place.get(chunk, ((), 0))
        return row[max(at - steps, 0) : at], row[at + 1 : at + steps + 1]


class Searching:
    """Over the files of one client. `files` is what is indexed: it is looked at, and belongs to the index."""

    def __init__(self, sessions: Path, files: Mapping[str, Stamp], language: str, builtin: Builtin) -> None:
        self._sessions = sessions
        self._files = files
        self._builtin = builtin
        self._language = Language(language)
        self._outlines: OrderedDict[str, _Outline] = OrderedDict()

    def search(self, library: Library, question: Question) -> Recalled:
        """The best first. Raises what the libraries raise."""
        holdings = self._holdings()
        where = self._filter(question)
        if where is None or not question.text.strip() or library.is_empty:
            return Recalled((), holdings)
        kept: dict[tuple[str, tuple[int, ...]], tuple[Memory, str]] = {}
        read = _Reading()
        turns = _by_turn(self.ranked(library, question.text, where))
        least = turns[0][0] * LEAST_PART if turns and turns[0][0] >= LEAST_SCORE else inf
        for score, hit in turns:
            if score < least or len(kept) == question.limit:
                break
            section = read.section(hit)
            if section is not None and _is_wanted(question, hit, section):
                kept.setdefault((hit.source, section.key), (_memory(hit, section, score), without_heading(hit.content)))
        return Recalled(
            capped([memory for memory, _ in kept.values()], [match for _, match in kept.values()]), holdings
        )

    def ranked(self, library: Library, text: str, where: str = "") -> list[tuple[float, Hit]]:
        """The chunks that come into question, best first. `where` is a filter of Milvus."""
        found = self._candidates(library, text, where)
        scored = zip(self._scores(library, text, found), found.values(), strict=True)
        return sorted(scored, key=lambda each: (-each[0], each[1].id))

    def _candidates(self, library: Library, text: str, where: str) -> dict[str, Hit]:
        """Of both lanes, and what stands beside them, all with their cosines."""
        words = " ".join(self._language.words(text)) or text
        # the mean of a question's vectors is clearer without the words that say nothing; a model wants the whole sentence
        vector = library.vector(words if library.embeds_words else text)
        found = {hit.id: hit for hit in library.by_meaning(vector, LANE, where)}
        lanes = {**{hit.id: hit for hit in library.by_words(words, LANE, where)}, **found}
        wanted = dict.fromkeys(lanes)
        for hit in lanes.values():
            before, after = self._beside(library, hit, STEPS)
            wanted.update(dict.fromkeys((*before, *after)))
        if library.embeds_words:
            texts = [without_heading(hit.content) for hit in lanes.values()]
            sharper = focused(text, texts, self._language, self._builtin.word_vectors)
            if sharper is not None:
                vector, found = sharper.tolist(), {}
        if missing := [chunk for chunk in wanted if chunk not in found]:
            among = f"chunk_hash in [{', '.join(map(quoted, missing))}]"
            found.update((hit.id, hit) for hit in library.by_meaning(vector, len(missing), among))
        return {chunk: hit for chunk, hit in found.items() if not says_nothing(hit.heading, hit.content)}

    def _scores(self, library: Library, text: str, found: Mapping[str, Hit]) -> list[float]:
        place = {chunk: index for index, chunk in enumerate(found)}
        pieces = []
        for hit in found.values():
            before, after = self._beside(library, hit, 1)
            pieces.append(
                Piece(
                    without_heading(hit.content),
                    hit.cosine,
                    place.get(before[0]) if before else None,
                    place.get(after[0]) if after else None,
                )
            )
        return scores(text, pieces, self._language, self._builtin.word_vectors)

    def _beside(self, library: Library, hit: Hit, steps: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        outline = self._outline(library, hit.source)
        return outline.beside(hit.id, steps) if outline else ((), ())

    def _outline(self, library: Library, source: str) -> _Outline | None:
        stamp = self._files.get(source)
        known = self._outlines.get(source)
        if known is not None and known.stamp == stamp:
            self._outlines.move_to_end(source)
            return known
        content = _content(source)
        if stamp is None or content is None:  # deleted since
            return None
        rows: dict[int | None, list[str]] = {}
        for chunk in library.chunked(source, content):
            said = label(chunk.heading)
            rows.setdefault(said.conversation if said else None, []).append(chunk.id)
        outline = _Outline(
            stamp, {chunk: (row, at) for row in map(tuple, rows.values()) for at, chunk in enumerate(row)}
        )
        self._outlines[source] = outline
        if len(self._outlines) > REMEMBERED_OUTLINES:
            self._outlines.popitem(last=False)
        return outline

    def _filter(self, question: Question) -> str | None:
        """What Milvus is to look at, by time only roughly: `_is_wanted` is exact. None: nothing."""
        parts = []
        if question.own is not None:
            source = quoted(str(self._sessions / f"{question.own.session}.md"))
            parts.append(
                f'not (source == {source} and heading like "%, conversation {question.own.conversation}, turn %")'
            )
        if question.after is not None or question.before is not None:
            sources = [source for source, stamp in self._files.items() if _may_hold(question, source, stamp)]
            if not sources:
                return None
            parts.append(f"source in [{', '.join(map(quoted, sources))}]")
        return " and ".join(parts)

    def _holdings(self) -> Holdings:
        sessions = {session_of(source) for source in self._files}
        started = sorted(at for session in sessions if (at := session_started(session)))
        return Holdings(len(sessions), started[0] if started else None, started[-1] if started else None)


def _by_turn(ranked: Sequence[tuple[float, Hit]]) -> list[tuple[float, Hit]]:
    """Each turn once, by its best piece, and each piece that belongs to none; the best first."""
    turns: dict[tuple[str, int, int], list[tuple[float, Hit]]] = {}
    for score, hit in ranked:
        said = label(hit.heading)
        key = (hit.source, said.conversation, said.turn) if said else (hit.source, -1, hit.start_line)
        turns.setdefault(key, []).append((score, hit))
    found = [(joined([score for score, _ in pieces]), pieces[0][1]) for pieces in turns.values()]
    return sorted(found, key=lambda each: (-each[0], each[1].id))


class _Reading:
    """Of files, each once for a search."""

    def __init__(self) -> None:
        self._read: dict[str, str | None] = {}

    def section(self, hit: Hit) -> Section | None:
        """What stands around it; None: the file was deleted since."""
        if hit.source not in self._read:
            self._read[hit.source] = _content(hit.source)
        content = self._read[hit.source]
        if content is None:
            return None
        said = label(hit.heading)
        if said is not None and (parts := parts_of(content, said)):
            return section_at(parts, parse(parts.encode()), 1)
        return section_at(content, parse(content.encode()), hit.start_line)


def _content(source: str) -> str | None:
    """As memsearch reads it; None: it is not there."""
    try:
        return Path(source).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _memory(hit: Hit, section: Section, score: float) -> Memory:
    path, session = Path(hit.source), session_of(hit.source)
    return Memory(
        source=f"{path.parent.name}/{path.name}",
        session=session,
        conversation=section.conversation,
        heading=section.heading,
        started_at=section.at or session_started(session),
        score=score,
        text=section.text,
    )


def _is_wanted(question: Question, hit: Hit, section: Section) -> bool:
    own = question.own
    if own is not None and own.session == session_of(hit.source) and own.conversation == section.conversation:
        return False
    at = section.at or session_started(session_of(hit.source))
    if at is None:  # a file of the person's own: it has no time
        return question.after is None and question.before is None
    return (question.after is None or at >= question.after) and (question.before is None or at <= question.before)


def _may_hold(question: Question, source: str, stamp: Stamp) -> bool:
    started = session_started(session_of(source))
    if started is not None and question.before is not None and started > question.before:
        return False
    return question.after is None or stamp[0] >= question.after.timestamp() * 1e9
