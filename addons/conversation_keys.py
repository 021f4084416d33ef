"""Which conversation a request belongs to (interception.md, "Which client")."""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict

from addons.wire.facts import RequestFacts
from memory.exchange import Exchange

LONGEST_KEY = 200
"""Characters kept of a conversation key and of a model's name, which are the client's to choose."""
MOST_ANSWERS = 10_000


class ConversationKeys:
    """The client's own key; else that of the answer which a request goes on from; else a keyed hash of the first message,
    which tells conversations apart and says nothing.

    The hash is keyed anew at each start. Methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(16)
        self._answers: OrderedDict[tuple[str, str], str] = OrderedDict()
        """(provider, id of an answer) -> the conversation it was given in; the oldest are forgotten first."""

    def key(self, exchange: Exchange, facts: RequestFacts) -> str | None:
        if facts.conversation is not None:
            return facts.conversation[:LONGEST_KEY]
        if facts.previous is not None and (known := self._answers.get((exchange.provider, facts.previous))):
            return known
        if facts.opening is None:
            return None
        opening = f"{exchange.client}\n{exchange.protocol}\n{facts.opening}".encode("utf-8", "surrogatepass")
        return f"opening-{hmac.digest(self._secret, opening, 'sha256').hex()[:16]}"

    def answered(self, exchange: Exchange, identifier: str | None) -> None:
        """A later request may name this answer instead of repeating what came before it (`previous_response_id`)."""
        if identifier is None or exchange.conversation is None or len(identifier) > LONGEST_KEY:
            return
        self._answers[exchange.provider, identifier] = exchange.conversation
        if len(self._answers) > MOST_ANSWERS:
            self._answers.popitem(last=False)
