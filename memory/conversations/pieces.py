"""What a search wants to know of each chunk of a client, in memory: its vector, its words, and what stands beside it.

It is made from the files and belongs to the client's worker thread. A question is answered from it, and the database is
asked for vectors only: Milvus Lite compares row by row in Python, hands out rows slowly, and knows no stems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory.conversations.chunk_store import Chunk, ChunkStore
from memory.conversations.embedding import Vectors
from memory.conversations.pieces_file import FilePieces, Piece, PiecesFile, Stamp
from memory.conversations.postings import Postings
from memory.conversations.ranking import Language
from memory.conversations.sections import label, says_nothing, without_heading

LEAD = 80
"""Characters of a piece that are kept, to find it again in its turn."""

type Rows = NDArray[np.intp]


class Pieces:
    """Of all files of a client. Places are those in `all`, until the next `follow`."""

    def __init__(self, language: Language, kept: PiecesFile) -> None:
        self._language = language
        self._kept = kept
        self._is_read = False
        self._files: dict[str, FilePieces] = {}
        self.unsaved = 0
        """How many pieces are not in the file that keeps them."""
        self.all: list[Piece] = []
        self._vectors: Vectors = np.zeros((0, 0), np.float32)
        self._postings = Postings((), language)
        self._before: list[int | None] = []
        self._after: list[int | None] = []

    def follow(self, files: Mapping[str, Stamp], chunk_store: ChunkStore) -> None:
        """Take in what was indexed, changed and forgotten since: `files` is what the index holds."""
        is_first, self._is_read = not self._is_read, True
        if is_first:
            self._files = self._kept.read(self._language)
        stale = [source for source, stamp in files.items() if self._stamp(source) != stamp]
        gone = [source for source in self._files if source not in files]
        if not stale and not gone:
            if is_first:
                self._join()
            return
        self.unsaved += len(gone)
        for source in gone:
            del self._files[source]
        read = {
            source: chunk_store.chunked(source, content) for source in stale if (content := text_of(source)) is not None
        }
        vectors = self._vectors_of([chunk for chunks in read.values() for chunk in chunks], chunk_store)
        at = 0
        for source in stale:
            chunks = read.get(source, [])  # none: deleted since
            self._files[source] = self._file(files[source], chunks, vectors[at : at + len(chunks)], source)
            at += len(chunks)
        self.unsaved += at
        self._join()

    def save(self) -> None:
        """Keep them for the next opening. What the index had no vector for is asked for again then. Raises OSError."""
        known = {source: file for source, file in self._files.items() if file.vectors.any(axis=1).all()}
        self._kept.write(known, self._language)
        self.unsaved = 0

    def cosines(self, vector: Vectors, places: Sequence[int] | Rows | None = None) -> Vectors:
        """With the pieces at these places; with all."""
        rows = self._vectors if places is None else self._vectors[places]
        cosines: Vectors = rows @ (vector / max(float(np.linalg.norm(vector)), 1e-9)).astype(np.float32)
        return cosines

    def by_words(self, text: str) -> Vectors:
        """How many of these words each has, and how rare they are: BM25 of words that are there or not, by their stems."""
        return self._postings.scores(self._language.numbers(text))

    def before(self, place: int) -> int | None:
        """The one before it in its conversation."""
        return self._before[place]

    def after(self, place: int) -> int | None:
        return self._after[place]

    def _stamp(self, source: str) -> Stamp | None:
        file = self._files.get(source)
        return None if file is None else file.stamp

    def _vectors_of(self, chunks: Sequence[Chunk], chunk_store: ChunkStore) -> Vectors:
        """What is known already is not asked for again: a chunk never changes, another text has another id."""
        known = {
            piece.id: row
            for source in {chunk.source for chunk in chunks}
            if (file := self._files.get(source)) is not None
            for piece, row in zip(file.pieces, file.vectors, strict=True)
            if row.any()
        }
        new = [chunk for chunk in chunks if chunk.id not in known]
        known.update(zip((chunk.id for chunk in new), chunk_store.vectors(new), strict=True))
        return (
            np.stack([known[chunk.id] for chunk in chunks])
            if chunks
            else np.zeros((0, chunk_store.dimension), np.float32)
        )

    def _file(self, stamp: Stamp, chunks: Sequence[Chunk], vectors: Vectors, source: str) -> FilePieces:
        file = self._files.get(source)
        known = {piece.id: piece for piece in file.pieces} if file is not None else {}
        return FilePieces(stamp, [known.get(chunk.id) or self._piece(chunk) for chunk in chunks], vectors)

    def _piece(self, chunk: Chunk) -> Piece:
        text = without_heading(chunk.content)
        return Piece(
            chunk.id,
            chunk.source,
            chunk.heading,
            chunk.start_line,
            text.strip()[:LEAD],
            self._language.numbers(text),
            label(chunk.heading),
            says_nothing(chunk.heading, chunk.content),
        )

    def _join(self) -> None:
        files = [file for file in self._files.values() if file.pieces]
        self.all = [piece for file in files for piece in file.pieces]
        self._vectors = np.concatenate([file.vectors for file in files]) if files else np.zeros((0, 0), np.float32)
        self._postings = Postings([piece.words for piece in self.all], self._language)
        self._before, self._after = [None] * len(self.all), [None] * len(self.all)
        last: dict[tuple[str, int | None], int] = {}
        for place, piece in enumerate(self.all):
            conversation = piece.source, None if piece.said is None else piece.said.conversation
            if (before := last.get(conversation)) is not None:
                self._before[place], self._after[before] = before, place
            last[conversation] = place


def text_of(source: str) -> str | None:
    """As memsearch reads it; None: it is not there."""
    try:
        return Path(source).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
