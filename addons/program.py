"""How this installation's own command is called: an installation in a folder of its own is not on the PATH."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path


def installed_program() -> str:
    """The command's file, which works whatever the folder and the PATH are; its bare name where there is no such file."""
    installed = Path(sys.executable).with_name("mitmemory.exe" if os.name == "nt" else "mitmemory")
    return str(installed) if installed.exists() else "mitmemory"


def program_name() -> str:
    """What a person types for it in a shell: the bare name where the PATH leads to this installation."""
    installed = installed_program()
    found = shutil.which("mitmemory")
    if found is not None and os.path.realpath(found) == os.path.realpath(installed):
        return "mitmemory"
    return installed if os.name == "nt" else shlex.quote(installed)


def config_flag(config: Path | None) -> str:
    """What names a configuration on the command line, after a space; empty for None."""
    return f" --config {quoted(str(config))}" if config else ""


def command_line(words: str, config: Path | None) -> str:
    """What a person types in a shell for a command of ours, like `rules test`.

    `config` is the configuration that it has to name; None: it finds it.
    """
    command, *more = words.split(" ")
    return " ".join([f"{program_name()} {command}{config_flag(config)}", *more])


def quoted(argument: str) -> str:
    """As it is typed in a shell."""
    if os.name != "nt":
        return shlex.quote(argument)
    return f'"{argument}"' if re.search(r"[^\w.:/\\-]", argument) else argument


def with_program(text: str, config: Path | None = None) -> str:
    """The same, with each command in it that is written `mitmemory …` or $(mitmemory …) as a person has to type it.

    `config` is the configuration that each of them has to name; None: they find it.
    """
    name, flag = program_name(), config_flag(config)
    return re.sub(r"(?<=[`(])mitmemory ([a-z]+)", lambda command: f"{name} {command[1]}{flag}", text)
