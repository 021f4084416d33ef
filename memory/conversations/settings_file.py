"""`.memsearch.toml` in a client's folder: how its index is made. Written by us, and read back by us.

memsearch itself takes only a few keys from such a file and drops the others without a word (0.4.23), so it is never
left to read it. `[embedding]` says what `mitm.yaml` says, so that no file in a folder can send conversations anywhere;
`[chunking]` is the person's to change.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from memory.conversations.embedding import EmbeddingSettings
from memory.conversations.files import UNFINISHED, replace

NAME = ".memsearch.toml"
SMALLEST_CHUNK = 200
LARGEST_CHUNK = 16_000
MOST_OVERLAP = 50

HEAD = """\
# Written by mitmemory. `embedding` follows mitm.yaml; `chunking` is yours to change: the index is then made anew.

"""


class SettingsFileError(ValueError):
    """The file is not what it has to be. The message is for a person, and names no more than the file and the key."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """At most so many characters in one piece, and how many lines of it the next piece begins with."""

    max_chunk_size: int = 1500
    overlap_lines: int = 2


def read_chunking(folder: Path) -> Chunking:
    """What the file of this client says; the defaults where there is none, or where it says nothing.

    Raises SettingsFileError, OSError.
    """
    try:
        document = tomllib.loads((folder / NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Chunking()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise SettingsFileError(f"{NAME} is not valid TOML: mend it, or delete it") from None
    section = document.get("chunking", {})
    if not isinstance(section, dict):
        raise SettingsFileError(f"{NAME}: `chunking` must be a table")
    default = Chunking()
    return Chunking(
        _number(section, "max_chunk_size", default.max_chunk_size, SMALLEST_CHUNK, LARGEST_CHUNK),
        _number(section, "overlap_lines", default.overlap_lines, 0, MOST_OVERLAP),
    )


def write_settings(folder: Path, embedding: EmbeddingSettings, chunking: Chunking) -> None:
    """Write the file, unless it says the same already. A key is named by its variable, never written. Raises OSError."""
    said = {
        "provider": embedding.provider,
        "model": embedding.model,
        "base_url": embedding.base_url,
        "api_key": embedding.api_key_env and f"env:{embedding.api_key_env}",
    }
    document = {
        "embedding": {key: value for key, value in said.items() if value is not None},
        "chunking": {"max_chunk_size": chunking.max_chunk_size, "overlap_lines": chunking.overlap_lines},
    }
    file = folder / NAME
    if not _says(file, document):
        replace(file, (HEAD + tomli_w.dumps(document)).encode(), folder / UNFINISHED)


def _says(file: Path, document: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8")) == document
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        return False


def _number(section: dict[str, Any], key: str, default: int, least: int, most: int) -> int:
    value = section.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SettingsFileError(f"{NAME}: `chunking.{key}` must be a number from {least} to {most}")
    return value
