"""Runs the dashboard inside the proxy's event loop."""

from __future__ import annotations

import logging
import socket
from collections.abc import MutableMapping
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from web.access import Role
from web.app import Services, create_app

SHUTDOWN_TIMEOUT = 0.5
"""Seconds that requests under way get at the end, twice: to end by themselves, and once cancelled."""


class ServerLog(logging.LoggerAdapter[logging.Logger]):
    """aiohttp's own log, without what a broken request held: that may be a header with a token."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, kwargs

    def exception(self, msg: object, *args: object, exc_info: Any = True, **kwargs: Any) -> None:
        if isinstance(exc_info, HttpProcessingError):
            self.info("a request that is not HTTP was refused")
            return
        super().exception(msg, *args, exc_info=exc_info, **kwargs)


class Sidecar:
    """The dashboard's server. Starts once, stops once; stopping what does not run does nothing."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._runner: web.AppRunner | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0, sock: socket.socket | None = None) -> None:
        """Listen on `sock`, which is bound already, or else on `host` and `port`. Raises OSError for a taken port."""
        if sock is None:
            sock = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._runner = web.AppRunner(
            create_app(self._services),
            access_log=None,
            logger=ServerLog(logging.getLogger(__name__)),
            shutdown_timeout=SHUTDOWN_TIMEOUT,
            handler_cancellation=True,
        )
        await self._runner.setup()
        await web.SockSite(self._runner, sock).start()

    async def stop(self) -> None:
        """End the event streams, wait a moment for what is under way, close the port."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def link(self, role: Role = "admin") -> str:
        """An address that lets one browser in, once (see `Access.make_code`)."""
        return self._services.link(role)
