"""The server: where it listens, and that it ends."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.http_exceptions import BadHttpMessage

from tests.own_time import OwnTime
from web.server import ServerLog, Sidecar


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@pytest.fixture
async def sidecar(dashboard: Any) -> AsyncIterator[Sidecar]:
    sidecar = Sidecar(dashboard.services)
    yield sidecar
    await sidecar.stop()


async def test_it_listens_on_a_host_and_port_until_it_is_stopped(sidecar: Sidecar) -> None:
    port = free_port()
    await sidecar.start("127.0.0.1", port)
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/") as answer:
        assert answer.status == 421  # the access was made for another port
    await sidecar.stop()
    await sidecar.stop()
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_taken_port_is_an_error_that_leaves_nothing_behind(dashboard: Any, sidecar: Sidecar) -> None:
    with pytest.raises(OSError, match="in use"):
        await sidecar.start("127.0.0.1", dashboard.port)
    assert len(dashboard.services.note_library.on_change) == 1
    async with dashboard.ask("GET", "/api/events") as answer:
        assert answer.status == 200  # and its streams go on


async def test_it_does_not_wait_for_a_request_that_hangs(dashboard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started = asyncio.Event()

    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(dashboard.services.note_library, "scan", endless)

    async def ask() -> None:
        async with dashboard.ask("GET", "/api/memory"):
            pass

    asking = asyncio.create_task(ask())
    await started.wait()
    time_since = OwnTime()
    await dashboard.sidecar.stop()
    assert time_since.seconds() < 1.5
    with pytest.raises(aiohttp.ClientError):
        await asking


def test_what_a_broken_request_held_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    log = ServerLog(logging.getLogger("test"))
    # As aiohttp calls it: with the error, outside its handler.
    for error in (BadHttpMessage("Authorization: Bearer secret"), RuntimeError("ours")):
        log.exception("Error handling request from %s", "127.0.0.1", exc_info=error)  # noqa: LOG004
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "a request that is not HTTP was refused"),
        ("ERROR", "Error handling request from 127.0.0.1"),
    ]
    assert "secret" not in caplog.text
    assert "RuntimeError: ours" in caplog.text
