"""Whole bodies: where notes are found in them, what a scan says of what it could not read, and bodies that bite."""

from __future__ import annotations

import base64
import json
import re
import time
import tracemalloc
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.body import read_body
from memory.exchange import Evidence, Scan
from memory.index import NoteIndex
from memory.notes import Note
from memory.scan import Scanner, scan_body, scan_value

LINE = "The tide chart is drawn from the harbour's own table."
OTHER = "Every berth has a number and a depth at low water."


def scan_bytes(index: NoteIndex, data: bytes, content_type: str = "application/json") -> Scan:
    return scan_body(index, read_body(data, content_type))


def note(path: str, text: str) -> Note:
    return Note(f"vault/{path}", "vault", path, path.removesuffix(".md"), text, (), (), (), len(text))


INDEX = NoteIndex.build([note("tides.md", f"{LINE}\n{OTHER}"), note("empty.md", "")])
TIDES = "vault/tides.md"


def found(scan: Scan) -> dict[str, tuple[int, int]]:
    return {one.note: (one.matched, one.distinctive) for one in scan.sightings}


def evidence(value: Any) -> dict[str, list[tuple[str, int, str]]]:
    return {
        one.note: [(piece.pointer, piece.lines, piece.grade) for piece in one.evidence]
        for one in scan_value(INDEX, value).sightings
    }


def readers() -> list[Any]:
    text = (Path(__file__).parent / "cases" / "readers.md").read_text(encoding="utf-8")
    parts = re.findall(r"^## ([^\n]+)\n\n```\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    cases = [(name, int(count), shown) for title, shown in parts[1:] for name, count in [title.rsplit(": ", 1)]]
    return [pytest.param(parts[0][1], shown, count, id=name) for name, count, shown in cases]


@pytest.mark.parametrize(("plan", "shown", "count"), readers())
def test_what_reading_tools_make_of_a_note(plan: str, shown: str, count: int) -> None:
    index = NoteIndex.build([note("plan.md", plan)])
    for value in ([shown], {"content": json.dumps({"result": shown})}):
        assert found(scan_value(index, value)) == {"vault/plan.md": (count, 4)}


def test_there_are_as_many_readers_as_there_are_forms() -> None:
    assert len(readers()) >= 19


def test_the_forms_of_the_shared_data(shared_data: Path) -> None:
    known = json.loads((shared_data / "llm" / "agent-read-formats.json").read_text(encoding="utf-8"))
    index = NoteIndex.build(
        [note("plan.md", known["note_file"]), note("alex.md", "Prefers morning meetings over late calls")]
    )
    counts = []
    for form in known["formats"]:
        scan = scan_value(index, {"messages": [{"content": form["text"]}]})
        assert scan.state == "complete"
        counts.append(found(scan))
    whole = {"vault/plan.md": (4, 4)}
    assert counts == [*[whole] * 2, {"vault/plan.md": (1, 4)}, *[whole] * 12, {"vault/alex.md": (1, 1)}]


def test_every_recorded_request_is_scanned(shared_data: Path) -> None:
    requests = sorted((shared_data / "llm").rglob("*.request.*"))
    assert requests
    for path in requests:
        body = path.read_bytes()
        scan = scan_bytes(INDEX, body)
        assert scan.sightings == ()
        assert scan.state != "unscanned"
        if path.suffix == ".json" and b"base64" not in body and scan.state != "complete":
            assert scan.reasons == ("encoded or encrypted data",)


@pytest.mark.parametrize("key", [LINE, "深夜食堂的灯还亮着等人回来", "two words", "x" * 65, "tab\t", "half \ud83d"])
def test_no_pointer_shows_a_key_that_may_be_text(key: str) -> None:
    [sighting] = scan_value(INDEX, {"a": {key: {"b": [LINE]}}}).sightings
    assert sighting.evidence[-1].pointer == "/a/{…}/b/0"


def test_every_string_and_key_whatever_the_protocol() -> None:
    body = {"a": {"b": [1, None, True, {"c/d~e": LINE}]}, "tools": {"read tides.md": {}}, OTHER: 1.5}
    assert evidence(body) == {TIDES: [("/a/b/3/c~1d~0e", 1, "line"), ("/{…}", 1, "line")]}
    assert evidence({"x": {"empty.md": 1}}) == {"vault/empty.md": [("/x/empty.md", 0, "reference")]}
    assert evidence({"": LINE}) == {TIDES: [("/", 1, "line")]}
    assert evidence(LINE) == {TIDES: [("", 1, "line")]}


def test_each_line_once_over_the_whole_body_and_evidence_for_each_string() -> None:
    body = {"system": LINE, "messages": [{"content": f"{LINE}\n> {LINE}\n{OTHER}"}, {"content": "tides.md"}]}
    assert found(scan_value(INDEX, body)) == {TIDES: (2, 2)}
    assert evidence(body) == {TIDES: [("/system", 1, "line"), ("/messages/0/content", 2, "line")]}


def test_at_most_fifty_pieces_of_evidence() -> None:
    [sighting] = scan_value(INDEX, [LINE] * 60).sightings
    assert [one.pointer for one in sighting.evidence] == [f"/{number}" for number in range(50)]
    [sighting] = scan_value(INDEX, ["empty.md"] * 60).sightings
    assert len(sighting.evidence) == 50


def test_a_note_found_by_content_is_not_also_a_reference() -> None:
    scan = scan_value(INDEX, ["see tides.md", LINE, "[[tides]]"])
    assert [(one.note, one.by, one.grade) for one in scan.sightings] == [(TIDES, "content", "line")]


def test_json_in_strings() -> None:
    once = json.dumps({"output": f"1\t{LINE}\n2\t{OTHER}"})
    assert evidence({"c": once}) == {TIDES: [("/c!/output", 2, "line")]}
    assert evidence({"c": json.dumps(once)}) == {TIDES: [("/c!!/output", 2, "line")]}
    assert evidence({"c": [json.dumps([{"x": json.dumps([LINE])}])]}) == {TIDES: [("/c/0!/0/x!/0", 1, "line")]}
    assert evidence({"c": f"\n {once} \n"}) == {TIDES: [("/c!/output", 2, "line")]}
    assert evidence({"c": once[:-1]}) == {}


def test_names_in_json_in_a_string_are_judged_where_they_are_decoded() -> None:
    listing = json.dumps({"output": "empty.md\nb.md\nc.md"})
    assert evidence([listing]) == {"vault/empty.md": [("/0!/output", 0, "listing")]}
    assert evidence([json.dumps({"path": "empty.md"})]) == {"vault/empty.md": [("/0!/path", 0, "reference")]}


def test_json_in_strings_too_deep() -> None:
    text = LINE
    for _ in range(4):
        text = json.dumps([text])
    assert found(scan_value(INDEX, text)) == {TIDES: (1, 2)}
    scan = scan_value(INDEX, json.dumps([text]))
    assert (scan.state, scan.reasons) == ("partial", ("nested too deep",))


def test_a_line_that_is_json_itself_is_still_a_line() -> None:
    text = '{"a line of a note": "that is JSON"}'
    index = NoteIndex.build([note("json.md", text)])
    assert found(scan_value(index, [text])) == {"vault/json.md": (1, 1)}


NESTED = 10_000
BITING: dict[str, tuple[bytes, str, tuple[str, ...], int]] = {
    "deep": (b"[" * NESTED + json.dumps(LINE).encode() + b"]" * NESTED, "partial", ("nested too deep",), 1),
    "deep objects": (b'{"a":' * NESTED + json.dumps(LINE).encode() + b"}" * NESTED, "partial", ("nested too deep",), 1),
    "deep in a string": (
        json.dumps({"a": "[" * NESTED + json.dumps(LINE) + "]" * NESTED}).encode(),
        "partial",
        ("nested too deep",),
        1,
    ),
    "lone surrogate": (b'{"a": "cut \\ud83d\\n%b\\n\\udc00"}' % LINE.encode(), "complete", (), 1),
    "lone surrogate in a line": (b'["%b\\ud83d"]' % LINE.encode(), "complete", (), 0),
    "encoded surrogate": (b'["\xed\xa0\xbd\\n%b"]' % LINE.encode(), "complete", (), 1),
    "NaN": (b'{"a": [NaN, Infinity, -Infinity], "b": "%b"}' % LINE.encode(), "complete", (), 1),
    "a long number": (b'[%b, "%b"]' % (b"9" * 5000, LINE.encode()), "complete", (), 1),
    "BOM": (b'\xef\xbb\xbf{"a": "%b"}' % LINE.encode(), "complete", (), 1),
    "UTF-16": (json.dumps({"a": LINE}).encode("utf-16"), "complete", (), 1),
    "duplicate keys": (b'{"a": "%b", "a": "%b", "a": 1}' % (LINE.encode(), OTHER.encode()), "complete", (), 2),
    "NUL escaped": (b'{"a": "\\u0000\\n%b\\n"}' % LINE.encode(), "complete", (), 1),
    "NUL raw in a string": (b'{"a": "\0\\n%b\\n"}' % LINE.encode(), "complete", (), 1),
    "NUL raw outside": (b'{"aaaaa":\0 "%b"}' % LINE.encode(), "partial", ("not JSON",), 1),
    "raw newline in a string": (b'{"a": "\n%b\n"}' % LINE.encode(), "complete", (), 1),
    "cut off": (b'{"a": "x", "b": ["%b' % LINE.encode(), "partial", ("not JSON",), 1),
    "cut off, with escapes": (b'{"a": "so \\"x\\"\\n%b' % LINE.encode(), "partial", ("not JSON",), 1),
    "cut off in an escape": (b'{"a": "%b\\n\\' % LINE.encode(), "partial", ("not JSON",), 1),
    "JSON lines": (b'{"a": "%b"}\n{"b": "%b"}\n' % (LINE.encode(), OTHER.encode()), "partial", ("not JSON",), 2),
    "not UTF-8": (b'{"a": "\xff\\n%b"}' % LINE.encode(), "partial", ("not UTF-8",), 1),
    "plain text": (f"hello\n{LINE}\n".encode(), "partial", ("not JSON",), 1),
    "a number": (b"12", "complete", (), 0),
    "empty": (b"", "complete", (), 0),
    "blank": (b" \r\n", "complete", (), 0),
    "binary": (bytes(range(256)) * 4, "unscanned", ("not text",), 0),
    "gzip": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xabV*I-.Q\xb2\x02", "unscanned", ("not text",), 0),
    "NULs": (b"\0" * 64, "unscanned", ("not text",), 0),
}


@pytest.mark.parametrize(("body", "state", "reasons", "lines"), BITING.values(), ids=BITING.keys())
def test_bodies_that_bite(body: bytes, state: str, reasons: tuple[str, ...], lines: int) -> None:
    scan = scan_bytes(INDEX, body)
    assert (scan.state, scan.reasons) == (state, reasons)
    assert found(scan) == ({TIDES: (lines, 2)} if lines else {})


def test_a_value_nested_deeper_than_the_stack() -> None:
    value: Any = LINE
    for _ in range(100_000):
        value = [value]
    [sighting] = scan_value(INDEX, value).sightings
    assert sighting.evidence == (Evidence("/0" * 100_000, 1, "line"),)


VAST: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "one line": ("word ", 60, ()),
    "one line without a letter": ("1 2 ", 20, ()),
    "no line at all": ("\n", 8, ()),
    "short lines": ("ab\n", 8, ()),
    "extensions": (".md", 60, ()),
    "names that are none": ("tidal.md ", 12, ("too many names",)),
    "names": ("empty.md\n", 2, ("too many names",)),
    "links": ("[[empty]]", 8, ("too many names",)),
    "brackets": ("[", 8, ()),
    "rows with a bracket": ("[[\n", 8, ()),
    "rows with an extension": (".mdx\n", 8, ()),
    "prefixes": ("L1:a.md:1:", 8, ()),
    "quotes": ("> ", 8, ()),
}
"""What a string is made of, how many million characters of it, and what a scan of it leaves out."""


@pytest.mark.parametrize("name", VAST)
def test_a_vast_string(name: str) -> None:
    """Seconds at most for each: what is looked at closely is bounded."""
    unit, megabytes, reasons = VAST[name]
    text = unit * (megabytes * 1_000_000 // len(unit))
    began = time.thread_time()
    scan = scan_value(INDEX, [f"{text}\n{LINE}"])
    assert scan.reasons == reasons
    assert found(scan)[TIDES] == (1, 2)
    assert time.thread_time() - began < 60


@pytest.mark.parametrize("name", VAST)
def test_a_vast_string_takes_a_few_times_its_memory(name: str) -> None:
    unit = VAST[name][0]
    text = unit * (2_000_000 // len(unit))
    with traced() as peak_memory:
        assert found(scan_value(INDEX, [f"{text}\n{LINE}"]))[TIDES] == (1, 2)
        assert peak_memory() < 25 * len(text)


def test_a_million_tiny_strings() -> None:
    began = time.thread_time()
    body = json.dumps([*(str(number) for number in range(1_000_000)), LINE]).encode()
    with traced() as peak_memory:
        scan = Scanner().scan(INDEX, Scanner().read(body))
        assert peak_memory() < 1_000_000_000
    assert evidence_of(scan) == [("/1000000", 1, "line")]
    assert (scan.state, time.thread_time() - began < 60) == ("complete", True)


def test_a_million_tiny_names() -> None:
    scan = scan_value(INDEX, {"files": ["empty.md"] * 100_000, "text": LINE})
    assert (scan.state, scan.reasons) == ("partial", ("too many names",))
    assert {one.note: len(one.evidence) for one in scan.sightings} == {TIDES: 1, "vault/empty.md": 50}


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """Gives the bytes that were allocated at most at any time since it began."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def evidence_of(scan: Scan) -> list[tuple[str, int, str]]:
    return [(piece.pointer, piece.lines, piece.grade) for one in scan.sightings for piece in one.evidence]


def test_images_documents_and_encrypted_blobs_are_skipped_and_said() -> None:
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40).decode()
    blob = base64.b64encode(bytes(range(256)) * 40).decode()
    for value, reason in [
        ({"source": {"data": png}}, "attachment"),
        ({"url": f"data:image/png;base64,{png}"}, "attachment"),
        ({"text": f"![x](data:image/png;base64,{png[:400]})"}, "attachment"),
        ({"encrypted_content": blob}, "encoded or encrypted data"),
        ({"signature": blob[:300]}, "encoded or encrypted data"),
        ({"data": "\n".join(blob[at : at + 76] for at in range(0, len(blob), 76))}, "encoded or encrypted data"),
        ({"url_safe": blob.replace("+", "-").replace("/", "_")}, "encoded or encrypted data"),
    ]:
        scan = scan_value(INDEX, [value, LINE])
        assert (scan.state, scan.reasons) == ("partial", (reason,))
        assert found(scan) == {TIDES: (1, 2)}


def test_what_stands_beside_an_attachment_is_looked_at() -> None:
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40).decode()
    assert len(png) > 4096
    for text, lines in [
        (f"{LINE}\n![x](data:image/png;base64,{png})\n{OTHER}", 2),
        (f"![x](data:image/png;base64,{png}) ![y](data:image/png;base64,{png})\n> {OTHER}", 1),
        (f"data:image/png;base64,{png}", 0),
        (f"{LINE}\ndata:image/png;base64,{png[:4000]}\n{'word ' * 200}", 1),
    ]:
        scan = scan_value(INDEX, [text])
        assert (scan.state, scan.reasons) == ("partial", ("attachment",))
        assert found(scan) == ({TIDES: (lines, 2)} if lines else {})
    assert evidence([f"see empty.md, data:image/png;base64,{png}"]) == {"vault/empty.md": [("/0", 0, "reference")]}
    # A line that has a small picture in it is a line all the same.
    index = NoteIndex.build([note("icon.md", f"an icon ![x](data:image/png;base64,{png[:2000]}) here")])
    scan = scan_value(index, [f"an icon ![x](data:image/png;base64,{png[:2000]}) here\n{png[:3000]}\n{'-' * 99}"])
    assert (scan.state, found(scan)) == ("partial", {"vault/icon.md": (1, 1)})


@pytest.mark.parametrize(
    "text",
    ["字" * 5000, "word " * 2000, "a/path/that.goes/" * 300, "toolu_01AbCdEfGhIjKlMnOpQr", "0123456789abcdef" * 4],
)
def test_what_is_no_blob(text: str) -> None:
    assert scan_value(INDEX, [text]).state == "complete"


def test_a_short_blob_is_looked_through_all_the_same() -> None:
    key = base64.b64encode(bytes(range(150))).decode().rstrip("=")
    scan = scan_value(NoteIndex.build([note("key.md", key)]), [key])
    assert (scan.state, found(scan)) == ("partial", {"vault/key.md": (1, 1)})


def multipart(*parts: tuple[bytes, bytes]) -> bytes:
    return b"".join(b"--XX\r\n%b\r\n\r\n%b\r\n" % part for part in parts) + b"--XX--\r\n"


FORM = "multipart/form-data; boundary=XX"


def test_the_text_parts_of_a_multipart_body() -> None:
    body = multipart(
        (b'Content-Disposition: form-data; name="prompt"', LINE.encode()),
        (
            b'Content-Disposition: form-data; name="meta"\r\nContent-Type: application/json',
            json.dumps([OTHER]).encode(),
        ),
    )
    scan = scan_bytes(INDEX, body, FORM)
    assert (scan.state, scan.reasons) == ("partial", ("not JSON: multipart",))
    assert [one.pointer for one in scan.sightings[0].evidence] == ["/prompt", "/meta!/0"]


def test_a_file_in_a_multipart_body() -> None:
    head = b'Content-Disposition: form-data; name="file"; filename="x"\r\nContent-Type: application/octet-stream'
    assert found(scan_bytes(INDEX, multipart((head, LINE.encode())), FORM)) == {TIDES: (1, 2)}
    for content in (b"\x89PNG\xff", b"PNG\0"):
        scan = scan_bytes(INDEX, multipart((head, content), (b"X: y", OTHER.encode())), FORM)
        assert scan.reasons == ("not JSON: multipart", "attachment")
        assert found(scan) == {TIDES: (1, 2)}


@pytest.mark.parametrize(
    "content_type", ["multipart/form-data", "multipart/form-data; boundary=YY", "multipart/x; boundary"]
)
def test_a_multipart_body_that_cannot_be_split(content_type: str) -> None:
    scan = scan_bytes(INDEX, multipart((b"X: y", LINE.encode())), content_type)
    assert (scan.state, scan.reasons) == ("partial", ("not JSON: multipart", "attachment"))
    assert found(scan) == {TIDES: (1, 2)}


def test_what_a_lenient_server_may_read_of_a_multipart_body_is_looked_at() -> None:
    in_front = LINE.encode() + b"\r\n" + multipart((b"X: y", b"z"))
    by_line_feeds = multipart((b"X: y", LINE.encode())).replace(b"\r\n", b"\n")
    for body in (in_front, by_line_feeds):
        scan = scan_bytes(INDEX, body, FORM)
        assert (found(scan), scan.reasons) == ({TIDES: (1, 2)}, ("not JSON: multipart",))


def test_a_form_body() -> None:
    body = urllib.parse.urlencode({"prompt": LINE, "input": json.dumps({"x": OTHER})}).encode()
    scan = scan_bytes(INDEX, body, "application/x-www-form-urlencoded; charset=utf-8")
    assert (scan.state, scan.reasons) == ("partial", ("not JSON: form",))
    assert found(scan) == {TIDES: (2, 2)}


def test_a_content_type_that_lies() -> None:
    assert scan_bytes(INDEX, json.dumps([LINE]).encode(), FORM).state == "complete"
    assert found(scan_bytes(INDEX, json.dumps([LINE]).encode(), "")) == {TIDES: (1, 2)}


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(st.characters(), max_size=12) | st.just(LINE),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.integers(0, 3))
def test_a_value_and_its_bytes_give_the_same_scan(value: Any, times: int) -> None:
    for _ in range(times):
        value = json.dumps(value)
    scan = scan_bytes(INDEX, json.dumps(value).encode())
    assert scan == scan_value(INDEX, value)
    assert bool(found(scan)) == (LINE in json.dumps(value))


@given(
    st.binary(max_size=60) | st.text(alphabet='{}[]",:\\ua0', max_size=30).map(str.encode), st.sampled_from(["", FORM])
)
def test_no_body_raises(body: bytes, content_type: str) -> None:
    assert scan_bytes(INDEX, body, content_type).sightings == ()
