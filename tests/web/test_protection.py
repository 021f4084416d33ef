"""Each point of dashboard.md, "Protection", against a running dashboard."""

import asyncio
import logging
import re
from http.cookies import SimpleCookie
from typing import Any

import pytest

from memory.notes import MemoryDocument
from tests.memory.exchanges import finished
from tests.web.test_docs import DOCUMENTED

ADMIN = "admin-token-of-the-tests"
READ_ONLY = "read-only-token-of-the-tests"
READS = ["/", "/live", "/api/memory", "/api/events", "/api/activity", "/api/status", "/static/nothing.js", "/nothing"]
ADMIN_WRITES = ["/api/memory/refresh", "/api/memory/exposure/reset"]
FOREIGN = {"Sec-Fetch-Site": "cross-site"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "worker-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types mitmemory"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "mitmemory",
    "Cache-Control": "no-store",
}


async def error_of(answer: Any) -> tuple[int, str]:
    body = await answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert body["error"]["message"]
    return answer.status, body["error"]["code"]


async def raw(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize("path", READS)
async def test_without_a_token_nobody_reads(dashboard: Any, path: str) -> None:
    async with dashboard.ask("GET", path, token=None) as answer:
        assert await error_of(answer) == (401, "unauthorized")
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="mitmemory"'
    assert dashboard.shelf.loads == 0


@pytest.mark.parametrize("path", ADMIN_WRITES)
async def test_without_a_token_nobody_writes(dashboard: Any, path: str) -> None:
    async with dashboard.ask("POST", path, token=None) as answer:
        assert await error_of(answer) == (401, "unauthorized")
    assert dashboard.shelf.loads == 0


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", f"Basic {ADMIN}", f"Bearer {ADMIN}x", f"Bearer {ADMIN[:-1]}", ADMIN, "Bearer é"],
)
async def test_a_wrong_token_is_none_even_beside_a_good_cookie(dashboard: Any, authorization: str) -> None:
    cookie = await dashboard.log_in()
    async with dashboard.ask(
        "GET", "/api/status", token=None, headers=cookie | {"Authorization": authorization}
    ) as answer:
        assert await error_of(answer) == (401, "unauthorized")


@pytest.mark.parametrize("token", [ADMIN, READ_ONLY])
@pytest.mark.parametrize("path", ["/api/memory", "/api/activity", "/api/status"])
async def test_both_tokens_read(dashboard: Any, token: str | None, path: str) -> None:
    async with dashboard.ask("GET", path, token=token) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("path", ADMIN_WRITES)
async def test_only_an_admin_writes(dashboard: Any, path: str) -> None:
    async with dashboard.ask("POST", path, token=READ_ONLY) as answer:
        assert await error_of(answer) == (403, "admin_only")
    cookie = await dashboard.log_in("read_only")
    async with dashboard.ask("POST", path, token=None, headers=cookie | {"Origin": dashboard.origin}) as answer:
        assert await error_of(answer) == (403, "admin_only")
    assert dashboard.shelf.loads == 0
    async with dashboard.ask("POST", path) as answer:
        assert answer.status == 200


async def test_a_browser_without_a_cookie_gets_a_page_that_says_what_to_do(dashboard: Any) -> None:
    async with dashboard.ask("GET", "/live", token=None, headers={"Accept": "text/html,*/*;q=0.8"}) as answer:
        assert answer.status == 401
        assert answer.content_type == "text/html"
        text = await answer.text()
    assert "Open the link from the terminal" in text
    assert "refresh" not in text
    assert not re.search(r"<script|<style|style=|\son\w+=", text)


async def test_a_browser_led_here_by_another_site_asks_once_more(dashboard: Any) -> None:
    """SameSite=Strict holds the cookie back on that first request; the second is the page's own."""
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "cross-site"}
    async with dashboard.ask("GET", '/live"><b>', token=None, headers=headers) as answer:
        text = await answer.text()
    assert '<meta http-equiv="refresh" content="0; url=/live&quot;&gt;&lt;b&gt;">' in text


@pytest.mark.parametrize("path", ["/", "/api/status", "/static/nothing.js", "/api/nothing"])
@pytest.mark.parametrize("token", [ADMIN, None])
async def test_every_answer_has_the_headers(dashboard: Any, path: str, token: str | None) -> None:
    for accept in ("*/*", "text/html"):
        async with dashboard.ask("GET", path, token=token, headers={"Accept": accept}) as answer:
            kept = "no-cache" if path == "/" and answer.status == 200 else "no-store"
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS | {"Cache-Control": kept}
            assert not any(name.lower().startswith("access-control-") for name in answer.headers)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.1:{port}", "evil.example:{port}", "localhost:1", ""]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_foreign_host_is_misdirected(dashboard: Any, host: str, method: str) -> None:
    headers = {"Host": host.format(port=dashboard.port), "Origin": f"http://{host}"}
    async with dashboard.ask(method, "/api/memory/refresh", headers=headers) as answer:
        assert await error_of(answer) == (421, "foreign_host")
    assert dashboard.shelf.loads == 0


@pytest.mark.parametrize("host", ["localhost:{port}", "[::1]:{port}", "LocalHost:{port}"])
async def test_other_names_of_this_machine_are_known(dashboard: Any, host: str) -> None:
    async with dashboard.ask("GET", "/api/status", headers={"Host": host.format(port=dashboard.port)}) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    "head",
    [
        "GET http://127.0.0.1:{port}/api/status HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n",
        "GET http://evil.example/api/status HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n",
        "GET /api/status HTTP/1.0\r\n",
        "CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n",
    ],
)
async def test_it_is_no_proxy_and_needs_one_host(dashboard: Any, head: str) -> None:
    request = head.format(port=dashboard.port) + f"Authorization: Bearer {ADMIN}\r\nConnection: close\r\n\r\n"
    assert b" 421 " in (await raw(dashboard.port, request.encode())).partition(b"\r\n")[0]


async def test_two_hosts_are_refused(dashboard: Any) -> None:
    request = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{dashboard.port}\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    status = (await raw(dashboard.port, request.encode())).split(b" ")[1]
    assert status in (b"400", b"421")


@pytest.mark.parametrize(
    ("origin", "site"),
    [
        ("http://evil.example", None),
        ("null", None),
        ("http://127.0.0.1:1", "same-site"),
        ("http://localhost:{port}", None),
        ("http://127.0.0.1:{port}.evil.example", None),
        (None, None),
        (None, "same-origin"),
        ("http://127.0.0.1:{port}", "same-site"),
        ("http://127.0.0.1:{port}", "cross-site"),
        ("http://127.0.0.1:{port}", "none"),
    ],
)
async def test_writes_with_a_cookie_need_our_own_origin(dashboard: Any, origin: str | None, site: str | None) -> None:
    headers = await dashboard.log_in()
    if origin:
        headers["Origin"] = origin.format(port=dashboard.port)
    if site:
        headers["Sec-Fetch-Site"] = site
    async with dashboard.ask("POST", "/api/memory/refresh", token=None, headers=headers) as answer:
        assert await error_of(answer) == (403, "foreign_origin")
    assert dashboard.shelf.loads == 0


@pytest.mark.parametrize("site", [None, "same-origin"])
async def test_our_own_page_writes(dashboard: Any, site: str | None) -> None:
    headers = await dashboard.log_in() | {"Origin": dashboard.origin} | ({"Sec-Fetch-Site": site} if site else {})
    async with dashboard.ask("POST", "/api/memory/refresh", token=None, headers=headers) as answer:
        assert answer.status == 200


async def test_a_program_with_a_token_may_not_come_from_another_site_either(dashboard: Any) -> None:
    async with dashboard.ask("POST", "/api/memory/refresh", headers={"Origin": "http://evil.example"}) as answer:
        assert await error_of(answer) == (403, "foreign_origin")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_sites_page_does_not_read_either(dashboard: Any, site: str | None) -> None:
    headers = await dashboard.log_in() | {"Sec-Fetch-Site": site}
    async with dashboard.ask("GET", "/api/memory", token=None, headers=headers) as answer:
        assert await error_of(answer) == (403, "foreign_origin")


@pytest.mark.parametrize("path", ["/api/memory", "/api/events"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
async def test_nor_where_its_browser_names_only_the_origin(dashboard: Any, path: str, origin: str) -> None:
    """As browsers before 2023 do, which send no Sec-Fetch-Site."""
    headers = await dashboard.log_in() | {"Origin": origin}
    async with dashboard.ask("GET", path, token=None, headers=headers) as answer:
        assert await error_of(answer) == (403, "foreign_origin")


async def test_a_form_of_another_site_is_refused(dashboard: Any) -> None:
    headers = await dashboard.log_in() | {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    async with dashboard.ask(
        "POST", "/api/memory/exposure/reset", token=None, headers=headers, data={"a": "b"}
    ) as answer:
        assert await error_of(answer) == (403, "foreign_origin")


@pytest.mark.parametrize(
    "content_type",
    ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "application/jsonx", ""],
)
async def test_writes_are_json(dashboard: Any, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    async with dashboard.ask("POST", "/api/memory/refresh", headers=headers, data=b"{}") as answer:
        assert await error_of(answer) == (415, "json_only")
    assert dashboard.shelf.loads == 0


async def test_a_preflight_gets_no_leave(dashboard: Any) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    async with dashboard.ask("OPTIONS", "/api/memory/refresh", token=None, headers=headers) as answer:
        assert answer.status == 401
        assert "Access-Control-Allow-Origin" not in answer.headers


async def test_the_link_becomes_a_cookie_once(dashboard: Any) -> None:
    link = dashboard.sidecar.link()
    assert re.fullmatch(rf"http://127\.0\.0\.1:{dashboard.port}/\?code=[\w-]{{43}}", link)
    code = link.partition("=")[2]
    async with dashboard.session.get(link, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        set_cookie = answer.headers["Set-Cookie"]
    assert code not in set_cookie
    [(name, morsel)] = SimpleCookie(set_cookie).items()
    assert name == f"mitmemory-{dashboard.port}"
    assert {key: value for key, value in morsel.items() if value} == {
        "httponly": True,
        "samesite": "Strict",
        "path": "/",
        "max-age": "2592000",
    }
    cookie = {"Cookie": f"{name}={morsel.value}"}
    async with dashboard.ask("GET", "/api/status", token=None, headers=cookie) as answer:
        assert (answer.status, (await answer.json())["role"]) == (200, "admin")
    async with dashboard.session.get(link, allow_redirects=False, headers={"Accept": "text/html"}) as answer:
        assert answer.status == 401
        assert "Set-Cookie" not in answer.headers
        assert "used already" in await answer.text()
    async with dashboard.session.get(link, allow_redirects=False, headers=cookie) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        assert "Set-Cookie" not in answer.headers


async def test_asking_what_a_link_is_does_not_use_it_up(dashboard: Any) -> None:
    link = dashboard.sidecar.link("read_only")
    async with dashboard.session.head(link, allow_redirects=False) as answer:
        assert answer.status == 401
    async with dashboard.session.get(link, allow_redirects=False) as answer:
        assert answer.status == 303


@pytest.mark.parametrize("query", ["code=", "code=x", f"code={ADMIN}", f"token={ADMIN}", "code=%00%ff"])
async def test_nothing_else_opens_the_door(dashboard: Any, query: str) -> None:
    async with dashboard.ask("GET", f"/?{query}", token=None) as answer:
        assert await error_of(answer) == (401, "unauthorized")


async def test_a_link_of_another_page_is_no_link(dashboard: Any) -> None:
    code = dashboard.sidecar.link().partition("?")[2]
    async with dashboard.ask("GET", f"/live?{code}", token=None) as answer:
        assert answer.status == 401
    async with dashboard.ask("GET", f"/?{code}", token=None, headers={"Host": "evil.example"}) as answer:
        assert answer.status == 421
    async with dashboard.ask("GET", f"/?{code}", token=None) as answer:
        assert answer.status == 303


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/../../web/app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2f%2e%2e%2fpyproject.toml",
        "/static/..%5capp.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/./../app.py",
        "/static/x%00.js",
        "/static/",
        "/../etc/passwd",
    ],
)
async def test_no_way_out_of_the_static_folder(dashboard: Any, path: str) -> None:
    request = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{dashboard.port}\r\nAuthorization: Bearer {ADMIN}\r\n"
        "Connection: close\r\n\r\n"
    )
    answer = await raw(dashboard.port, request.encode())
    assert answer.split(b" ")[1] in (b"403", b"404")
    assert b"create_app" not in answer
    assert b"root:" not in answer
    assert b'{"error": {"code": "' in answer


@pytest.mark.parametrize("value", ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "%ff", "' OR 1=1 --"])
@pytest.mark.parametrize("name", ["note", "client", "model", "before"])
async def test_ids_are_only_compared(dashboard: Any, name: str, value: str) -> None:
    async with dashboard.ask("GET", f"/api/activity?{name}={value}") as answer:
        assert (answer.status, await answer.json()) == (200, {"entries": [], "next": None})


async def test_no_secret_in_an_answer_or_in_the_log(dashboard: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    dashboard.services.note_library.scan = None  # makes the next request fail, with a traceback in the log
    link = dashboard.sidecar.link()
    code = link.partition("=")[2]
    said = b""
    for token in (ADMIN, READ_ONLY, None):
        for path in (*READS, f"/live?code={code}", f"/api/activity?{ADMIN}=1"):
            if path != "/api/events":
                async with dashboard.ask("GET", path, token=token) as answer:
                    if "code=" not in path and ADMIN not in path:
                        said += str(answer.headers).encode() + await answer.read()
    async with dashboard.session.get(link, allow_redirects=False) as answer:
        session = answer.headers["Set-Cookie"].partition("=")[2].partition(";")[0]
    await raw(dashboard.port, f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\x01\r\n\r\n".encode())
    assert "GET /api/memory failed" in caplog.text
    for secret in (ADMIN, READ_ONLY, code, session):
        assert secret.encode() not in said
        assert secret not in caplog.text


# Every address there is, those that are added later among them: docs/api.md names each, which tests/web/test_docs.py sees to.

EVERY = [(method, re.sub(r"[{}]", "", path)) for method, path in DOCUMENTED]
ADMINS = [(method, re.sub(r"[{}]", "", path)) for (method, path), (who, _) in DOCUMENTED.items() if who == "admin"]
CLIENTS = [(method, re.sub(r"[{}]", "", path)) for (method, path), (who, _) in DOCUMENTED.items() if who == "client"]
WRITES = [(method, path) for method, path in EVERY if method != "GET" and (method, path) not in CLIENTS]
WITH_IDS = [(method, path) for method, path in DOCUMENTED if "{" in path]
OUTSIDE = [
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e",
    "..%5c..",
    "%00",
    "%2fetc%2fpasswd",
    "x%2f..%2f..",
    "%ff%fe",
    "'%20OR%201=1--",
]


@pytest.mark.parametrize(("method", "path"), EVERY)
async def test_every_address_needs_a_token(dashboard: Any, method: str, path: str) -> None:
    async with dashboard.ask(method, path, token=None) as answer:
        assert await error_of(answer) == (401, "unauthorized")
    stale = {"Cookie": f"mitmemory-{dashboard.port}=stale", "Origin": dashboard.origin}
    async with dashboard.ask(method, path, token=None, headers=stale) as answer:
        assert await error_of(answer) == (401, "unauthorized")
    assert dashboard.shelf.loads == 0


@pytest.mark.parametrize(("method", "path"), ADMINS)
async def test_every_address_of_an_admin_is_closed_to_the_reader(dashboard: Any, method: str, path: str) -> None:
    async with dashboard.ask(method, path, token=READ_ONLY) as answer:
        assert await error_of(answer) == (403, "admin_only")
    cookie = await dashboard.log_in("read_only") | {"Origin": dashboard.origin}
    async with dashboard.ask(method, path, token=None, headers=cookie) as answer:
        assert await error_of(answer) == (403, "admin_only")
    assert dashboard.shelf.loads == 0


def test_whatever_changes_something_is_an_admins() -> None:
    assert {(method, path) for method, path in DOCUMENTED if method != "GET"} == {
        key for key, (who, _) in DOCUMENTED.items() if who != "read" and key[0] != "GET"
    }
    assert {path for _, path in CLIENTS} == {"/mcp/client"}


@pytest.mark.parametrize(("method", "path"), CLIENTS)
async def test_no_token_or_cookie_of_the_dashboard_opens_what_is_a_clients(
    dashboard: Any, method: str, path: str
) -> None:
    """And no page but the dashboard's own asks there; the rest is in test_mcp.py."""
    cookie = await dashboard.log_in()
    for token, headers in ((ADMIN, {}), (READ_ONLY, {}), (None, cookie | {"Origin": dashboard.origin}), (None, cookie)):
        async with dashboard.ask(method, path, token=token, headers=headers) as answer:
            assert await error_of(answer) == (401, "unauthorized")
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": dashboard.origin} | FOREIGN):
        async with dashboard.ask(method, path, headers=headers) as answer:
            assert await error_of(answer) == (403, "foreign_origin")


def test_the_addresses_are_all_looked_at() -> None:
    assert len(EVERY) == len(DOCUMENTED) > len(WRITES) > 2


@pytest.mark.parametrize(("method", "path"), EVERY)
async def test_no_address_answers_to_another_name(dashboard: Any, method: str, path: str) -> None:
    """As after DNS rebinding, where a name of the attacker's means this machine, and the browser sends what is ours."""
    cookie = await dashboard.log_in()
    for host in (f"rebound.example:{dashboard.port}", "127.0.0.1.evil.example"):
        headers = cookie | {"Host": host, "Origin": f"http://{host}"}
        async with dashboard.ask(method, path, token=None, headers=headers) as answer:
            assert await error_of(answer) == (421, "foreign_host")
    assert dashboard.shelf.loads == 0


@pytest.mark.parametrize(("method", "path"), WRITES)
async def test_no_address_takes_a_write_of_another_page(dashboard: Any, method: str, path: str) -> None:
    cookie = await dashboard.log_in()
    for more in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {}, {"Origin": dashboard.origin} | FOREIGN):
        async with dashboard.ask(method, path, token=None, headers=cookie | more) as answer:
            assert await error_of(answer) == (403, "foreign_origin")
    for form in ({"sources": "[]"}, b"a=b"):  # what a form can send: never JSON
        headers = cookie | {"Origin": dashboard.origin}
        async with dashboard.ask(method, path, token=None, headers=headers, data=form) as answer:
            assert await error_of(answer) == (415, "json_only")
    assert dashboard.shelf.loads == 0


@pytest.mark.parametrize(("method", "path"), [one for one in EVERY if one[0] == "GET" and one[1].startswith("/api/")])
async def test_no_address_is_read_by_another_page(dashboard: Any, method: str, path: str) -> None:
    async with dashboard.ask(method, path, token=None, headers=await dashboard.log_in() | FOREIGN) as answer:
        assert await error_of(answer) == (403, "foreign_origin")
    assert dashboard.shelf.loads == 0


@pytest.mark.parametrize("identifier", OUTSIDE)
@pytest.mark.parametrize(("method", "path"), WITH_IDS)
async def test_no_id_leads_out(dashboard: Any, method: str, path: str, identifier: str) -> None:
    place = re.sub(r"\{[^}]*\}", identifier, path)
    request = (
        f"{method} {place} HTTP/1.1\r\nHost: 127.0.0.1:{dashboard.port}\r\nAuthorization: Bearer {ADMIN}\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    )
    answer = await raw(dashboard.port, request.encode())
    assert 400 <= int(answer.split(b" ")[1]) < 500, answer
    assert b"root:" not in answer
    assert b'{"error": {"code": "' in answer


@pytest.mark.parametrize("path", ["<script>alert(1)</script>.md", 'a/"><img src=x onerror=alert(1)>.md'])
async def test_a_script_in_a_note_is_never_a_page(dashboard: Any, path: str) -> None:
    title = "</script><script>alert(1)</script>"
    dashboard.shelf.documents.append(MemoryDocument(path, f"{title}\n", title, aliases=(title,), tags=("<b>",)))
    dashboard.services.activity.put(finished("1", client=title, model=title))
    for place in ("/api/memory", "/api/activity", "/api/status", "/api/clients"):
        async with dashboard.ask("GET", place) as answer:
            assert answer.content_type == "application/json"
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


async def test_below_a_prefix(open_dashboard: Any) -> None:
    async with open_dashboard(prefix="notes") as dashboard:
        link = dashboard.sidecar.link()
        assert link.startswith(f"{dashboard.origin}/notes/?code=")
        async with dashboard.session.get(link, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/notes/")
            assert "; Path=/notes/;" in answer.headers["Set-Cookie"]
        async with dashboard.ask("GET", "/notes/api/status") as answer:
            assert answer.status == 200
        async with dashboard.ask("GET", "/api/status") as answer:
            assert await error_of(answer) == (404, "not_found")
