"""`api/link`: one more link for a browser, without a start anew."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from web.api import read_object
from web.errors import Refusal


class LinkApi:
    """`make_link` gives an address that lets one browser in, once."""

    def __init__(self, make_link: Callable[[], str]) -> None:
        self._make_link = make_link

    async def post(self, request: web.Request) -> web.Response:
        """`POST api/link`: `{link}`. Only who may do everything asks for it, and the link allows no more than that."""
        if await read_object(request):
            raise Refusal(400, "bad_request", "send nothing: a link has no choices")
        return web.json_response({"link": self._make_link()})
