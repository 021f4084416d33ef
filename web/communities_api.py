"""`api/memory/communities`: groups of notes that link to each other more than to others, found when a page asks."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from memory.note_library import NoteLibrary
from memory.note_map import NoteMap


class CommunitiesApi:
    """Finds them once per map, in a thread: it takes seconds for some thousand notes."""

    def __init__(self, library: NoteLibrary) -> None:
        self._library = library
        self._finding = asyncio.Lock()
        self._found: tuple[NoteMap, bytes] | None = None

    async def get(self, _: web.Request) -> web.Response:
        """`GET api/memory/communities`: `{communities: [[noteId]]}`, the largest first, none with a single note."""
        async with self._finding:
            note_map = self._library.snapshot.map
            if self._found is None or self._found[0] is not note_map:
                self._found = note_map, await asyncio.to_thread(_encode, note_map)
            return web.Response(body=self._found[1], content_type="application/json", charset="utf-8")


def _encode(note_map: NoteMap) -> bytes:
    found = note_map.communities(on_request=True) or []
    shown = [sorted(one) for one in found if len(one) > 1]
    return json.dumps({"communities": shown}, separators=(",", ":")).encode()
