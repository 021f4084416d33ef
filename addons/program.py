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


def with_program(text: str) -> str:
    """The same, with each command in it that is written `mitmemory …` or $(mitmemory …) as a person has to type it."""
    name = program_name()
    return re.sub(r"(?<=[`(])mitmemory(?= )", lambda _: name, text)
