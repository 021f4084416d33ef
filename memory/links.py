"""Which note a link means: Obsidian's resolution, over the paths and aliases of one source.

The order is what Obsidian 1.13.7 was seen to do (https://github.com/pvliesdonk/markdown-vault-mcp/pull/1380), and within
that of notes.md, "Markdown": an exact path from the source's root; a path relative to the linking note (`./`, `../`); the
name of a page, in dialects that have such; a path from the linking note's own folder; of the paths whose end matches the
shortest; aliases last. Upper and lower case are the same, and so are Unicode's ways of writing one letter (NFC); spaces
count.
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
        self._by_page: dict[str, Note] = {}
        self._by_alias: dict[str, Note] = {}
        self._twins: dict[str, Note] = {}
        """Paths as they are written, of notes that only case tells apart: a link finds the one that it writes."""
        notes = list(notes)
        self._names = [_names(note) for note in notes]
        # The shortest first, then by name: what a link finds first does not depend on the order of a scan.
        for note in sorted(notes, key=_closeness):
            written = _form(note.path)
            for form in dict.fromkeys((written, _without_extension(written))):
                key = _fold(form)
                twin = self._by_path.setdefault(key, note)
                if twin is not note:
                    for one in (twin, note):
                        self._twins.setdefault(_form(one.path), one)
                        self._twins.setdefault(_without_extension(_form(one.path)), one)
                self._by_name[key.rpartition("/")[2]].append((key, note))
            for name in note.names:
                self._by_page.setdefault(_fold(_form(name)), note)
            for alias in note.aliases:
                self._by_alias.setdefault(_fold(_form(alias)), note)

    def knows(self, notes: Iterable[Note]) -> bool:
        """Whether these are the notes that this was made of, as far as links can tell: same order, same names."""
        return [_names(note) for note in notes] == self._names

    def resolve(self, target: str, origin: Note) -> Note | None:
        """The note that `target` means in `origin` (of the same source); None when there is none."""
        form = _form(target)
        if not form:
            return origin
        folder = _form(origin.path).rpartition("/")[0]
        if form.startswith(("./", "../")):
            absolute = _join(folder, form)
            return None if absolute is None else self._at(absolute)
        if form.startswith("/"):
            return self._at(form[1:])
        key = _fold(form)
        return (
            self._at(form)
            or self._by_page.get(key)
            or self._at(f"{folder}/{form}")
            or self._by_end(form, key)
            or self._by_alias.get(key)
        )

    def _at(self, form: str) -> Note | None:
        return self._twins.get(form) or self._by_path.get(_fold(form))

    def _by_end(self, form: str, key: str) -> Note | None:
        end = "/" + key
        found = [note for path, note in self._by_name.get(key.rpartition("/")[2], ()) if path.endswith(end)]
        if not found:
            return None
        ends = (f"/{form}", f"/{form}.md")
        closest = (note for note in found if len(note.path) == len(found[0].path))
        return next((note for note in closest if self._twins and _form(note.path).endswith(ends)), found[0])


def _closeness(note: Note) -> tuple[bool, int, str]:
    """Of a name that both `.md` and another extension have, `.md`; then the path with the fewest characters."""
    return not note.path.lower().endswith(".md"), len(note.path), note.path


def _names(note: Note) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    return note.id, note.aliases, note.names


def _form(path: str) -> str:
    """A path in the one form in which it is compared, its case kept. Obsidian reads a no-break space as a space."""
    path = path.replace("\\", "/")
    return path if path.isascii() else unicodedata.normalize("NFC", path.replace("\u00a0", " "))


def _fold(form: str) -> str:
    return form.lower() if form.isascii() else unicodedata.normalize("NFC", form.casefold())


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
