"""The grams and the lines of notes, made from their texts. Each note is by itself: what another says does not matter."""

from __future__ import annotations

import re
from collections.abc import Iterable

import mmh3
import numpy as np
from numpy.typing import NDArray

from memory.grams import AROUND, EDGE, GRAM, NOTE_WINDOW, SEARCH_WINDOW, Shingler, different
from memory.letters import encoded, letters
from memory.quote_rows import GramRows, LineHashes

FEWEST_WIDE = 12
"""Wide characters of a line that is found by itself, however short."""

_TWO_GRAMS_FOR_CERTAIN = 55
"""Letters of which winnowing keeps two grams, whatever they are."""
_BATCH = 1 << 19
_APART = bytes(AROUND)
_FRONTMATTER = re.compile(
    r"\ufeff?---[ \t]*\r?\n(?:---|(?=[^\n]*:|[ \t#]).*?^---)[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
_SENTENCE_ENDS = (b". ", b"? ", b"! ", "。".encode(), "\uff01".encode(), "\uff1f".encode())
_SHORT_SENTENCES = range(GRAM + SEARCH_WINDOW - 1, GRAM + NOTE_WINDOW - 1)
"""Letters of a sentence which winnowing might pass over, and of which a search would find grams."""
_WIDE = re.compile(rb"[\xe3-\xed\xef\xf0]")


def printed(texts: Iterable[str], seed: int) -> tuple[GramRows, LineHashes]:
    """The grams of notes, in no order, and their lines. `seed` is 32 bits."""
    shingler = Shingler(seed)
    batch = _Batch(0)
    parts: list[GramRows] = []
    hashes: list[int] = []
    counts: list[int] = []
    for text in texts:
        lines = _lines(text)
        hashes += [mmh3.hash(batch.add(line), seed, signed=False) for line in lines]
        counts.append(len(lines))
        batch.end_note()
        if batch.size >= _BATCH:
            parts.append(batch.grams(shingler))
            batch = _Batch(len(hashes))
    parts.append(batch.grams(shingler))
    return GramRows.joined(parts), LineHashes.of(hashes, counts)


def _lines(text: str) -> list[bytes]:
    """The letters of each line that has any, with a NUL between sentences. The frontmatter is left out."""
    match = _FRONTMATTER.match(text)
    data = encoded(text[match.end() :] if match else text).replace(b"\0", b"")
    for end in _SENTENCE_ENDS:
        data = data.replace(end, end + b"\0")
    return [line for row in letters(data, rows=True).split(b"\n") if (line := row.strip(b"\0"))]


class _Batch:
    """Some notes, with as many NUL between them as no gram, nor what is around it, reaches over."""

    def __init__(self, line: int) -> None:
        self.size = GRAM
        self._line = line
        """The number of the first line."""
        self._parts = [EDGE]
        self._starts: list[int] = []
        self._wide: list[int] = []
        self._short: list[tuple[int, int]] = []

    def add(self, line: bytes) -> bytes:
        """Take in one line, and return its letters."""
        start = at = self.size
        sentences = line.split(b"\0")
        for sentence in sentences:
            length = len(sentence)
            if length in _SHORT_SENTENCES:
                self._short.append((at, length))
            at += length
        if len(sentences) > 1:
            line = b"".join(sentences)
        if not line.isascii():
            self._wide += [start + place for place in _in_wide(line)]
        self._starts.append(start)
        self._parts.append(line)
        self.size = at
        return line

    def end_note(self) -> None:
        self._parts.append(_APART)
        self.size += len(_APART)

    def grams(self, shingler: Shingler) -> GramRows:
        batch = b"".join((*self._parts, EDGE))
        short = np.array(self._short, np.intp).reshape(-1, 2)
        wanted = [shingler.choose(batch).positions, np.array(self._wide, np.intp), shingler.in_short(batch, *short.T)]
        positions = different(np.sort(np.concatenate(wanted)))
        starts = np.array(self._starts, np.intp)
        first: NDArray[np.intp] = np.searchsorted(starts, positions, "right") - 1
        last = np.searchsorted(starts, positions + GRAM, "left") - 1
        around = shingler.around(batch, positions, beyond=0)
        return GramRows.of(shingler.at(batch, positions).keys, self._line + first, last - first, around)


def _in_wide(line: bytes) -> list[int]:
    """Where the two grams begin that are kept of a short line of wide characters, which winnowing might pass over."""
    if len(line) >= _TWO_GRAMS_FOR_CERTAIN:
        return []
    places = [match.start() for match in _WIDE.finditer(line)]
    return places[:2] if len(places) >= FEWEST_WIDE else []
