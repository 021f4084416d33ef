"""Sidecar: reads the notes, opens the activity log and serves the dashboard in the proxy's own event loop."""

from __future__ import annotations

import asyncio
import logging
import socket

from memory.activity import Activity
from memory.note_library import NoteLibrary
from web.server import Sidecar

logger = logging.getLogger(__name__)

BIND_TRIES = 20
"""When mitmproxy loads a script anew, the old dashboard may still hold the port for a moment."""


class SidecarAddon:
    """Starts with the proxy and ends with it.

    Its hooks are plain functions that schedule the work: mitmproxy reloads a script through a call that cannot await.
    Whoever can, awaits `started` and `stopped`.
    """

    name = "mitmemory_sidecar"

    def __init__(
        self,
        sidecar: Sidecar,
        library: NoteLibrary,
        activity: Activity,
        *,
        host: str,
        port: int,
        sock: socket.socket | None,
    ) -> None:
        self._sidecar = sidecar
        self._library = library
        self._activity = activity
        self._host = host
        self._port = port
        self._sock = sock
        self.started: asyncio.Task[None] | None = None
        self.stopped: asyncio.Task[None] | None = None

    def running(self) -> None:
        self._library.refresh_if_old()
        self._activity.start()
        self.started = asyncio.get_running_loop().create_task(self._start(), name="dashboard starts")

    def done(self) -> None:
        if self.started is not None:
            self.stopped = asyncio.get_running_loop().create_task(self._stop(self.started), name="dashboard stops")

    async def _start(self) -> None:
        for tries_left in reversed(range(BIND_TRIES)):
            try:
                await self._sidecar.start(self._host, self._port, self._sock)
            except OSError as error:
                if not tries_left:
                    logger.error(  # noqa: TRY400 - the message says it all; ERROR ends mitmproxy's start
                        "The dashboard cannot listen on %s:%d (%s): set dashboard.listen to a free port",
                        self._host,
                        self._port,
                        error.strerror,
                    )
                    return
                await asyncio.sleep(0.1)
            else:
                logger.info("dashboard: %s", self._sidecar.link())
                return

    async def _stop(self, started: asyncio.Task[None]) -> None:
        started.cancel()
        await asyncio.wait([started])
        await self._sidecar.stop()
        await self._library.aclose()
        await self._activity.aclose()
