"""A search that a client asks for itself: over its own conversations, but for the one that it is in."""

from __future__ import annotations

from memory.conversations.memories import UnusableError
from memory.conversations.reading import NotThereError
from memory.conversations.recall import Recalled
from memory.conversations.recall_tool import NotRecalledError, RecallQuery
from web.conversations_api import Conversations


async def recalled(conversations: Conversations, client: str, query: RecallQuery) -> Recalled:
    """What answers the query. Raises NotRecalledError."""
    memories, recorder = conversations.memories, conversations.recorder
    if memories is None or recorder is None:
        if conversations.trouble is not None:
            raise NotRecalledError(conversations.trouble)
        return Recalled()
    try:
        own = recorder.asking(client)
        return await memories.recall(
            client, query.query, limit=query.limit, after=query.after, before=query.before, own=own
        )
    except NotThereError:  # deleted meanwhile
        return Recalled()
    except UnusableError as error:
        raise NotRecalledError(
            f"The conversations cannot be searched: {error}. Go on without them, and tell the user, "
            "whom the Conversations page of mitmemory shows what to do."
        ) from None
    except OSError as error:
        raise NotRecalledError(
            f"The conversations cannot be searched: the disk refuses ({error.strerror}). Go on without them, and tell the user."
        ) from None
