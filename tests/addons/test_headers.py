"""Headers as a plain dict, and the same as mitmproxy has them."""

from __future__ import annotations

from mitmproxy import http

from addons.headers import has, plain

SENT = http.Headers(
    [
        (b"Host", b"api.anthropic.com"),
        (b"X-API-Key", b"one"),
        (b"x-api-key", b"two"),
        (b"X-Tide", b"h\xf8y"),
        (b"Empty", b""),
    ]
)


def test_every_header_is_there_as_mitmproxy_gives_it() -> None:
    assert plain(SENT) == {
        "host": "api.anthropic.com",
        "x-api-key": "one, two",
        "x-tide": "h\udcf8y",
        "empty": "",
    }
    assert plain(SENT) == {name.lower(): SENT[name] for name in SENT}
    assert plain(http.Headers()) == {}


def test_a_header_is_there_in_whatever_letters() -> None:
    assert [has(SENT, name) for name in ("X-Api-Key", "empty", "HOST", "tide")] == [True, True, True, False]
