"""Who may use the dashboard: two tokens, one-time links, sessions, and the names it answers to (dashboard.md).

Nothing here knows HTTP as a library; `web/guard.py` asks these objects about each request. Being on this machine is
never a reason to let a caller in: any local program, and through the proxy any of its clients, can reach the port.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

type Role = Literal["admin", "read_only"]
type Who = Role | Literal["client"]
"""Whom an address is for; `client`: the client that the address names."""

TOKEN_BYTES = 32
SHORTEST_TOKEN = 16
"""Characters of a token that the user chose."""
TOKENS_FILE = "tokens.json"
CODE_LIFETIME = 12 * 3600.0
"""Seconds a printed link stays good. Long enough to open it after lunch; it works once only in any case."""
SESSION_LIFETIME = 30 * 24 * 3600.0
"""Seconds a browser may stay away before it has to come in by a new link."""
MOST_CODES = 32
MOST_SESSIONS = 128


@dataclass(frozen=True, slots=True)
class Tokens:
    """The secrets that programs send as `Authorization: Bearer …`. Never shown by `repr`."""

    admin: str = field(repr=False)
    read_only: str = field(repr=False)

    def __post_init__(self) -> None:
        for name, token in (("admin", self.admin), ("read_only", self.read_only)):
            if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
                message = (
                    f"dashboard.tokens.{name} must be at least {SHORTEST_TOKEN} printable ASCII characters without "
                    "spaces; leave it out and a random one is made"
                )
                raise ValueError(message)
        if self.admin == self.read_only:
            raise ValueError("dashboard.tokens: admin and read_only must differ")


@dataclass(slots=True)
class _Pass:
    """A code or a session: what it lets its holder do, and until when (seconds of the clock)."""

    role: Role
    until: float


class Access:
    """Decides what the holder of a token, a code or a session may do. Used from the event loop's thread only.

    `host` (IPv6 in brackets) and `port` are those that browsers use; `hosts` are further names in a `Host` header to answer to, each with a port
    (`notes.example:8443`) or without one (then with `port`, and bare as behind a proxy on a standard port). IPv6
    addresses stand in brackets.
    `clock` gives seconds that only grow.
    """

    def __init__(
        self,
        tokens: Tokens,
        port: int,
        *,
        host: str = "127.0.0.1",
        hosts: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
        code_lifetime: float = CODE_LIFETIME,
        session_lifetime: float = SESSION_LIFETIME,
    ) -> None:
        self.port = port
        self.origin = f"http://{host}:{port}"
        self.cookie = f"mitmemory-{port}"
        """Cookies are shared by all ports of a host: the name keeps two suites on one machine apart."""
        self.session_lifetime = session_lifetime
        self._tokens = tokens
        self._clock = clock
        self._code_lifetime = code_lifetime
        self._codes: dict[str, _Pass] = {}
        self._sessions: dict[str, _Pass] = {}
        self._hosts = frozenset(
            _spellings(("127.0.0.1", "localhost", "[::1]", host), port, bare=port == 80)
        ) | frozenset(_spellings(hosts, port, bare=True))

    def knows_host(self, host: str) -> bool:
        """Whether the value of a `Host` header is one of ours; guards against DNS rebinding."""
        return host.lower() in self._hosts

    def role_of_token(self, token: str) -> Role | None:
        """What a Bearer token allows. Both are compared, each in constant time."""
        given = token.encode("utf-8", "surrogateescape")
        admin = hmac.compare_digest(given, self._tokens.admin.encode())
        read_only = hmac.compare_digest(given, self._tokens.read_only.encode())
        if admin:
            return "admin"
        return "read_only" if read_only else None

    def make_code(self, role: Role = "admin") -> str:
        """A secret for a link; it opens one session and then never again. The oldest give way beyond `MOST_CODES`."""
        return self._issue(self._codes, role, self._code_lifetime, MOST_CODES)

    def redeem(self, code: str) -> tuple[str, Role] | None:
        """Turn a code into a new session: its secret for the cookie, and its role. None: used, too old, or unknown."""
        found = self._codes.pop(_digest(code), None)
        if found is None or found.until <= self._clock():
            return None
        return self._issue(self._sessions, found.role, self.session_lifetime, MOST_SESSIONS), found.role

    def role_of_session(self, secret: str) -> Role | None:
        """What the holder of a session cookie may do; being used prolongs the session."""
        key = _digest(secret)
        session = self._sessions.pop(key, None)
        if session is None or session.until <= self._clock():
            return None
        session.until = self._clock() + self.session_lifetime
        self._sessions[key] = session
        return session.role

    def _issue(self, passes: dict[str, _Pass], role: Role, lifetime: float, most: int) -> str:
        now = self._clock()
        for key in [key for key, one in passes.items() if one.until <= now]:
            del passes[key]
        while len(passes) >= most:
            del passes[next(iter(passes))]
        secret = secrets.token_urlsafe(TOKEN_BYTES)
        passes[_digest(secret)] = _Pass(role, now + lifetime)
        return secret


def load_or_make_tokens(state_dir: Path | None, admin: str | None = None, read_only: str | None = None) -> Tokens:
    """The two tokens: as given, else as kept in `state_dir`, else new ones that are kept there.

    The file is `tokens.json`, 0600, in a directory that is made 0700 when it is not there. A directory that exists is
    left as it is: it may be one that the user shares. Without a directory new tokens hold for this run only.
    Raises ValueError for tokens that are too weak, OSError when the file cannot be read or written.
    """
    if admin is not None and read_only is not None:
        return Tokens(admin, read_only)
    kept = _read_tokens(state_dir / TOKENS_FILE) if state_dir is not None else {}
    made = {name: kept.get(name) or secrets.token_urlsafe(TOKEN_BYTES) for name in ("admin", "read_only")}
    # Checked before anything is written, so that a bad token in the configuration leaves no file behind.
    tokens = Tokens(
        made["admin"] if admin is None else admin,
        made["read_only"] if read_only is None else read_only,
    )
    if state_dir is not None and made != kept:
        _write_tokens(state_dir / TOKENS_FILE, made)
    return tokens


def _read_tokens(path: Path) -> dict[str, str]:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    try:
        content = json.loads(text)
        kept = Tokens(content["admin"], content["read_only"])
    except (ValueError, KeyError, TypeError):
        # Tokens are nobody's work: new ones are better than a suite that does not start.
        logging.getLogger(__name__).warning("%s is damaged; new tokens were made", path)
        return {}
    return {"admin": kept.admin, "read_only": kept.read_only}


def _write_tokens(path: Path, tokens: dict[str, str]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    # Made with its final mode: there is no moment in which others can read it.
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(tokens, file, indent=2)
            file.write("\n")
        unfinished.replace(path)
    except OSError:  # a full disk, for the most part: what is written by then is of no use, and holds secrets
        unfinished.unlink(missing_ok=True)
        raise


def _spellings(hosts: Iterable[str], port: int, *, bare: bool) -> Iterable[str]:
    for host in hosts:
        name = host.lower()
        if ":" in name.rpartition("]")[2]:
            yield name
            continue
        yield f"{name}:{port}"
        if bare:
            yield name


def _digest(secret: str) -> str:
    """Secrets are looked up by their hash: how long a look-up takes says nothing about them."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
