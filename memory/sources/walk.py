"""Finding the note files below a folder: symlinks, loops, exclusions, and the dialect of each folder."""

from __future__ import annotations

import os
from collections import deque
from operator import itemgetter
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

import pathspec

from memory.dialects import LOGSEQ, LOGSEQ_FOLDER, OBSIDIAN, Dialect, recognise
from memory.notes import SourceWarning
from memory.sources.files import readable


class NoteFile(NamedTuple):
    """A note file as the walk found it. `path` is relative, with `/`; `stamp`: modified and changed, in ns."""

    path: str
    real: str
    size: int
    stamp: tuple[int, int]
    dialect: Dialect


class _Place(NamedTuple):
    path: str
    real: str
    dialect: Dialect
    """What holds there as long as nothing in it tells otherwise."""


class Walk:
    """One walk over a folder: `files` in the order of their paths, `warnings` about what could not be read.

    Folders whose name starts with a dot are left out, and what `exclude` matches. Every real folder and file is there
    once, so loops of symlinks end; a note's own place wins over a symlink to it. Real paths tell what was seen
    already: not every file system has inode numbers to trust.

    Raises OSError, with a message for the user, when the folder itself cannot be read.
    """

    def __init__(self, folder: Path, *, exclude: pathspec.GitIgnoreSpec, extensions: tuple[str, ...]) -> None:
        if not folder.exists():
            raise FileNotFoundError(f"{folder} does not exist")
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is not a folder")
        try:
            os.scandir(folder).close()
        except PermissionError as error:
            raise PermissionError(f"{folder} cannot be read: permission denied") from error
        self.files: list[NoteFile] = []
        self.warnings: list[SourceWarning] = []
        self._exclude = exclude if exclude.patterns else None
        self._extensions = extensions
        self._folders = deque([_Place("", os.path.realpath(folder), OBSIDIAN)])
        self._links: deque[_Place] = deque()
        self._seen_folders: set[str] = set()
        self._seen_files: set[str] | None = None
        """Made when the first symlink is followed; most folders have none."""
        self._walk()
        self.files.sort(key=itemgetter(0))

    def _walk(self) -> None:
        while self._folders or self._links:
            # What lies in the folder itself comes before everything that symlinks lead to.
            place, step = (
                (self._folders.popleft(), self._enter) if self._folders else (self._links.popleft(), self._follow)
            )
            try:
                step(place)
            except OSError as error:
                self._warn(place.path, error)

    def _enter(self, folder: _Place) -> None:
        if folder.real in self._seen_folders:
            return
        self._seen_folders.add(folder.real)
        with os.scandir(folder.real) as entries:
            listed = list(entries)
        folders: list[str] = []
        files: list[os.DirEntry[str]] = []
        links: list[str] = []
        for entry in listed:
            if entry.is_symlink() or entry.is_junction():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                files.append(entry)
            # Anything else is no note: a pipe that is named like one would block the scan for ever.
        settings = os.path.join(folder.real, LOGSEQ_FOLDER, "config.edn")  # noqa: PTH118  # walks are made of strings
        has_settings = LOGSEQ_FOLDER in folders and os.path.exists(settings)  # noqa: PTH110
        names = {entry.name for entry in files}
        dialect = recognise(folders, names, has_logseq_settings=has_settings) or folder.dialect
        above, above_real = (f"{folder.path}/" if folder.path else ""), f"{folder.real}{os.sep}"
        for entry in files:
            if self._is_note(path := above + entry.name):
                try:
                    status = os.stat(entry.path)  # noqa: PTH116  # takes half as long as the entry's own stat
                except OSError as error:  # it went away meanwhile
                    self._warn(path, error)
                else:
                    self._add(path, entry.path, status, dialect)
        for name in sorted(folders):
            if self._is_wanted_folder(place := _Place(above + name, above_real + name, dialect)):
                self._folders.append(place)
        self._links.extend(_Place(above + name, above_real + name, dialect) for name in sorted(links))

    def _follow(self, link: _Place) -> None:
        if self._seen_files is None:
            self._seen_files = {file.real for file in self.files}
        target = link._replace(real=os.path.realpath(link.real))
        try:
            status = os.stat(target.real)  # noqa: PTH116
        except OSError:
            # A loop of symlinks, or a target that is not there, is worth a warning if it is named like a note.
            if self._is_note(link.path):
                raise
            return
        if S_ISDIR(status.st_mode):
            if self._is_wanted_folder(target):
                self._enter(target)
        elif S_ISREG(status.st_mode) and self._is_note(link.path) and target.real not in self._seen_files:
            self._add(target.path, target.real, status, target.dialect)

    def _add(self, path: str, real: str, status: os.stat_result, dialect: Dialect) -> None:
        stamp = status.st_mtime_ns, status.st_ctime_ns
        self.files.append(NoteFile(_as_text(path), real, status.st_size, stamp, dialect))
        if self._seen_files is not None:
            self._seen_files.add(real)

    def _warn(self, path: str, error: OSError) -> None:
        self.warnings.append(SourceWarning(_as_text(path), f"cannot be read: {error.strerror or error}"))

    def _is_wanted_folder(self, place: _Place) -> bool:
        name = place.path.rpartition("/")[2]
        if name.startswith(".") or (place.dialect is LOGSEQ and name == LOGSEQ_FOLDER):
            return False
        return self._exclude is None or not self._exclude.match_file(place.path + "/")

    def _is_note(self, path: str) -> bool:
        if not path.lower().endswith(self._extensions):
            return False
        return self._exclude is None or not self._exclude.match_file(path)


def _as_text(path: str) -> str:
    return path if path.isascii() else readable(path)
