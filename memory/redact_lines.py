"""Hashes of every line of the notes that a redact rule can reach, short and common ones too (dispatch.md, "redact").

    every_line = EveryLine.of(notes, seed=…)        # part of a `NoteIndex`, for the notes that are reachable only
    wanted = every_line.wanted(ids)                 # of the notes that are withheld from one request
    wanted.among(fold_keys(folded_rows(rows), seed))

A line is withheld however a copy of it is written: what is compared is its letters and digits without case, accents and
white space. Lines with fewer than three of these ("", "---", "}", "1.") are left out: they say nothing of a note, they
are in nearly every text, and code without them is no code any more. No text is kept.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import mmh3
import numpy as np
from numpy.typing import NDArray

from memory.lines import canonical_rows, fingerprints
from memory.notes import Note
from memory.pieces import Rows

FEWEST = 3
"""Letters and digits that a line has at least which is withheld for being the note's."""
TELLING = 16
"""Letters and digits of a line by which a note may be known, if the line is distinctive too."""

_BATCH = 1 << 20
"""Bytes of notes that are hashed in one go."""
_LOWER = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
_SIGNS = bytes(byte for byte in range(128) if byte != ord("\n") and not chr(byte).isalnum())
_ARROW = "→".encode()
_COMMON_SIGNS = re.compile(rb"\xe2[\x80-\xbf]{2}")
_SIGNS_OF_ALL = re.compile(r"[^\w\n]+|_+")
_MANY_SIGNS = re.compile(r"[^\w\n]{30,}")
"""No text has so many marks in a row, and to put them in order takes time that grows with their square (UAX #15)."""
_AMPERSANDS = re.compile(rb"&(?:amp;)++")
_SIGN_ENTITIES = re.compile(rb"&(?:lt|gt|quot|apos|nbsp|#39|#x27);")
_ENTITY = re.compile(rb"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,9});")
_END = np.uint64(0xFFFF)
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_64_BITS = (1 << 64) - 1

type Keys = NDArray[np.uint64]


def folded_rows(rows: bytes) -> bytes:
    """The letters and digits of each row of a text in UTF-8: NFKD without marks, case folded, HTML entities undone.

    Characters from U+2000 to U+2FFF count as signs, as they do where quotes are looked for.
    """
    rows = _without_signs(rows)
    if rows.isascii():
        return rows
    each = rows.split(b"\n")
    wide = [number for number, row in enumerate(each) if not row.isascii()]
    text = b"\n".join([each[number] for number in wide]).decode("utf-8", "surrogatepass")
    text = unicodedata.normalize("NFKD", _MANY_SIGNS.sub("", text)).casefold()
    text = _SIGNS_OF_ALL.sub("", text)
    for number, row in zip(wide, text.encode("utf-8").split(b"\n"), strict=True):
        each[number] = row
    return b"\n".join(each)


def fold_keys(folded: bytes, seed: int) -> Keys:
    """64 bits for each of some folded rows: 16 of how it ends, by which most rows of a text are passed over."""
    return (fingerprints(folded, seed) & ~_END) | _ends(Rows.of(np.frombuffer(folded, np.uint8)), folded, seed)


def fold_key(row: str, seed: int) -> int:
    """That of one row."""
    folded = folded_rows(row.encode("utf-8", "surrogatepass"))
    return int.from_bytes(mmh3.mmh3_x64_128_digest(folded, seed)[:8], "little") & ~int(_END) | _end(folded, seed)


def _end(folded: bytes, seed: int) -> int:
    """A hash of the last three bytes."""
    return ((int.from_bytes(folded[-FEWEST:]) ^ seed) * int(_MIXER) & _64_BITS) >> 48


def _without_signs(rows: bytes) -> bytes:
    """Letters and digits, of ASCII in lower case, and what is beyond ASCII."""
    if b"&" in rows:
        rows = _ENTITY.sub(_character, _SIGN_ENTITIES.sub(b"", _AMPERSANDS.sub(b"&", rows)))
    if b"\xe2" in rows:
        rows = _COMMON_SIGNS.sub(b"", rows.replace(_ARROW, b""))  # an arrow is in each row of a numbered file
    return rows.translate(_LOWER, _SIGNS)


def _ends(rows: Rows, data: bytes, seed: int) -> Keys:
    """A hash of the last three bytes of each row; of shorter rows it says nothing."""
    padded = np.frombuffer(bytes(FEWEST) + data, np.uint8)
    three = np.zeros(len(rows.ends), np.uint64)
    for back in range(FEWEST):
        three = three << np.uint64(8) | padded[rows.ends + back].astype(np.uint64)
    mixed = (three ^ np.uint64(seed)) * _MIXER
    ends: Keys = mixed >> np.uint64(48)
    return ends


def _is_near_end(rows: Rows, places: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which places are among the last three bytes of their row."""
    near: NDArray[np.bool_] = rows.ends[np.searchsorted(rows.ends, places)] - places <= FEWEST
    return near


def _character(entity: re.Match[bytes]) -> bytes:
    # What is written as an entity begins no row.
    return html.unescape(entity[0].decode()).replace("\n", "").encode("utf-8", "surrogatepass")


class _Lines(NamedTuple):
    """The lines of one note, each once: pairs of 64 bits, the fingerprint by the exact rule and that of the fold.

    Those with `TELLING` letters and digits come first.
    """

    pairs: bytes
    long: int
    """How many of them have so many."""
    longest: int
    """Bytes of the longest fold."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The lines of some notes: rows of (fold, exact fingerprint, number of the note), in the order of their folds."""

    folds: Keys
    exact: Keys
    notes: NDArray[np.intp]
    """Numbers in the order in which the notes were named."""
    long: NDArray[np.bool_]
    longest: int
    """Bytes of the longest fold."""
    seed: int
    _ends: NDArray[np.bool_] = field(init=False)
    """By the hash of an end, whether a line has it."""

    def __post_init__(self) -> None:
        ends = np.zeros(int(_END) + 1, np.bool_)
        ends[(self.folds & _END).astype(np.intp)] = True
        object.__setattr__(self, "_ends", ends)

    def may_have(self, rows: bytes) -> NDArray[np.intp]:
        """The rows of a text in UTF-8 that may be lines of these notes, with any prefix or none, by how they end."""
        data = _without_signs(rows)
        there = np.frombuffer(data, np.uint8)
        spans = Rows.of(there)
        may = self._ends[_ends(spans, data, self.seed).astype(np.intp)]
        # What is beyond ASCII may be written otherwise in the note.
        wide = np.flatnonzero(there >= 0x80)
        may[np.searchsorted(spans.ends, wide[_is_near_end(spans, wide)])] = True
        return np.flatnonzero(may & (spans.ends - spans.starts >= FEWEST))

    def may_end(self, folded: bytes) -> bool:
        """Whether one of the lines may end as a folded row does."""
        return len(folded) < FEWEST or bool(self._ends[_end(folded, self.seed)])

    def among(self, folds: Keys) -> NDArray[np.intp]:
        """Which of some folds are lines of these notes."""
        if not len(self.folds):
            return np.empty(0, np.intp)
        return np.flatnonzero(self.folds.take(np.searchsorted(self.folds, folds), mode="clip") == folds)

    def rows(self, fold: int) -> Iterator[int]:
        """The rows that have a fold."""
        first, last = (int(np.searchsorted(self.folds, np.uint64(fold), side)) for side in ("left", "right"))
        yield from range(first, last)


@dataclass(frozen=True, slots=True)
class EveryLine:
    """Immutable. `notes` is note id -> its lines; a note that is not there was not reachable, or could not be read."""

    seed: int = 0
    notes: Mapping[str, _Lines] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(
        cls, notes: Iterable[Note], *, seed: int, previous: EveryLine | None = None, same: Collection[str] = ()
    ) -> EveryLine:
        """The lines of `notes`. What `previous` has of those with the ids `same` is taken over.

        A note that comes unread and is not in `previous` is left out.
        """
        known = previous.notes if previous else {}
        lines: dict[str, _Lines] = {}
        made: list[Note] = []
        size = 0
        for note in notes:
            if note.id in same and note.id in known:
                lines[note.id] = known[note.id]
            elif not note.unread:
                made.append(note)
                size += len(note.text)
                if size >= _BATCH:
                    lines |= _hashed(made, seed)
                    made, size = [], 0
        lines |= _hashed(made, seed)
        return cls(seed, MappingProxyType(lines))

    @property
    def nbytes(self) -> int:
        """Memory of all that is kept."""
        return sum(len(one.pairs) for one in self.notes.values())

    def __contains__(self, note: str) -> bool:
        return note in self.notes

    def wanted(self, ids: Sequence[str]) -> Wanted:
        """The lines of the notes with these ids, as far as they are known."""
        every = [(number, self.notes[note]) for number, note in enumerate(ids) if note in self.notes]
        pairs = np.frombuffer(b"".join([lines.pairs for _, lines in every]), np.uint64).reshape(-1, 2)
        counts = [len(lines.pairs) // 16 for _, lines in every]
        notes = np.repeat(np.array([number for number, _ in every], np.intp), counts)
        long = [np.arange(count) < lines.long for count, (_, lines) in zip(counts, every, strict=True)]
        order = np.argsort(pairs[:, 1], kind="stable")
        return Wanted(
            pairs[order, 1],
            pairs[order, 0],
            notes[order],
            np.concatenate([np.empty(0, np.bool_), *long])[order],
            max([lines.longest for _, lines in every], default=0),
            self.seed,
        )


def _hashed(notes: Sequence[Note], seed: int) -> dict[str, _Lines]:
    if not notes:
        return {}
    texts = [note.text.encode("utf-8", "surrogatepass") for note in notes]
    rows = b"\n".join(texts)
    folded = folded_rows(rows)
    lengths = np.array([len(row) for row in folded.decode("utf-8").split("\n")])
    sizes = np.array([len(row) for row in folded.split(b"\n")])
    pairs = np.stack((fingerprints(canonical_rows(rows), seed), fold_keys(folded, seed)), axis=1)
    lines: dict[str, _Lines] = {}
    start = 0
    for note, text in zip(notes, texts, strict=True):
        end = start + text.count(b"\n") + 1
        long = start + np.flatnonzero(lengths[start:end] >= TELLING)
        short = start + np.flatnonzero((lengths[start:end] >= FEWEST) & (lengths[start:end] < TELLING))
        first, others = (np.unique(pairs[some], axis=0) for some in (long, short))
        lines[note.id] = _Lines(
            np.concatenate((first, others)).tobytes(), len(first), int(sizes[start:end].max(initial=0))
        )
        start = end
    return lines
