"""Which note a link means: Obsidian's resolution, over the paths and aliases of one source.

The order is that of notes.md, "Markdown": an exact path from the source's root; a path relative to the linking note
(`./`, `../`); the shortest path whose end matches, a note in the linking note's own folder winning a tie; aliases
last. Upper and lower case are the same, and so are Unicode's ways of writing one letter (NFC); spaces count.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

from memory.notes import Note

ATTACHMENTS = frozenset(
    {
        # What Obsidian accepts beside notes (https://help.obsidian.md/file-formats) ...
        *("avif", "bmp", "gif", "jpeg", "jpg", "png", "svg", "webp", "canvas", "base", "pdf"),
        *("3gp", "flac", "m4a", "mkv", "mov", "mp3", "mp4", "ogg", "ogv", "wav", "webm"),
        # ... and what else people keep beside them.
        *("css", "csv", "doc", "docx", "heic", "htm", "html", "json", "ods", "odt", "pptx", "tif", "tiff"),
        *("xls", "xlsx", "xml", "yaml", "yml", "zip"),
    }
)
"""Extensions of files that are no notes: a link to one is neither an edge nor unresolved."""


def is_attachment(target: str) -> bool:
    return PurePosixPath(target).suffix[1:].lower() in ATTACHMENTS


class LinkResolver:
    """Finds the note that a link in another note means. Built once per source, immutable after."""

    def __init__(self, notes: Iterable[Note]) -> None:
        self._by_path: dict[str, Note] = {}
        self._by_name: defaultdict[str, list[tuple[str, Note]]] = defaultdict(list)
        self._by_alias: dict[str, Note] = {}
        # Shortest first and then by name: what a link finds first does not depend on the order of a scan.
        for note in sorted(notes, key=_closeness):
            path = _key(note.path)
            for form in dict.fromkeys((path, _without_extension(path))):
                self._by_path.setdefault(form, note)
                self._by_name[form.rpartition("/")[2]].append((form, note))
            for alias in note.aliases:
                self._by_alias.setdefault(_key(alias), note)

    def resolve(self, target: str, origin: Note) -> Note | None:
        """The note that `target` means in `origin` (of the same source); None when there is none."""
        key = _key(target)
        if not key:
            return origin
        if key.startswith(("./", "../")):
            absolute = _join(_key(origin.path).rpartition("/")[0], key)
            return None if absolute is None else self._by_path.get(absolute)
        if key.startswith("/"):
            return self._by_path.get(key[1:])
        return self._by_path.get(key) or self._by_end(key, origin) or self._by_alias.get(key)

    def _by_end(self, key: str, origin: Note) -> Note | None:
        end = "/" + key
        found = [note for form, note in self._by_name.get(key.rpartition("/")[2], ()) if form.endswith(end)]
        if not found:
            return None
        depth = found[0].path.count("/")
        shortest = (note for note in found if note.path.count("/") == depth)
        return next((note for note in shortest if note.folder == origin.folder), found[0])


def _closeness(note: Note) -> tuple[int, bool, int, str]:
    """Fewest folders first; of a name that both `.md` and another extension have, `.md`; then fewest characters."""
    return note.path.count("/"), not note.path.lower().endswith(".md"), len(note.path), note.path


def _key(path: str) -> str:
    # Obsidian reads a no-break space as a space, on both sides.
    return unicodedata.normalize("NFC", path.replace("\u00a0", " ").replace("\\", "/").casefold())


def _without_extension(path: str) -> str:
    stem, dot, _ = path.rpartition(".")
    return stem if dot and not stem.endswith("/") and stem else path


def _join(folder: str, relative: str) -> str | None:
    """`relative` seen from `folder`; None when it leaves the source."""
    parts = folder.split("/") if folder else []
    for part in relative.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
