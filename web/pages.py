"""The pages and the files they are made of: what lies in `static/`, and nothing else."""

from __future__ import annotations

import hashlib
import html
import re
from pathlib import Path

from aiohttp import ETag, web

from web.guard import Handler, Typed

STATIC = (Path(__file__).parent / "static").resolve()
COMMAND = re.compile("<code>mitmemory ([a-z]+)</code>")
TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
"""Not from `mimetypes`: what Windows says of a type is what other programs wrote into its registry."""


def page(name: str, typed: Typed) -> Handler:
    """A handler that sends a page. What it says without scripts names commands, as a person has to type them."""
    file = STATIC / name

    async def send(request: web.Request) -> web.StreamResponse:
        text = COMMAND.sub(lambda command: f"<code>{html.escape(typed(command[1]))}</code>", file.read_text("utf-8"))
        return _answer(request, file, text.encode())

    return send


async def static_file(request: web.Request) -> web.StreamResponse:
    """`GET static/{path}`. aiohttp's own handler would answer a missing file without the API's error shape."""
    file = file_below(STATIC, request.match_info["path"])
    if file is None:
        raise web.HTTPNotFound
    return _answer(request, file, file.read_bytes())


def _answer(request: web.Request, file: Path, body: bytes) -> web.Response:
    """What is in the file, or 304 to whoever has it. Sent at once: files are small, and a page is made of fifty."""
    response = web.Response(content_type=TYPES.get(file.suffix, "application/octet-stream"))
    if response.content_type.startswith("text/"):
        response.charset = "utf-8"
    response.headers["Cache-Control"] = "no-cache"
    response.etag = tag = ETag(hashlib.blake2b(body, digest_size=16).hexdigest())
    if any(known.value in (tag.value, "*") for known in request.if_none_match or ()):
        response.set_status(304)
    else:
        response.body = body
    return response


def file_below(folder: Path, path: str) -> Path | None:
    """The file that `path` names below `folder` (an absolute path without links), links followed; None: there is none.

    Backslashes and colons are refused before the path is looked at: on Windows they name drives and other machines.
    """
    if path.startswith("/") or any(sign in path for sign in "\\:\0"):
        return None
    try:
        file = (folder / path).resolve()
        return file if file.is_relative_to(folder) and file.is_file() else None
    except (OSError, RuntimeError, UnicodeEncodeError):
        return None  # too long for a name, a link to itself, or no text
