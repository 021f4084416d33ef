"""`mitmemory doctor`: looks at everything that a newcomer trips over, and says what to do."""

from __future__ import annotations

import asyncio
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from addons import doctor_checks as checks
from addons.certificates import Certificates, certificates_of
from addons.config import Config, ConfigError, load_config
from addons.doctor_checks import Check
from addons.env_command import suite_of
from addons.exits import FAILED, OK
from addons.notes_command import load_notes
from addons.program import with_program
from addons.providers import ProviderTable

_MARKS = {"fine": ("ok", "green"), "note": ("note", "yellow"), "wrong": ("wrong", "bold red")}
_MARK_WIDTH = 7
_NAME_WIDTH = 15


def doctor(file: Path | None, *, as_json: bool) -> int:
    """Exit 0 if nothing is wrong, else 1. A configuration with faults is shown, and then nothing that depends on it."""
    found = [replace(check, mend=with_program(check.mend, file)) for check in _checks(file)]
    if as_json:
        print(json.dumps({"checks": [asdict(check) for check in found]}))
    else:
        _print(found, Console())
    return FAILED if any(check.state == "wrong" for check in found) else OK


def _checks(file: Path | None) -> Iterator[Check]:
    yield Check("Python", "fine", platform.python_version())
    yield from checks.packages()
    yield checks.scanning()
    try:
        config = load_config(file)
    except ConfigError as error:
        for fault in error.faults:
            where = ":".join(str(part) for part in (fault.file, fault.line) if part is not None)
            yield Check("Configuration", "wrong", f"{where}: {fault.key}: {fault.message}", fault.mend)
        yield from checks.programs()
        return
    yield Check("Configuration", "fine", str(config.file))
    yield from _suite(config)
    # Without a state directory nothing is written, not even the cache of the notes' names.
    yield from checks.sources(asyncio.run(load_notes(replace(config, state=None))))
    yield from checks.programs()


def _suite(config: Config) -> Iterator[Check]:
    if config.state is None:
        yield checks.ports(config, None)
        mend = "set `state` to a folder for `mitmemory env` and `with`"
        yield Check("State", "note", "nothing is kept: each start makes an authority of its own", mend)
        return
    state = checks.state(config.state)
    yield state
    if state.state == "wrong":  # no suite runs with it, and none starts
        return
    suite = suite_of(config, config.state)
    yield checks.ports(config, suite)
    certificates = Certificates(Path(suite.certificates)) if suite else certificates_of(config.state)
    yield from checks.authority(certificates, datetime.now(UTC))
    if suite is not None:
        yield from checks.through_the_proxy(suite, ProviderTable(config.providers))
    proxy = suite.proxy if suite else str(config.proxy.listen)
    yield from checks.environment(proxy, certificates, os.environ)


def _print(found: list[Check], console: Console) -> None:
    # Never wrapped: what is to be done is often to be pasted.
    for check in found:
        mark, style = _MARKS[check.state]
        line = Text.assemble((f"{mark:<{_MARK_WIDTH}}", style), f"{check.name:<{_NAME_WIDTH}} {check.found}")
        console.print(line, soft_wrap=True)
        if check.mend:
            console.print(Text(f"{'':<{_MARK_WIDTH}}mend: {check.mend}"), soft_wrap=True)
    console.print()
    wrong = sum(check.state == "wrong" for check in found)
    console.print("Nothing is wrong." if not wrong else f"{wrong} to mend.", highlight=False)
