"""`pytest --hypothesis-profile=thorough tests/memory` tries far more examples than a usual run."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("thorough", max_examples=3_000, deadline=None)
