"""How an answer's bytes are cut into pieces: every framing, cut anywhere, and whatever a server may send."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from addons.wire import streams
from addons.wire.answer import Answer, AnswerParts
from addons.wire.streams import MOST_EVENT, AnswerReader
from tests.addons.answers import FRAMES, event_frame, event_frames, frame, text_headers
from tests.addons.wires import SIZES, chunks

SSE = "text/event-stream"
JSON = "application/json; charset=utf-8"
ONE, TWO = {"n": 1, "text": "Ebbe 🌊"}, {"n": 2, "text": 'a "quoted" \\ [{ thing'}


class Collected:
    """The pieces as they are handed on."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.done = False

    def add(self, event: Any) -> None:
        self.pieces.append(event)

    def whole(self, body: Any) -> None:
        self.pieces.append(("whole", body))

    def answer(self) -> Answer:
        return Answer(complete=True)


def pieces(data: bytes, content_type: str, size: int = 2**30) -> tuple[list[Any], bool]:
    """The pieces, and whether the answer was read to its end."""
    collected = Collected()
    parts: AnswerParts = collected
    reader = AnswerReader(parts, content_type)
    for chunk in chunks(data, size):
        reader.feed(chunk)
    return collected.pieces, reader.close().complete


def text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def events(end: str) -> bytes:
    lines = [f"data: {text(ONE).decode()}", "", f"data:{text(TWO).decode()}", "", "data: [DONE]", "", ""]
    return end.join(lines).encode()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("content_type", [SSE, "TEXT/EVENT-STREAM; charset=utf-8", "", JSON, "text/html"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_end_in_any_line_end(end: str, content_type: str, size: int) -> None:
    assert pieces(events(end), content_type, size) == ([ONE, TWO], True)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'data: {"a":\ndata: 1}\n\n', [{"a": 1}]),
        (b'data:{"a":\r\ndata\r\ndata:  1\r\ndata:}\r\n\r\n', [{"a": 1}]),
        (b': ping\n\n:\n\nevent: message\nid: 7\nretry: 10\ndata: {"a":1}\n\n', [{"a": 1}]),
        (b'event: ping\ndata: {"type":"ping"}\n\n', [{"type": "ping"}]),
        (b'\xef\xbb\xbfdata: {"a":1}\n\n', [{"a": 1}]),
        (b'\n\r\n \xef\xbb\xbf\ndata: {"a":1}\n\n', [{"a": 1}]),
        (b'data: {"a":1}\r\r: x\ndata: {"b":2}\n\ndata: {"c":3}\n\n', [{"a": 1}, {"b": 2}, {"c": 3}]),
        (b'data: {"a":1}', [{"a": 1}]),
        (b'data: {"a":1}\r', [{"a": 1}]),
        (b'data: {"a":1}\n\ndata: {"b":', [{"a": 1}]),
        (b'data: {"a":1\n\ndata: no json\n\ndata: \n\ndata: {"b":2}\n\n', [{"b": 2}]),
        (b'data: {"a":1} {"b":2}\n\ndata: {"c":3}\n\n', [{"c": 3}]),
        (b'data: {"a":"\xff"}\n\n', [{"a": "�"}]),
        (b'data: {"a":"\\ud83c"}\n\n', [{"a": "\ud83c"}]),
        (b"data: null\n\ndata: 0\n\n", [0]),
        (b"data: " + b"[" * 100_000 + b'\n\ndata: {"b":2}\n\n', [{"b": 2}]),
        (b"data: " + b"9" * 5000 + b'\n\ndata: {"b":2}\n\n', [{"b": 2}]),
        (b'database: {"a":1}\n\n data: {"a":1}\n\nData: {"a":1}\n\n', []),
    ],
)
def test_events_of_every_kind(data: bytes, found: list[Any], size: int) -> None:
    assert pieces(data, SSE, size) == (found, True)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_comes_with_its_blank_line(end: bytes) -> None:
    collected = Collected()
    reader = AnswerReader(collected, SSE)
    reader.feed(b'data: {"a":1}' + end)
    assert collected.pieces == []
    reader.feed(end)
    assert collected.pieces == [{"a": 1}]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "content_type", ["application/x-ndjson", "application/jsonl; charset=utf-8", "", JSON, "text/plain"]
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [b"", b"\n", b"\n\n"])
def test_lines_of_json(content_type: str, end: bytes, last: bytes, size: int) -> None:
    assert pieces(text(ONE) + end + end + text(TWO) + last, content_type, size) == ([ONE, TWO], True)


@pytest.mark.parametrize("size", SIZES)
def test_a_line_that_is_no_json_is_passed_over(size: int) -> None:
    data = b'{"a":1}\n{"b": [\nnone "\n{"c":3}\n{"d":'
    assert pieces(data, "application/x-ndjson", size) == ([{"a": 1}, {"c": 3}], True)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("content_type", [JSON, "", SSE, FRAMES, "text/plain"])
@pytest.mark.parametrize("data", [text(TWO), b"\n\n  " + json.dumps(TWO, indent=2).encode() + b"\r\n"])
def test_one_document_is_the_whole_answer(data: bytes, content_type: str, size: int) -> None:
    assert pieces(data, content_type, size) == ([("whole", TWO)], True)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("separator", [b",", b",\r\n", b"\n,\n"])
@pytest.mark.parametrize("last", [b"]", b"\n]\n", b"", b","])
def test_the_elements_of_an_array_are_handed_on(separator: bytes, last: bytes, size: int) -> None:
    assert pieces(b"[" + text(ONE) + separator + text(TWO) + last, JSON, size) == ([ONE, TWO], True)


def test_an_element_comes_with_its_last_bracket() -> None:
    collected = Collected()
    reader = AnswerReader(collected, JSON)
    reader.feed(b'[{"a":{"b":"}]\\')
    reader.feed(b'"]"}')
    assert collected.pieces == []
    reader.feed(b"}")
    assert collected.pieces == [{"a": {"b": '}]"]'}}]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'[1, "a{", [2], {"a":1}, nonsense, {"b":2}]', [[2], {"a": 1}, {"b": 2}]),
        (b'[{"a" 1}, {"b":2}]', [{"b": 2}]),
        (b"[]", []),
        (b'[{"a":1}] [{"b":2}]', [{"a": 1}, {"b": 2}]),
        (b'{"a":1}}]{"b":2}', [{"a": 1}, {"b": 2}]),
        (b'{"a":1', []),
        (b'{"a":"1', []),
        (b'{"a":1]', [("whole", None)]),
    ],
)
def test_arrays_and_documents_of_every_kind(data: bytes, found: list[Any], size: int) -> None:
    assert pieces(data, JSON, size)[0] == found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("content_type", [FRAMES, "", SSE])
def test_frames_are_their_headers_and_their_payload(content_type: str, size: int) -> None:
    data = event_frames([("one", ONE), ("two", TWO)]) + frame(
        text_headers({":message-type": "error"}) + b"\x04many\x00", b"no json"
    )
    headers = {":content-type": "application/json", ":message-type": "event"}
    assert pieces(data, content_type, size) == (
        [
            {":event-type": "one", **headers, "payload": ONE},
            {":event-type": "two", **headers, "payload": TWO},
            {":message-type": "error", "payload": None},
        ],
        True,
    )


@pytest.mark.parametrize("size", SIZES)
def test_a_wrong_crc_ends_the_answer_as_incomplete(size: int) -> None:
    good, bad = event_frame("one", ONE), bytearray(event_frame("two", TWO))
    bad[-1] ^= 1
    found, complete = pieces(good + bytes(bad) + good, FRAMES, size)
    assert [one[":event-type"] for one in found] == ["one"]
    assert not complete


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb", b"<html><body>502 Bad Gateway</body></html>", b"Not found"])
@pytest.mark.parametrize("content_type", ["text/html", JSON, SSE, "text/plain", ""])
def test_an_error_page_is_nothing(data: bytes, content_type: str, size: int) -> None:
    assert pieces(data, content_type, size) == ([], True)


def test_closing_twice_and_feeding_after_it_changes_nothing() -> None:
    collected = Collected()
    reader = AnswerReader(collected, JSON)
    reader.feed(b'{"a":1}')
    assert reader.close() == reader.close()
    assert collected.pieces == [("whole", {"a": 1})]


FRAMINGS = pytest.mark.parametrize(
    ("before", "after", "content_type"),
    [(b"data: ", b"\n\n", SSE), (b"", b"\n", "application/x-ndjson"), (b"", b"", JSON), (b"[", b"]", JSON)],
)
LIMIT = 500_000


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_EVENT == 32 * 1024 * 1024
    monkeypatch.setattr(streams, "MOST_EVENT", LIMIT)


@FRAMINGS
@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("size", [1000, 2**30])
def test_an_event_may_be_so_long_and_no_longer(before: bytes, after: bytes, content_type: str, size: int) -> None:
    fitting = before + b'{"a":"' + b"x" * (LIMIT - 20) + b'"}' + after
    found, complete = pieces(fitting, content_type, size)
    assert (len(found), complete) == (1, True)
    too_long = before + b'{"a":"' + b"x" * LIMIT + b'"}' + after
    assert pieces(too_long + before + b'{"b":2}' + after, content_type, size) == ([], False)


@FRAMINGS
@pytest.mark.usefixtures("limit")
def test_an_endless_event_is_not_held(before: bytes, after: bytes, content_type: str) -> None:
    data = before + b'{"a":"' + b"x" * 20 * LIMIT
    tracemalloc.start()
    assert pieces(data, content_type) == ([], False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * LIMIT


@pytest.mark.usefixtures("limit")
def test_lines_of_one_event_have_the_same_bound() -> None:
    line = b"data: " + b"1" * 1000 + b"\n"
    assert pieces(line * (LIMIT // 1000 + 1) + b'\ndata: {"a":1}\n\n', SSE) == ([], False)


def test_a_frame_has_a_bound_before_it_is_there() -> None:
    assert pieces(frame(b"", bytes(MOST_EVENT))[:12], FRAMES) == ([], False)


@FRAMINGS
def test_the_time_for_an_event_of_20_mb_grows_with_its_length(before: bytes, after: bytes, content_type: str) -> None:
    def seconds(length: int) -> float:
        data = before + b'{"a":"' + b"\\n[" * (length // 3) + b'"}' + after
        begun = time.thread_time()
        found, complete = pieces(data, content_type, 1400)
        spent = time.thread_time() - begun
        assert (len(found), complete) == (1, True)
        return spent

    small = min(seconds(2_000_000) for _ in range(3))
    # Ten times, were the machine quiet; a hundred, were it quadratic.
    assert any(seconds(20_000_000) < 40 * small for _ in range(3))


def test_line_ends_alone_take_little_memory() -> None:
    data = b"data: 0\n" + b"\n" * 1_000_000
    tracemalloc.start()
    assert pieces(data, SSE) == ([0], True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # a list of so many lines takes eight


SNIPPETS = st.sampled_from(
    b'data:|data: |event: x|\n|\r|\r\n|{|}|[|]|"|\\|,|:|1|{"a":1}|\xef\xbb\xbf|\xf0\x9f|\x8c\x8a|null| |\x00'.split(
        b"|"
    )
) | st.just(event_frame("one", ONE))
ANYTHING = st.binary(max_size=300) | st.lists(SNIPPETS, max_size=40).map(b"".join)
TYPES = st.sampled_from([SSE, JSON, "application/x-ndjson", FRAMES, "", "text/html"])


@settings(max_examples=600)
@given(ANYTHING, TYPES, st.integers(1, 20))
@example(b'{"a":"\\', JSON, 1)
@example(b'"[{"a":1}]', JSON, 3)
@example(b"\xef\xbb\xbf\xef\xbb", SSE, 1)
def test_any_bytes_give_the_same_however_they_are_cut(data: bytes, content_type: str, size: int) -> None:
    assert repr(pieces(data, content_type, size)) == repr(pieces(data, content_type))
