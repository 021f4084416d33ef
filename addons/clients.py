"""Which program sent a request: a client that the configuration names, else the family of its User-Agent.

Pure: what is known of a sender comes in, a slug goes out. `sender.py` reads it from the flows, `own_key.py` keeps the
key of the HMACs.
"""

from __future__ import annotations

import fnmatch
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from addons.config_values import Address

type ClientMode = Literal["both", "mcp_via_llm", "llm_only", "mcp_only"]

LONGEST_USER_AGENT = 1000
"""Characters of a User-Agent that a pattern is held against."""
HMAC_PREFIX = "hmac:"

# The start of a User-Agent (lower case) and the name of the client that sends it (as the clients send it today).
_FAMILIES = (
    ("claude-cli/", "claude-code"),
    ("claude-code/", "claude-code"),
    ("codex", "codex"),
    ("geminicli", "gemini-cli"),
    ("openai/python", "openai-python"),
    ("asyncopenai/python", "openai-python"),
    ("anthropic/python", "anthropic-python"),
    ("asyncanthropic/python", "anthropic-python"),
    ("openai/js", "openai-js"),
    ("anthropic/js", "anthropic-js"),
    ("google-genai-sdk/", "google-genai"),
    ("mozilla/", "browser"),
)


@dataclass(frozen=True, slots=True)
class MatchConfig:
    """What a client is told by; every key that is given must hold. `api_key` is `hmac:` and 64 hex digits."""

    listen: Address | None = None
    proxy_user: str | None = None
    api_key: str | None = None
    user_agent: str | None = None
    """A pattern for the whole User-Agent, in which `*` and `?` stand for anything; upper and lower case are the same."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """An entry of `clients`."""

    name: str
    match: MatchConfig = MatchConfig()
    mode: ClientMode = "both"
    """How it meets its memory (docs/configuration.md, "The memory of conversations")."""
    memory_enabled: bool = False
    """Its conversations are recorded. Each client is opted in by itself; there is no switch for all."""

    @property
    def slug(self) -> str:
        """The client's name in paths, files and the API."""
        return slug_of(self.name)


@dataclass(frozen=True, slots=True)
class Sender:
    """What a request says about who sent it. `listen` is the `host:port` of ours that it came in by."""

    listen: str | None = None
    proxy_user: str | None = None
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    user_agent: str = ""


class ClientTable:
    """The configured clients, in their order. `secret` is the key of the HMACs, this installation's own."""

    def __init__(self, entries: Sequence[ClientConfig], secret: bytes) -> None:
        self._entries = tuple((entry, _pattern(entry.match.user_agent)) for entry in entries)
        self._slugs = frozenset(entry.slug for entry in entries)
        self._by_key = any(entry.match.api_key for entry in entries)
        self._secret = secret

    def find(self, sender: Sender) -> str:
        """The slug of the first entry that matches, else that of the User-Agent's family (interception.md, "Which client").

        A program that only looks like a configured client is kept apart from it: `claude-code-auto`.
        """
        hmacs = [hmac_of(self._secret, key) for key in sender.api_keys] if self._by_key else []
        for entry, pattern in self._entries:
            if _holds(entry.match, pattern, sender, hmacs):
                return entry.slug
        slug = client_of(sender.user_agent)
        while slug in self._slugs:
            slug += "-auto"
        return slug


def hmac_of(secret: bytes, api_key: str) -> str:
    """What stands for an API key in the configuration: `hmac:` and the hex HMAC-SHA256 of it under `secret`."""
    return HMAC_PREFIX + hmac.digest(secret, api_key.encode("utf-8", "surrogateescape"), "sha256").hex()


def client_of(user_agent: str) -> str:
    """The slug of the client: a known family, else the product's name, else `unknown`. A hint, which anybody can send.

    >>> client_of("claude-cli/2.1.197 (external, sdk-cli)"), client_of("curl/8.5.0"), client_of("")
    ('claude-code', 'curl', 'unknown')
    """
    start = user_agent.strip().lower()
    for prefix, client in _FAMILIES:
        if start.startswith(prefix):
            return client
    return slug_of(re.split(r"[/\s(]", start, maxsplit=1)[0]) or "unknown"


def slug_of(name: str) -> str:
    """Lower case letters, digits and dashes, 40 at most; empty where the name has none of them.

    >>> slug_of("Claude Code (work)"), slug_of("編集")
    ('claude-code-work', '')
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].rstrip("-")


def _pattern(user_agent: str | None) -> re.Pattern[str] | None:
    if user_agent is None:
        return None
    # `fnmatch` reads sets in brackets too, which a User-Agent may well hold itself.
    return re.compile(fnmatch.translate(user_agent.replace("[", "[[]")), re.IGNORECASE)


def _holds(match: MatchConfig, pattern: re.Pattern[str] | None, sender: Sender, hmacs: Sequence[str]) -> bool:
    return (
        (match.listen is None or sender.listen == str(match.listen))
        and (match.proxy_user is None or sender.proxy_user == match.proxy_user)
        and (match.api_key is None or _is_among(match.api_key, hmacs))
        and (pattern is None or pattern.fullmatch(sender.user_agent[:LONGEST_USER_AGENT]) is not None)
        and match != MatchConfig()
    )


def _is_among(api_key: str, hmacs: Sequence[str]) -> bool:
    """All are compared, each in constant time."""
    same = [hmac.compare_digest(api_key, one) for one in hmacs]
    return any(same)
