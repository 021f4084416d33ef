"""The filter before the notes' grams: it has each key that was put in, and few others."""

from __future__ import annotations

import numpy as np
import pytest

from memory.gram_filter import GramFilter

NUMBERS = np.random.default_rng(4)


@pytest.mark.parametrize("count", [0, 1, 700, 100_000])
def test_every_key_passes_and_few_others_do(count: int) -> None:
    keys, others = (NUMBERS.integers(0, 1 << 32, size, np.uint32) for size in (count, 20_000))
    filter_ = GramFilter.of(keys)
    assert filter_.may_have(keys).all()
    assert filter_.may_have(others).mean() < 0.06
    assert filter_.nbytes <= max(2_048, 2 * count)


def test_more_keys_make_another_filter() -> None:
    keys, more = NUMBERS.integers(0, 1 << 32, (2, 500), np.uint32)
    first = GramFilter.of(keys)
    passed = first.may_have(more)
    second = first.with_more(more)
    assert second.may_have(keys).all()
    assert second.may_have(more).all()
    np.testing.assert_array_equal(first.may_have(more), passed)
    assert not passed.all()
