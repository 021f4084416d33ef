"""Lean: spares mitmproxy and Python work that stands in the way of requests (what it saves: docs/benchmarks.md).

- mitmproxy enters each of some forty addons for each of the eight events of a request, whether the addon has such a
  hook or not. Here only those that have it are entered, which is found out once. And where a part of an addon fails,
  mitmproxy leaves out the parts after it: a fault while a request is read would spare it the judging. Here each part is
  called whatever became of others.
- It logs that an answer is streamed. All are, and each record wakes the event loop and is an event for every addon.
- The garbage collector looks through everything that lives, some 200,000 objects of mitmproxy and the notes, again and
  again, and nothing else runs in the meantime. What lives once the notes are read is set aside from that, and a body
  that is read does not set it off several times.
- A thread that scans a large body may keep the interpreter for 5 ms each time the event loop wants it, which is several
  times for each chunk of another flow's stream. Here it is asked to yield sooner.

`AddonManager` and those words are no public API: tests/addons/test_lean.py notices when they change.
"""

from __future__ import annotations

import gc
import inspect
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mitmproxy import ctx
from mitmproxy.addonmanager import AddonManager, safecall
from mitmproxy.exceptions import AddonHalt, AddonManagerError
from mitmproxy.hooks import Hook

from memory.note_library import NoteLibrary, Snapshot

STREAMING = "Streaming response from "
SWITCH_SECONDS = 0.0005
NEW_OBJECTS = 10_000
"""How many there are before the garbage collector looks through them: more than reading most requests makes."""
_proxy_logger = logging.getLogger("mitmproxy.proxy.server")


class _Known:
    """Which functions of a chain of addons, and of the parts below them, a hook has: looked for once for each hook."""

    def __init__(self, chain: list[object]) -> None:
        self.functions: dict[str, list[Callable[..., Any]]] = {}
        self._chain = list(chain)
        self._holders: list[tuple[Any, list[object]]] = []
        """Addons with parts, and those parts."""
        every = list(chain)
        for addon in every:  # and those that this adds
            if (parts := getattr(addon, "addons", None)) is not None:
                self._holders.append((addon, list(parts)))
                every += parts

    def is_of(self, chain: list[object]) -> bool:
        """Whether no addon, and no part of one, came or went."""
        return self._chain == chain and all(holder.addons == parts for holder, parts in self._holders)


class LeanAddons(AddonManager):
    """The same hooks in the same order, with faults isolated for each part of an addon by itself."""

    _known: _Known | None = None

    async def trigger_event(self, event: Hook) -> None:
        if not (functions := self._functions(event)):
            return
        args = event.args()
        for function in functions:
            try:
                result = function(*args)
                if result is not None and inspect.isawaitable(result):
                    await result
            except AddonHalt:
                return
            except Exception:  # noqa: BLE001 - whatever an addon raises
                _tell_fault()

    def trigger(self, event: Hook) -> None:
        with suppress(AddonHalt):
            for function in self._functions(event):
                with safecall():
                    if inspect.iscoroutinefunction(function):
                        raise AddonManagerError(f"{event.name} of an addon waits for something, and cannot here")
                    function(*event.args())

    def _functions(self, event: Hook) -> list[Callable[..., Any]]:
        known = self._known
        if known is None or not known.is_of(self.chain):
            known = self._known = _Known(self.chain)
        functions = known.functions.get(event.name)
        if functions is None:
            functions = known.functions[event.name] = []
            for addon in self.chain:
                with safecall():  # what has the name of a hook need not be a function
                    for _, function in self._iter_hooks(addon, event):
                        functions.append(function)
        return functions


def _tell_fault() -> None:
    """In mitmproxy's words, and what it lets through goes through."""
    with safecall():
        raise  # noqa: PLE0704 - what is being handled


class Lean:
    """Spares that work while it runs."""

    name = "mitmemory_lean"

    def __init__(self, library: NoteLibrary) -> None:
        self._library = library
        self._has_frozen = False
        self._switch_seconds: float | None = None
        self._thresholds = gc.get_threshold()

    def running(self) -> None:
        self._switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        self._thresholds = gc.get_threshold()
        gc.set_threshold(NEW_OBJECTS, *self._thresholds[1:])
        ctx.master.addons.__class__ = LeanAddons
        _proxy_logger.addFilter(_is_worth_saying)
        self._library.on_change.append(self._freeze)

    def done(self) -> None:
        if self._switch_seconds is not None:
            sys.setswitchinterval(self._switch_seconds)
            gc.set_threshold(*self._thresholds)
        ctx.master.addons.__class__ = AddonManager
        _proxy_logger.removeFilter(_is_worth_saying)
        with suppress(ValueError):  # the notes have been read, or it never ran
            self._library.on_change.remove(self._freeze)
        # At an exit it stays set aside: to look it all over for garbage once more takes half a second.
        if self._has_frozen and not ctx.master.should_exit.is_set():
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
