"""Which of Claude Code's requests are no turn of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from addons.wire.chat_messages import texts
from addons.wire.facts import header
from addons.wire.shapes import items, member

_CLASSES = ("auxiliary", "compaction", "side_reply")
_TOPIC = "isNewTopic"
"""The member of the JSON that it wanted of a small model for each new message, before it asked for it by a schema."""


def asks_aside(headers: Mapping[str, str], body: Any) -> bool:
    """Whether it only tries its key or its quota, or has a chat named, a topic or a memory found, a chat summarised.

    Newer versions say so in a header, where they talk to a gateway. A probe of any client has `max_tokens: 1`. Else it
    is what has no tools and wants JSON of a given shape: a turn has tools, and gives JSON through one of them.
    """
    if header(headers, "x-claude-code-request-class") in _CLASSES or member(body, "max_tokens") == 1:
        return True
    if not (header(headers, "user-agent") or "").startswith("claude-cli/") or items(member(body, "tools")):
        return False
    wanted = member(body, "output_config", "format") or member(body, "output_format")
    return member(wanted, "type") == "json_schema" or any(_TOPIC in text for text in texts(member(body, "system")))
