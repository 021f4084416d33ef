"""The loops in C that look for quotes find what numpy finds, and take nothing that does not fit."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory import native
from memory.grams import AROUND, EDGE, GRAM
from memory.letters import letters, letters_with_python
from memory.pieces import Joined
from memory.quote_rows import GramRows
from memory.quotes import Quote, QuoteIndex, _Matches

pytestmark = pytest.mark.skipif(not native.BUILT, reason="memory._native was not built: there is no C compiler")

NOTES = [
    "The tide chart is drawn from the harbour's own table, and from nothing else that is printed.",
    "Berths are given out by the harbour master every Monday before the first tide of the week.",
    "The tide chart is drawn by hand. Ropes are counted in the evening, when the last boat has come in.",
]

upper_halves = st.one_of(
    st.lists(st.integers(0, 2**32 - 1), max_size=80),
    st.lists(st.integers(0, 40), max_size=80),
    st.lists(st.sampled_from([0, 1, 2**31, 2**32 - 2, 2**32 - 1]), max_size=80),
    st.lists(st.integers(2**32 - 300, 2**32 - 1), max_size=80),
)


def rows_of(keys: NDArray[np.uint64]) -> GramRows:
    nothing = np.zeros(len(keys), np.intp)
    return GramRows.of(np.sort(keys), nothing, nothing, np.zeros((len(keys), 2), np.uint8))


def pairs(columns: tuple[NDArray[np.intp], NDArray[np.intp]]) -> list[tuple[int, int]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(upper_halves, upper_halves, st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 1 << 16]))
def test_the_same_rows_for_keys(there: list[int], asked: list[int], seed: int, checks: int) -> None:
    numbers = random.Random(seed)
    keys = np.array([upper << 32 | numbers.randrange(checks) << 16 for upper in there], np.uint64)
    wanted = np.array([upper << 32 | numbers.randrange(checks) << 16 | 7 for upper in asked + there], np.uint64)
    rows = rows_of(keys)
    assert pairs(rows.matches(wanted)) == pairs(rows.matches_with_numpy(wanted))


@pytest.mark.parametrize("spread", [32, 16, 3])
def test_every_key_is_found_however_keys_are_spread(spread: int) -> None:
    numbers = np.random.default_rng(5)
    upper = np.unique(numbers.integers(0, 1 << spread, 5_000, np.uint64) ** np.uint64(32 // spread))
    keys = upper << np.uint64(32) | np.uint64(9 << 16)
    rows = rows_of(keys)
    assert pairs(rows.matches(keys)) == [(number, number) for number in range(len(keys))]
    assert pairs(rows.matches(keys + np.uint64(1 << 16))) == []
    assert pairs(rows.matches(keys + np.uint64(1 << 32))) == pairs(rows.matches_with_numpy(keys + np.uint64(1 << 32)))


texts = st.lists(
    st.lists(
        st.sampled_from(
            [NOTES[0], NOTES[1], NOTES[2], NOTES[0][:50], NOTES[1][20:64], NOTES[2][10:52], "then ", "caf\\u00e9 ", "&eacute;",
             "→", "字字字", "\0", "\n", "e\u0301", "[[", "]]", "http://a.b/c ", "x" * 40, NOTES[1].upper()]
        ),
        max_size=6,
    ).map(lambda parts: "".join(parts).encode()),
    max_size=6,
)  # fmt: skip


@given(texts)
def test_the_same_quotes(asked: list[bytes]) -> None:
    first = QuoteIndex.build([*NOTES[:2], "An old note, which goes away."], seed=3)
    for index in (first, QuoteIndex.build(NOTES, previous=first, kept=[0, 1, -1])):
        found = index.find(asked)
        joined = Joined.of(asked)
        ends = np.cumsum(joined.lengths + 1) - 1
        assert index.find_in(joined.data, ends - joined.lengths, ends) == found
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "BUILT", False)
            assert index.find(asked) == found
            assert sorted(quote for text in asked for quote in index.find([text])) == sorted(
                quote._replace(text=0) for quote in found
            )


class Store:
    """What is asked of a store where its rows have been found."""

    notes = 70_000

    def __len__(self) -> int:
        return self.notes * 3


@given(st.integers(0, 2**32 - 1), st.sampled_from([3, 300, 70_000]), st.sampled_from([1, 40, 400]))
def test_the_same_quotes_by_the_same_grams(seed: int, notes: int, count: int) -> None:
    index = QuoteIndex.build([], seed=seed)
    index.store = Store()  # type: ignore[assignment]
    numbers = np.random.default_rng(seed)
    letters_ = [numbers.integers(97, 123, size, np.uint8).tobytes() for size in numbers.integers(GRAM, 200, 12)]
    starts = np.cumsum([len(EDGE), *(len(one) + AROUND for one in letters_)])
    batch = EDGE + b"".join(one + bytes(AROUND) for one in letters_) + EDGE
    there = [
        start + at for start, one in zip(starts.tolist(), letters_, strict=False) for at in range(len(one) - GRAM + 1)
    ]
    positions = np.sort(numbers.permutation(there)[:count])
    rows = numbers.integers(0, notes * 3, len(positions))
    around = index._shingler.around(batch, positions, beyond=1) ^ (1 << numbers.integers(0, 9, (len(positions), 2)))
    matches = _Matches(positions, rows, rows // 3, around.astype(np.uint8))
    found = sorted(map(tuple, index._quotes_by(batch, matches)))
    assert found == sorted(map(tuple, index._quotes_by_with_numpy(batch, matches)))
    assert found or count < 400


def test_what_a_quote_says() -> None:
    index = QuoteIndex.build(NOTES, seed=1)
    asked = [
        b"short",
        f"1. {NOTES[1]}".encode(),
        f"caf\\u00e9: {NOTES[0][:60]} no. {NOTES[1]}".encode(),
        f"so {NOTES[2]} {NOTES[2]}".encode(),
    ]
    found = index.find(asked)
    assert [quote[:2] for quote in found] == [(1, 1), (2, 0), (2, 1), (3, 2)]
    # A text that says it twice has no more different grams.
    once = index.find([f"so {NOTES[2]}".encode()])
    assert [(quote.grams, quote.letters) for quote in found[3:]] == [(quote.grams, quote.letters) for quote in once]
    assert isinstance(found[0], Quote)


@given(st.lists(st.binary(max_size=12).map(lambda text: text.replace(b"\0", b"")), max_size=8))
def test_the_letters_of_many_texts(parts: list[bytes]) -> None:
    ascii_ = [bytes(byte & 0x7F or 0x20 for byte in part) for part in parts]
    ends = np.cumsum([0, *map(len, ascii_)])
    found, undone = native.letters_of(b"".join(ascii_), ends[:-1], ends[1:])
    left = set(np.frombuffer(undone, np.int64).tolist())
    expected = [b"" if place in left else letters_with_python(text) for place, text in enumerate(ascii_)]
    assert found == EDGE + b"".join(one + bytes(AROUND) for one in expected) + EDGE[AROUND:]
    assert left == {place for place, text in enumerate(ascii_) if native.letters(text, False) is None}


@pytest.mark.parametrize("text", [b"\\u00\\41", b"\\u\\0041", b"\\u0041", b"\\u004"])
def test_a_backslash_among_the_digits_of_an_escape(text: bytes) -> None:
    assert letters(text) == letters_with_python(text)


def test_what_does_not_fit_is_refused() -> None:
    for begins, ends in (([-1], [2]), ([2], [1]), ([0], [5]), ([0], [1, 2]), ([0, 0], [1, 1 << 62])):
        with pytest.raises(ValueError, match="not in the data"):
            native.letters_of(b"text", np.array(begins, np.int64), np.array(ends, np.int64))
    assert native.letters_of(b"", b"", b"") == (EDGE + EDGE[AROUND:], b"")
    four, two, eight = bytes(4), bytes(2), bytes(8)
    assert native.matches(four, two, eight) == bytes(16)
    for tables in ((bytes(5), two, eight), (four, bytes(4), eight), (four, two, bytes(7))):
        with pytest.raises(ValueError, match="wrong size"):
            native.matches(*tables)
    at = np.array([GRAM], np.int64).tobytes()
    good = (EDGE + b"a" * GRAM + EDGE, at, eight, eight, two, bytes(256), 1, 40)
    assert np.frombuffer(native.quotes(*good), np.int64).tolist()[:3] == [0, 0, 1]
    for place, wrong in ((1, bytes(7)), (2, bytes(16)), (3, b""), (4, four), (5, bytes(255))):
        with pytest.raises(ValueError, match="wrong size"):
            native.quotes(*good[:place], wrong, *good[place + 1 :])  # type: ignore[arg-type,call-arg]
    for place, number in ((1, GRAM - 1), (1, GRAM + len(EDGE)), (1, 1 << 40), (1, -1), (2, -1), (2, 1 << 32), (3, -1)):
        with pytest.raises(ValueError, match="not in the letters"):
            native.quotes(*good[:place], np.array([number], np.int64).tobytes(), *good[place + 1 :])  # type: ignore[arg-type,call-arg]
