"""Headers as a plain dict: mitmproxy goes through all of them, and decodes each, for every one that is asked for."""

from __future__ import annotations

from mitmproxy import http


def plain(headers: http.Headers) -> dict[str, str]:
    """Every header by its name in lower case. What stands several times is joined by commas, as mitmproxy joins it."""
    found: dict[str, str] = {}
    for raw, value in headers.fields:
        name, text = _text(raw).lower(), _text(value)
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def has(headers: http.Headers, name: str) -> bool:
    """Whether there is such a header, in whatever letters."""
    wanted = name.lower().encode()
    return any(raw.lower() == wanted for raw, _ in headers.fields)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
