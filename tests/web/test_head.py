"""HEAD says what GET says, without a body (RFC 9110, 9.3.2): `curl -I` and programs that check links ask so."""

import re
from typing import Any

import pytest

from tests.web.test_docs import DOCUMENTED

READS = [
    re.sub(r"[{}]", "", path) for (method, path), (who, _) in DOCUMENTED.items() if (method, who[0]) == ("GET", "r")
]
ADMINS = [
    re.sub(r"[{}]", "", path) for (method, path), (who, _) in DOCUMENTED.items() if (method, who[0]) == ("GET", "a")
]
VARIES = {"Date", "Transfer-Encoding", "Content-Disposition"}
"""What two answers differ in all the same: the moment, and that a body which is sent in pieces has no length."""


def told(answer: Any) -> tuple[int, dict[str, str]]:
    return answer.status, {name: value for name, value in answer.headers.items() if name not in VARIES}


@pytest.mark.parametrize("path", [*READS, *ADMINS, "/api/nothing", "/api/activity?limit=none"])
async def test_head_says_what_get_says(dashboard: Any, path: str) -> None:
    for token in ("admin-token-of-the-tests", "read-only-token-of-the-tests", None):
        async with dashboard.ask("HEAD", path, token=token) as answer:
            head = told(answer)
            assert await answer.read() == b""
        async with dashboard.ask("GET", path, token=token) as answer:
            assert head == told(answer)
    assert dashboard.services.events.readers <= 1  # the one of GET


async def test_head_for_what_a_browser_has_is_told_so(dashboard: Any) -> None:
    async with dashboard.ask("HEAD", "/api/memory") as answer:
        tag = answer.headers["ETag"]
    for method in ("HEAD", "GET"):
        async with dashboard.ask(method, "/api/memory", headers={"If-None-Match": tag}) as answer:
            assert answer.status == 304


async def test_head_keeps_the_connection(dashboard: Any) -> None:
    for path in ("/api/events", "/api/activity/export", "/api/status"):
        async with dashboard.ask("HEAD", path) as answer:
            assert answer.status == 200
    assert dashboard.services.events.readers == 0
    async with dashboard.ask("GET", "/api/status") as answer:
        assert (await answer.json())["role"] == "admin"


async def test_a_browser_without_a_cookie_hears_that_there_is_a_page(dashboard: Any) -> None:
    async with dashboard.ask("HEAD", "/live", token=None, headers={"Accept": "text/html"}) as answer:
        assert (answer.status, answer.content_type, await answer.read()) == (401, "text/html", b"")


async def test_head_changes_nothing(dashboard: Any) -> None:
    for method, path in DOCUMENTED:
        if method != "GET" and ("GET", path) not in DOCUMENTED:
            async with dashboard.ask("HEAD", re.sub(r"[{}]", "", path)) as answer:
                assert answer.status == 405, path
