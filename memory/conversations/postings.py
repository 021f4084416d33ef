"""Which pieces have the words of a question, by their stems. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log

import numpy as np

from memory.conversations.embedding import Vectors
from memory.conversations.ranking import Language, Numbers

SATURATION, LENGTH = 1.2, 0.75
"""Of BM25: what a word counts in a long piece beside one in a short one (k1 and b, as most have them)."""


class Postings:
    """Which pieces have which words, by their stems. Places are those in `pieces`."""

    def __init__(self, pieces: Sequence[Numbers], language: Language) -> None:
        self._language = language
        lengths = np.array([words.size for words in pieces], np.int32)
        stems = language.stems(np.concatenate(pieces)) if len(pieces) else np.zeros(0, np.int32)
        owners = np.repeat(np.arange(len(pieces), dtype=np.int32), lengths)
        order = np.argsort(stems, kind="stable")
        self._stems, self._owners = stems[order], owners[order]
        mean = max(float(lengths.mean()), 1.0) if len(pieces) else 1.0
        self._weights = ((SATURATION + 1) / (1 + SATURATION * (1 - LENGTH + LENGTH * lengths / mean))).astype(
            np.float32
        )

    def scores(self, asked: Numbers) -> Vectors:
        """For each piece; less than 0, infinitely, for those that have none of these words."""
        found = np.zeros(len(self._weights), np.float32)
        for stem in np.unique(self._language.stems(asked)):
            first, last = np.searchsorted(self._stems, [stem, stem + 1])
            owners = np.unique(self._owners[first:last])
            found[owners] += log(1 + (len(found) - owners.size + 0.5) / (owners.size + 0.5)) * self._weights[owners]
        found[found == 0] = -inf
        return found
