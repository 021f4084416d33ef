"""What scans remember of bodies: of an element, and of a string, what was found in it. Hashes and places, no text.

Agents send the whole conversation again each turn, so nearly all of a body was there before. Claude Code changes the
first block of `system` with each request and moves its `cache_control` marks each turn: so what is remembered is told
by its own content, never by what stands before it, and a string is remembered beside the element that it is in.
"""

from __future__ import annotations

import secrets
from collections.abc import Buffer, Iterable, Iterator
from typing import NamedTuple

import xxhash

from memory.recent import Recent
from memory.spans import Element, KnownSpans, Run
from memory.tally import Found, Tallied

_SPANS_BYTES = 16 << 20
_ELEMENTS_BYTES = 20 << 20
_PREFIXES_BYTES = 16 << 20
_STRINGS_BYTES = 12 << 20
SHORTEST_STRING = 512
"""Characters below which looking at a string costs little more than looking it up."""
_ITEM_BYTES = 250
"""What one remembered result takes, about, before anything is found in it."""


class ElementResult(NamedTuple):
    """What is in one element: (pointer from the element on, what is there) for each string, and what was not seen."""

    found: list[tuple[str, Found]]
    reasons: dict[str, None]

    @property
    def nbytes(self) -> int:
        return _ITEM_BYTES + sum(200 + found.nbytes for _, found in self.found)


class Results:
    """What was found with one index: with another one, all of it may be different."""

    def __init__(self, generation: object, seed: int) -> None:
        self.generation = generation
        self._seed = seed
        self.elements = Recent[bytes, ElementResult](_ELEMENTS_BYTES)
        self.prefixes = Recent[bytes, Tallied](_PREFIXES_BYTES)
        """What is in the first elements of an array, by the last of `prefix_keys`."""
        self.strings = Recent[bytes, Found](_STRINGS_BYTES)

    def key(self, text: Buffer, *, names: bool) -> bytes:
        """128 bits of XXH3 of a string, and whether names count in it."""
        digest = xxhash.xxh3_128_digest(text, self._seed)
        return digest if names else digest + b"-"

    def prefix_keys(self, where: str, parts: Iterable[Element | Run]) -> Iterator[bytes]:
        """For each part of an array at `where` a key for all up to its end, made of hashes as the other keys are."""
        key = xxhash.xxh3_128_digest(where.encode("utf-8", "surrogatepass"), self._seed)
        for part in parts:
            key = xxhash.xxh3_128_digest(key + (part.digest or part.source[part.start : part.end]), self._seed)
            yield key


class ScanCache:
    """Holds at most 64 MiB, about. Its owner is the suite; its hashes are made with a random seed."""

    def __init__(self) -> None:
        self._seed = secrets.randbits(64)
        self.known = KnownSpans(self._seed, _SPANS_BYTES)
        self._results = Results(None, self._seed)

    def results(self, generation: object) -> Results:
        """What was found with the index of this generation: nothing at first."""
        results = self._results
        if results.generation is not generation:
            results = self._results = Results(generation, self._seed)
        return results
