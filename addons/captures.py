"""Requests from files: a raw body, a HAR archive, a mitmproxy flow file."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mitmproxy import http
from mitmproxy.io import FlowReader

_FLOW_FILE = re.compile(rb"\d+:")
"""A flow file is a row of tnetstrings, each of which starts with its length."""


class CaptureError(Exception):
    """A file that cannot be read. The message says which and why."""


@dataclass(frozen=True, slots=True)
class Captured:
    """One request. `path` is that of its address, empty for a raw body; `encoding` is its Content-Encoding."""

    body: bytes
    path: str = ""
    content_type: str = "application/json"
    encoding: str = ""


def read_capture(file: Path) -> list[Captured]:
    """The requests in a file; whatever is no HAR archive and no flow file is one request's raw body.

    Raises:
        CaptureError: the file cannot be read, or is a flow file that is broken.

    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CaptureError(f"{file} cannot be read ({error.strerror}): name a file with a request") from error
    if _FLOW_FILE.match(data):
        try:
            return list(_from_flows(data))
        except Exception as error:  # beside its own, mitmproxy's reader lets through what a broken flow makes it raise
            raise CaptureError(f"{file}: not a complete mitmproxy flow file ({error})") from error
    if (entries := _har_entries(data)) is not None:
        return list(_from_har(entries))
    return [Captured(data)]


def _from_flows(data: bytes) -> Iterator[Captured]:
    for flow in FlowReader(io.BytesIO(data)).stream():
        if isinstance(flow, http.HTTPFlow) and flow.request.raw_content:
            headers = flow.request.headers
            yield Captured(
                flow.request.raw_content,
                flow.request.path.partition("?")[0],
                headers.get("content-type", ""),
                headers.get("content-encoding", ""),
            )


def _har_entries(data: bytes) -> list[Any] | None:
    """The entries of a HAR archive (http://www.softwareishard.com/blog/har-12-spec/); None: it is none."""
    if b'"entries"' not in data:
        return None
    try:
        entries = json.loads(data)["log"]["entries"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return entries if isinstance(entries, list) else None


def _from_har(entries: list[Any]) -> Iterator[Captured]:
    for entry in entries:
        try:
            request = entry["request"]
            posted = request["postData"]
            text = posted["text"]
        except (KeyError, TypeError):  # a request without a body, or no request at all
            continue
        if not isinstance(text, str) or not text:
            continue
        yield Captured(
            _har_bytes(text, str(posted.get("encoding", ""))),
            _path_of(str(request.get("url", ""))),
            str(posted.get("mimeType", "application/json")),
        )


def _path_of(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:  # brackets that hold no IPv6 address
        return ""


def _har_bytes(text: str, encoding: str) -> bytes:
    if encoding == "base64":
        try:
            return base64.b64decode(text)
        except ValueError:  # it is not, whatever the archive says
            pass
    return text.encode("utf-8", "surrogatepass")
