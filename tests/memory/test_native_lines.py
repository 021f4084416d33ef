"""The exact rule in C: it finds the lines that it finds with numpy, however long they are and whatever is before them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import native
from memory.line_index import known_rows, known_rows_with_numpy
from memory.lines import PREFIXES, canonical_rows, fingerprints, rows_without_prefix
from memory.sifting import SIEVED, Sifted

built = pytest.mark.skipif(not native.BUILT, reason="memory._native was not built: there is no C compiler")

row_parts = st.sampled_from(
    [*"\t\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\u00a0\u1680\u2000\u200a\u200b\u2028\u2029\u202f\u205f\u3000", "  ", "1", "1234567", "12345678",
     "→", "|", " |", "| ", ":", "-", "#", "#a|", "#12345678|", "#123456789|", "#-|", "L", "L7:", "L7", "l7:", ">", "> ", "*", "*\t", "+",
     "tide", "é", "字", "\ud83d", "\0", "¡", "ᚁ", "←", "〃", "tide\u00a0\t chart ", "the tide chart  of the harbour", "a chart of é", "tables\x01of\x7ftides "]
).map(lambda part: part.encode("utf-8", "surrogatepass"))  # fmt: skip
row_parts |= st.sampled_from([b"\xc2", b"\xe1\x9a", b"\xe2", b"\xe2\x80", b"\xe2\x86", b"\xe3\x80", b"\xff"])
asked_rows = st.lists(st.lists(row_parts, max_size=9).map(b"".join), min_size=1, max_size=80)


def sifted_of(rows: list[bytes], kinds: Iterable[int] | None = None) -> Sifted:
    ends = np.cumsum([len(row) + 1 for row in rows]) - 1
    starts = ends - [len(row) for row in rows]
    return Sifted(np.stack((starts, ends, [*(kinds or [SIEVED] * len(rows))]), axis=1))


@built
@given(asked_rows, st.lists(st.integers(0, 31), min_size=80, max_size=80), st.integers(0, 2**32 - 1), st.data())
def test_the_same_lines(rows: list[bytes], kinds: list[int], seed: int, data: st.DataObject) -> None:
    text = b"\n".join(rows)
    forms = b"\n".join(map(canonical_rows, (text, rows_without_prefix(text)))).split(b"\n")
    lines = data.draw(st.lists(st.sampled_from(forms), min_size=1))
    keys = np.sort(fingerprints(b"\n".join(lines), seed))
    sifted = sifted_of(rows, kinds[: len(rows)])
    longest = max(map(len, lines))
    ours, theirs = (one(text, sifted, keys, seed=seed, longest=longest) for one in (known_rows, known_rows_with_numpy))
    assert ours.tolist() == theirs.tolist()


@built
def test_each_form_of_prefix_is_taken_off_once() -> None:
    line = b"- tide"
    for kept in (line, b"tide"):
        keys = fingerprints(kept, 7)
        for prefix in PREFIXES:
            row = prefix.example.encode().replace(b"text", line)
            found = native.lines(row, sifted_of([row]).rows, keys, 7, 9)
            assert len(found) == (32 if kept == line else 0), row


@built
def test_a_number_of_eight_digits_is_no_prefix() -> None:
    keys = fingerprints(b"tide", 7)
    rows = [
        b"%s%stide" % (digits, sign) for sign in (b"\t", b"|", b":", b"-", b"#a|") for digits in (b"1" * 7, b"1" * 8)
    ]
    found = known_rows(b"\n".join(rows), sifted_of(rows), keys, seed=7, longest=4)
    assert found[:, 0].tolist() == sifted_of(rows).starts[::2].tolist()


@built
@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1])
def test_fingerprints_of_every_length_and_every_byte(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    lines = [numbers.integers(0x21, 0x7F, size, np.uint8).tobytes() for size in range(200)]
    # The ones that are white space, or may begin it, are asked for between two others.
    lines += [b"<%c>" % byte * 7 for byte in range(256) if byte not in b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "]
    keys = fingerprints(b"\n".join(lines), seed)
    order = np.argsort(keys)
    found = known_rows(b"\n".join(lines), sifted_of(lines), keys[order], seed=seed, longest=200)
    assert found[:, 1].tolist() == keys.tolist()
    assert order[found[:, 2].astype(np.int64)].tolist() == list(range(len(lines)))


@built
@pytest.mark.parametrize("size", [1, 2, 3, 63, 64, 1000])
@pytest.mark.parametrize("spread", ["even", "low", "high", "same"])
def test_keys_are_found_however_they_are_spread(size: int, spread: str) -> None:
    lines = [b"line %d" % number for number in range(size * 2)]
    there = fingerprints(b"\n".join(lines), 5)
    others = {
        "even": there[size:],
        "low": np.arange(size, dtype=np.uint64),
        "high": np.uint64(2**64 - 1) - np.arange(size, dtype=np.uint64),
        "same": np.repeat(there[:1], size),
    }[spread]
    keys = np.sort(np.concatenate((there[:size], others)))
    text = b"\n".join(lines)
    ours, theirs = (
        one(text, sifted_of(lines), keys, seed=5, longest=30) for one in (known_rows, known_rows_with_numpy)
    )
    assert ours.tolist() == theirs.tolist()
    assert len(ours) == (2 * size if spread == "even" else size)


@built
def test_a_row_is_as_long_as_the_longest_line() -> None:
    for size in (1, 31, 32, 33, 100):
        line = b"a" * size
        row = b"\xe3\x80\x80 1234567#12345678|\t\t" + line + b"\t \x1f"
        keys = fingerprints(line, 3)
        assert known_rows(row, sifted_of([row]), keys, seed=3, longest=size).tolist() == [[0, int(keys[0]), 0, 1]]
        assert known_rows(row + b"b", sifted_of([row + b"b"]), keys, seed=3, longest=size).tolist() == []


@built
def test_rows_and_keys_that_do_not_fit_are_refused() -> None:
    one_row = np.array([0, 4, SIEVED]).tobytes()
    good_lines = (b"text", one_row, bytes(8), 1, 24)
    assert native.lines(*good_lines) == b""
    beyond, turned = (np.array([*span, SIEVED]).tobytes() for span in ((0, 5), (3, 2)))
    for place, wrong in ((1, one_row[1:]), (1, beyond), (1, turned), (2, bytes(7)), (2, b""), (4, -1)):
        with pytest.raises(ValueError, match="wrong size"):
            native.lines(*good_lines[:place], wrong, *good_lines[place + 1 :])  # type: ignore[arg-type]
