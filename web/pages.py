"""The pages and the files they are made of: what lies in `static/`, and nothing else."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from web.guard import Handler

STATIC = (Path(__file__).parent / "static").resolve()


def page(name: str) -> Handler:
    """A handler that sends a page: its own file, or `index.html` where one file serves all pages."""

    async def send(_: web.Request) -> web.StreamResponse:
        for file in (STATIC / name, STATIC / "index.html"):
            if file.is_file():
                return web.FileResponse(file)
        raise web.HTTPNotFound

    return send


async def static_file(request: web.Request) -> web.StreamResponse:
    """`GET static/{path}`. aiohttp's own handler would answer a missing file without the API's error shape."""
    file = file_below(STATIC, request.match_info["path"])
    if file is None:
        raise web.HTTPNotFound
    return web.FileResponse(file)


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
