"""The suite's commands in mitmproxy and mitmweb: `memory.refresh`, `memory.scan @focus`, `memory.notes`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import cast

from mitmproxy import command, ctx, flow, hooks, http, types
from mitmproxy.log import ALERT

from addons.annotate import rescan
from addons.encodings import EncodingError, decode
from memory.body import Body, unreadable
from memory.exchange import Scan
from memory.index import NoteIndex
from memory.note_library import NoteLibrary
from memory.scan import Scanner

logger = logging.getLogger(__name__)


class Commands:
    """What a person types after `:`, or chooses in mitmweb."""

    name = "mitmemory_commands"

    def __init__(self, library: NoteLibrary, scanner: Scanner, *, largest_body: int) -> None:
        self._library = library
        self._scanner = scanner
        self._largest_body = largest_body
        self._refreshing: asyncio.Task[None] | None = None
        self._scanning: set[asyncio.Task[None]] = set()

    @command.command("memory.refresh")  # type: ignore[untyped-decorator]
    def refresh(self) -> None:
        """Read the notes of every source again."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh(), name="memory.refresh")

    async def _refresh(self) -> None:
        snapshot = await self._library.scan()
        logger.log(ALERT, "%d notes read", len(snapshot.map))

    @command.command("memory.scan")  # type: ignore[untyped-decorator]
    def scan(self, flows: Sequence[flow.Flow]) -> None:
        """Look for notes in these requests again, as after the notes have changed."""
        chosen = [one for one in flows if isinstance(one, http.HTTPFlow)]
        task = asyncio.get_running_loop().create_task(self._scan(chosen), name="memory.scan")
        self._scanning.add(task)
        task.add_done_callback(self._scanning.discard)

    async def _scan(self, flows: Sequence[http.HTTPFlow]) -> None:
        """In a thread: a few hundred conversations take seconds, in which no stream would move."""
        index = self._library.snapshot.index
        for one in flows:
            rescan(one, await asyncio.to_thread(self._look, index, one.request))
            ctx.master.addons.trigger(hooks.UpdateHook([one]))

    def _look(self, index: NoteIndex, request: http.Request) -> Scan:
        return self._scanner.scan(index, self._body(request))

    @command.command("memory.notes")  # type: ignore[untyped-decorator]
    def notes(self) -> types.Data:
        """Every note: its id, its title, and how many lines it can be recognised by."""
        snapshot = self._library.snapshot
        rows = [(node["id"], node["title"], str(node["distinctiveLines"])) for node in snapshot.map.nodes()]
        return cast("types.Data", rows)

    def _body(self, request: http.Request) -> Body:
        headers = request.headers
        try:
            data = decode(request.raw_content or b"", headers.get("content-encoding", ""), self._largest_body)
        except EncodingError as error:
            return unreadable(str(error))
        return self._scanner.read(data, headers.get("content-type", ""))
