"""Where a text names a note: by its path, by a file name that only one note has, by `[[title]]` or `[[alias]]`.

The finder is anchored: it looks for `.md` (whatever extensions the notes have) and for `[[`, walks back from there to
where a name may begin, and looks that up. Its cost does not grow with the number of notes. The rules are those of
`docs/detection.md`; the traps that they avoid are in `tests/memory/cases/mentions.txt`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from memory.listings import listing_rows
from memory.pieces import Batch, matches, pieces

GENERIC_NAMES = frozenset({"readme.md", "index.md", "claude.md", "agents.md", "memory.md", "skill.md"})
"""Names that many folders have, and that clients' own prompts name: they count only with their path."""

_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Scripts that put no space between words: a Latin name may begin or end right beside them."""
_NAME_MAY_BEGIN_AFTER = re.compile(rf"[^\w\-.~%+$]|(?<=[{_IDEOGRAPH}])(?=[0-9A-Za-z])")
_NAME_GOES_ON = rf"(?!-[0-9]{{1,7}}-)(?:[^\W{_IDEOGRAPH}]|[.\-]\w|[~/])"
_WIKILINK = re.compile(r"\[\[([^\[\]\n]{1,400})\]\]")
_AFTER_TARGET = re.compile(r"[|#^]")
_URL_ENDS = re.compile(r"[\s\"'<>`|)\]}]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,40}$")
_DRIVE = re.compile(r"[A-Za-z]:")
_EMAIL = re.compile(r"\w@$")
"""Before a name: it is the domain of an address (`.md` is a country's)."""
_LONGEST_URL = 1000
_LAST_WORD = re.compile(r"[A-Za-z0-9_]*\Z")
_ENDING = 6
"""Characters of the word before an extension that are looked at first."""
MOST_EFFORT = 1_000_000
"""What the names in one body may cost, in about a microsecond each: some 30,000 names, or 1,000,000 that are none."""
_CLOSER = 20
_HARD_STOPS = '\n\r\t"\0'


@dataclass(frozen=True, slots=True)
class NamedNote:
    """What a note can be called. Notes with the same `identity` are one file that was reached more than once."""

    path: str
    title: str
    aliases: tuple[str, ...]
    root: str | None
    """The absolute folder of its source; None: it has none, or it is not known."""
    identity: str


class Mention(NamedTuple):
    """A note (its place in the list the finder was made from) named in the line `row` (from 0) of a text."""

    row: int
    note: int
    listed: bool
    """In a folder listing: known to exist, not spoken of."""


class Effort:
    """How much work may still be spent on the names in one body: one that is made of names would take minutes."""

    def __init__(self, most: int = MOST_EFFORT) -> None:
        self._left = most

    @property
    def is_spent(self) -> bool:
        """Whether something was not looked at for it."""
        return self._left < 0

    def spend(self, units: int) -> bool:
        """Whether there is enough left."""
        if self._left >= 0:
            self._left -= units
        return self._left >= 0


type _Notes = tuple[int, ...]


class _Window(NamedTuple):
    """The end of a text up to some place, with `/` for every separator. `whole`: nothing of its line is cut off."""

    text: str
    whole: bool
    is_unquoted: bool = False

    @classmethod
    def before(cls, text: str, end: int, reach: int) -> _Window:
        start = max(0, end - reach)
        begin = max(start, 1 + max(text.rfind(stop, start, end) for stop in _HARD_STOPS))
        return cls(_plain_path(text[begin:end]), begin == 0 or text[begin - 1] in _HARD_STOPS)

    def unquoted(self) -> _Window:
        return _Window(unicodedata.normalize("NFC", unquote(self.text)), self.whole, is_unquoted=True)


class MentionFinder:
    """Immutable. `careful` is `memory.mentions: careful`: generic names, shared titles and listings are told apart.

    `fold_paths`: paths and file names match in any case, as on Windows and macOS; titles and aliases always do.
    """

    def __init__(self, notes: Sequence[NamedNote], *, careful: bool, fold_paths: bool) -> None:
        self._careful = careful
        self._fold_paths = fold_paths
        self._roots = tuple(_plain_path(note.root).rstrip("/") if note.root is not None else None for note in notes)
        paths: dict[str, list[int]] = {}
        files: dict[str, list[int]] = {}
        titles: dict[str, list[int]] = {}
        stems: dict[str, list[int]] = {}
        pages: dict[str, list[int]] = {}
        extensions: set[str] = set()
        for place, note in enumerate(notes):
            path = unicodedata.normalize("NFC", note.path)
            file = path.rpartition("/")[2]
            stem, dot, extension = file.rpartition(".")
            paths.setdefault(self._fold(path), []).append(place)
            generic = careful and file.casefold() in GENERIC_NAMES
            names = {_fold_title(name) for name in (note.title, *note.aliases)}
            if dot and stem:
                extensions.add(extension)
                pages.setdefault(_fold_title(path[: -len(extension) - 1]), []).append(place)
                files.setdefault(self._fold(file), []).append(place)
                if generic:
                    names.discard(_fold_title(stem))
                else:
                    stems.setdefault(_fold_title(stem), []).append(place)
            for name in names - {""}:
                titles.setdefault(name, []).append(place)

        def unique(table: Mapping[str, list[int]]) -> dict[str, _Notes]:
            return {
                name: tuple(places)
                for name, places in table.items()
                if len(places) == 1 or len({notes[place].identity for place in places}) == 1
            }

        self._paths = {name: tuple(places) for name, places in paths.items()}
        bare = unique(files) | self._paths
        self._bare = {name: places for name, places in bare.items() if not (careful and _is_generic(name))}
        self._linked = (
            unique(stems)
            | {name: tuple(places) for name, places in pages.items() if "/" in name}
            | (unique(titles) if careful else {name: tuple(places) for name, places in titles.items()})
        )
        self._longest = max(map(len, chain(self._paths, self._bare)), default=0)
        self._near = 2 * self._longest + 16  # separators may be doubled, spaces may be %20
        self._far = self._near + 2 * max((len(root) for root in self._roots if root), default=0) + _LONGEST_URL
        alternatives = "|".join(sorted(map(re.escape, extensions), key=lambda one: (-len(one), one)))
        anchor = rf"\.(?>{alternatives})(?!{_NAME_GOES_ON})"
        self._anchor = re.compile(anchor, re.IGNORECASE if fold_paths else 0) if extensions else None
        self._begin_extensions = _first_bytes(extensions, fold=fold_paths)
        self._endings = frozenset(map(_ending, chain(self._paths, self._bare)))

    def find(self, text: str, effort: Effort | None = None) -> list[Mention]:
        """Every mention in a text, by row (its lines are what newlines part), or as many as `effort` is enough for."""
        effort = effort or Effort()
        return [mention for first_row, piece in pieces(text) for mention in self._mentions_in(piece, first_row, effort)]

    def may_name(self, batch: Batch) -> set[int]:
        """The numbers of the texts that have a sign of a name in them: `[[`, or the beginning of an extension."""
        data = batch.bytes
        dots = (data[:-2] == ord(".")).nonzero()[0]
        for step, bytes_there in enumerate(self._begin_extensions, 1):
            dots = dots[bytes_there[data[dots + step]]]
        brackets = (data[:-1] == ord("[")).nonzero()[0]
        return batch.numbers_at(np.concatenate((dots, brackets[data[brackets + 1] == ord("[")])))

    def _mentions_in(self, text: str, first_row: int, effort: Effort) -> Iterator[Mention]:
        found = sorted({*self._files_in(text, effort), *self._links_in(text, effort)})
        if not found:
            return
        placed: dict[tuple[int, int], None] = {}
        row = counted = 0
        for offset, note in found:
            row += text.count("\n", counted, offset)
            counted = offset
            placed[row, note] = None
        rows = (row for row, _ in placed)
        listed = listing_rows(text.split("\n"), rows, self._is_name) if self._careful else set[int]()
        for row, note in sorted(placed):
            yield Mention(first_row + row, note, row in listed)

    def _links_in(self, text: str, effort: Effort) -> Iterator[tuple[int, int]]:
        for link in matches(_WIKILINK, text) if "[[" in text else ():
            if not effort.spend(_CLOSER):
                return
            inner = link[1]
            target = _AFTER_TARGET.split(inner, maxsplit=1)[0].rstrip("\\")
            notes = self._linked.get(_fold_title(inner)) or self._linked.get(_fold_title(target)) or ()
            for note in notes:
                yield link.start(), note

    def _files_in(self, text: str, effort: Effort) -> Iterator[tuple[int, int]]:
        for anchor in matches(self._anchor, text) if self._anchor else ():
            start, end = anchor.span()
            closer = self._may_end_a_name(text, start, end)
            if not effort.spend(_CLOSER + self._near // 10 if closer else 1):
                return
            if not closer:
                continue
            near = _Window.before(text, end, self._near)
            notes = self._named_by(near, text, end)
            if not notes and "%" in near.text:
                notes = self._named_by(near.unquoted(), text, end)
            for note in notes:
                yield start, note

    def _may_end_a_name(self, text: str, start: int, end: int) -> bool:
        """Whether any note's name ends with the word before `text[start:end]`, an extension. It costs next to nothing.

        Where that word is not written as it is in a name (`%20`, accents), it may.
        """
        before = text[max(0, start - _ENDING - 3) : start]
        if "%" in before:
            return True
        word = _LAST_WORD.search(before, max(0, len(before) - _ENDING))
        if word is None or (word.start() and before[word.start() - 1] >= "\x80"):
            return True
        return self._fold(word[0] + text[start:end]) in self._endings

    def _named_by(self, near: _Window, text: str, end: int) -> _Notes:
        """The notes that the longest name names which ends at `end` of a text; `near` is what stands before it."""
        first = max(0, len(near.text) - self._longest - 1)
        starts = (match.end() for match in _NAME_MAY_BEGIN_AFTER.finditer(near.text, first))
        for start in chain((0,) if near.whole else (), starts):
            name = self._fold(near.text[start:])
            below = start > 0 and near.text[start - 1] == "/"
            notes = (self._paths if below else self._bare).get(name)
            if notes is None:
                continue
            far = _Window.before(text, end, self._far)  # looked at last: names that are a note's are rare
            if near.is_unquoted:
                far = far.unquoted()
            before = far.text[: len(far.text) - len(near.text) + start]
            if _in_foreign_url(before):
                return ()
            if below:
                notes = tuple(note for note in notes if self._leads_to(before[:-1], note, name, far.whole))
            elif _EMAIL.search(before):
                continue
            if notes:
                return notes
        return ()

    def _leads_to(self, before: str, note: int, name: str, whole: bool) -> bool:
        """Whether what stands before `/name` is the root of the note's source, or the folder one is in (`./name`)."""
        if before.endswith(".") and not (self._careful and _is_generic(name)):
            return _may_begin_at(before, len(before) - 1, whole)
        root = self._roots[note]
        if root is None:
            return False
        fold = self._fold_paths or _DRIVE.match(root)
        folded, wanted = (before.casefold(), root.casefold()) if fold else (before, root)
        if folded.endswith(wanted):
            at = len(before) - len(root)
            return before[:at].casefold().endswith(("file://", "file:///")) or _may_begin_at(before, at, whole)
        home = folded.rfind("~/")
        return home >= 0 and wanted.endswith(folded[home + 1 :]) and _may_begin_at(before, home, whole)

    def _is_name(self, text: str) -> bool:
        return self._fold(_plain_path(text)) in self._bare

    def _fold(self, path: str) -> str:
        return path.casefold() if self._fold_paths else path


def _first_bytes(extensions: Iterable[str], *, fold: bool) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which bytes may be the first and the second one of an extension, by their value."""
    tables = np.zeros((2, 256), np.bool_)
    for extension in extensions:
        for form in (extension, extension.upper(), extension.lower()) if fold else (extension,):
            first, *rest = form.encode("utf-8", "surrogatepass")
            tables[0, first] = True
            tables[1, rest[0] if rest else slice(None)] = True
    if fold:
        tables[:, 0x80:] = True  # `k` is also the sign for Kelvin
    return tables[0], tables[1]


def _ending(name: str) -> str:
    """The word that a name ends with, or the end of it, and its extension."""
    stem, dot, extension = name.rpartition(".")
    word = _LAST_WORD.search(stem, max(0, len(stem) - _ENDING))
    return f"{word[0] if word else ''}{dot}{extension}"


def _plain_path(text: str) -> str:
    r"""Composed, with `/` for every separator: `C:\v`, and `C:\\v` as JSON in a string has it; a shell's `\ ` is a
    space.
    """
    if "\\" in text:
        text = re.sub(r"\\+/?", "/", text.replace("\\ ", " "))
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _fold_title(title: str) -> str:
    return unicodedata.normalize("NFC", title).strip().casefold()


def _is_generic(path: str) -> bool:
    return "/" not in path and path.casefold() in GENERIC_NAMES


def _in_foreign_url(window: str) -> bool:
    """Whether the end of the window is inside a URL whose scheme is not `file:`."""
    at = window.rfind("://")
    if at < 0 or _URL_ENDS.search(window, at + 3):
        return False
    scheme = _SCHEME.search(window, 0, at)
    return scheme is None or scheme[0].lower() != "file"


def _may_begin_at(text: str, at: int, begins_here: bool) -> bool:
    if at == 0:
        return begins_here
    return text[at - 1] != "/" and _NAME_MAY_BEGIN_AFTER.match(text, at - 1) is not None
