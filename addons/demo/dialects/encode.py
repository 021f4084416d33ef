"""The ways providers write JSON. Each differs in spaces and line ends, and a reader must not care."""

from __future__ import annotations

import json
from typing import Any


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def indented(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"


def event(name: str | None, data: bytes, end: bytes = b"\n") -> bytes:
    """One server-sent event; without its name where the provider sends none."""
    head = b"event: " + name.encode() + end if name else b""
    return head + b"data: " + data + end + end
