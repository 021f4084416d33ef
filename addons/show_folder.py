"""Shows a folder in a window of this machine, with the program that the system has for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ENDS_SECONDS = 2.0
"""A program that goes on for longer is showing it."""


async def show_folder(folder: Path) -> bool:
    """Whether a window could be opened."""
    program = opener(sys.platform, os.environ)
    found = program and shutil.which(program)
    return bool(found) and await asyncio.to_thread(_shown, str(found), folder)


def opener(platform: str, environment: Mapping[str, str]) -> str | None:
    """The program; None: there is no screen to show anything on."""
    if platform == "win32":
        return "explorer"
    if platform == "darwin":
        return "open"
    return "xdg-open" if environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY") else None


def _shown(program: str, folder: Path) -> bool:
    nowhere = subprocess.DEVNULL
    try:
        process = subprocess.Popen(  # noqa: S603 - the system's own
            [program, str(folder)], stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
        code = process.wait(ENDS_SECONDS)
    except OSError:
        return False
    except subprocess.TimeoutExpired:
        return True
    return code == 0 or Path(program).stem == "explorer"  # which ends with 1 whatever it did
