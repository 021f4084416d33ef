"""What the dashboard changes in the configuration: the seam to whoever writes mitm.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

type Cause = Literal["changed", "invalid", "refused", "unknown", "unwritable"]


class NotChangedError(Exception):
    """The configuration stays as it was; the message tells a person why, and what to do.

    `changed`: the file is not the one that was looked at; `invalid`: what was asked for makes no configuration;
    `refused`: the dashboard may not change this; `unknown`: the file names no such client; `unwritable`: the file cannot be written.
    """

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause: Cause = cause


class Settings(Protocol):
    """What the dashboard changes in mitm.yaml. All raise NotChangedError."""

    async def sources(self) -> dict[str, Any]:
        """The JSON of `GET api/memory/sources`."""

    async def change_sources(self, sources: Sequence[Mapping[str, Any]], version: str | None) -> dict[str, Any]:
        """Write the whole list, take it over, and give the JSON as `sources` does.

        Each has `name`, `kind`, `path` (text, or None for Claude Code's own place), `exclude`, `extensions` and
        `enabled`. `version` is that of the file they were made from; None: of whatever stands there.
        """

    async def switch_memory(self, client: str, *, enabled: bool) -> None:
        """Switch the memory of a client (its slug) on or off."""


class NoSettings:
    """Of a suite that was started without a file, as the demo is."""

    async def sources(self) -> dict[str, Any]:
        return {"sources": [], "version": "", "file": None, "allowProcessSettings": False, "claudeCode": None}

    async def change_sources(self, *_: object) -> dict[str, Any]:
        raise _nothing_to_write()

    async def switch_memory(self, client: str, *, enabled: bool) -> None:  # noqa: ARG002 - whatever is asked
        raise _nothing_to_write()


def _nothing_to_write() -> NotChangedError:
    return NotChangedError("unwritable", "this suite runs without a mitm.yaml: start it with one to change it here")
