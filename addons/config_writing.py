"""Writes mitm.yaml for the pages: the lists that they change, and nothing else in it.

What comes out is read by the same checks as a file that a person wrote, before it takes the file's place.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ruamel.yaml.error import YAMLError

from addons.config import Config, ConfigError, Fault, default_state, find_config, parse_config, shipped_config
from addons.config_document import MOST_BYTES
from addons.config_editing import Entry, edit_list
from addons.reload import changed_keys

type Reason = Literal["changed", "invalid", "unwritable"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class NotWrittenError(Exception):
    """The file stays as it was. The message says what to do.

    `changed`: it is not the one that was looked at; `invalid`: what was asked for makes no configuration;
    `unwritable`: it cannot be written, or not without changing what was not asked for.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


@dataclass(frozen=True, slots=True)
class Written:
    """The file as it stands at one moment. `version` is of its bytes."""

    file: Path
    data: bytes
    text: str
    config: Config

    @property
    def version(self) -> str:
        return version_of(self.data)


class ConfigFile:
    """The file of a configuration, and the one that is made instead of the shipped default. Blocking.

    Not for two threads at once; another program may write the file at any time.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        """The one that is read."""

    @property
    def target(self) -> Path:
        """The one that is written: the file itself, but one in the state directory for the default of an installed
        package, whose next version would take its place. `find_config` finds it there.
        """
        if self.file == shipped_config() and self.file.parent == Path(__file__).parent:
            return default_state() / "mitm.yaml"
        return self.file

    def read(self) -> Written:
        """Raises NotWrittenError (`unwritable`) for a file that is missing or has faults."""
        try:
            data = self.file.read_bytes()
        except OSError as error:
            raise _unwritable(
                f"{self.file} cannot be read ({error.strerror}): put it back, or restart mitmemory"
            ) from None
        try:
            config = parse_config(text := data.decode("utf-8-sig"), self.file)
        except UnicodeDecodeError:
            raise _unwritable(f"{self.file} is not UTF-8: save it as UTF-8") from None
        except ConfigError as error:
            raise _unwritable(f"Mend {self.file} first. {_said(error.faults)}") from None
        return Written(self.file, data, text, config)

    def edit(self, before: Written, path: Sequence[str], entries: Sequence[Entry]) -> Written:
        """What the file would be with this list in it (`config_editing.edit_list`); nothing is written.

        Raises NotWrittenError: `invalid` for entries that make no configuration, `unwritable` where more than that list
        would change.
        """
        key = ".".join(path)
        by_hand = f"{key} in {self.file} cannot be changed from here without changing more: edit it by hand"
        mark = BYTE_ORDER_MARK if before.data.startswith(BYTE_ORDER_MARK) else b""
        try:
            text = edit_list(before.text, path, entries)
            data = mark + text.encode()
            config = parse_config(text, self.target)
        except YAMLError:  # an entry that is an alias of something else in the file
            raise _unwritable(by_hand) from None
        except ConfigError as error:
            if not all(fault.key for fault in error.faults):  # no YAML any more: an anchor of others was in it
                raise _unwritable(by_hand) from None
            raise NotWrittenError("invalid", _said(error.faults)) from None
        if len(data) > MOST_BYTES:
            raise NotWrittenError("invalid", "the configuration would be larger than 1 MiB")
        if any(changed != key for changed in changed_keys(before.config, config)):
            raise _unwritable(by_hand)
        return Written(self.target, data, text, config)

    def replace(self, before: Written, after: Written) -> None:
        """Put `after` in the place of `before`, as a whole. Its owner and mode stay, and so does a link to it.

        Raises NotWrittenError: `changed` where the file is no longer `before`, `unwritable` where it cannot be written.
        """
        try:
            if after.file == before.file:
                self._replace(before, after)
            else:
                self._make(after)
        except FileExistsError:
            raise NotWrittenError("changed", f"{after.file} is there now: restart mitmemory to use it") from None
        except OSError as error:
            raise _unwritable(f"{error.filename or after.file} cannot be written ({error.strerror})") from None
        self.file = after.file

    def _replace(self, before: Written, after: Written) -> None:
        real = Path(os.path.realpath(before.file))
        status = real.stat()
        if not status.st_mode & stat.S_IWUSR or not os.access(real, os.W_OK):
            raise _unwritable(f"{before.file} is read-only: make it writable, or edit it by hand")
        unfinished = real.with_name(f".{real.name}.{secrets.token_hex(4)}")
        try:
            _write(unfinished, after.data)
            if hasattr(os, "chown"):
                with suppress(PermissionError):  # only the system's administrator may give files away
                    os.chown(unfinished, status.st_uid, status.st_gid)
            unfinished.chmod(stat.S_IMODE(status.st_mode))
            if real.read_bytes() != before.data:
                raise NotWrittenError("changed", f"{before.file} was changed meanwhile: look at it, then try again")
            unfinished.replace(real)
        finally:
            unfinished.unlink(missing_ok=True)

    def _make(self, after: Written) -> None:
        if find_config() != self.file:
            raise FileExistsError
        after.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = after.file.with_name(f".{after.file.name}.{secrets.token_hex(4)}")
        try:
            _write(unfinished, after.data)
            unfinished.replace(after.file)
        finally:
            unfinished.unlink(missing_ok=True)


def version_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def client_memory(config: Config, client: str, *, enabled: bool) -> list[Entry]:
    """The entries of `clients` with the memory of this one (a slug) switched on or off. Raises KeyError: there is none."""
    if client not in {one.slug for one in config.clients}:
        raise KeyError(client)
    return [
        Entry(at, {"memory_enabled": enabled} if one.slug == client and one.memory_enabled != enabled else {})
        for at, one in enumerate(config.clients)
    ]


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _said(faults: Sequence[Fault]) -> str:
    """The faults without the file's name and lines, which stand in no list of a page."""
    return "; ".join(f"{fault.key}: {fault.message}; mend: {fault.mend}" for fault in faults)


def _unwritable(message: str) -> NotWrittenError:
    return NotWrittenError("unwritable", message)
