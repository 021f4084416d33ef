"""What is known of note files, kept between runs so that a second start need not parse them again.

It holds names only: paths, titles, aliases, tags, link targets. No line of a note is in it, and no fingerprint of one: a
note's content is told by a hash under a key that lies beside it, readable by its owner alone. (Fingerprints of lines
could be kept the same way, but short lines can be guessed by whoever has both files, and reading the notes again costs
less than parsing them did.)
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from memory.markdown import Parsed
from memory.notes import Link

FORMAT = 2
"""Raised with every change of what a file holds or of how a note is parsed: older files are then left alone."""

KEY_BYTES = 32
_TAG_LINK, _EMBED = 2, 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One note file as it was read last. `parsed` has no frontmatter; `flaw`: what was wrong with its bytes."""

    size: int
    stamp: tuple[int, int]
    digest: bytes
    dialect: str
    parsed: Parsed
    flaw: str | None = None


def content_digest(content: bytes, key: bytes) -> bytes:
    return blake2b(content, digest_size=16, key=key).digest()


def cache_key(folder: Path) -> bytes:
    """The key of the caches in a folder, made when there is none. Without a folder to write to: one for this run."""
    file = folder / "key"
    try:
        key = file.read_bytes()
    except OSError:
        key = b""
    if len(key) == KEY_BYTES:
        return key
    key = secrets.token_bytes(KEY_BYTES)
    with contextlib.suppress(OSError):
        _write(file, key)
    return key


def cache_file(folder: Path, name: str, location: str) -> Path:
    """Where the cache of a source lies; its name says nothing about it."""
    return folder / f"{blake2b(f'{name}\0{location}'.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}.json"


def read_cache(file: Path, key: bytes) -> dict[str, Entry]:
    """Path -> entry. Empty when there is no file, or none that this version and this key can use."""
    try:
        document = json.loads(file.read_bytes())
        if document["format"] != FORMAT or document["key"] != _check(key):
            return {}
        return {path: _entry(*row) for path, row in document["notes"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # whatever else may lie there is no cache
        return {}


def write_cache(file: Path, key: bytes, entries: dict[str, Entry]) -> None:
    """Replace the file in one step. A folder that cannot be written to is no error: the next start is slower."""
    document = {
        "format": FORMAT,
        "key": _check(key),
        "notes": {path: _row(entry) for path, entry in entries.items()},
    }
    with contextlib.suppress(OSError):
        _write(file, json.dumps(document, separators=(",", ":")).encode())


def _check(key: bytes) -> str:
    return blake2b(b"mitmemory notes", digest_size=8, key=key).hexdigest()


def _row(entry: Entry) -> list[Any]:
    parsed = entry.parsed
    links = [[link.target, _EMBED * link.embed + _TAG_LINK * link.tag] for link in parsed.links]
    said = [parsed.title, parsed.aliases, parsed.tags, links, parsed.names, parsed.warning, parsed.share]
    return [entry.size, *entry.stamp, entry.digest.hex(), entry.dialect, said, entry.flaw]


def _entry(
    size: int, modified: int, changed: int, digest: str, dialect: str, said: list[Any], flaw: str | None
) -> Entry:
    title, aliases, tags, links, names, warning, share = said
    parsed = Parsed(
        title=title,
        aliases=tuple(aliases),
        tags=tuple(tags),
        links=tuple([Link(target, bool(kind & _EMBED), bool(kind & _TAG_LINK)) for target, kind in links]),
        warning=warning,
        names=tuple(names),
        share=share,
    )
    return Entry(size, (modified, changed), bytes.fromhex(digest), dialect, parsed, flaw)


def _write(file: Path, content: bytes) -> None:
    """For the owner alone: `mkstemp` makes the file so."""
    for folder in (file.parent.parent, file.parent):  # the mode is that of the last folder alone
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        Path(temporary).replace(file)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
