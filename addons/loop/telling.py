"""What a client gets of an answer that comes about in turns; its stream is kept alive while there is nothing to give."""

from __future__ import annotations

import asyncio

from aiohttp import web

from addons.attempt import Answer
from addons.passing import Passed, hang_up


class ClientLeftError(Exception):
    """There is nobody to tell any more."""


class Telling:
    """One answer, under the head of the `first` one that came. `ping` empty: nothing keeps it alive."""

    def __init__(self, request: web.Request, first: Answer, ping: bytes, ping_seconds: float) -> None:
        self._request = request
        self._ping = ping
        self._ping_seconds = ping_seconds
        self._pings: asyncio.Task[None] | None = None
        self.response = Passed(first, another=True)

    @property
    def has_begun(self) -> bool:
        return self.response.prepared

    def keep_alive(self) -> None:
        """Write pings, the first one at once, until something else is given, or `fall_silent`."""
        if self._ping and self._pings is None:
            self._pings = asyncio.get_running_loop().create_task(self._write_pings(), name="pings")

    async def fall_silent(self) -> None:
        task, self._pings = self._pings, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)  # that the client has left is noticed elsewhere

    async def give(self, data: bytes) -> None:
        """Raises ClientLeftError."""
        await self.fall_silent()
        await self._write(data)

    async def end(self, last: bytes, *, is_whole: bool = True) -> web.StreamResponse:
        """Not `is_whole`: the connection breaks off, so that it does not look so. Raises ClientLeftError."""
        await self.give(last)
        if not is_whole:
            hang_up(self._request)
            return self.response
        try:
            await self.response.write_eof()
        except ConnectionError:
            raise ClientLeftError from None
        return self.response

    async def end_document(self, document: bytes) -> web.StreamResponse:
        """The answer as one document, of which nothing was given before. Raises ClientLeftError."""
        self.response.content_length = len(document)
        return await self.end(document)

    async def _write_pings(self) -> None:
        while True:
            await self._write(self._ping)
            await asyncio.sleep(self._ping_seconds)

    async def _write(self, data: bytes) -> None:
        try:
            if not self.response.prepared:
                await self.response.prepare(self._request)
            await self.response.write(data)
        except ConnectionError:
            raise ClientLeftError from None
