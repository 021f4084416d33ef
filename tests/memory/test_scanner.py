"""A scanner that remembers finds what one finds that does not, and does next to nothing for what it knows."""

from __future__ import annotations

import gc
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import cache, scan, slices, spans
from memory.body import read_body
from memory.cache import ScanCache
from memory.effort import Effort
from memory.exchange import Scan
from memory.index import NoteIndex
from memory.notes import Note
from memory.pieces import Joined
from memory.recent import Recent
from memory.scan import Scanner, scan_body
from memory.slices import Elements, slice_object
from memory.spans import Element, KnownSpans, Run

LINE = "The tide chart is drawn from the harbour's own table."
OTHER = "Every berth has a number and a depth at low water."
FILLER = "Nothing that any note has a line of stands in this one. " * 12
assert len(FILLER) > cache.SHORTEST_STRING


def note(path: str, text: str) -> Note:
    return Note(f"vault/{path}", "vault", path, path.removesuffix(".md"), text, (), (), (), len(text))


INDEX = NoteIndex.build([note("tides.md", f"{LINE}\n{OTHER}"), note("empty.md", "")])


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def cold(data: bytes, index: NoteIndex = INDEX) -> Scan:
    return scan_body(index, read_body(data))


def warm(scanner: Scanner, data: bytes, index: NoteIndex = INDEX) -> Scan:
    return scanner.scan(index, scanner.read(data))


def conversation(turns: int, *, billing: str = "cch=0", marked: int | None = None) -> dict[str, Any]:
    """Requests of Claude Code: the first block of `system` changes each time, and `cache_control` moves."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        block = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{turn:04}",
            "content": f"{turn}\t{FILLER}\n{turn}\t{LINE}",
        }
        if turn == marked:
            block["cache_control"] = {"type": "ephemeral"}
        messages.append({"role": "user", "content": [block, {"type": "text", "text": f"empty.md é {turn} {FILLER}"}]})
    system = [{"type": "text", "text": f"x-anthropic-billing-header: {billing};"}, {"type": "text", "text": FILLER}]
    return {"model": "m", "system": system, "messages": messages, "stream": True, "tools": []}


class Looked:
    """How many characters are looked at, and how many decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.characters = self.decoded = 0
        find_all, decode, element = NoteIndex.find_all, slices._Reader.decode, slices._Reader._element

        def looking(index: NoteIndex, texts: Joined, *others: Any) -> Any:
            self.characters += len(texts.data)
            return find_all(index, texts, *others)

        def decoding(reader: Any, at: int) -> tuple[Any, int]:
            value, end = decode(reader, at)
            self.decoded += end - at
            return value, end

        def decoding_element(reader: Any, at: int, *others: Any) -> tuple[Any, int]:
            before = self.decoded
            value, end = element(reader, at, *others)
            self.decoded = before + end - at
            return value, end

        monkeypatch.setattr(NoteIndex, "find_all", looking)
        monkeypatch.setattr(slices._Reader, "_element", decoding_element)
        monkeypatch.setattr(slices._Reader, "decode", decoding)

    def again(self) -> tuple[int, int]:
        seen = self.characters, self.decoded
        self.characters = self.decoded = 0
        return seen


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    return Looked(monkeypatch)


def test_the_same_body_again_costs_nothing(looked: Looked) -> None:
    scanner, data = Scanner(), encoded(conversation(10))
    expected = cold(data)
    looked.again()
    assert warm(scanner, data) == expected
    characters, decoded = looked.again()
    assert characters > len(data) / 2
    assert decoded > len(data) * 0.9
    assert warm(scanner, data) == expected
    characters, decoded = looked.again()
    assert (characters < 50, decoded < 200) == (True, True)  # the short first block, and what is no element


def test_the_next_turn_costs_what_is_new(looked: Looked) -> None:
    scanner = Scanner()
    for turns in range(1, 30):
        data = encoded(conversation(turns, billing=f"cch={turns}", marked=turns - 1))
        expected = cold(data)
        looked.again()
        assert warm(scanner, data) == expected
        characters, decoded = looked.again()
        # A turn is about 1,400 bytes. The one before lost its mark: it is decoded again, but its strings are known.
        assert characters < 2_500
        assert decoded < 4_000 + (2_000 if turns < 3 else 0)


def test_with_another_index_everything_is_looked_at_again(looked: Looked) -> None:
    scanner, data = Scanner(), encoded(conversation(5))
    warm(scanner, data)
    looked.again()
    other = NoteIndex.build([note("new.md", LINE)], previous=INDEX)
    found = warm(scanner, data, other)
    assert found == cold(data, other)
    assert [one.note for one in found.sightings] == ["vault/new.md"]
    assert looked.again()[0] > 2 * len(FILLER) * 5
    assert warm(scanner, data) == cold(data)


def test_a_body_read_before_the_index_changed() -> None:
    scanner, data = Scanner(), encoded(conversation(3))
    warm(scanner, data)
    body = scanner.read(data)
    other = NoteIndex.build([note("new.md", LINE)])
    assert scanner.scan(other, body) == cold(data, other)
    assert body.json == json.loads(data)


def test_gemini_puts_the_request_into_an_object(looked: Looked) -> None:
    scanner = Scanner()
    data = encoded({"model": "m", "request": {"contents": conversation(6)["messages"], "session_id": "s"}})
    expected = cold(data)
    assert expected.sightings[0].evidence[0].pointer == "/request/contents/0/content/0/content"
    assert warm(scanner, data) == expected
    looked.again()
    assert warm(scanner, data) == expected
    assert looked.again()[0] == 0
    assert scanner.read(data).outline["request"]["contents"][5]["role"] == "user"


def test_what_a_body_says_of_itself_is_read_without_decoding_the_rest(looked: Looked) -> None:
    scanner, data = Scanner(), encoded(conversation(20))
    scanner.read(data)
    looked.again()
    outline = scanner.read(data).outline
    assert outline["model"] == "m"
    messages = outline["messages"]
    assert isinstance(messages, Elements)
    assert (len(messages), messages[0]["role"], messages[-1] == conversation(20)["messages"][-1]) == (20, "user", True)
    assert messages[1:3] == conversation(20)["messages"][1:3]
    assert list(messages) == conversation(20)["messages"]
    assert looked.again()[1] < 200


def test_no_text_is_kept() -> None:
    scanner = Scanner()
    secret = "The harbour master's own telephone number is written here"
    index = NoteIndex.build([note("a.md", secret)])
    data = encoded({"messages": [{"role": "user", "content": f"{secret}\n{FILLER}\n{secret}"}] * 3})
    assert warm(scanner, data, index).sightings[0].matched == 1
    del data
    seen: dict[int, object] = {}
    todo: list[object] = [scanner]
    while todo:
        one = todo.pop()
        if id(one) not in seen and not isinstance(one, type) and type(one).__name__ not in {"module", "function"}:
            seen[id(one)] = one
            todo += gc.get_referents(one)
    kept = [one for one in seen.values() if isinstance(one, str | bytes | dict)]
    assert len(kept) > 5
    assert not [one for one in kept if isinstance(one, str | bytes) and "harbour" in str(one)]


def test_the_caches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_ELEMENTS_BYTES", 20_000)
    monkeypatch.setattr(cache, "_STRINGS_BYTES", 20_000)
    monkeypatch.setattr(cache, "_SPANS_BYTES", 20_000)
    scanner = Scanner(ScanCache())
    for number in range(300):
        data = encoded({"messages": [{"content": f"{number} {FILLER}\n{LINE}"}]})
        assert len(warm(scanner, data).sightings) == 1
    results = scanner.cache.results(INDEX.generation)
    assert 5 < len(results.elements) <= 20_000 / cache._ITEM_BYTES
    assert 5 < len(results.strings) <= 20_000 / 100
    assert 5 < len(scanner.cache.known._values) <= 50


def test_recent_forgets_what_was_not_used_for_longest() -> None:
    recent = Recent[str, int](40)
    for number in range(100):
        recent.put(str(number), number, 10)
        assert recent.get("0") == 0
        assert len(recent) <= 5
    assert recent.get("99") == 99
    assert recent.get("50") is None


def test_one_scan_in_a_thread_beside_another() -> None:
    scanner = Scanner()
    bodies = [encoded(conversation(turns, billing=f"{turns}")) for turns in range(1, 25)]
    expected = [cold(data) for data in bodies]
    wrong: list[int] = []

    def run(order: list[int]) -> None:
        wrong.extend(number for number in order if warm(scanner, bodies[number]) != expected[number])

    threads = [
        threading.Thread(target=run, args=([*range(24)][:: 1 if number % 2 else -1] * 3,)) for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# ---- names beyond number


def test_there_is_an_end_to_the_names_that_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Effort.__init__, "__defaults__", (2_000,))
    scanner = Scanner()
    data = encoded({"messages": [{"content": f"read empty.md {number}. {FILLER}"} for number in range(200)]})
    for found in (warm(scanner, data), warm(scanner, data), cold(data)):
        assert (found.state, found.reasons) == ("partial", ("too many names",))
        assert 30 < len(found.sightings[0].evidence) <= 50
    small = encoded({"messages": [{"content": f"read empty.md 199. {FILLER}"}]})
    assert warm(scanner, small) == cold(small)
    assert warm(scanner, small).state == "complete"


@pytest.mark.parametrize("text", [".md" * 10_000, "a/b.c.md " * 10_000, "xtides.md " * 10_000, "[[x" * 10_000])
def test_what_cannot_be_a_name_costs_no_effort(text: str) -> None:
    effort = Effort(10_000)
    assert INDEX.find_all(Joined.of([text.encode()]), effort=effort) == {}
    assert not effort.is_spent


# ---- cutting a body into elements

values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=200)
    | st.just(FILLER + LINE),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
bodies = st.dictionaries(st.text(max_size=4), values | st.lists(values, max_size=5), max_size=5)


@given(st.lists(bodies, min_size=1, max_size=4), st.sampled_from([None, 1]), st.sampled_from([4, 64, 1 << 15]))
def test_a_sliced_body_is_the_body(several: list[dict[str, Any]], indent: int | None, window: int) -> None:
    scanner = Scanner()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "_WINDOW", window)
        patch.setattr(spans, "SMALLEST", 8)
        for body in [*several, *several]:
            text = json.dumps(body, ensure_ascii=False, indent=indent)
            data = text.encode("utf-8", "surrogatepass")
            plain = read_body(data)
            sliced = scanner.read(data)
            assert (sliced.json, sliced.reasons) == (plain.json, plain.reasons)
            assert scanner.scan(INDEX, sliced) == scan_body(INDEX, plain)


@given(bodies, st.data())
def test_a_broken_body_is_read_as_without_a_memory(body: dict[str, Any], data: st.DataObject) -> None:
    whole = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    scanner = Scanner()
    warm(scanner, whole)
    at = data.draw(st.integers(0, len(whole)))
    broken = (
        whole[:at] + data.draw(st.sampled_from([b"", b"]", b"}", b",", b'"', b"\\", b"x", b"\xff"])) + whole[at + 1 :]
    )
    assert warm(scanner, broken) == cold(broken)


@pytest.mark.parametrize(
    "text",
    ['{"a": 1,}', '{"a": 1 "b": 2}', '{"a" 1}', "{1: 2}", '{"a": [1,]}', '{"a": [1 2]}', '{"a": 1} x', '{"a": [1', "[1]", "", '{"a": 1, "a": 2}',
     '{"a": {"b": 1, "b": 2}}', '{"a": }'],
)  # fmt: skip
def test_what_cannot_be_cut(text: str) -> None:
    with pytest.raises(ValueError, match=r"missing|stands twice|not all|Expecting|delimiter|Invalid"):
        slice_object(text.encode(), KnownSpans(1, 1_000))


def test_values_that_begin_alike_are_told_apart() -> None:
    known = KnownSpans(1, 100_000)
    texts = [json.dumps({"a": [FILLER * number, number] * 2}) for number in (1, 2, 3)]
    for text in texts:
        known.add(f"{text},".encode(), 0, len(text))
    for text in texts:
        [element], end = known.find(f"{text}, 1]".encode(), 0, Effort())
        assert isinstance(element, Element)
        assert (end, element.value) == (len(text), json.loads(text))
    changed = texts[1].replace("]}", "}}")
    assert known.find(f"{changed},".encode(), 0, Effort()) == ([], 0)
    assert known.add(b"1234", 0, 4) is None


def test_a_run_with_one_changed_element_is_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "_RUN_LENGTH", 4)
    before = [{"content": f"{number} {FILLER} {'x' * len(LINE)} {FILLER[2:]}"} for number in range(40)]
    scanner = Scanner()
    assert warm(scanner, encoded({"messages": before})).sightings == ()
    assert any(
        isinstance(part, Run) for part in scanner.read(encoded({"messages": before})).value.members["messages"].parts
    )
    for number in range(40):
        changed = [*before]
        changed[number] = {"content": f"{number} {FILLER}\n{LINE}\n{FILLER[4:]}"}
        data = encoded({"messages": changed})
        assert len(data) == len(encoded({"messages": before}))
        [sighting] = warm(scanner, data).sightings
        assert [one.pointer for one in sighting.evidence] == [f"/messages/{number}/content"]


MESSAGES = [
    *({"content": f"{number} {FILLER}"} for number in range(6)),
    {"content": f"{LINE}\n{FILLER}"},
    {"content": [{"text": f"12\t{OTHER}"}, {"text": f"see empty.md and [[tides]] {FILLER}"}]},
    {"content": f"empty.md\ntides.md\nnotes/other.md\n{'x' * 99}"},
    {"data": "iVBOR" + "A" * 400},
    1,
    "short",
]


@given(
    st.lists(st.sampled_from(MESSAGES), max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.lists(st.sampled_from(MESSAGES), max_size=6)), min_size=2, max_size=5),
    st.sampled_from(["messages", "input"]),
)
def test_a_conversation_that_grows_is_cut_and_edited_is_what_it_is(
    beginning: list[Any], turns: list[tuple[int, list[Any]]], name: str
) -> None:
    """Each request keeps so much of the one before, and goes on differently."""
    scanner, messages = Scanner(), beginning
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spans, "_RUN_LENGTH", 2)
        for kept, more in turns:
            messages = [*messages[:kept], *more]
            data = encoded({"tools": MESSAGES[:kept], name: messages, "system": [*more, *MESSAGES]})
            assert warm(scanner, data) == cold(data)
            assert warm(scanner, data) == cold(data)


def test_a_string_that_holds_json_is_not_the_same_string_as_a_key() -> None:
    scanner, text = Scanner(), json.dumps({"path": f"read empty.md\n{FILLER}"})
    for value in ({"a": [text]}, {"a": [{text: 1}]}, {"a": [text, 1]}):
        assert warm(scanner, encoded(value)) == cold(encoded(value))


def test_a_key_is_a_key_where_the_body_is_cut_too() -> None:
    """JSON in it is not looked into: it would be a copy of what a value says."""
    data = encoded({json.dumps(f"{FILLER}\n{LINE}\n"): 1, "a": {f'["read empty.md", {json.dumps(LINE)}]': [LINE]}})
    scanner = Scanner()
    for _ in range(2):
        found = warm(scanner, data)
        assert found == cold(data)
        assert [one.pointer for one in found.sightings[0].evidence] == ["/a/{…}/0"]


def test_an_element_is_a_place_in_the_body() -> None:
    data = encoded({"messages": [{"content": FILLER}]})
    scanner = Scanner()
    scanner.read(data)
    member = slice_object(data, scanner.cache.known).members["messages"]
    assert isinstance(member, Elements)
    element = member.elements[0]
    assert isinstance(element, Element)
    assert (data[element.start : element.end], element.decoded) == (encoded({"content": FILLER}), spans.UNREAD)
    assert element.value == {"content": FILLER}


def test_scanning_goes_in_steps_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    find_all = NoteIndex.find_all

    def looking(index: NoteIndex, texts: Joined, *others: Any) -> Any:
        sizes.append(len(texts.data))
        return find_all(index, texts, *others)

    monkeypatch.setattr(NoteIndex, "find_all", looking)
    data = encoded({"messages": [{"content": f"{number} {FILLER}"} for number in range(3_000)]})
    warm(Scanner(), data)
    assert sum(sizes) > 1_500_000
    assert max(sizes) <= scan.PIECE + 1_000
