"""The suite that `mitmemory with` starts where none runs: it ends when no program uses it any more.

It is a process of its own, apart from the terminal: Ctrl-C is for the program. `python -m addons.with_suite FILE`
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from addons.config import ConfigError, load_config
from addons.exits import FAILED, OK, WRONG_INPUT
from addons.launcher import Running, launch
from addons.makers import StartError
from addons.presence import Announcement, hold_start, is_used

LOOK_SECONDS = 0.2


class Keeper:
    """Ends the suite once it is not used."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._watching: asyncio.Task[None] | None = None
        self._ending: BinaryIO | None = None

    def begin(self, running: Running, end: Callable[[], None]) -> None:
        assert running.announcement
        self._watching = asyncio.get_running_loop().create_task(self._watch(running.announcement, end), name="in use?")

    async def _watch(self, announcement: Announcement, end: Callable[[], None]) -> None:
        while not self._is_over(announcement):  # noqa: ASYNC110 - locks have no event to wait for
            await asyncio.sleep(LOOK_SECONDS)
        end()

    def _is_over(self, announcement: Announcement) -> bool:
        if is_used(self._state, os.getpid()):
            return False
        try:
            # Kept until the process has ended: whoever starts the next one waits until the ports are free.
            ending = hold_start(self._state, 0)
        except BlockingIOError:  # somebody looks for a suite just now
            return False
        # First gone, then looked once more: whoever came in between has seen it run, and counts on it.
        announcement.withdraw()
        if is_used(self._state, os.getpid()):
            announcement.announce()
            ending.close()
            return False
        self._ending = ending
        return True


def main(arguments: Sequence[str]) -> int:
    try:
        config = load_config(Path(arguments[0]))
        if config.state is None:
            print("mitmemory: state is null, and a suite for single programs needs it", file=sys.stderr)
            return WRONG_INPUT
        keeper = Keeper(config.state)
        # Nobody would look at the inspector.
        launch(replace(config, proxy=replace(config.proxy, inspector=None)), keeper.begin, for_programs=True)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    except StartError as error:
        print(f"mitmemory: {error}", file=sys.stderr)
        return FAILED
    return OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
