"""Where conversations are kept: the folder of each client, what is known of it, and who may use them.

{directory}/clients.json        which client has which folder, and which token
{directory}/{client}/sessions/  transcripts and summaries, which are indexed
{directory}/{client}/archive/   transcripts that were summarised, and earlier summaries
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from memory.conversations import files
from memory.conversations.archive import mend
from memory.conversations.journal import Journal
from memory.conversations.known import Known
from memory.conversations.owner import NAME, LockedElsewhereError, lock
from memory.conversations.prefixes import Hasher
from memory.conversations.sessions import Limits

CLIENTS_FILE = "clients.json"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NO_CLIENTS_FILE = (ValueError, KeyError, TypeError, AttributeError)
"""What reading one raises that somebody has edited."""


class InUseError(Exception):
    """Another process keeps its conversations in this directory. The message says what to do."""


class DamagedError(Exception):
    """`clients.json` cannot be read. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A session that is over; `path` is its transcript."""

    client: str
    session: str
    path: Path


class ClientMemory:
    """What is kept of one client. Whoever reads or changes it holds `lock`."""

    def __init__(self, client: str, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.sessions = folder / "sessions"
        self.archive = folder / "archive"
        self.unfinished = folder / files.UNFINISHED
        self.lock = threading.RLock()
        self.journal = Journal(folder)
        self.known = Known()
        self.mended: tuple[Path, ...] = ()
        """Files that changed when it was opened, since a crash had left something half done."""
        self.left = False
        """The client has another folder by now, or none: nothing is written here any more."""

    def open(self) -> None:
        """Raises OSError."""
        with self.lock:
            for folder in (self.sessions, self.archive):
                files.make_folder(folder)
            self.known = self.journal.load()
            self.mended = mend(self.folder, current=self.known.session.id if self.known.session else None)

    def transcript(self, session: str) -> Path:
        return self.sessions / f"{session}.md"

    def close_session(self) -> Closed | None:
        """Its current session is over, if it has one. Raises OSError; then it goes on."""
        with self.lock:
            session = self.known.session
            if session is None:
                return None
            self.journal.append(session.id)
            self.known.close()
            return Closed(self.client, session.id, self.transcript(session.id))


class Store:
    """The directory, which one process at a time has. Methods may be called from any thread once it is open."""

    def __init__(self, directory: Path, limits: Limits | None = None) -> None:
        self.directory = directory
        self.limits = limits or Limits()
        self._lock = threading.Lock()
        self._held: BinaryIO | None = None
        self._folders: dict[str, str | None] = {}
        """Every folder that there ever was -> the client that has it; None: no client has it any more."""
        self._memories: dict[str, ClientMemory] = {}
        self._tokens: dict[str, str] = {}
        """Client -> what its token for MCP is told by: the SHA-256 in hex digits. It goes with the client."""
        self._key = bytes(16)
        self.hasher = Hasher(self._key)

    def open(self) -> None:
        """Raises OSError, InUseError and DamagedError."""
        files.make_folder(self.directory)
        try:
            held = lock(self.directory)
        except LockedElsewhereError:
            raise InUseError(
                f"another mitmemory uses the conversations in {self.directory}: ask that one, or end it first"
            ) from None
        try:
            (self.directory / NAME).chmod(0o600)  # whatever the umask
            self._read()
        except BaseException:
            held.close()
            raise
        self._held = held

    def close(self) -> None:
        """Another process may open it now."""
        if self._held is not None:
            self._held.close()
            self._held = None
        self._memories.clear()

    def configure(self, clients: Iterable[str]) -> list[Path]:
        """These are all the clients that there are, by their slugs. One that is gone leaves its folder behind: who has its
        name later gets another one. Returns the folders that were left.

        Raises OSError; then nothing has changed.
        """
        present = set(clients)
        with self._lock:
            gone = [name for name, client in self._folders.items() if client is not None and client not in present]
            tokens = {client: digest for client, digest in self._tokens.items() if client in present}
            if gone or tokens != self._tokens:
                self._write({**self._folders, **dict.fromkeys(gone)}, tokens)
            for client in [client for client in self._memories if client not in present]:
                self._memories.pop(client).left = True
            return [self.directory / name for name in gone]

    def folder_of(self, client: str) -> Path:
        """The folder of a client, by its slug; it gets one if it has none. Raises OSError."""
        return self.memory_of(client).folder

    def memory_of(self, client: str) -> ClientMemory:
        """What is kept of a client, opened; it gets a folder if it has none. Raises OSError."""
        with self._lock:
            memory = self._existing(client)
            if memory is None:
                name = self._new_folder(client)
                self._write({**self._folders, name: client})
                memory = self._opened(client, name)
            return memory

    def existing(self, client: str) -> ClientMemory | None:
        """The same; None: it has no folder. Nobody who only asks gets one. Raises OSError."""
        with self._lock:
            return self._existing(client)

    def _existing(self, client: str) -> ClientMemory | None:
        if (memory := self._memories.get(client)) is not None:
            return memory
        name = next((name for name, of in self._folders.items() if of == client), None)
        return None if name is None else self._opened(client, name)

    def _opened(self, client: str, name: str) -> ClientMemory:
        memory = ClientMemory(client, self.directory / name)
        memory.open()
        self._memories[client] = memory
        return memory

    def make_again(self, memory: ClientMemory) -> None:
        """A person has deleted the client's folder, or all of them: it begins anew. Raises OSError."""
        with memory.lock, self._lock:
            if not (self.directory / CLIENTS_FILE).exists():
                files.make_folder(self.directory)
                self._write(self._folders)
            memory.open()

    def clients(self) -> list[str]:
        """Those that have a folder."""
        with self._lock:
            return sorted(client for client in self._folders.values() if client is not None)

    def token_of(self, client: str) -> str | None:
        """What was given to `set_token`; None: it has no token."""
        with self._lock:
            return self._tokens.get(client)

    def set_token(self, client: str, digest: str) -> None:
        """The client has this token from now on, and no other. Raises OSError; then it has the one it had."""
        with self._lock:
            self._write(self._folders, {**self._tokens, client: digest})

    def left_folders(self) -> list[Path]:
        """Folders of clients that are no more, as far as they are still there: a person may delete them."""
        with self._lock:
            return [
                folder
                for name, client in self._folders.items()
                if client is None and (folder := self.directory / name).is_dir()
            ]

    def expire(self, now: datetime) -> list[Closed]:
        """End the sessions whose time is over, and say which these were. The one of a client whose disk refuses goes on.

        Called every minute, and at start.
        """
        closed: list[Closed] = []
        for client in self.clients():
            try:
                memory = self.memory_of(client)
                with memory.lock:
                    session = memory.known.session
                    if session is None or not session.is_over(now, self.limits):
                        continue
                    if (one := memory.close_session()) is not None:
                        closed.append(one)
            except OSError:
                continue
        return closed

    def forget(self, client: str, remove: Callable[[Path], None]) -> None:
        """The client has no folder any more; `remove` is given it. Raises what that raises, then the client has it still."""
        memory = self.memory_of(client)
        with memory.lock, self._lock:
            remove(memory.folder)
            self._write({**self._folders, memory.folder.name: None})
            self._memories.pop(client, None)
            memory.left = True

    def _new_folder(self, client: str) -> str:
        number, name = 1, client
        while name in self._folders or (self.directory / name).exists():
            number += 1
            name = f"{client}-{number}"
        return name

    def _read(self) -> None:
        path = self.directory / CLIENTS_FILE
        try:
            self._key, self._folders, self._tokens = _parsed(path.read_text("utf-8"))
        except FileNotFoundError:
            self._key = secrets.token_bytes(16)
            self._write({})
        except _NO_CLIENTS_FILE:
            raise DamagedError(
                f"{path} is damaged: restore it, or move it away, and each client begins with an empty memory"
            ) from None
        self.hasher = Hasher(self._key)

    def _write(self, folders: dict[str, str | None], tokens: dict[str, str] | None = None) -> None:
        tokens = self._tokens if tokens is None else tokens
        content = json.dumps({"key": self._key.hex(), "folders": folders, "tokens": tokens}, indent=2)
        files.replace(self.directory / CLIENTS_FILE, f"{content}\n".encode(), self.directory / files.UNFINISHED)
        self._folders, self._tokens = folders, tokens


def folders_in(directory: Path) -> dict[str, Path]:
    """The folder of each client that has one, by its slug, whoever has the directory open.

    Raises FileNotFoundError where nothing was recorded yet, OSError and DamagedError.
    """
    path = directory / CLIENTS_FILE
    try:
        _, folders, _ = _parsed(path.read_text("utf-8"))
    except _NO_CLIENTS_FILE:
        raise DamagedError(f"{path} is damaged") from None
    return {client: directory / name for name, client in folders.items() if client is not None}


def _parsed(text: str) -> tuple[bytes, dict[str, str | None], dict[str, str]]:
    """Raises an error of those that `_read` expects: the file may have been edited, or be of an earlier version."""
    content = json.loads(text)
    key, folders, tokens = bytes.fromhex(content["key"]), content["folders"], content.get("tokens", {})
    clients = [client for client in folders.values() if client is not None]
    if len(key) != 16 or len(set(clients)) < len(clients) or not all(_is_name(name) for name in (*folders, *clients)):
        raise ValueError
    if not all(_DIGEST.fullmatch(digest) for digest in tokens.values()):
        raise ValueError
    return key, folders, tokens


def _is_name(name: str) -> bool:
    """Of something right below the directory."""
    return bool(name) and name[0] != "." and Path(name).name == name
