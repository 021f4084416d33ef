"""Requests out of files."""

from __future__ import annotations

import base64
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mitmproxy.io import FlowWriter
from mitmproxy.test import tflow

from addons.captures import Captured, CaptureError, read_capture
from tests.addons.parts import MESSAGES, flow_to

BODY = b'{"model": "claude-test", "messages": []}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "capture"


def written(file: Path, data: bytes) -> list[Captured]:
    file.write_bytes(data)
    return read_capture(file)


def har(*requests: Any) -> bytes:
    return json.dumps({"log": {"version": "1.2", "entries": [{"request": request} for request in requests]}}).encode()


def posted(url: str = f"{MESSAGES}?beta=true", **post: Any) -> dict[str, Any]:
    return {"method": "POST", "url": url, "postData": {"mimeType": "application/json", **post}}


@pytest.mark.parametrize(
    "data",
    [
        BODY,
        b"",
        b"plain text",
        b"\xff\xfe",
        b'{"entries": []}',
        b'{"log": {"entries": {}}}',
        b'{"log": [{"entries": 1}]}',
        b'{"log": {"entries": [}',
        b'[{"entries": 1}]',
        b"12 o'clock: high tide",
        b'"entries"' + b"[" * 100_000,
    ],
)
def test_whatever_is_nothing_else_is_one_raw_body(file: Path, data: bytes) -> None:
    assert written(file, data) == [Captured(data, path="", content_type="application/json", encoding="")]


def test_a_har_archive(file: Path) -> None:
    text = BODY.decode()
    data = har(
        posted(text=text),
        {"method": "GET", "url": "https://api.anthropic.com/v1/models"},
        posted("https://api.openai.com/v1/responses", text="a=b", mimeType="application/x-www-form-urlencoded"),
        posted(text=""),
        posted(params=[{"name": "a", "value": "b"}]),
        posted(text=7),
    )
    assert written(file, data) == [
        Captured(BODY, "/v1/messages", "application/json"),
        Captured(b"a=b", "/v1/responses", "application/x-www-form-urlencoded"),
    ]


def test_a_har_archive_may_start_with_a_byte_order_mark(file: Path) -> None:
    assert written(file, b"\xef\xbb\xbf" + har(posted(text="{}"))) == [Captured(b"{}", "/v1/messages")]


@pytest.mark.parametrize(
    ("text", "encoding", "body"),
    [
        (base64.b64encode(b"\x1f\x8b\xff").decode(), "base64", b"\x1f\x8b\xff"),
        (base64.b64encode(b"{}").decode(), "", b"e30="),
        ("not base64", "base64", b"not base64"),
        ("Überfahrt", "base64", "Überfahrt".encode()),
        ("Überfahrt", "", "Überfahrt".encode()),
        ("half \ud800", "", b"half \xed\xa0\x80"),
        ("text", 7, b"text"),
    ],
)
def test_bodies_in_a_har_archive(file: Path, text: str, encoding: Any, body: bytes) -> None:
    assert written(file, har(posted(text=text, encoding=encoding))) == [Captured(body, "/v1/messages")]


@pytest.mark.parametrize(
    "broken", [None, 7, "text", [], {}, {"postData": None}, {"postData": "text"}, {"postData": []}]
)
def test_entries_of_another_shape_are_passed_over(file: Path, broken: Any) -> None:
    assert written(file, har(broken, posted(text="{}"))) == [Captured(b"{}", "/v1/messages")]


@pytest.mark.parametrize("url", ["http://[no", 7, None, ""])
def test_a_har_entry_without_a_proper_address_has_a_body_all_the_same(file: Path, url: Any) -> None:
    [captured] = written(file, har(posted(url, text="{}")))
    assert captured.body == b"{}"


# ---- flow files


def flow_file(*flows: Any) -> bytes:
    data = io.BytesIO()
    writer = FlowWriter(data)
    for flow in flows:
        writer.add(flow)
    return data.getvalue()


def test_a_flow_file(file: Path) -> None:
    zipped = gzip.compress(BODY)
    data = flow_file(
        flow_to(f"{MESSAGES}?beta=true", BODY, status=200),
        flow_to(method="GET"),
        tflow.ttcpflow(),
        flow_to("https://api.openai.com/v1/responses", zipped, headers={"Content-Encoding": "gzip"}),
        flow_to("https://api.openai.com/v1/files", b"a=b", headers={"Content-Type": "text/plain"}),
    )
    assert written(file, data) == [
        Captured(BODY, "/v1/messages", "application/json", ""),
        Captured(zipped, "/v1/responses", "application/json", "gzip"),
        Captured(b"a=b", "/v1/files", "text/plain", ""),
    ]


def test_a_flow_file_that_is_cut_off_is_refused(file: Path) -> None:
    data = flow_file(flow_to(body=BODY), flow_to(body=BODY))
    with pytest.raises(CaptureError) as caught:
        written(file, data[:-10])
    assert str(caught.value) == f"{file}: not a complete mitmproxy flow file (Invalid data format.)"


def test_a_flow_without_one_of_its_parts_is_refused(file: Path) -> None:
    data = flow_file(flow_to(body=BODY)).replace(b"19:timestamp_tcp_setup", b"19:timestamp_tcp_Setup")
    with pytest.raises(CaptureError) as caught:
        written(file, data)
    assert str(caught.value) == f"{file}: not a complete mitmproxy flow file ('timestamp_tcp_setup')"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(), st.integers(0, 3000), st.binary(max_size=8))
@example(b"0:}", 0, b"")
@example(b"4:true!", 0, b"")
@example(b"99999999999:", 0, b"")
@example(b"4:" * 5000, 0, b"")
def test_a_broken_file_is_never_more_than_a_capture_error(file: Path, junk: bytes, at: int, put: bytes) -> None:
    whole = flow_file(flow_to(body=BODY))
    for data in (junk, b"7:" + junk, whole[:at] + put + whole[at + len(put) :]):
        said = ""
        try:
            written(file, data)
        except CaptureError as error:
            said = str(error)
        assert not said or said.startswith(f"{file}: not a complete mitmproxy flow file (")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    for file, reason in ((missing, "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(CaptureError) as caught:
            read_capture(file)
        assert str(caught.value) == f"{file} cannot be read ({reason}): name a file with a request"
