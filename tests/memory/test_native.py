"""The loops in C find what numpy finds, to the last bit, and take nothing that does not fit."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import native, sifting
from memory.gram_filter import GramFilter
from memory.grams import EDGE, Shingler
from memory.index import NoteIndex
from memory.letters import letters, letters_with_python
from memory.notes import Note
from memory.pieces import Rows
from memory.sieve import FEWEST_LETTERS, Sieve, letters_of, sieve_hashes
from memory.sifting import NAMED, PATH, POOR, PREFIXED, SIEVED, Beginnings, sift, sift_with_numpy

built = pytest.mark.skipif(not native.BUILT, reason="memory._native was not built: there is no C compiler")

MD = Beginnings(*(bytes(byte in there for byte in range(256)) for there in (b"mt\xc3", b"dx")))
ROW = "The tide chart is drawn from the harbour's own table."

texts = st.lists(
    st.sampled_from(
        [b"tide", b"L12:", b"L", b".b:3:", b"_-3-", b"b" * 61, b"1234567", b"#PW|", b"#", b"a.md", b".", b"[[", b"[", b":3", b"-", b"9", b"\n", b"\n\n",
         b" ", b"\0", b"|", b"\xc2\xa0", "→".encode(), "字".encode(), b"\xff", ROW.encode(), b"\t"]
    ),
    max_size=30,
).map(b"".join)  # fmt: skip


def test_it_is_built_where_there_is_a_compiler() -> None:
    headers = Path(sysconfig.get_path("include"), "Python.h")
    assert native.BUILT or shutil.which("cc") is None or not headers.exists()


@built
@given(texts, st.lists(texts, max_size=3), st.integers(0, 2**32 - 1), st.integers(8, 40), st.booleans())
def test_the_same_rows(data: bytes, notes: list[bytes], seed: int, minimum: int, poor: bool) -> None:
    kept = letters_of(b"\n".join([*notes, ROW.encode()]))
    rows = Rows.of(np.frombuffer(kept, np.uint8))
    rich = np.flatnonzero(rows.ends - rows.starts >= FEWEST_LETTERS)
    sieve = Sieve(sieve_hashes(kept, rows.starts[rich], rows.ends[rich], seed), seed)
    ours, theirs = (one(data, sieve, MD, minimum=minimum, poor=poor) for one in (sift, sift_with_numpy))
    assert ours.rows.tolist() == theirs.rows.tolist()


@pytest.mark.parametrize("sift", [pytest.param(sift, marks=built), sift_with_numpy])
def test_what_speaks_for_a_row(sift: object) -> None:
    assert callable(sift)
    kept = letters_of(ROW.encode())
    sieve = Sieve(sieve_hashes(kept, np.array([0]), np.array([len(kept)]), 7), 7)
    rows = {
        f"12\t> {ROW}": SIEVED,
        f"{ROW} And more": 0,
        "| 123 | 456 | 789.50 | 1,024 |": POOR,
        "1 2": 0,
        f"L12: {ROW} no": PREFIXED,
        f"L1234567: {ROW} no": PREFIXED,
        f"12#PWPWPWPW|{ROW} no": PREFIXED,
        f"L: {ROW} no": 0,
        f"L12345678: {ROW} no": 0,
        f"12#PW|{ROW} no": PREFIXED,
        f"12#PWPWPWPWP|{ROW} no": 0,
        "a-1": 0,
        "a:1": 0,
        "a.b:12:": PATH,
        "a.b:12-": PATH,
        "a.b_é9-1234567:c": PATH,
        "a.b-12345678:": 0,
        "a.b:12": 0,
        "a.b: 1:": 0,
        "a.b c:1:": 0,
        "a.:1:": 0,
        "b:1:": 0,
        f"a.{'b' * 64}:1:": PATH,
        f"a.{'b' * 65}:1:": 0,
        "see a.md": NAMED,
        "see a.mx": NAMED,
        "see a.ma": 0,
        "[[b": NAMED,
        "[b[": 0,
        "a.tx": NAMED,
    }
    found = sift("\n".join(rows).encode(), sieve, MD, minimum=24, poor=True)
    starts = np.cumsum([0, *(len(row.encode()) + 1 for row in rows)])[:-1].tolist()
    expected = [
        [start, start + len(row.encode()), kind]
        for start, (row, kind) in zip(starts, rows.items(), strict=True)
        if kind
    ]
    assert found.rows.tolist() == expected


# A row as tools print it: white space, signs and pieces of prefixes, and what stands behind them.
gram_letters = st.lists(
    st.sampled_from([b"a", b"b", b"abcdefghijklmnop", b"q" * 40, b"\0", bytes(40), "字".encode(), b"\xe3", b"\xff"]),
    max_size=60,
).map(b"".join)


@built
@given(gram_letters, st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 50]))
def test_the_same_grams(text: bytes, seed: int, repeated: int) -> None:
    shingler = Shingler(seed)
    padded = EDGE + text * (repeated + 1) + EDGE
    everything = GramFilter(np.full(512, 0xFFFF_FFFF, np.uint32))
    halves = shingler.search_with_numpy(padded, everything).keys >> np.uint64(32)
    for filter_ in (everything, GramFilter.of(halves[::2].astype(np.uint32))):
        ours, theirs = shingler.search(padded, filter_), shingler.search_with_numpy(padded, filter_)
        assert ours.positions.tolist() == theirs.positions.tolist()
        assert ours.keys.tolist() == theirs.keys.tolist()


@built
@pytest.mark.parametrize("size", [4_095, 4_096, 4_097, 4_099, 4_131, 8_192, 12_345])
def test_the_same_grams_where_a_block_ends(size: int) -> None:
    shingler = Shingler(3)
    everything = GramFilter(np.full(512, 0xFFFF_FFFF, np.uint32))
    numbers = np.random.default_rng(size)
    text = numbers.integers(97, 123, size, np.uint8)
    text[numbers.integers(0, size, 9)] = 0
    padded = EDGE + text.tobytes() + EDGE
    ours, theirs = shingler.search(padded, everything), shingler.search_with_numpy(padded, everything)
    assert ours.positions.tolist() == theirs.positions.tolist()


@built
def test_tables_that_do_not_fit_are_refused() -> None:
    table, bits = bytes(256), bytes(8)
    good = (b"text", table, table, table, bits, 64, 1, 24, 8, True)
    assert native.rows(*good) == b""
    for place, wrong in ((1, bytes(255)), (2, b""), (3, bytes(257)), (4, bytes(7)), (5, 0), (5, 1 << 32), (8, 7)):
        with pytest.raises(ValueError, match="wrong size"):
            native.rows(*good[:place], wrong, *good[place + 1 :])  # type: ignore[arg-type]
    good_grams = (EDGE, bytes(16), 1, bytes(64), bytes(2048), 23, None)
    assert native.grams(*good_grams) == b""
    for place, wrong in ((1, bytes(15)), (3, bytes(63)), (4, bytes(2047)), (5, 4), (5, 32), (6, bytes(255))):
        with pytest.raises(ValueError, match="wrong size"):
            native.grams(*good_grams[:place], wrong, *good_grams[place + 1 :])  # type: ignore[arg-type]
    assert native.grams(b"short", *good_grams[1:]) == b""


def test_without_it_the_same_notes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"{ROW}\nBerths are given out by the harbour master every Monday before the first tide.\n12345678 12345678 12345678"
    note = Note("vault/a.md", "vault", "a.md", "a", body, (), (), (), len(body))
    index = NoteIndex.build([note], quotes=True)
    asked = (
        f"12\t{ROW}\nSee a.md; as they say: Berths are given out by the harbour master every Monday before the first."
    )
    found = index.match(asked)
    assert [(one.note, one.matched, one.grade) for one in found] == [("vault/a.md", 1, "line")]
    monkeypatch.setattr(native, "BUILT", False)
    for name in ("rows", "lines"):
        monkeypatch.delattr(native, name, raising=False)
    assert sifting.native is native
    assert index.match(asked) == found


strings = st.lists(
    st.sampled_from(
        ["a", "B", "http", "https", "://", "http://x.y/z?a=b)", "[[", "]]", "[", "]", "a" * 90, "x" * 200, "\\", "\\n", "\\u00e9",
         "\\\\u00E9", "&", "amp;", "lt;", "&eacute;", "&x;", "é", "e\u0301", "→", "“", "\u00a0", "\u3000", "字", "が", "か\u3099",
         "😀", "\ufe0f", "ｆ", "\ufb01", "\u0915", "\0", "\n", " ", "1", "u", "0041", "\u1e00", "\ufeff", "\ud83d", "/", ":"]
    ),
    max_size=14,
).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))  # fmt: skip


@built
@given(strings, st.booleans())
def test_the_same_letters(text: bytes, rows: bool) -> None:
    found = native.letters(text, rows)
    if found is not None:
        assert found == letters_with_python(text, rows=rows)


@built
def test_each_byte_in_an_address_and_the_longest_link() -> None:
    for byte in range(128):
        for text in (b"a http://x%cz b" % byte, b"a http://%cz b" % byte, b"[[q%cz]]" % byte, b"q\\%cz" % byte):
            assert native.letters(text, False) in (None, letters_with_python(text)), text
    assert native.letters(b"a[[%s]]b" % (b"x" * 200), False) == b"ab"
    assert native.letters(b"a[[%s]]b" % (b"x" * 201), False) == b"a" + b"x" * 201 + b"b"


@built
@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "It's **so**, [[a|b]] at https://a.b/c?d=e#f: a\\n\\\\tb C:\\new “x” → 12": "itssoatabcewx",
        "字が、é 😀\u3000\ufeff & a&b c;": "字が、é😀abc",
        "[[[a]] [[b[c]] [[]] [[" + "x" * 201 + "]]": "bc" + "x" * 201,
        "http:// https//a.b": "httphttpsab",
    }.items(),
)
def test_letters_without_python(text: str, expected: str) -> None:
    assert native.letters(text.encode(), False) == expected.encode()


@built
@pytest.mark.parametrize(
    "text", ["caf\\u00e9", "&eacute;", "&amp;lt;", "e\u0301", "か\u3099", "\ufb01", "\u0915\u093c", "\u1e00"]
)
def test_letters_that_need_python(text: str) -> None:
    assert native.letters(text.encode(), False) is None
    assert letters(text.encode()) == letters_with_python(text.encode())
