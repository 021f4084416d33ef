"""`mitmemory run`: starts the suite, and says where it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from addons import launcher
from addons.config import Config, config_to_name
from addons.env_command import suite_of
from addons.exits import FAILED, OK, WRONG_INPUT
from addons.greeting import greet
from addons.makers import StartError
from addons.program import with_program


def run(config: Config, flags: Sequence[str], *, inspector: bool) -> int:
    """Run it until it is ended. `flags` are mitmproxy's own."""
    if not inspector:
        config = replace(config, proxy=replace(config.proxy, inspector=None))
    console = Console()
    try:
        launcher.launch(config, lambda running, _end: greet(running, console), flags=flags)
    except launcher.FlagError as error:
        print(f"mitmemory: after --: {error}", file=sys.stderr)
        return WRONG_INPUT
    except StartError as error:
        print(f"mitmemory: {_running_already(config) or error}", file=sys.stderr)
        return FAILED
    return OK


def _running_already(config: Config) -> str | None:
    """What is in the way and what to do, where the suite that is to be started runs."""
    suite = suite_of(config, config.state) if config.state else None
    if suite is None:
        return None
    return with_program(
        f"it runs already (process {suite.pid}, proxy {suite.proxy}): `mitmemory link` prints a link to its dashboard",
        config_to_name(config.file),
    )
