"""`pytest --hypothesis-profile=thorough tests/memory` tries far more examples than a usual run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from memory.activity_store import ActivityStore
from tests.memory.activity_logs import DAY, Opener

settings.register_profile("thorough", max_examples=3_000, deadline=None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where an activity log is kept."""
    return tmp_path / "state" / "activity.db"


@pytest.fixture
async def opened(file: Path) -> AsyncIterator[Opener]:
    """Opens logs there, which are closed in the end."""
    stores: list[ActivityStore] = []

    def opener(**options: Any) -> ActivityStore:
        store = ActivityStore(file, **({"keep": DAY, "max_entries": 1000} | options))
        stores.append(store)
        store.start()
        return store

    yield opener
    for store in stores:
        await store.aclose()
