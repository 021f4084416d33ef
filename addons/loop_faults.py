"""What asyncio says of its own once the suite has ended, and what of it is worth saying."""

from __future__ import annotations

import asyncio
from typing import Any

CONNECTION_ENDED = "Exception in callback StreamReaderProtocol.connection_made."


def report_fault(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """As the loop's own handler, but for one thing: before Python 3.12.2 asyncio asks the task of a connection that was
    cancelled for its exception, and reports what that raises (python/cpython#113690). So it is for each connection that a client
    makes while the suite ends.
    """
    is_cancelled = isinstance(context.get("exception"), asyncio.CancelledError)
    if not (is_cancelled and str(context.get("message")).startswith(CONNECTION_ENDED)):
        loop.default_exception_handler(context)
