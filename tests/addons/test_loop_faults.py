"""A connection that is cancelled at the end is no fault; all else that the loop reports is."""

from __future__ import annotations

import asyncio
import logging
import sys

import pytest

from addons.loop_faults import report_fault


async def leave_a_connection() -> None:
    """End while a connection is served, so that `asyncio.run` cancels its task."""
    begun = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    await begun.wait()
    writer.close()
    server.close()


@pytest.mark.skipif(sys.version_info >= (3, 12, 2), reason="asyncio reports nothing there")
def test_asyncio_reports_a_cancelled_connection(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(leave_a_connection())
    [record] = caplog.records
    assert record.getMessage().startswith("Exception in callback StreamReaderProtocol.connection_made.")
    assert record.exc_info
    assert record.exc_info[0] is asyncio.CancelledError


def test_a_cancelled_connection_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(report_fault)
        await leave_a_connection()

    asyncio.run(main())
    assert caplog.records == []


def test_other_faults_are_said(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(report_fault)

        def cancelled() -> None:
            raise asyncio.CancelledError

        def broken() -> None:
            raise ValueError("broken")

        loop.call_soon(cancelled)
        loop.call_soon(broken)
        loop.call_exception_handler({"message": "without an exception"})
        await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    raised = [record.exc_info and record.exc_info[0] for record in caplog.records]
    assert [record.getMessage().split()[0] for record in caplog.records] == ["without", "Exception", "Exception"]
    assert raised[1:] == [asyncio.CancelledError, ValueError]
