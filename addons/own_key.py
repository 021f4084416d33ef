"""The installation's own key, under which API keys are hashed: an API key itself is never stored (interception.md)."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

KEY_FILE = "client-key"
KEY_BYTES = 32


def load_or_make_key(state: Path | None) -> bytes:
    """The key as kept in `state`, else a new one that is kept there, 0600; without a directory one for this run only.

    Raises OSError when it can be neither read nor kept, ValueError when the file holds something else: a new key would
    silently part every `hmac:` of the configuration from its API key.
    """
    if state is None:
        return secrets.token_bytes(KEY_BYTES)
    file = state / KEY_FILE
    if not file.exists():
        _make(file)
    key = file.read_bytes()
    if len(key) != KEY_BYTES:
        raise ValueError(f"{file} is damaged: delete it, and write the `hmac:` of each client anew")
    if file.stat().st_mode & 0o077:
        file.chmod(0o600)
    return key


def _make(file: Path) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(secrets.token_bytes(KEY_BYTES))
        # Linked, not renamed: where two programs make it at once, both must end up with the same.
        os.link(unfinished, file)
    except FileExistsError:
        pass
    finally:
        unfinished.unlink()
