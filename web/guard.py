"""What every request passes before a handler sees it, and what every answer carries (dashboard.md, "Protection")."""

from __future__ import annotations

import html
import logging
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware

from web.access import Access, Role, Who
from web.errors import Refusal, refusal_of

type Typed = Callable[[str], str]
"""What a person types in a shell for a command of ours, named like `link`."""
type Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

TRUSTED_TYPES_POLICY = "mitmemory"
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self'",
        "font-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        f"trusted-types {TRUSTED_TYPES_POLICY}",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "mitmemory",  # instead of the versions of Python and aiohttp
}
READS = frozenset({"GET", "HEAD"})


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Signal handler: no answer leaves without these, whether it is a page, an event stream or an error.

    What the API says is never kept; files are kept but asked for again each time (they have an ETag).
    """
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever is raised into the API's error shape."""
    try:
        return await handler(request)
    except Refusal as refusal:
        return refusal.response()
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return refusal_of(error).response()
    except (HttpProcessingError, web.RequestPayloadError):
        return Refusal(400, "bad_request", "the body is not what its headers say").response()
    except Exception:  # the last line of defence: one broken request must not show its traceback, nor end the others
        # Without its query, which may hold the code of a link; as it was sent, so that it is one line.
        logging.getLogger(__name__).exception("%s %s failed", request.method, request.rel_url.raw_path)
        return Refusal(500, "internal", "something went wrong here; the terminal has the details").response()


def guard(access: Access, prefix: str, roles: Mapping[web.AbstractRoute, Who], typed: Typed) -> Middleware:
    """The middleware that lets a request in. A route that `roles` does not name is for an admin only; one for a client
    asks for its token itself, and for nothing else. Whoever is not let in is told what to do, in the words of `typed`.
    """

    @web.middleware
    async def let_in(request: web.Request, handler: Handler) -> web.StreamResponse:
        check_host(request, access)
        if request.method == "GET" and request.path == prefix and "code" in request.query:
            return come_in(request, access, prefix, typed)
        if roles.get(request.match_info.route) == "client":
            check_caller(request)
            return await handler(request)
        role = role_of(request, access)
        if role is None:
            return ask_to_come_in(request, typed)
        check_origin(request, api=request.path.startswith(f"{prefix}api/"))
        if request.match_info.http_exception is None:
            if role != "admin" and roles.get(request.match_info.route, "admin") == "admin":
                raise Refusal(403, "admin_only", "this needs the admin token; yours only reads")
            if request.method not in READS and request.content_type != "application/json":
                raise Refusal(415, "json_only", "send the header Content-Type: application/json")
        return await handler(request)

    return let_in


def check_host(request: web.Request, access: Access) -> None:
    """Refuse a request for another name, as after DNS rebinding, or one meant for a proxy (`GET http://…`)."""
    hosts = request.headers.getall("Host", [])
    if len(hosts) != 1 or not access.knows_host(hosts[0]) or not request.raw_path.startswith("/"):
        raise Refusal(421, "foreign_host", f"open the dashboard as {access.origin}")


def check_caller(request: web.Request) -> None:
    """Refuse a page of another site where only programs have business: whatever it holds, its browser says where it is from."""
    host = request.headers["Host"].lower()
    origin = request.headers.get("Origin", f"http://{host}").lower()
    if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") or origin not in _own(host):
        raise Refusal(403, "foreign_origin", "this came from a page of another site")


def check_origin(request: web.Request, *, api: bool) -> None:
    """Refuse what another site's page sends with the user's cookie.

    A browser names the origin in every write; a program that sends a token need not, but may not name another.
    Other ports of this machine are other origins too, although SameSite cookies go there.
    """
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    is_foreign = origin is not None and origin.lower() not in _own(request.headers["Host"].lower())
    refusal = Refusal(403, "foreign_origin", "this came from a page of another site")
    if request.method in READS:
        if api and (is_foreign or site not in (None, "same-origin", "none")):
            raise refusal
        return
    if is_foreign or site not in (None, "same-origin"):
        raise refusal
    if origin is None and "Authorization" not in request.headers:
        raise refusal


def _own(host: str) -> tuple[str, str]:
    """The origins of our own pages."""
    return f"http://{host}", f"https://{host}"


def role_of(request: web.Request, access: Access) -> Role | None:
    """Who asks: by `Authorization: Bearer` when that is sent, else by the session cookie."""
    authorization = request.headers.get("Authorization")
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        return access.role_of_token(token.strip()) if scheme.lower() == "bearer" else None
    return access.role_of_session(request.cookies.get(access.cookie, ""))


def come_in(request: web.Request, access: Access, prefix: str, typed: Typed) -> web.StreamResponse:
    """`/?code=…`: a good code becomes a cookie; in every case the code leaves the address bar."""
    redeemed = access.redeem(request.query["code"])
    if redeemed is None and role_of(request, access) is None:
        return ask_to_come_in(request, typed, used=True)
    response = web.Response(status=303, headers={"Location": prefix})
    if redeemed is not None:
        response.set_cookie(
            access.cookie,
            redeemed[0],
            max_age=int(access.session_lifetime),
            path=prefix,
            httponly=True,
            samesite="Strict",
        )
    return response


def ask_to_come_in(request: web.Request, typed: Typed, *, used: bool = False) -> web.StreamResponse:
    """401: a page for a person, an error for a program."""
    link = typed("link")
    refusal = Refusal(
        401,
        "unauthorized",
        f"send a token as Authorization: Bearer TOKEN, or open a link: `{link}` prints one",
        {"WWW-Authenticate": 'Bearer realm="mitmemory"'},
    )
    if request.method not in READS or "text/html" not in request.headers.get("Accept", ""):
        return refusal.response()
    # A browser holds the cookie back when a page of another site led here. Asked for again from here, it comes.
    again = not used and request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")
    refresh = f'<meta http-equiv="refresh" content="0; url={html.escape(request.path)}">\n' if again else ""
    what = "This link has been used already, or is too old." if used else "This dashboard shows its owner's notes."
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
{refresh}<title>mitmemory: link needed</title>
</head>
<body>
<main>
<h1>Open the link from the terminal</h1>
<p>{what}</p>
<p>mitmemory prints a link when it starts. It lets one browser in, once. For a new link, run <code>{html.escape(link)}</code>, or start it again.</p>
<p>Programs send a token: <code>Authorization: Bearer TOKEN</code>. It lies in tokens.json in the state directory.</p>
</main>
</body>
</html>
"""
    return web.Response(status=401, text=page, content_type="text/html", headers=refusal.headers)
