"""The thread in which everything about the index of one client happens, one job after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # importing it imports memsearch
    from memory.conversations.client_index import ClientIndex


class Worker:
    """A client's. Everything but `used` and `due` belongs to its thread."""

    def __init__(self, client: str, ending: Future[None] | None = None) -> None:
        """`ending` is the last job of the worker before this one, which may have the index still."""
        self.index: ClientIndex | None = None
        self.folder: Path | None = None
        """That of the index."""
        self.used = time.monotonic()
        self.looked = time.monotonic()
        self.due: dict[str, float] = {}
        """Files that changed, and when that was first heard of."""
        self.is_working = False
        self._thread = ThreadPoolExecutor(1, f"memory of {client}")
        if ending is not None:
            self._thread.submit(ending.exception)

    def submit[T](self, job: Callable[[], T]) -> Future[T]:
        return self._thread.submit(job)

    def close_index(self) -> None:
        """As a job of the worker's own."""
        if self.index is not None:
            index, self.index = self.index, None
            index.close()

    def end(self) -> None:
        """End the thread, once all that was submitted is done."""
        self._thread.shutdown()
