"""The tokens of clients: each opens the MCP endpoint of one client, and nothing else.

A token is shown when it is made. What is kept is its hash, beside the client's folder, so that it goes with the client.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets

from web.access import TOKEN_BYTES
from web.conversations_api import Conversations

_NOBODYS = "0" * 64
"""Where there is no token, this is compared: that takes as long."""


class ClientTokens:
    """Of the clients that have a memory."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations

    @property
    def trouble(self) -> str | None:
        """Why there is no place for tokens, although there should be."""
        return self._conversations.trouble

    def is_on(self, client: str) -> bool | None:
        """Whether a client, by its slug, has a memory; None: there is no such client."""
        return self._conversations.is_on(client)

    def has(self, client: str) -> bool:
        """Whether a token was made for the client, by its slug."""
        store = self._conversations.store
        return store is not None and store.token_of(client) is not None

    def proves(self, client: str, token: str) -> bool:
        """Whether it is the token of this client, and the client has a memory."""
        store = self._conversations.store
        kept = store.token_of(client) if store is not None else None
        same = hmac.compare_digest(_digest(token), kept or _NOBODYS)
        return same and kept is not None and self._conversations.is_on(client) is True

    async def make(self, client: str) -> str | None:
        """A new token in the place of the old one; None: there is no place to keep it. Raises OSError."""
        store = self._conversations.store
        if store is None:
            return None
        token = secrets.token_urlsafe(TOKEN_BYTES)
        await asyncio.to_thread(store.set_token, client, _digest(token))
        return token


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
