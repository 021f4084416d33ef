"""The client that a command about the memory of conversations names."""

from __future__ import annotations

from addons.clients import ClientConfig, slug_of
from addons.config import Config


class NotRememberedError(Exception):
    """There is no such client, or it has no memory. The message says what to do."""


def remembered_client(config: Config, name: str) -> ClientConfig:
    """The client of this name or slug, whose memory is on. Raises NotRememberedError."""
    file = config.file or "the configuration"
    client = next((one for one in config.clients if one.slug == slug_of(name)), None)
    if client is None:
        known = ", ".join(one.slug for one in config.clients if one.memory_enabled)
        mend = f"name one of {known}, or add it" if known else "add it"
        raise NotRememberedError(f"{file} names no client {name}: {mend} under `clients`, with memory_enabled: true")
    if not client.memory_enabled:
        raise NotRememberedError(f"{name} has no memory: set memory_enabled: true for it in {file}")
    return client
