"""The pieces of a client in a file beside its index, so that the first question need not read them from the database.

It is disposable. Whoever reads it gets nothing from a file that is damaged, of another version or made for another index;
and of each file of the client what was kept of it only while that file is as it was (`Pieces.follow`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from memory.conversations.embedding import Vectors
from memory.conversations.files import replace
from memory.conversations.ranking import Language, Numbers
from memory.conversations.sections import Label, label

type Stamp = tuple[int, int]
"""Of a file: when it was modified, in ns, and its size."""

FORMAT = 1
"""Raised with every change of what a piece is made of, or of what is kept of it."""
_DIGEST = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk, without most of its text."""

    id: str
    source: str
    heading: str
    start_line: int
    lead: str
    words: Numbers
    said: Label | None
    """None: it is no part of a transcript of ours."""
    says_nothing: bool


@dataclass(frozen=True, slots=True)
class FilePieces:
    """Its pieces in order, with a vector of length 1 for each."""

    stamp: Stamp
    pieces: Sequence[Piece]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class PiecesFile:
    """`made` says what the vectors were made with and how texts were cut: another index has another.

    `unfinished` is the folder in which a new file is written.
    """

    path: Path
    made: str
    unfinished: Path

    def read(self, language: Language) -> dict[str, FilePieces]:
        """By file; none where there is nothing that can be used."""
        try:
            content = self.path.read_bytes()
            body = memoryview(content)[_DIGEST:]
            if content[:_DIGEST] != blake2b(body, digest_size=_DIGEST).digest():
                return {}
            with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
                head = json.loads(arrays["head"].tobytes())
                if head["made"] != self._made(language):
                    return {}
                numbers = language.numbered(head["words"])[arrays["words"]]
                ends = np.cumsum(arrays["lengths"])
                return _files(head, np.split(numbers, ends[:-1]), arrays["vectors"])
        except (OSError, ValueError, KeyError, TypeError, IndexError):  # whatever else may lie there
            return {}

    def write(self, files: Mapping[str, FilePieces], language: Language) -> None:
        """Raises OSError."""
        pieces = [piece for file in files.values() for piece in file.pieces]
        words = np.concatenate([piece.words for piece in pieces]) if pieces else np.zeros(0, np.int32)
        vocabulary, places = np.unique(words, return_inverse=True)
        head = {
            "made": self._made(language),
            "files": [[source, file.stamp, len(file.pieces)] for source, file in files.items()],
            "pieces": [[one.id, one.heading, one.start_line, one.lead, one.says_nothing] for one in pieces],
            "words": language.spelled(vocabulary),
        }
        body = io.BytesIO()
        np.savez(
            body,
            head=np.frombuffer(json.dumps(head).encode(), np.uint8),
            words=places.astype(np.int32),
            lengths=np.array([piece.words.size for piece in pieces], np.int32),
            vectors=np.concatenate([file.vectors for file in files.values()])
            if files
            else np.zeros((0, 0), np.float32),
        )
        content = body.getvalue()
        replace(self.path, blake2b(content, digest_size=_DIGEST).digest() + content, self.unfinished)

    def _made(self, language: Language) -> str:
        return json.dumps([FORMAT, language.name, self.made])


def _files(head: dict[str, Any], words: Sequence[Numbers], vectors: Vectors) -> dict[str, FilePieces]:
    files: dict[str, FilePieces] = {}
    at = 0
    for source, (modified, size), count in head["files"]:
        pieces = [
            Piece(id_, source, heading, line, lead, words[at + number], label(heading), nothing)
            for number, (id_, heading, line, lead, nothing) in enumerate(head["pieces"][at : at + count])
        ]
        files[source] = FilePieces((modified, size), pieces, vectors[at : at + count])
        at += count
    return files
