"""Quotes: what is always found, what is never, and that an index built step by step is the one built at once."""

from __future__ import annotations

import gc
import random
import string
import time
import tracemalloc
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import gram_store
from memory.gram_filter import GramFilter
from memory.grams import EDGE, GRAM, NOTE_WINDOW, SEARCH_WINDOW, Shingler
from memory.letters import encoded, letters
from memory.quotes import Quote, QuoteIndex

ALWAYS_FOUND = GRAM + NOTE_WINDOW - 1
HARBOUR = "The harbour master writes down each ship that comes in, and the hour of the tide it came with."
LIGHT = "Whoever keeps the light is to wind its clock at dusk; the weights reach the floor by morning."
BUOYS = "In fog the outer buoys are heard before they are seen, the green one a little higher than the red."
SHORT = "潮の時刻表を港の入口に掲示する"
"""15 characters, too short for a line."""


def indexed(*texts: str, seed: int = 1) -> QuoteIndex:
    return QuoteIndex.build(texts, seed=seed)


def quotes(index: QuoteIndex, *texts: str) -> list[Quote]:
    return index.find([encoded(text) for text in texts])


def found(index: QuoteIndex, text: str) -> set[int]:
    return {quote.note for quote in quotes(index, text)}


def words(random_: random.Random, letters_: int) -> str:
    """Words of exactly so many letters."""
    text, left = [], letters_
    while left:
        length = min(left, random_.randint(2, 9))
        text.append("".join(random_.choices(string.ascii_lowercase, k=length)))
        left -= length
    return " ".join(text)


# --- what counts -----------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(ALWAYS_FOUND, 120), st.integers(0, 90), st.integers(0, 90))
def test_any_run_of_43_letters_is_found_whatever_is_around_it(seed: int, length: int, before: int, after: int) -> None:
    random_ = random.Random(seed)
    run = words(random_, length)
    note, other = (f"{words(random_, 90 - before)} {run} {words(random_, 90 - after)}" for _ in range(2))
    index = indexed(words(random_, 300), note, seed=seed)
    assert found(index, other) == {1}
    assert found(index, f"{words(random_, before)}: “{run.upper()}”, {words(random_, after)}") == {1}


@given(st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_fewer_letters_than_a_gram_are_never_found(seed: int, note: int) -> None:
    random_ = random.Random(seed)
    texts = [words(random_, 400) for _ in range(3)]
    own = "".join(texts[note].split())
    before, after = ("x" if own[at] == "y" else "y" for at in (99, 100 + GRAM - 1))
    run = f"{before}{own[100 : 100 + GRAM - 1]}{after}"
    assert found(indexed(*texts, seed=seed), f"{words(random_, 60)} {run} {words(random_, 60)}") == set()


@pytest.mark.parametrize("seed", range(20))
def test_a_short_sentence_is_found_as_a_whole(seed: int) -> None:
    random_ = random.Random(seed)
    sentence = words(random_, GRAM + 2 * SEARCH_WINDOW - 1).capitalize()
    note = f"{words(random_, 200)}. {sentence}. {words(random_, 200)}."
    assert found(indexed(note, seed=seed), f"So they say {sentence}, do they not, {words(random_, 50)}") == {0}


def test_one_gram_in_a_span_of_fewer_than_40_letters_is_a_trace() -> None:
    random_ = random.Random(3)
    hits = 0
    for seed in range(40):
        note = "".join(words(random_, 400).split())
        text = f"{words(random_, 60)}0{note[100 : 100 + GRAM]}0{words(random_, 60)}"
        hits += len(found(indexed(note, seed=seed), text))
    assert hits <= 2, "by chance the bits around a gram are alike: once in fifty"


@pytest.mark.parametrize(
    "text",
    [
        f"As you said, {HARBOUR.lower()} and so on",
        f"- [ ] **{HARBOUR.replace('ship', '**ship**')}** _{BUOYS}_",
        "\n".join(f"> {HARBOUR[start : start + 20]}" for start in range(0, len(HARBOUR), 20)),
        "\n".join(f"{number:6d}→{HARBOUR[start : start + 30]}" for number, start in enumerate(range(0, 94, 30))),
        HARBOUR.replace(" ", "\u00a0").replace("i", "i\u200b").replace(",", " —"),
        HARBOUR.replace(" ", "\\n").replace("ship", "sh\\u0069p"),
        HARBOUR.replace(" ", "\\\\n"),
        HARBOUR.replace(", ", "&nbsp;&amp;quot;"),
        HARBOUR[:60],
        HARBOUR.replace("the hour of the tide", "which tide"),
    ],
)
def test_forms_in_which_a_sentence_arrives(text: str) -> None:
    assert found(indexed(LIGHT, HARBOUR), text) == {1}


def test_words_in_another_order_are_no_quote() -> None:
    assert found(indexed(LIGHT, HARBOUR), " ".join(sorted(HARBOUR.split()))) == set()


def test_a_quote_says_which_text_how_many_grams_and_how_long() -> None:
    index = indexed(LIGHT, HARBOUR, BUOYS)
    first, second, third = quotes(index, "", f"a {BUOYS} b", "short", f"{LIGHT} 12 {HARBOUR[:58]}")
    assert [(one.text, one.note) for one in (first, second, third)] == [(1, 2), (3, 0), (3, 1)]
    assert first.grams >= 2
    assert len(letters(BUOYS.encode())) - 2 * NOTE_WINDOW < first.letters <= len(letters(BUOYS.encode()))
    assert GRAM <= third.letters <= len(letters(HARBOUR[:58].encode())) + 8


def test_texts_are_apart() -> None:
    half = HARBOUR[: len(HARBOUR) // 2]
    halves = [half[-27:], HARBOUR[len(half) :][:27]]
    assert quotes(indexed(HARBOUR), *halves) == []
    assert found(indexed(HARBOUR), "".join(halves)) == {0}


@given(
    st.lists(
        st.sampled_from([HARBOUR[:44], HARBOUR[20:70], LIGHT[5:49], BUOYS, SHORT, "…", "\0", "x" * 70]), max_size=6
    )
)
def test_what_is_found_in_a_text_does_not_depend_on_the_others(texts: list[str]) -> None:
    index = indexed(HARBOUR, LIGHT, BUOYS, SHORT)
    alone = [quote._replace(text=number) for number, text in enumerate(texts) for quote in quotes(index, text)]
    assert quotes(index, *texts) == alone


@pytest.mark.parametrize(
    "text", ["", "\0", "\0" * 100, "\ud800" * 50, "字", "\ufeff", "\\u", "\\ud800\\n" * 20, "&#0;" * 40, "[[" * 99]
)
def test_texts_that_bite(text: str) -> None:
    assert quotes(indexed(HARBOUR), text) == []
    assert quotes(indexed(text), HARBOUR) == []
    assert 1 in found(indexed(text, HARBOUR), f"{text} {HARBOUR}")


@pytest.mark.parametrize(
    "text",
    ["x" * 3_000_000, "\\" * 3_000_000, "&" + "amp;" * 500_000, "[[" * 1_000_000, "\\n" * 500_000, "ab" * 1_000_000],
)
def test_long_texts_that_repeat_themselves_take_bounded_time_and_memory(text: str) -> None:
    index = indexed(HARBOUR, "x" * 200, "ab" * 100)
    tracemalloc.start()
    start = time.thread_time()
    assert 0 in found(index, f"{text} {HARBOUR}")
    assert time.thread_time() - start < 5, "a tenth of a second where nothing else runs"
    assert tracemalloc.get_traced_memory()[1] < 8 * len(text) + 30_000_000
    tracemalloc.stop()


def test_a_quote_in_a_long_text_is_found_wherever_it_is() -> None:
    index = indexed(LIGHT, HARBOUR)
    for border in (1 << 18, (1 << 18) + 4_096, 1 << 19):
        for before in range(border - 70, border + 10, 8):
            (quote,) = quotes(index, f"{'12345678' * (before // 8)}{HARBOUR[:60]}{' 2' * 300_000}")
            assert (quote.text, quote.note) == (0, 1)


def test_an_index_of_nothing() -> None:
    assert quotes(QuoteIndex.build([]), HARBOUR) == []
    assert quotes(QuoteIndex.build(["", "x"]), HARBOUR) == []


# --- what many notes have --------------------------------------------------------------------------------------------


def test_the_frontmatter_is_no_part_of_a_note() -> None:
    for start in ("---\n", "\ufeff---\r\n"):
        index = indexed(f"{start}summary: {HARBOUR}\n---\n{BUOYS}")
        assert found(index, f"so {HARBOUR} x") == set()
        assert found(index, f"so {BUOYS} x") == {0}
    assert found(indexed(f"---\n{HARBOUR}\n\nand more\n---\n"), f"so {HARBOUR} x") == {0}


def test_a_line_of_more_than_three_notes_is_left_out_with_what_reaches_over_it() -> None:
    own = [LIGHT, HARBOUR, BUOYS, "Each mooring has a number, painted white upon the third bollard from the crane."]
    template = "This page was made from the template for the watch, delete what you do not need."
    four = [f"{template}\n{text}" for text in own]
    assert [found(indexed(*four), f"so {text} x") for text in own] == [{0}, {1}, {2}, {3}]
    # The template's end and the first letters of a note are in many texts: they say nothing about this note.
    assert found(indexed(*four), f"{template[-40:]}\n{LIGHT[:20]}") == set()
    assert found(indexed(*four[:3]), f"{template[-40:]}\n{LIGHT[:20]}") == {0}


def test_a_gram_in_three_notes_names_all_three_and_in_four_none() -> None:
    text = f"{HARBOUR} {BUOYS}".split()
    four = [" ".join([*text[:at], "\n", *text[at:]]) for at in (4, 9, 14, 19)]  # no line is in two of them
    assert found(indexed(*four[:3]), HARBOUR) == {0, 1, 2}
    assert found(indexed(*four), HARBOUR) == set()
    assert found(QuoteIndex.build(four, files=[0, 0, 1, 2], seed=1), HARBOUR) == {0, 1, 2, 3}
    assert found(QuoteIndex.build([HARBOUR] * 4, files=[5, 5, 5, 5], seed=1), f"so {HARBOUR} x") == {0, 1, 2, 3}


def test_names_are_no_quotes() -> None:
    address = "https://example.com/the-harbour/tides-and-moorings/of-the-north-sea?page=12"
    link = "[[The harbour master and the ships of the northern sea and its tides]]"
    for name in (address, link):
        assert found(indexed(f"See {name} there."), f"as {name} says") == set()


# --- characters without spaces between words -------------------------------------------------------------------------


def test_a_short_wide_line_is_found_anywhere() -> None:
    assert unicodedata.east_asian_width(SHORT[0]) == "W"
    halves = f"{SHORT[:6]}。{SHORT[6:12]}"
    for line in (SHORT[:12], SHORT[:13], SHORT, halves, f"「{SHORT[:12]}」", f"Plan B {SHORT[:12]}"):
        for seed in range(10):
            index = indexed(f"{LIGHT}\n- {line}\n{BUOYS}", seed=seed)
            assert found(index, f"{HARBOUR}\n12: {line}\n{HARBOUR}") == {0}, (line, seed)
            assert found(index, f"{HARBOUR} {line}{HARBOUR}") == {0}, (line, seed)
    assert found(indexed(f"{LIGHT}\n{SHORT[:10]}\n{BUOYS}"), f"x {SHORT[:10]} y") == set()


def test_the_end_of_a_sentence_is_a_letter_on_both_sides() -> None:
    text = "朝は霧が深い。昼には晴れる。船は夕方に出る\uff01間に合うか\uff1f明日にする。"
    index = indexed(f"{LIGHT}\n{text}\n{BUOYS}")
    (quote,) = quotes(index, f"{HARBOUR} {text} {HARBOUR}")
    assert quote.letters > len(letters(text.encode())) - 2 * NOTE_WINDOW


@given(st.integers(0, 2**32 - 1))
def test_any_fifteen_wide_characters_are_found(seed: int) -> None:
    random_ = random.Random(seed)
    text = "".join(chr(random_.randint(0x4E00, 0x9FA5)) for _ in range(120))
    start = random_.randint(0, 105)
    assert found(indexed(text, seed=seed), f"他说{text[start : start + 15]}。") == {0}


# --- built step by step ----------------------------------------------------------------------------------------------

LINES = [HARBOUR, LIGHT, BUOYS, SHORT, "## Open questions", "Tags: sea, ships", f"{HARBOUR} {BUOYS}", ""]
NOTES = st.lists(st.sampled_from(LINES), max_size=5).map("\n".join)


@pytest.mark.parametrize("share", [0, 2, gram_store.LARGEST_SHARE], ids=["never a new base", "sometimes", "often"])
@given(
    first=st.lists(NOTES, max_size=8),
    edits=st.lists(st.tuples(st.integers(0, 9), NOTES), max_size=8),
    same_file=st.integers(0, 3),
)
def test_step_by_step_is_the_same_as_at_once(
    share: int, first: list[str], edits: list[tuple[int, str]], same_file: int
) -> None:
    """Each edit gives the note with this number another text, or (an empty one) takes it away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gram_store, "LARGEST_SHARE", share)
        step_by_step(first, edits, same_file)


def step_by_step(first: list[str], edits: list[tuple[int, str]], same_file: int) -> None:
    notes = dict(enumerate(first))
    index = QuoteIndex.build(first, files=[0 if one < same_file else one for one in notes], seed=7)
    known = {one: one for one in notes}
    for number, text in edits:
        notes.pop(number, None)
        if text:
            notes[number] = text
        order = sorted(notes)
        kept = [known.get(one, -1) if one != number else -1 for one in order]
        files = [0 if one < same_file else one for one in order]
        index = QuoteIndex.build([notes[one] for one in order], files=files, previous=index, kept=kept)
        known = {one: place for place, one in enumerate(order)}
    at_once = QuoteIndex.build(
        [notes[one] for one in sorted(notes)], files=[0 if one < same_file else one for one in sorted(notes)], seed=7
    )
    for ours, theirs in zip(index.store.as_base().base, at_once.store.base, strict=True):
        for column, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(column, other)
    for text in (*LINES, f"{HARBOUR[-40:]}{LIGHT}{BUOYS[:60]}"):
        assert quotes(index, text) == quotes(at_once, text)


def test_keys_of_two_seeds_have_nothing_in_common() -> None:
    first, second = (indexed(HARBOUR, LIGHT, seed=seed).store.base.telling.keys for seed in (1, 2))
    assert len(first) > 10
    assert not set(first.tolist()) & set(second.tolist())


def test_an_index_holds_no_text() -> None:
    index = indexed(*(f"{HARBOUR} {number}\n{BUOYS}" for number in range(3)))
    reached, waiting = [], [index]
    while waiting:
        one = waiting.pop()
        reached.append(one)
        waiting += [
            other
            for other in gc.get_referents(one)
            if not isinstance(other, type) and type(other).__module__ != "builtins"
        ]
    held = b"".join(one.tobytes() for one in reached if isinstance(one, np.ndarray))
    assert len(held) > 1_000
    assert not any(letters(text.encode())[at : at + 6] in held for text in (HARBOUR, BUOYS) for at in range(60))


EVERY_GRAM = GramFilter(np.full(512, 0xFFFF_FFFF, np.uint32))


# --- the parts -------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_a_search_looks_up_whatever_a_note_keeps(text: bytes, seed: int) -> None:
    shingler = Shingler(seed)
    padded = EDGE + text + EDGE
    kept = shingler.choose(padded)
    keys = shingler.keys(padded, kept)
    searched = shingler.search(padded, EVERY_GRAM)
    assert set(kept.tolist()) <= set(searched.positions.tolist())
    assert set(keys.tolist()) <= set(searched.keys.tolist())
    np.testing.assert_array_equal(shingler.keys(padded, searched.positions), searched.keys)


def test_a_gram_that_repeats_itself_is_chosen_once() -> None:
    for text in (b"x" * 1_000, b"ab" * 500):
        positions = Shingler(5).search(EDGE + text + EDGE, EVERY_GRAM).positions
        assert len(positions) <= 6


@pytest.mark.parametrize("length", [31, 32, 43, 70_000])
def test_every_window_has_a_gram(length: int) -> None:
    text = bytes(random.Random(length).choices(string.ascii_lowercase.encode(), k=length))
    positions = Shingler(5).choose(EDGE + text + EDGE) - len(EDGE)
    expected = max(0, length - GRAM + 1)
    assert bool(len(positions)) == bool(expected)
    assert np.all(np.diff(np.concatenate(([-1], positions, [expected]))) <= NOTE_WINDOW)


def test_letters() -> None:
    for text, expected in {
        "  12→Hello, **World**!\r\n\t- it's": b"helloworldits",
        "caf\u00e9 cafe\u0301 caf\\u00e9 caf&eacute; caf\\\\u00E9": "café".encode() * 5,
        "が か\u3099 \\u304c": "ががが".encode(),
        "“smart” — quotes… «so» ½ ©": b"smartquotesso",
        "\\ud83d\\ude00 \U0001f600": "😀😀".encode(),
        "one\\ntwo\\\\tthree &lt;b&gt; &amp;amp; &amp;quot;": b"onetwothreeb",
        "see https://example.com/a?b=c and [[Some note|that note]] now": b"seeandnow",
        "a\u00a0b\u3000c\u1680d\ufeffe\u200bf": b"abcdef",
        "\\u000a &#10; \\u0000 &#x0;": "\ufffd".encode(),
        "&nosuch; AT&T; [[ -f x": b"nosuchattfx",
        "\udc80": b"\xed\xb2\x80",
    }.items():
        assert letters(text.encode("utf-8", "surrogatepass")) == expected, text
    assert letters(b"A 1\n2\n\nb\0c", rows=True) == b"a\n\n\nb\0c"
    assert letters(b"a [[b\nc]] d // [e]\nf", rows=True) == b"a\nde\nf"


def test_quote_is_plain_data() -> None:
    assert Quote(1, 2, 3, 44)._asdict() == {"text": 1, "note": 2, "grams": 3, "letters": 44}


def test_a_letter_with_a_hundred_thousand_marks_is_a_letter() -> None:
    """Normalising them all would take minutes, and every stream would wait."""
    marked = "e" + "\u0301\u0323" * 200_000
    assert letters(f"High tid{marked} at noon".encode()) == b"hightideatnoon"
    assert letters("Cafe\u0301".encode()) == "café".encode()
