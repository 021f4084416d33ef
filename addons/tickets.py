"""Who may use the gateway: whoever brings a ticket that the suite has just made, once and soon.

The token in the path names what is to be sent. The proof in the header shows that the bearer is this very process: it is
made of the token and of a secret that is never sent, so that a header which is seen, on a page or in a saved flow, is
worth nothing afterwards.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from typing import NamedTuple

TICKET_SECONDS = 30.0
"""How long a ticket is good. It is used within milliseconds, if the client does not leave first."""


class Ticket(NamedTuple):
    token: str
    proof: str


class Tickets[Kept]:
    """Keeps something for the bearer of each ticket. Used from the event loop's thread only."""

    def __init__(self, *, seconds: float = TICKET_SECONDS) -> None:
        self._seconds = seconds
        self._secret = secrets.token_bytes(32)
        self._kept: dict[str, tuple[Kept, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def issue(self, kept: Kept) -> Ticket:
        token = secrets.token_urlsafe(32)
        expiry = asyncio.get_running_loop().call_later(self._seconds, self._kept.pop, token, None)
        self._kept[token] = kept, expiry
        return Ticket(token, self._proof(token))

    def is_proven(self, token: str, proof: str) -> bool:
        """Compared in constant time; whether there is such a ticket is another question."""
        return hmac.compare_digest(proof.encode("utf-8", "replace"), self._proof(token).encode())

    def redeem(self, token: str) -> Kept | None:
        """What was kept, for the first who asks; None: used, too old, or never issued."""
        found = self._kept.pop(token, None)
        if found is None:
            return None
        kept, expiry = found
        expiry.cancel()
        return kept

    def clear(self) -> None:
        for _, expiry in self._kept.values():
            expiry.cancel()
        self._kept.clear()

    def _proof(self, token: str) -> str:
        return hmac.new(self._secret, token.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
