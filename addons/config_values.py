"""The values a person writes in mitm.yaml, read from their text: sizes, durations, addresses, paths.

Pure functions. Each raises ValueError, whose message goes on after the value: "is no size".
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

KIB = 1024
MIB = 1024 * KIB
HOUR = 60 * 60
DAY = 24 * HOUR

_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([a-z]*)", re.IGNORECASE | re.ASCII)
_SIZE_UNITS = {
    "": 1, "b": 1,
    "kib": KIB, "mib": MIB, "gib": 1024 * MIB,
    "kb": 10**3, "mb": 10**6, "gb": 10**9,
}  # fmt: skip
_DURATION_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": float(DAY)}
_CLOCK = re.compile(r"(?:(\d{1,6})\.)?(\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?", re.ASCII)
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_.])?", re.ASCII)
_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*", re.ASCII)
_DOLLAR = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))", re.ASCII)
_PERCENT = re.compile(r"%([A-Za-z_]\w*)%", re.ASCII)


class Address(NamedTuple):
    """Where to listen: an IP address on loopback and a port. Port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ConnectTo(NamedTuple):
    """Another address for a provider's traffic. The path, the Host header and the TLS name stay the provider's."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{Address(self.host, self.port)}"


class Upstream(NamedTuple):
    """Where a reverse listener leads. `prefix` goes before the path of each request; empty, or like `/api/v1`."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    def __str__(self) -> str:
        port = {"http": 80, "https": 443}[self.scheme]
        host = str(Address(self.host, self.port))
        return f"{self.scheme}://{host.removesuffix(f':{self.port}') if self.port == port else host}{self.prefix}"


def parse_size(text: str) -> int:
    """Bytes. `64MiB`, `1.5 GiB`, `100MB`, or a plain number of bytes."""
    found = _AMOUNT.fullmatch(text.strip())
    unit = _SIZE_UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise ValueError("is no size")
    size = int(float(found[1]) * unit) if "." in found[1] else int(found[1]) * unit
    if size < 1:
        raise ValueError("is less than a byte")
    return size


def parse_duration(text: str) -> float:
    """Seconds. `1m`, `90d`, `1.5h`, `500ms`, `00:01:00`, `1.00:00:00` (a day first), or a plain number of seconds."""
    if clock := _CLOCK.fullmatch(text.strip()):
        days, hours, minutes, seconds, fraction = clock.groups()
        if int(hours) > 23 or int(minutes) > 59 or int(seconds) > 59:
            raise ValueError("is no time of day")
        whole = int(days or 0) * DAY + int(hours) * 3600 + int(minutes) * 60 + int(seconds)
        return whole + float(f"0.{fraction or 0}")
    found = _AMOUNT.fullmatch(text.strip())
    unit = _DURATION_UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise ValueError("is no duration")
    return float(found[1]) * unit


def parse_listen(text: str) -> Address:
    """`127.0.0.1:8080`, `[::1]:8080` or `localhost:8080` (which is 127.0.0.1). Nothing beyond this machine."""
    host, colon, port_text = text.strip().rpartition(":")
    if not colon or not port_text.isascii() or not port_text.isdecimal() or len(port_text) > 5:
        raise ValueError("is no address with a port")
    port = int(port_text)
    if port > 65535:
        raise ValueError("has a port above 65535")
    if host.lower() == "localhost":
        return Address("127.0.0.1", port)
    bracketed = host.startswith("[") and host.endswith("]")
    if host in {"", "*"}:
        raise ValueError("would be reachable from other machines")
    try:
        address = ipaddress.ip_address(host[1:-1] if bracketed else host)
    except ValueError:
        raise ValueError("has no IP address before the port") from None
    if bracketed != (address.version == 6):
        raise ValueError("is not written right: an IPv6 address, and only that, stands in brackets")
    if not address.is_loopback:
        raise ValueError("would be reachable from other machines")
    return Address(str(address), port)


def parse_connect_to(text: str) -> ConnectTo:
    """`http://127.0.0.1:9911` or `https://gateway.example`: a scheme, a host, perhaps a port, and nothing else."""
    found = _parse_url(text)
    if found.prefix:
        raise ValueError("goes on after the port, but the path stays the provider's own")
    return ConnectTo(found.scheme, found.host, found.port)


def parse_upstream(text: str) -> Upstream:
    """`https://api.anthropic.com`, `http://127.0.0.1:11434`, `https://openrouter.ai/api/v1`: a path may follow."""
    found = _parse_url(text)
    if not _PATH.fullmatch(found.prefix):
        raise ValueError("has a path that is not written as in a URL")
    return found


def _parse_url(text: str) -> Upstream:
    try:
        url = urlsplit(text.strip())
        port = url.port
    except ValueError:
        raise ValueError("is no URL") from None
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ValueError("is no http:// or https:// URL")
    if ":" not in url.hostname and not _HOST.fullmatch(url.hostname):
        raise ValueError("has no host name or address that could be reached")
    if url.username is not None or url.password is not None:
        raise ValueError("holds a user name or a password")
    if url.query or url.fragment:
        raise ValueError("goes on after the path")
    if port == 0:
        raise ValueError("has port 0, where nothing can be reached")
    prefix = url.path.rstrip("/")
    return Upstream(url.scheme, url.hostname, port or (443 if url.scheme == "https" else 80), prefix)


def expand_path(text: str, base: Path, environ: Mapping[str, str]) -> Path:
    """An absolute path. `~`, `$VAR`, `${VAR}` and `%VAR%` are replaced; a relative path starts at `base`.

    A variable that is not set is an error: the path would silently be another one.
    """
    if not text.strip():
        raise ValueError("is empty")
    if "\0" in text:
        raise ValueError("holds a NUL character")

    def value(found: re.Match[str]) -> str:
        name = next(group for group in found.groups() if group)
        if name not in environ:
            raise ValueError(f"names the variable {name}, which is not set")
        return environ[name]

    expanded = os.path.expanduser(_PERCENT.sub(value, _DOLLAR.sub(value, text)))  # noqa: PTH111 (no error of its own)
    if expanded.startswith("~"):
        raise ValueError(f"names a home folder that there is not: {expanded.partition('/')[0]}")
    return Path(os.path.normpath(base / expanded))
