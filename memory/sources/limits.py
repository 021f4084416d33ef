"""What a source leaves out: by pattern, by size, by number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pathspec

from memory.notes import MemoryDocument

MEGABYTE = 1 << 20


class Limits:
    """`exclude` are the patterns of .gitignore on a document's path; what they match is no note and is not counted.

    Documents beyond `max_notes`, and those of more than `max_note_bytes`, are counted as skipped (notes.md, "Sources").
    Raises ValueError for a pattern that is none (`!` alone).
    """

    def __init__(self, exclude: Sequence[str] = (), max_notes: int = 5000, max_note_bytes: int = MEGABYTE) -> None:
        self._exclude = pathspec.GitIgnoreSpec.from_lines(exclude)
        self._max_notes = max_notes
        self._max_note_bytes = max_note_bytes

    def excludes(self, path: str) -> bool:
        return self._exclude.match_file(path)

    def is_too_large(self, size: int) -> bool:
        return size > self._max_note_bytes

    def keep(
        self, documents: Iterable[MemoryDocument], *, of_any_size: bool = False
    ) -> tuple[list[MemoryDocument], int]:
        """(the documents to keep, in their order; how many were skipped). `of_any_size`: nothing of them is read."""
        wanted = [document for document in documents if not self.excludes(document.path)]
        small = [document for document in wanted if of_any_size or not self.is_too_large(_size(document))]
        kept = small[: self._max_notes]
        return kept, len(wanted) - len(kept)


def _size(document: MemoryDocument) -> int:
    return len(document.text.encode("utf-8", "replace")) if document.size is None else document.size
