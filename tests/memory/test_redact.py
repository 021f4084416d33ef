"""Redacting lines: the text of a note goes, and every other byte is as it was."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from memory.exchange import Redaction
from memory.index import NoteIndex
from memory.redact import NOT_KNOWN, UNREADABLE, redact
from memory.scan import Scanner
from tests.memory.redacting import (
    BERTH,
    ID,
    INDEX,
    LINES_ONLY,
    MARK,
    OTHER,
    SECRETS,
    SHORT,
    TEXT,
    TIDE,
    built,
    leaks,
    mark,
    note,
    redacted,
)

# --- the same bytes but for the lines --------------------------------------------------------------------------------

PLACEHOLDERS = (MARK, '["withheld"]', "\\ ", "a\nb", "C:\\new\\u0041", "\t", "")
SHAPES: dict[str, Callable[[str], Any]] = {
    "alone": lambda text: {"content": text},
    "with text around it": lambda text: {"content": f"Look at this:\n{text}\nWhat does it say?"},
    "twice": lambda text: {"content": f"{text}\n{text}", "system": [{"type": "text", "text": f"\n\n{text}  \n"}]},
    "JSON in a string": lambda text: {"content": json.dumps({"result": text, "lines": 12})},
    "JSON in JSON": lambda text: {"a": json.dumps([json.dumps({"b": f"x\n{text}"}, indent=2)])},
    "JSON four times": lambda text: [json.dumps([json.dumps([json.dumps([json.dumps({"t": text})])])])],
    "a string in a string": lambda text: {"content": json.dumps(json.dumps(text))},
    "a key": lambda text: {"content": {text: 1, "x": {f"x\n{text}": 2}}},
    "a key in JSON": lambda text: {"content": json.dumps({text: True})},
    "the whole body": lambda text: text,
    "beside what is not ASCII": lambda text: {"é 🙂 \ud83d": f"é 🙂 潮\n{text}\n🙂"},
}
MARKS = {
    "as it stands": "{}",
    "Claude Code": "    12→{}",
    "cat -n": "    12\t{}",
    "Codex": "L12: {}",
    "grep": "vault/tides.md:12:{}",
    "a quote": "> {}",
    "indented": "        {}  ",
    "CRLF": "{}\r",
}


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_only_the_lines_are_replaced(shape: str, placeholder: str, ascii_only: bool) -> None:
    def body(text: str) -> bytes:
        # A serializer's habits: white space, and whether characters are escaped.
        data = json.dumps(SHAPES[shape](text), ensure_ascii=ascii_only, indent=1 if ascii_only else None)
        return data.encode("utf-8", "surrogatepass")

    without = TEXT
    for line in SECRETS:
        without = without.replace(line, placeholder)
    result = redacted(body(TEXT), placeholder)
    assert result.data == body(without)
    assert (result.complete, result.reasons) == (True, ())
    assert result.withheld[ID] % 4 == 0


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("index", [INDEX, LINES_ONLY])
def test_what_is_before_a_line_stays(mark: str, index: NoteIndex) -> None:
    def body(line: Callable[[str], str]) -> bytes:
        rows = "\n".join(MARKS[mark].format(line(row)) for row in TEXT.split("\n"))
        return json.dumps({"content": f"Read:\n{rows}\n</file>"}).encode()

    result = redact(index, body(str), [Redaction(ID, MARK)])
    assert result.data == body(lambda line: MARK if line in SECRETS else line)
    assert result.complete


def test_a_line_of_the_note_that_looks_like_a_prefix_goes_whole() -> None:
    index = built(note("list.md", f"{TIDE}\n- milk and honey\n12: noon and dusk"))
    result = redact(
        index, json.dumps(f"{TIDE}\n- milk and honey\n+ milk and honey\n12: noon and dusk").encode(), [mark("list.md")]
    )
    assert json.loads(result.data) == f"{MARK}\n{MARK}\n{MARK}\n{MARK}"


def test_an_emoji_is_written_in_ascii() -> None:
    data = json.dumps({"é": TEXT}, ensure_ascii=False).encode("utf-16")
    result = redacted(data, "🙂")
    assert (
        result.data.decode("utf-16")
        == '{"é": "' + r"\ud83d\ude42\n\ud83d\ude42\n\n\ud83d\ude42\n---\nOK\n\ud83d\ude42" + '"}'
    )


def test_with_nothing_to_withhold_the_body_is_the_same() -> None:
    data = b' {"a" : "\\u0041\\/", "a": [1.50, 1e5, "' + OTHER.encode() + b'"]}\n'
    assert redacted(data).data is not None
    assert redacted(data).data == data
    assert redacted(data).withheld == {}
    assert redact(INDEX, data, []).data == data
    assert redacted(data).left.sightings[0].note == "vault/weather.md"


def test_names_are_left() -> None:
    data = json.dumps({"content": "Read vault/tides.md and [[tides]].\nPIN 4711"}).encode()
    result = redacted(data)
    assert (result.data, result.complete) == (data, True)
    assert [(one.note, one.by) for one in result.left.sightings] == [(ID, "reference")]


# --- short lines -----------------------------------------------------------------------------------------------------


def test_short_lines_go_only_where_the_note_is_sighted() -> None:
    data = json.dumps({"a": f"{SHORT}\nOK", "b": f"{TIDE}\n{SHORT}\nOK\n---\n}}"}).encode()
    assert json.loads(redacted(data).data) == {"a": f"{SHORT}\nOK", "b": f"{MARK}\n{MARK}\nOK\n---\n}}"}


def test_strings_in_one_array_are_one_text() -> None:
    lines = ["before", TIDE, SHORT, "OK", "Schlüssel: Möwe"]
    data = json.dumps({"input": lines, "stop": [SHORT]}).encode()
    assert json.loads(redacted(data).data) == {"input": ["before", MARK, MARK, "OK", MARK], "stop": [SHORT]}


def test_all_json_in_one_string_is_one_text() -> None:
    inner = json.dumps({"first": TIDE, SHORT: "x", "last": [{"y": SHORT}]})
    data = json.dumps({"content": inner}).encode()
    assert json.loads(json.loads(redacted(data).data)["content"]) == {"first": MARK, MARK: "x", "last": [{"y": MARK}]}


def test_the_letters_of_json_are_no_line() -> None:
    index = built(note("a.md", f"{TIDE}\nname\n# Summary"))
    shown = json.dumps({"name": {"x": TIDE}, "summary": 1}, indent=2)
    result = redact(index, json.dumps({"content": shown}).encode(), [mark("a.md")])
    inner = json.loads(json.loads(result.data)["content"])
    assert inner == {MARK: {"x": MARK}, "summary": 1} or set(inner) == {MARK}


def test_a_distinctive_line_in_other_letters_is_found_by_itself() -> None:
    line = "Das Größte: Möwen über Öl"
    index = built(note("a.md", f"{line}\n{TIDE}"))
    spelled = unicodedata.normalize("NFD", line).upper()
    data = json.dumps({"a": spelled, "b": TIDE}).encode()
    assert json.loads(redact(index, data, [mark("a.md")]).data) == {"a": MARK, "b": MARK}


def test_a_separator_that_is_a_distinctive_line_goes() -> None:
    dashes = "| --- | --- | --- | --- |"
    index = built(note("a.md", f"{TIDE}\n{dashes}"), quotes=False)
    result = redact(index, json.dumps(f"x\n  7→{dashes}\ny").encode(), [mark("a.md")])
    assert (json.loads(result.data), result.complete) == (f"x\n  7→{MARK}\ny", True)


def test_a_common_line_goes_with_its_note() -> None:
    common = "This line stands at the foot of each and every note."
    index = built(
        *(note(f"{number}.md", f"Note {number} alone says so much of itself.\n{common}") for number in range(5))
    )
    data = json.dumps([f"x\n{common}", f"Note 3 alone says so much of itself.\n{common}"]).encode()
    split = json.dumps({"a": f"x\n{common}", "b": f"Note 3 alone says so much of itself.\n{common}"}).encode()
    assert json.loads(redact(index, data, [mark("3.md")]).data) == [f"x\n{MARK}", f"{MARK}\n{MARK}"]
    assert json.loads(redact(index, split, [mark("3.md")]).data) == {"a": f"x\n{common}", "b": f"{MARK}\n{MARK}"}


# --- several notes ---------------------------------------------------------------------------------------------------


def test_each_note_has_its_placeholder_and_the_first_counts() -> None:
    index = built(note("a.md", f"{TIDE}\nboth have it"), note("b.md", f"{BERTH}\nboth have it"), note("c.md", OTHER))
    data = json.dumps(f"{BERTH}\n{TIDE}\nboth have it\n{OTHER}").encode()
    one = redact(index, data, [mark("a.md", "[a]"), mark("b.md", "[b]")])
    other = redact(index, data, [mark("b.md", "[b]"), mark("a.md", "[a]"), mark("b.md", "[x]")])
    assert json.loads(one.data) == f"[b]\n[a]\n[a]\n{OTHER}"
    assert json.loads(other.data) == f"[b]\n[a]\n[b]\n{OTHER}"
    assert dict(other.withheld) == {"vault/b.md": 2, "vault/a.md": 1}
    assert [sighting.note for sighting in other.left.sightings] == ["vault/c.md"]


# --- what cannot be done ---------------------------------------------------------------------------------------------


def test_a_placeholder_may_be_a_line_of_the_note() -> None:
    result = redacted(json.dumps({"content": TEXT}).encode(), f"[withheld: {TIDE}]")
    assert (result.complete, result.left.sightings[0].note) == (True, ID)
    own = redacted(json.dumps({"content": TEXT}).encode(), TIDE)
    assert own.complete


def test_what_the_index_does_not_know_cannot_be_complete() -> None:
    data = json.dumps({"content": f"{TIDE}\nThat is all of it.\n{SHORT}"}).encode()
    index = NoteIndex.build([note("tides.md", TEXT)], quotes=True, reachable=lambda one: one.path != "tides.md")
    result = redact(index, data, [Redaction(ID, MARK)])
    assert (result.complete, result.reasons) == (False, (NOT_KNOWN,))
    assert json.loads(result.data) == {"content": f"{MARK}\nThat is all of it.\n{SHORT}"}
    gone = redact(INDEX, data, [Redaction("vault/gone.md", MARK)])
    assert (gone.data, gone.complete, gone.reasons) == (data, False, (NOT_KNOWN,))


def test_what_is_no_text_cannot_be_complete() -> None:
    result = redacted(b"\x00\xff\x00")
    assert (result.data, result.reasons) == (b"\x00\xff\x00", (UNREADABLE,))
    assert redacted(b"").complete


def test_json_that_is_nested_too_deep_is_one_row() -> None:
    inner = f"{TIDE}\n{SHORT}"
    for _ in range(6):
        inner = json.dumps({"x": inner})
    result = redacted(json.dumps({"content": inner}).encode())
    assert not leaks(result.data)
    assert result.complete


def test_a_scanner_may_be_shared() -> None:
    scanner = Scanner()
    data = json.dumps({"messages": [{"content": TEXT}, {"content": OTHER}]}).encode()
    for _ in range(2):
        result = redact(INDEX, data, [Redaction(ID, MARK)], scanner=scanner)
        assert (result.complete, [one.note for one in result.left.sightings]) == (True, ["vault/weather.md"])


def test_what_a_scanner_knows_is_not_passed_over() -> None:
    scanner = Scanner()
    quoting = f"{OTHER}\n" * 8 + f"So somebody wrote: {TIDE[:60]} and more of that kind.\nEnd."
    data = json.dumps({"messages": [{"content": quoting}, {"content": f"{OTHER}\n" * 8}]}).encode()
    scanner.scan(INDEX, scanner.read(data))
    result = redact(INDEX, data, [Redaction(ID, MARK)], scanner=scanner)
    assert result.data == redacted(data).data
    assert (result.complete, dict(result.withheld)) == (True, {ID: 1})
