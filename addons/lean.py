"""Lean: spares mitmproxy and Python work that stands in the way of requests (what it saves: docs/benchmarks.md).

- mitmproxy enters each of some forty addons for each of the eight events of a request, whether the addon has such a
  hook or not. Here only those that have it are entered. And where a part of an addon fails, mitmproxy leaves out the parts
  after it: a fault while a request is read would spare it the judging. Here each part is called whatever became of others.
- It logs that an answer is streamed. All are, and each record wakes the event loop and is an event for every addon.
- The garbage collector looks through everything that lives, some 200,000 objects of mitmproxy and the notes, again and
  again, and nothing else runs in the meantime. What lives once the notes are read is set aside from that.
- A thread that scans a large body may keep the interpreter for 5 ms each time the event loop wants it, which is several
  times for each chunk of another flow's stream. Here it is asked to yield sooner.

`AddonManager` and those words are no public API: tests/addons/test_lean.py notices when they change.
"""

from __future__ import annotations

import gc
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from mitmproxy import ctx
from mitmproxy.addonmanager import AddonManager, safecall, traverse
from mitmproxy.exceptions import AddonHalt, AddonManagerError
from mitmproxy.hooks import Hook

from memory.note_library import NoteLibrary, Snapshot

STREAMING = "Streaming response from "
SWITCH_SECONDS = 0.0005
_proxy_logger = logging.getLogger("mitmproxy.proxy.server")


class LeanAddons(AddonManager):
    """The same hooks in the same order, with faults isolated for each part of an addon by itself."""

    async def trigger_event(self, event: Hook) -> None:
        with suppress(AddonHalt):
            for function in self._functions(event):
                with safecall():
                    result = function(*event.args())
                    if inspect.isawaitable(result):
                        await result

    def trigger(self, event: Hook) -> None:
        with suppress(AddonHalt):
            for function in self._functions(event):
                with safecall():
                    if inspect.iscoroutinefunction(function):
                        raise AddonManagerError(f"{event.name} of an addon waits for something, and cannot here")
                    function(*event.args())

    def _functions(self, event: Hook) -> Iterator[Callable[..., Any]]:
        for addon in self._with_hook(event.name):
            with safecall():  # what has the name of a hook need not be a function
                for _, function in self._iter_hooks(addon, event):
                    yield function

    def _with_hook(self, name: str) -> Iterator[object]:
        """Asked anew for each event: addons come and go, and so do the parts of an addon."""
        for addon in self.chain:
            if hasattr(addon, name) or (
                hasattr(addon, "addons") and any(hasattr(part, name) for part in traverse(addon.addons))
            ):
                yield addon


class Lean:
    """Spares that work while it runs."""

    name = "mitmemory_lean"

    def __init__(self, library: NoteLibrary) -> None:
        self._library = library
        self._has_frozen = False
        self._switch_seconds: float | None = None

    def running(self) -> None:
        self._switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        ctx.master.addons.__class__ = LeanAddons
        _proxy_logger.addFilter(_is_worth_saying)
        self._library.on_change.append(self._freeze)

    def done(self) -> None:
        if self._switch_seconds is not None:
            sys.setswitchinterval(self._switch_seconds)
        ctx.master.addons.__class__ = AddonManager
        _proxy_logger.removeFilter(_is_worth_saying)
        with suppress(ValueError):  # the notes have been read, or it never ran
            self._library.on_change.remove(self._freeze)
        if self._has_frozen:
            gc.unfreeze()
            self._has_frozen = False

    def _freeze(self, _: Snapshot) -> None:
        """Once, while hardly a flow is under way: a frozen one would never be collected."""
        self._library.on_change.remove(self._freeze)
        gc.collect()
        gc.freeze()
        self._has_frozen = True


def _is_worth_saying(record: logging.LogRecord) -> bool:
    return not (isinstance(record.msg, str) and record.msg.startswith(STREAMING))
