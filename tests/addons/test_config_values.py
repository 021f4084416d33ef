"""How sizes, durations, addresses and paths are written in mitm.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from addons.config import (
    Address,
    ConnectTo,
    Upstream,
)
from addons.config_values import expand_path, parse_connect_to, parse_duration, parse_listen, parse_size, parse_upstream


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("0064", 64), ("64MiB", 67_108_864), ("100 mib", 104_857_600), ("1KiB", 1024), ("2GiB", 2_147_483_648),
     ("1kB", 1000), ("5MB", 5_000_000), ("1GB", 10**9), ("12b", 12), ("0.5KiB", 512), ("1.5 MiB", 1_572_864)],
)  # fmt: skip
def test_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "MiB", "-1", "1 M", "1e3", "1,5MB", "0", "0.1", "٣", "9" * 5000, "1MiBs", "1_000"]
)
def test_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is (no size|less than a byte)$"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("90", 90.0), ("1.5", 1.5), ("500ms", 0.5), ("30s", 30.0), ("1m", 60.0), ("3h", 10_800.0),
     ("90d", 7_776_000.0), ("1.5 H", 5400.0), ("00:01:00", 60.0), ("1:02:03", 3723.0), ("23:59:59.5", 86_399.5),
     ("2.01:00:00", 176_400.0)],
)  # fmt: skip
def test_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "m", "-1m", "1 month", "1:30", "24:00:00", "00:60:00", "00:00:60", "1h30m", "inf"]
)
def test_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is no (duration|time of day)$"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "address", "shown"),
    [
        ("127.0.0.1:8080", Address("127.0.0.1", 8080), "127.0.0.1:8080"),
        ("127.0.0.9:1", Address("127.0.0.9", 1), "127.0.0.9:1"),
        ("[::1]:8080", Address("::1", 8080), "[::1]:8080"),
        ("[0:0:0:0:0:0:0:1]:0", Address("::1", 0), "[::1]:0"),
        ("LOCALHOST:65535", Address("127.0.0.1", 65535), "127.0.0.1:65535"),
    ],
)
def test_listen(text: str, address: Address, shown: str) -> None:
    assert parse_listen(text) == address
    assert str(address) == shown


@pytest.mark.parametrize(
    "text", ["127.1:80", "2130706433:80", "0x7f.1:80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:٣", "[127.0.0.1]:80",
             "[::1]", "10.0.0.1:80", "[fe80::1]:80", "127.0.0.1.evil.example:80", "localhost.:80"]
)  # fmt: skip
def test_no_listen(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(is|has|would) "):
        parse_listen(text)


@pytest.mark.parametrize(
    ("text", "target", "shown"),
    [
        ("http://127.0.0.1:9911", ConnectTo("http", "127.0.0.1", 9911), "http://127.0.0.1:9911"),
        ("https://Gateway.example/", ConnectTo("https", "gateway.example", 443), "https://gateway.example:443"),
        ("http://gateway", ConnectTo("http", "gateway", 80), "http://gateway:80"),
        ("http://[::1]:1", ConnectTo("http", "::1", 1), "http://[::1]:1"),
    ],
)
def test_connect_to(text: str, target: ConnectTo, shown: str) -> None:
    assert parse_connect_to(text) == target
    assert str(target) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no http:// or https:// URL"),
        ("gateway.example", "is no http:// or https:// URL"),
        ("ftp://a.example", "is no http:// or https:// URL"),
        ("http://", "is no http:// or https:// URL"),
        ("http://a.example:x", "is no URL"),
        ("http://a.example:99999", "is no URL"),
        ("http://a.example:0", "has port 0, where nothing can be reached"),
        ("http://[::1", "is no URL"),
        ("http://a b.example", "has no host name or address that could be reached"),
        ("http://me:secret@a.example", "holds a user name or a password"),
        ("http://a.example/v1", "goes on after the port, but the path stays the provider's own"),
        ("http://a.example?x=1", "goes on after the path"),
    ],
)
def test_no_connect_to(text: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_connect_to(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/a/b", "/a/b"),
        ("b/c.md", "/base/b/c.md"),
        ("./x/../y", "/base/y"),
        ("$A/x", "/value/x"),
        ("${A}x", "/valuex"),
        ("%A%/x", "/value/x"),
        ("/100% sure/50%", "/100% sure/50%"),
        ("/price $5", "/price $5"),
        ("/a~b", "/a~b"),
        ("$TILDE", "/base/it's"),
    ],
)
def test_path(text: str, path: str) -> None:
    assert expand_path(text, Path("/base"), {"A": "/value", "TILDE": "it's"}) == Path(path)


@pytest.mark.parametrize(
    ("text", "upstream", "written"),
    [
        ("https://api.anthropic.com", Upstream("https", "api.anthropic.com", 443), "https://api.anthropic.com"),
        ("http://h.example:80/", Upstream("http", "h.example", 80), "http://h.example"),
        ("http://[::1]:11434", Upstream("http", "::1", 11434), "http://[::1]:11434"),
        ("https://[::1]", Upstream("https", "::1", 443), "https://[::1]"),
        ("https://h.example/a/%20/", Upstream("https", "h.example", 443, "/a/%20"), "https://h.example/a/%20"),
    ],
)
def test_an_upstream(text: str, upstream: Upstream, written: str) -> None:
    assert parse_upstream(text) == upstream
    assert str(upstream) == written
