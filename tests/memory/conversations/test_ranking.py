"""The ranking by itself, over word vectors that are written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from memory.conversations import embedding
from memory.conversations.embedding import Builtin, Vectors
from memory.conversations.ranking import BESIDE, STOP_WORDS, Candidate, Language, focused, joined, least, scores


def apart(words: Sequence[str]) -> Vectors:
    """No word is like another, but `tap` and `faucet` are."""
    places = {"tap": 0, "faucet": 0}
    rows = np.zeros((len(words), 4096), np.float32)
    for row, word in zip(rows, words, strict=True):
        row[places.get(word, 1 + hash_of(word))] = 1
    return rows


def hash_of(word: str) -> int:
    return int.from_bytes(word.encode(), "big") % 4093


@pytest.fixture
def english() -> Language:
    return Language("english")


@pytest.fixture
def piece(english: Language) -> Callable[..., Candidate]:
    return lambda text, *others: Candidate(english.numbers(text), *others)


def test_stop_words_go_and_stems_meet(english: Language) -> None:
    said = "What did we say about the Taps, x 4?"
    assert english.words(said) == ["say", "taps", "4"]
    numbers = english.numbers(said)
    assert sorted(english.spelled(numbers)) == ["4", "say", "taps"]
    assert english.numbers("4 taps, taps say").tolist() == numbers.tolist()
    stems = {word: english.stems(english.numbers(word)).tolist() for word in ("taps", "tap", "cat")}
    assert stems["taps"] == stems["tap"] != stems["cat"]
    assert english.have_digits(english.numbers("x4 4x4 taps")).tolist().count(True) == 2


def test_there_is_room_for_many_words(english: Language) -> None:
    words = [f"word{number}" for number in range(3000)]
    numbers = english.numbers(" ".join(words))
    assert sorted(english.spelled(numbers)) == sorted(words)
    assert english.have_digits(numbers).all()
    assert len(set(english.stems(numbers).tolist())) == 3000


@pytest.mark.parametrize("language", STOP_WORDS)
def test_each_language_has_words_and_stems(language: str) -> None:
    words = Language(language)
    assert words.stems(words.numbers("abc")).shape == (1,)


def test_a_rare_word_counts_for_more_than_a_common_one(english: Language, piece: Callable[..., Candidate]) -> None:
    pieces = [piece("garden tulip", 0.1), *[piece("garden", 0.1)] * 8, piece("tulip", 0.1)]
    found = scores("garden tulip", pieces, english, apart)
    assert found[0] > found[9] > found[1]
    assert found[1] == found[8]


def test_a_word_of_the_same_meaning_is_found_and_a_number_is_only_itself(
    english: Language, piece: Callable[..., Candidate]
) -> None:
    tap, other, number, next_number = scores(
        "faucet 6021", [piece("tap", 0), piece("cat", 0), piece("6021", 0), piece("6022", 0)], english, apart
    )
    assert (other, next_number) == (0, 0)
    assert tap > 0
    assert number > 0


def test_what_stands_beside_counts_for_less_and_further_away_for_less_still(
    english: Language, piece: Callable[..., Candidate]
) -> None:
    chain = [
        piece("zebra", 0, None, 1),
        piece("one", 0, 0, 2),
        piece("two", 0, 1, 3),
        piece("three", 0, 2, None),
        piece("zebra far away", 0),
    ]
    found = scores("zebra", chain, english, apart)
    assert found[1] / found[0] == pytest.approx(BESIDE[0])
    assert found[2] / found[0] == pytest.approx(BESIDE[1])
    assert found[3] == 0
    assert found[4] == found[0] == pytest.approx(0.5)


def test_without_words_the_cosine_decides(english: Language, piece: Callable[..., Candidate]) -> None:
    assert scores("what was it?", [piece("a", 0.5), piece("b", -0.5)], english, apart) == [0.5, 0.0]
    assert scores("zebra", [], english, apart) == []
    assert focused("what was it?", [english.numbers("a")], english, apart) is None


def test_a_question_is_focused_on_its_rare_words(english: Language) -> None:
    vector = focused("garden tulip", [*[english.numbers("garden")] * 9, english.numbers("tulip")], english, apart)
    assert vector is not None
    garden, tulip = (float(vector @ row) for row in apart(["garden", "tulip"]))
    assert tulip > 3 * garden > 0


def test_an_answer_out_of_many_must_score_more() -> None:
    assert [least(pieces) for pieces in (0, 1, 256)] == [0.12] * 3
    assert least(512) == pytest.approx(0.16)
    assert least(700) == pytest.approx(0.178, abs=1e-4)
    assert least(10_000) == least(1_000_000) == 0.2


def test_a_turn_is_judged_by_its_two_best_pieces() -> None:
    assert joined([0.6]) == pytest.approx(0.6)
    assert joined([0.6, 0.3, 0.1]) == pytest.approx((0.6 + 0.15) / 1.5)


def test_words_are_remembered_as_they_are_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    builtin = Builtin()
    words = ["tap", "faucet", "", "Übermut", "tap"]
    assert np.array_equal(builtin.word_vectors(words), builtin.vectors(words))
    assert np.array_equal(builtin.word_vectors(words[1:]), builtin.vectors(words[1:]))
    assert builtin.word_vectors([]).shape == (0, 256)
    monkeypatch.setattr(embedding, "REMEMBERED_WORDS", 5)
    others = ["faucet", "cat", "dog"]  # more than are remembered: the one that is asked for stays
    assert np.array_equal(builtin.word_vectors(others), builtin.vectors(others))
    assert sorted(builtin._words) == sorted(others)
    assert np.array_equal(builtin.word_vectors(words), builtin.vectors(words))
