"""Orders what a search found: what it means, which words it has in common with the question, and what stands beside it.

Pure, but for the word vectors. The score of a piece, from 0 to 1, is the mean of two things (weights below):

- its cosine with the question;
- how much of the question it covers: for each word of the question the most similar word of the piece (the same stem is
  1, others by the cosine of their word vectors), or, for less, of the pieces beside it in the same conversation. Words
  count by how rare they are among the candidates, so that a name decides and "talk" does not.

The weights were chosen on three long conversations and a set of paraphrases, and checked on two conversations that were
kept aside (`make bench`, area recall).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import bm25s.stopwords as lists  # type: ignore[import-untyped]  # it has no types
import numpy as np
import Stemmer  # type: ignore[import-not-found]  # it has no types
from numpy.typing import NDArray

from memory.conversations.embedding import Vectors

WORDS_WEIGHT = 1.0
"""Of the words, where the cosine has 1."""
LEAST_SIMILAR = 0.1
"""Words that are less alike have nothing in common."""
BESIDE = (0.7, 0.4)
"""What a word counts that stands in the next piece, and in the next but one."""
SECOND_WEIGHT = 0.5
"""Of the second best piece of a turn, where the best has 1: mostly one is the question and one its answer."""

STOP_WORDS: dict[str, Sequence[str]] = {
    "danish": lists.STOPWORDS_DANISH,
    "dutch": lists.STOPWORDS_DUTCH,
    "english": lists.STOPWORDS_EN_PLUS,
    "french": lists.STOPWORDS_FRENCH,
    "german": lists.STOPWORDS_GERMAN,
    "italian": lists.STOPWORDS_ITALIAN,
    "norwegian": lists.STOPWORDS_NORWEGIAN,
    "portuguese": lists.STOPWORDS_PORTUGUESE,
    "russian": lists.STOPWORDS_RUSSIAN,
    "spanish": lists.STOPWORDS_SPANISH,
    "swedish": lists.STOPWORDS_SWEDISH,
    "turkish": lists.STOPWORDS_TURKISH,
}

_WORD = re.compile(r"\w\w+|\d")

type Matrix = NDArray[np.float32]
type WordVectors = Callable[[Sequence[str]], Vectors]
"""Words -> a row of length 1 for each."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One candidate. `before` and `after`: its neighbours in the same conversation, as places in the list of candidates;
    None: there is none.
    """

    text: str
    cosine: float
    before: int | None = None
    after: int | None = None


class Language:
    """The words of a text that say something, and their stems. Not for several threads at once: the stemmer is not."""

    def __init__(self, name: str) -> None:
        self._stop = frozenset(STOP_WORDS[name])
        self._stemmer = Stemmer.Stemmer(name)

    def words(self, text: str) -> list[str]:
        return [word for word in _WORD.findall(text.lower()) if word not in self._stop]

    def stems(self, words: Sequence[str]) -> list[str]:
        stems: list[str] = self._stemmer.stemWords(list(words))
        return stems


def focused(question: str, texts: Sequence[str], language: Language, vectors: WordVectors) -> Vectors | None:
    """The question as the mean of its words' vectors, each by how rare it is in `texts`: for a provider of the same word
    vectors. None: no word of it says anything.
    """
    asked = list(dict.fromkeys(language.words(question)))
    if not asked:
        return None
    weighted: Vectors = _rarity(asked, [set(language.words(text)) for text in texts], language) @ vectors(asked)
    return weighted


def scores(question: str, pieces: Sequence[Piece], language: Language, vectors: WordVectors) -> list[float]:
    """How well each piece answers the question, from 0 to 1."""
    cosines = np.array([max(piece.cosine, 0.0) for piece in pieces], np.float32)
    asked = list(dict.fromkeys(language.words(question)))
    if not asked or not pieces:
        return [float(cosine) for cosine in cosines]
    said = [set(language.words(piece.text)) for piece in pieces]
    rarity = _rarity(asked, said, language)
    found = np.clip((_similarities(asked, said, language, vectors) - LEAST_SIMILAR) / (1 - LEAST_SIMILAR), 0, 1)
    covered = rarity @ _with_neighbours(found, pieces) / rarity.sum()
    joint = (cosines + WORDS_WEIGHT * covered) / (1 + WORDS_WEIGHT)
    return [float(score) for score in joint]


def joined(found: Sequence[float]) -> float:
    """The score of a turn by those of its pieces, best first. What is one piece counts by itself."""
    return (found[0] + SECOND_WEIGHT * found[min(1, len(found) - 1)]) / (1 + SECOND_WEIGHT)


def _similarities(asked: Sequence[str], said: Sequence[set[str]], language: Language, vectors: WordVectors) -> Matrix:
    """A row for each word of the question: its similarity to the most similar word of each piece."""
    vocabulary = sorted(set().union(*said))
    best = np.zeros((len(asked), len(said)), np.float32)
    if not vocabulary:
        return best
    similar = vectors(asked) @ vectors(vocabulary).T
    stems, stems_asked = np.array(language.stems(vocabulary)), np.array(language.stems(asked))
    same = stems_asked[:, None] == stems[None, :]
    numbers = np.array([any(map(str.isdigit, word)) for word in vocabulary])
    numbers_asked = np.array([any(map(str.isdigit, word)) for word in asked])
    similar[numbers_asked[:, None] | numbers[None, :]] = 0  # 6021 is not nearly 6022
    similar[same] = 1
    place = {word: index for index, word in enumerate(vocabulary)}
    for index, words in enumerate(said):
        if words:
            best[:, index] = similar[:, [place[word] for word in sorted(words)]].max(axis=1)
    return best


def _rarity(asked: Sequence[str], said: Sequence[set[str]], language: Language) -> Matrix:
    """The weight of each word of the question: BM25's, counted over the candidates."""
    stems = [set(language.stems(sorted(words))) for words in said]
    counts = [sum(stem in words for words in stems) for stem in language.stems(asked)]
    total = len(said)
    return np.array([log(1 + (total - count + 0.5) / (count + 0.5)) for count in counts], np.float32)


def _with_neighbours(found: Matrix, pieces: Sequence[Piece]) -> Matrix:
    nothing = len(pieces)  # the place of a column of zeros
    padded = np.hstack([found, np.zeros((found.shape[0], 1), np.float32)])
    best = found
    for step in (
        np.array([*(nothing if piece.before is None else piece.before for piece in pieces), nothing]),
        np.array([*(nothing if piece.after is None else piece.after for piece in pieces), nothing]),
    ):
        place = np.arange(nothing + 1)
        for weight in BESIDE:
            place = step[place]
            best = np.maximum(best, weight * padded[:, place[:-1]])
    return best
