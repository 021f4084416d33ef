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

import numpy as np

from memory.effort import Effort
from memory.listings import FEWEST_NAMES, listing_rows, may_be_listed
from memory.name_windows import IDEOGRAPH, Window, in_foreign_url, may_begin_at, plain_path
from memory.pieces import matches
from memory.sifting import Beginnings

GENERIC_NAMES = frozenset({"readme.md", "index.md", "claude.md", "agents.md", "memory.md", "skill.md"})
"""Names that many folders have, and that clients' own prompts name: they count only with their path."""

_NAME_GOES_ON = rf"(?!-[0-9]{{1,7}}-)(?:[^\W{IDEOGRAPH}]|[.\-]\w|[~/])"
_WIKILINK = re.compile(r"\[\[([^\[\]\n]{1,400})\]\]")
_AFTER_TARGET = "|#^"
_DRIVE = re.compile(r"[A-Za-z]:")
_EMAIL = re.compile(r"\w@$")
"""Before a name: it is the domain of an address (`.md` is a country's)."""
_LONGEST_URL = 1000
_LAST_WORD = re.compile(r"[A-Za-z0-9_]*\Z")
_ENDING = 6
"""Characters of the word before an extension that are looked at first."""
_CLOSER = 20


@dataclass(frozen=True, slots=True)
class NamedNote:
    """What a note can be called. Notes with the same `identity` are one file that was reached more than once."""

    path: str
    title: str
    aliases: tuple[str, ...]
    root: str | None
    """The absolute folder of its source; None: it has none, or it is not known."""
    identity: str


type _Notes = tuple[int, ...]


class MentionFinder:
    """Immutable. `careful` is `memory.mentions: careful`: generic names, shared titles and listings are told apart.

    `fold_paths`: paths and file names match in any case, as on Windows and macOS; titles and aliases always do.
    """

    def __init__(self, notes: Sequence[NamedNote], *, careful: bool, fold_paths: bool) -> None:
        self._careful = careful
        self._fold_paths = fold_paths
        self._roots = tuple(plain_path(note.root).rstrip("/") if note.root is not None else None for note in notes)
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
        self.beginnings = _beginnings(extensions, fold=fold_paths)
        """Without one of these, or `[[`, a row names no note."""
        lengths: dict[str, set[int]] = {}
        for name in chain(self._paths, self._bare):
            lengths.setdefault(_ending(name), set()).add(len(name))
        self._lengths = {ending: tuple(sorted(there, reverse=True)) for ending, there in lengths.items()}
        """What names end with -> how many characters those have that end so, the longest first."""

    def named_in(self, rows: str, effort: Effort) -> list[tuple[int, int]]:
        """(row, from 0; note, by its place) for the notes that rows of text name, ascending, each once; or for as many as
        `effort` is enough for. No name reaches over a row: those that follow each other need not do so where they are from.
        """
        found = sorted({*self._files_in(rows, effort), *self._links_in(rows, effort)})
        named: set[tuple[int, int]] = set()
        row = counted = 0
        for offset, note in found:
            row += rows.count("\n", counted, offset)
            counted = offset
            named.add((row, note))
        return sorted(named)

    def may_be_listed(self, row: bytes) -> bool:
        """Whether a row (UTF-8) is like those of a folder listing: most that name a note are not, whatever is around."""
        return self._careful and may_be_listed(row, self._is_name)

    def listed(self, text: bytes, rows: Sequence[int]) -> set[int]:
        """Which of some rows of a text (UTF-8), ascending, stand in a folder listing: what they name exists, nobody spoke
        of it.
        """
        if not self._careful or text.count(b"\n") < FEWEST_NAMES - 1:
            return set()
        return listing_rows(text.split(b"\n"), rows, self._is_name)

    def _links_in(self, text: str, effort: Effort) -> Iterator[tuple[int, int]]:
        for link in matches(_WIKILINK, text) if "[[" in text else ():
            if not effort.spend(_CLOSER):
                return
            inner = link[1]
            notes = self._linked.get(_fold_title(inner))
            if notes is None:
                target = inner
                for sign in _AFTER_TARGET:
                    target = target.partition(sign)[0]
                target = target.rstrip("\\")
                notes = self._linked.get(_fold_title(target), ()) if target != inner else ()
            for note in notes:
                yield link.start(), note

    def _files_in(self, text: str, effort: Effort) -> Iterator[tuple[int, int]]:
        for anchor in matches(self._anchor, text) if self._anchor else ():
            start, end = anchor.span()
            lengths = self._lengths_of_names(text, start, end)
            closer = lengths is None or len(lengths) > 0
            if not effort.spend(_CLOSER + self._near // 10 if closer else 1):
                return
            if not closer:
                continue
            near = Window.before(text, end, self._near)
            notes = self._named_by(near, text, end, lengths)
            if not notes and "%" in near.text:
                notes = self._named_by(near.unquoted(), text, end, None)
            for note in notes:
                yield start, note

    def _lengths_of_names(self, text: str, start: int, end: int) -> Sequence[int] | None:
        """How long the names are that end with the word before `text[start:end]`, an extension. It costs next to nothing.

        None where that word is not written as it is in a name (`%20`, accents): they may have any length.
        """
        before = text[max(0, start - _ENDING - 3) : start]
        if "%" in before:
            return None
        word = _LAST_WORD.search(before, max(0, len(before) - _ENDING))
        if word is None or (word.start() and before[word.start() - 1] >= "\x80"):
            return None
        return self._lengths.get(self._fold(word[0] + text[start:end]), ())

    def _named_by(self, near: Window, text: str, end: int, lengths: Sequence[int] | None) -> _Notes:
        """The notes that the longest name names which ends at `end` of a text; `near` is what stands before it.

        `lengths` are those that the name may have.
        """
        first = max(0, len(near.text) - self._longest - 1)
        for start in near.beginnings(first, lengths):
            name = self._fold(near.text[start:])
            below = start > 0 and near.text[start - 1] == "/"
            notes = (self._paths if below else self._bare).get(name)
            if notes is None:
                continue
            far = near
            if not near.whole:  # looked at last: names that are a note's are rare
                far = Window.before(text, end, self._far)
                far = far.unquoted() if near.is_unquoted else far
            before = far.text[: len(far.text) - len(near.text) + start]
            if in_foreign_url(before):
                return ()
            if below:
                notes = tuple([note for note in notes if self._leads_to(before[:-1], note, name, far.whole)])
            elif "@" in before[-2:] and _EMAIL.search(before):
                continue
            if notes:
                return notes
        return ()

    def _leads_to(self, before: str, note: int, name: str, whole: bool) -> bool:
        """Whether what stands before `/name` is the root of the note's source, or the folder one is in (`./name`)."""
        if before.endswith(".") and not (self._careful and _is_generic(name)):
            return may_begin_at(before, len(before) - 1, whole)
        root = self._roots[note]
        if root is None:
            return False
        fold = self._fold_paths or _DRIVE.match(root)
        folded, wanted = (before.casefold(), root.casefold()) if fold else (before, root)
        if folded.endswith(wanted):
            at = len(before) - len(root)
            return before[:at].casefold().endswith(("file://", "file:///")) or may_begin_at(before, at, whole)
        home = folded.rfind("~/")
        return home >= 0 and wanted.endswith(folded[home + 1 :]) and may_begin_at(before, home, whole)

    def _is_name(self, text: str) -> bool:
        return self._fold(plain_path(text)) in self._bare

    def _fold(self, path: str) -> str:
        return path.casefold() if self._fold_paths else path


def _beginnings(extensions: Iterable[str], *, fold: bool) -> Beginnings:
    tables = np.zeros((2, 256), np.bool_)
    for extension in extensions:
        for form in (extension, extension.upper(), extension.lower()) if fold else (extension,):
            first, *rest = form.encode("utf-8", "surrogatepass")
            tables[0, first] = True
            tables[1, rest[0] if rest else slice(None)] = True
    if fold:
        tables[:, 0x80:] = True  # `k` is also the sign for Kelvin
    return Beginnings(tables[0].tobytes(), tables[1].tobytes())


def _ending(name: str) -> str:
    """The word that a name ends with, or the end of it, and its extension."""
    stem, dot, extension = name.rpartition(".")
    word = _LAST_WORD.search(stem, max(0, len(stem) - _ENDING))
    return f"{word[0] if word else ''}{dot}{extension}"


def _fold_title(title: str) -> str:
    if title.isascii():
        return title.strip().lower()
    return unicodedata.normalize("NFC", title).strip().casefold()


def _is_generic(path: str) -> bool:
    return "/" not in path and path.casefold() in GENERIC_NAMES
