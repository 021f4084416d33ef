"""Orders what a search found: what it means, which words it has in common with the question, and what stands beside it.

Pure, but for the word vectors. The score of a piece, from 0 to 1, is the mean of two things (weights below):

- its cosine with the question;
- how much of the question it covers: for each word of the question the most similar word of the piece (the same stem is
  1, others by the cosine of their word vectors), or, for less, of the pieces beside it in the same conversation. Words
  count by how rare they are among the candidates, so that a name decides and "talk" does not.

The weights were chosen on three long conversations and a set of paraphrases. Two more conversations were looked at a few
times meanwhile (`make bench`, area recall): what it reaches there is less of a choice, but not untouched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, log2

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

LEAST_SCORE, MOST_LEAST_SCORE = 0.12, 0.20
"""Where the best scores less, nothing is the answer: in a small memory, and in a large one (`make bench`, area recall)."""
LEAST_GROWS = 0.04
"""With each doubling: of twice as many pieces, the best of those that answer nothing scores so much more by chance."""
SMALL = 256
"""Pieces of a memory in which LEAST_SCORE counts."""

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
type Numbers = NDArray[np.int32]
"""The words of a text that say something, each once, as `Language` numbers them, in order."""
type WordVectors = Callable[[Sequence[str]], Vectors]
"""Words -> a row of length 1 for each."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One piece that comes into question. `before` and `after`: its neighbours in the same conversation, as places in the
    list of candidates; None: there is none.
    """

    words: Numbers
    cosine: float
    before: int | None = None
    after: int | None = None


class Language:
    """The words of a text that say something, and their stems; both are numbered, for as long as it is there. Not for
    several threads at once: the stemmer is not.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._stop = frozenset(STOP_WORDS[name])
        self._stemmer = Stemmer.Stemmer(name)
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []
        self._stem_numbers: dict[str, int] = {}
        self._stems = np.zeros(1024, np.int32)
        self._have_digits = np.zeros(1024, np.bool_)
        """Of each word, by its number; there is room for more."""

    def words(self, text: str) -> list[str]:
        return [word for word in _WORD.findall(text.lower()) if word not in self._stop]

    def numbers(self, text: str) -> Numbers:
        found = set(_WORD.findall(text.lower())) - self._stop
        numbers = self._numbers
        if new := sorted(word for word in found if word not in numbers):
            self._take(new)
        return np.array(sorted(map(numbers.__getitem__, found)), np.int32)

    def numbered(self, words: Sequence[str]) -> Numbers:
        """The number of each, in their order: of words that `spelled` gave, also another time."""
        if new := [word for word in dict.fromkeys(words) if word not in self._numbers]:
            self._take(new)
        return np.array([self._numbers[word] for word in words], np.int32)

    def spelled(self, numbers: Numbers) -> list[str]:
        return [self._words[number] for number in numbers.tolist()]

    def stems(self, numbers: Numbers) -> Numbers:
        """The number of the stem of each: words of the same stem have the same."""
        return self._stems[numbers]

    def have_digits(self, numbers: Numbers) -> NDArray[np.bool_]:
        return self._have_digits[numbers]

    def _take(self, words: Sequence[str]) -> None:
        if len(self._words) + len(words) > len(self._stems):
            room = 2 * (len(self._words) + len(words))
            self._stems.resize(room, refcheck=False)
            self._have_digits.resize(room, refcheck=False)
        for word, stem in zip(words, self._stemmer.stemWords(words), strict=True):
            number = self._numbers[word] = len(self._words)
            self._words.append(word)
            self._stems[number] = self._stem_numbers.setdefault(stem, len(self._stem_numbers))
            self._have_digits[number] = any(map(str.isdigit, word))


def focused(question: str, texts: Sequence[Numbers], language: Language, vectors: WordVectors) -> Vectors | None:
    """The question as the mean of its words' vectors, each by how rare it is in `texts`: for a provider of the same word
    vectors. None: no word of it says anything.
    """
    asked = language.numbers(question)
    if not asked.size:
        return None
    weighted: Vectors = _rarity(asked, texts, language) @ vectors(language.spelled(asked))
    return weighted


def scores(question: str, pieces: Sequence[Candidate], language: Language, vectors: WordVectors) -> list[float]:
    """How well each piece answers the question, from 0 to 1."""
    cosines = np.array([max(piece.cosine, 0.0) for piece in pieces], np.float32)
    asked = language.numbers(question)
    if not asked.size or not pieces:
        return [float(cosine) for cosine in cosines]
    said = [piece.words for piece in pieces]
    rarity = _rarity(asked, said, language)
    found = np.clip((_similarities(asked, said, language, vectors) - LEAST_SIMILAR) / (1 - LEAST_SIMILAR), 0, 1)
    covered = rarity @ _with_neighbours(found, pieces) / rarity.sum()
    joint = (cosines + WORDS_WEIGHT * covered) / (1 + WORDS_WEIGHT)
    return [float(score) for score in joint]


def least(pieces: int) -> float:
    """What the best of so many pieces must score to be an answer."""
    grown = LEAST_SCORE + LEAST_GROWS * log2(max(pieces, SMALL) / SMALL)
    return min(grown, MOST_LEAST_SCORE)


def joined(found: Sequence[float]) -> float:
    """The score of a turn by those of its pieces, best first. What is one piece counts by itself."""
    return (found[0] + SECOND_WEIGHT * found[min(1, len(found) - 1)]) / (1 + SECOND_WEIGHT)


def _similarities(asked: Numbers, said: Sequence[Numbers], language: Language, vectors: WordVectors) -> Matrix:
    """A row for each word of the question: its similarity to the most similar word of each piece."""
    best = np.zeros((len(asked), len(said)), np.float32)
    written = [place for place, words in enumerate(said) if words.size]
    if not written:
        return best
    lengths = [said[place].size for place in written]
    words = np.concatenate([said[place] for place in written])
    places = np.zeros(int(words.max()) + 1, np.int32)
    places[words] = 1
    vocabulary = np.flatnonzero(places).astype(np.int32)
    places[vocabulary] = np.arange(vocabulary.size)
    similar = (vectors(language.spelled(vocabulary)) @ vectors(language.spelled(asked)).T).T
    similar[language.have_digits(asked)[:, None] | language.have_digits(vocabulary)[None, :]] = (
        0  # 6021 is not nearly 6022
    )
    similar[language.stems(asked)[:, None] == language.stems(vocabulary)[None, :]] = 1
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    best[:, written] = np.maximum.reduceat(similar.take(places[words], axis=1), starts, axis=1)
    return best


def _rarity(asked: Numbers, said: Sequence[Numbers], language: Language) -> Matrix:
    """The weight of each word of the question: BM25's, counted over the candidates."""
    total = len(said)
    counts = [0] * len(asked)
    if total:
        stems = language.stems(np.concatenate(said))
        piece = np.repeat(np.arange(total), [words.size for words in said])
        counts = [np.unique(piece[stems == stem]).size for stem in language.stems(asked)]
    return np.array([log(1 + (total - count + 0.5) / (count + 0.5)) for count in counts], np.float32)


def _with_neighbours(found: Matrix, pieces: Sequence[Candidate]) -> Matrix:
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
