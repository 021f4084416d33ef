"""What is encoded in a string: attachments that are text are looked into, all others are said."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any
from urllib.parse import quote

import pytest

from memory.blobs import BLOB_LENGTH, beside_blobs, without_blobs
from memory.exchange import Scan
from memory.redact import STILL_THERE
from memory.scan import scan_value
from tests.memory.redacting import BERTH, ID, INDEX, TEXT, TIDE, built, note, redacted

FILLER = "Nothing of it is a note's, however long it goes on.\n"
LONG = FILLER * 90
BYTES = bytes(range(256)) * 40
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + b"\xfb" * 200
JPEG = b"\xff\xd8\xff" + b"\xe1\xfb" * 200


def base64(text: str | bytes) -> str:
    return b64encode(text.encode() if isinstance(text, str) else text).decode()


def in_lines(digits: str, width: int = 76) -> str:
    return "\r\n".join(digits[at : at + width] for at in range(0, len(digits), width))


def lines(scan: Scan) -> dict[str, list[tuple[str, int]]]:
    return {one.note: [(piece.pointer, piece.lines) for piece in one.evidence] for one in scan.sightings}


WAYS: dict[str, Any] = {
    "Anthropic": lambda text: [{"source": {"type": "base64", "media_type": "text/plain", "data": base64(text)}}],
    "OpenAI": lambda text: [{"file": {"file_data": f"data:text/markdown;base64,{base64(text)}"}}],
    "Gemini": lambda text: [{"inlineData": {"mimeType": "text/markdown", "data": base64(text)}}],
    "url-safe, unpadded": lambda text: [urlsafe_b64encode(f"{text}\n~~~???>>>".encode()).decode().rstrip("=")],
    "percent-encoded": lambda text: [f"data:text/plain;base64,{quote(base64(text))}"],
    "percent-encoded, from the start": lambda text: [
        f"data:;base64,{quote(base64(f'>>~?>>~?{chr(10)}{text}'), safe='')}"
    ],
    "percent-encoded, in lines": lambda text: [f"data:;base64,{quote(in_lines(base64(text), 20), safe='')}"],
    "in lines": lambda text: [in_lines(base64(text))],
    "in lines, in a data URL": lambda text: [f"data:text/plain;base64,{in_lines(base64(text))}\nand"],
    "twice": lambda text: [base64(base64(text))],
    "as a string of JSON": lambda text: [base64(json.dumps(text))],
    "with a mark of its encoding": lambda text: [base64(f"\ufeff{text}")],
    "in JSON": lambda text: [base64(json.dumps({"notes": [{"text": text}]}))],
    "in JSON in base64 in JSON": lambda text: [base64(json.dumps([base64(json.dumps([text]))]))],
    "Markdown like JSON": lambda text: [base64(f"[ ] to do\n{text}")],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("around", ["", LONG], ids=["short", "long"])
def test_an_attachment_that_is_text_is_looked_into(way: str, around: str) -> None:
    scan = scan_value(INDEX, WAYS[way](f"{around}{TEXT}"))
    assert (scan.state, scan.reasons) == ("complete", ())
    [(note, [(_, count)])] = lines(scan).items()
    assert (note, count) == (ID, scan_value(INDEX, [TEXT]).sightings[0].matched)


def test_where_it_was_found_is_the_attachment() -> None:
    value = [{"data": base64(LONG)}, {"data": base64(f"{LONG}{TIDE}")}]
    assert lines(scan_value(INDEX, value)) == {ID: [("/1/data", 1)]}


def test_the_lines_of_json_that_a_note_has() -> None:
    value = json.dumps({"berths": [{"number": 1, "depth of the water": "four and a half"}], "tide": 3.25}, indent=1)
    index = built(note("berths.json", value))
    assert scan_value(index, [value]).sightings[0].matched > 0
    assert lines(scan_value(index, [base64(value)])) == lines(scan_value(index, [value]))


def test_what_follows_a_data_url_in_the_next_row_is_looked_at() -> None:
    value = f"data:;base64,{base64(LONG)}\n{TIDE}\ndata:;base64,{base64(FILLER * 2)[:76]}\n{BERTH}"
    assert lines(scan_value(INDEX, [value])) == {ID: [("/0", 2)]}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (base64(BYTES), "encoded or encrypted data"),
        (base64(LONG.encode() + b"\xff"), "encoded or encrypted data"),
        (base64(LONG.encode() + b"\x00"), "encoded or encrypted data"),
        (base64(LONG.encode("utf-16")), "encoded or encrypted data"),
        (base64(LONG) + "A", "encoded or encrypted data"),
        (base64(f"%PDF-1.4\n{LONG}"), "attachment"),
        (f"data:text/plain;base64,{base64(BYTES)}", "attachment"),
        (f"data:image/png;base64,{quote(base64(PNG), safe='')}", "attachment"),
        (f"data:image/jpeg;base64,{quote(base64(JPEG), safe='')}", "attachment"),
        (f"data:text/plain;base64,{quote(base64(BYTES[200:]), safe='')}", "attachment"),
        (f"data:;base64,{base64(LONG)} data:;base64,{base64(BYTES)}", "attachment"),
        (base64(json.dumps([LONG, base64(BYTES)])), "encoded or encrypted data"),
        (base64("[" * 100_000 + "]" * 100_000), "nested too deep"),
    ],
)
def test_what_is_no_text_is_said(value: str, reason: str) -> None:
    scan = scan_value(INDEX, [value, BERTH])
    assert (scan.state, scan.reasons) == ("partial", (reason,))
    assert lines(scan) == {ID: [("/1", 1)]}


def test_what_is_short_is_looked_through_as_it_stands_too() -> None:
    for text in (base64(FILLER * 3), f"see data:text/plain;base64,{base64(FILLER * 3)}"):
        assert len(text) < BLOB_LENGTH
        assert beside_blobs(text) == (f"{text}\n{FILLER * 3}", None)
        assert without_blobs(text) == text


@pytest.mark.parametrize("before", range(9))
def test_an_escape_may_be_cut_where_the_first_characters_end(before: int) -> None:
    text = f"{'x' * before}{'~' * 90}{TIDE}"  # each fourth digit is an escape
    url = f"data:;base64,{quote(base64(text), safe='')}"
    assert beside_blobs(url) == (f"{url}\n{text}", None)


def test_escapes_of_nothing_are_looked_through_as_they_stand() -> None:
    for payload in ("%" * 200, "%3D" * 200, "%2" * 200):
        assert beside_blobs(f"data:;base64,{payload}")[0] == f"data:;base64,{payload}"


def test_what_is_long_is_not() -> None:
    encoded = base64(LONG)
    assert beside_blobs(encoded) == (LONG, None)
    assert without_blobs(encoded) == ""
    assert beside_blobs(f"a data:text/plain;base64,{encoded} z") == (f"a data:text/plain;base64, z\n{LONG}", None)
    assert without_blobs(f"a data:text/plain;base64,{encoded} z") == "a data:text/plain;base64, z"


@pytest.mark.parametrize("around", ["", LONG], ids=["short", "long"])
def test_nothing_can_be_withheld_from_it_so_it_is_not_sent(around: str) -> None:
    body = json.dumps([{"data": base64(f"{around}{TEXT}")}, {"text": f"a\n{TIDE}\nb"}]).encode()
    done = redacted(body)
    assert (done.complete, STILL_THERE in done.reasons) == (False, True)
    assert lines(done.left)[ID][0][0] == "/0/data"
