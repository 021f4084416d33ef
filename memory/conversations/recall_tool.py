"""The recall tool as models see it: its name, what it is for, and how its arguments are read.

The same for the MCP server and for the loop. Its JSON is made once and stays the same to the byte, since prompts are cached
by what they begin with.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory.conversations.recall import MOST_RESULTS
from memory.since import parse_since

DEFAULT_NAME = "MemoryRecall"

DESCRIPTION = (
    "Search the user's past conversations with you. Use it whenever the user refers to something said, decided or found "
    "before, or when an earlier conversation may hold what you need. It returns the passages that fit best, each with "
    "its date and its relevance, as quoted data; or says that there is none."
)
_SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look for: a question, or words that were used."},
        "after": {"type": "string", "description": "Only what was said since: a date like 2026-03-04, or 2d, 6h ago."},
        "before": {"type": "string", "description": "Only what was said until: as after."},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST_RESULTS, "description": "How many passages."},
    },
    "required": ["query"],
}


class ArgumentsError(ValueError):
    """Arguments that no search can be made of. The message is for the model."""


class NotRecalledError(RuntimeError):
    """The search came to nothing. The message is for the model, and says what can be done."""


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """What to search for. `limit` None: as many as the configuration says."""

    query: str
    after: datetime | None = None
    before: datetime | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class RecallTool:
    """The tool under the name that the configuration gives it (`conversations.recall_tool_name`)."""

    name: str = DEFAULT_NAME

    @property
    def description(self) -> str:
        return DESCRIPTION

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments; a new object each time."""
        schema: dict[str, Any] = json.loads(json.dumps(_SCHEMA))
        return schema


def read_arguments(arguments: Any, now: datetime) -> RecallQuery:
    """The query that a model asks for. `arguments` is decoded JSON. Raises ArgumentsError.

    Lenient where the meaning is clear: an unknown key is passed over, a limit out of bounds is brought into them.
    """
    query = arguments.get("query") if isinstance(arguments, dict) else None
    if not isinstance(query, str) or not query.strip():
        raise ArgumentsError("`query` must say what to look for")
    limit = arguments.get("limit")
    return RecallQuery(
        query,
        _time(arguments, "after", now),
        _time(arguments, "before", now),
        min(max(limit, 1), MOST_RESULTS) if type(limit) is int else None,
    )


def _time(arguments: dict[str, Any], key: str, now: datetime) -> datetime | None:
    written = arguments.get(key)
    if written is None or written == "":
        return None
    try:
        return parse_since(written if isinstance(written, str) else "", now)
    except ValueError:
        raise ArgumentsError(f"`{key}` must be a date like 2026-03-04, or a duration like 2d or 6h") from None
