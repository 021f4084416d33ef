"""SHIM until scan.py is split."""
from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from memory.exchange import Scan
from memory.index import NoteIndex
from memory.scan import scan_body as _scan_bytes


@dataclass(frozen=True, slots=True)
class Body:
    data: bytes
    content_type: str
    problem: str | None = None

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.data)
        except (ValueError, RecursionError):
            return None


def read_body(data: bytes, content_type: str = "application/json") -> Body:
    return Body(data, content_type)


def unreadable(reason: str) -> Body:
    return Body(b"", "", reason)


def scan_body(index: NoteIndex, body: Body) -> Scan:
    if body.problem:
        return Scan("unscanned", (body.problem,))
    return _scan_bytes(index, body.data, body.content_type)
