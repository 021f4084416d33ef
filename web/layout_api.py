"""`api/memory/layout`: the places of notes on the map, kept for every page and for the next start."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from memory.map_layout import MapLayout, Positions, read_positions
from memory.note_library import NoteLibrary
from web.errors import Refusal

LARGEST_LAYOUT = 8 * 2**20
"""Bytes of a body: some 100,000 notes."""


class LayoutApi:
    """The saved layout. Two pages that save one after the other: the last one is kept."""

    def __init__(self, layout: MapLayout, library: NoteLibrary) -> None:
        self._layout = layout
        self._library = library
        self._using = asyncio.Lock()

    async def get(self, _: web.Request) -> web.Response:
        """`GET api/memory/layout`: `{positions: {id: [x, y]}}`."""
        async with self._using:
            body = await asyncio.to_thread(lambda: _encode(self._layout.load()))
        return web.Response(body=body, content_type="application/json", charset="utf-8")

    async def put(self, request: web.Request) -> web.Response:
        """`PUT api/memory/layout`: keep these positions instead; gives `{saved}`, how many are of notes on the map."""
        body = await request.clone(client_max_size=LARGEST_LAYOUT).read()
        if self._library.snapshot.loaded_at is None:  # else no note would be known, and every position forgotten
            await self._library.scan()
        known = self._library.snapshot.map.notes
        try:
            positions = await asyncio.to_thread(lambda: read_positions(_positions(body), known))
        except ValueError as error:
            raise Refusal(400, "bad_request", str(error)) from None
        async with self._using:
            try:
                await asyncio.to_thread(self._layout.save, positions)
            except OSError as error:
                raise Refusal(
                    503,
                    "not_kept",
                    f"the layout could not be written to the state directory ({error.strerror}); it holds until the end",
                ) from None
        return web.json_response({"saved": len(positions)})


def _positions(body: bytes) -> Any:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, "bad_json", "the body is not JSON") from None
    if not isinstance(value, dict) or set(value) != {"positions"}:
        raise Refusal(400, "bad_request", "the body must be {positions: {id: [x, y]}}")
    return value["positions"]


def _encode(positions: Positions) -> bytes:
    return json.dumps({"positions": positions}, separators=(",", ":")).encode()
