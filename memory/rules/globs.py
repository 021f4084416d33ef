"""Patterns of rules: for folders and notes, for tags, and for names (sources, clients, providers, models).

Upper and lower case are the same in all of them, and so are the two ways Unicode writes an accented letter: a rule
that is to keep a note at home must not miss it for that. In a name `*` stands for anything and `?` for one character.
In a path both stay within one folder, and `**` between slashes stands for any number of folders, none included.
"""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

_WILDCARD = re.compile(r"[*?]")


class Glob(NamedTuple):
    """One pattern, ready to use: exactly one of the three is there. All of them are about folded text (`fold`)."""

    exact: str | None = None
    below: str | None = None
    """This path, and all that is below it."""
    pattern: re.Pattern[str] | None = None

    def matches(self, folded: str) -> bool:
        if self.pattern is not None:
            return self.pattern.fullmatch(folded) is not None
        if self.below is not None:
            return folded == self.below or folded.startswith(f"{self.below}/")
        return folded == self.exact


def fold(text: str) -> str:
    """The text as it is compared: without upper case, accents in one form."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def name_glob(text: str) -> Glob:
    """For names. ValueError, whose message goes on after the text: "is empty"."""
    folded = fold(text.strip())
    if not folded:
        raise ValueError("is empty")
    if not _WILDCARD.search(folded):
        return Glob(exact=folded)
    # `fnmatch` reads sets in brackets too, which a name may well hold itself.
    return Glob(pattern=re.compile(fnmatch.translate(folded.replace("[", "[[]"))))


def path_glob(text: str) -> Glob:
    """For folders (`vault/Health/**`, which is also the folder itself) and notes (`vault/Ledger.md`).

    ValueError, whose message goes on after the text.
    """
    folded = fold(text.strip()).removesuffix("/")
    if not folded:
        raise ValueError("is empty")
    if "\\" in folded:
        raise ValueError("holds a backslash; folders are parted by `/`")
    segments = folded.split("/")
    if "" in segments:
        raise ValueError("begins with a slash" if not segments[0] else "has two slashes in a row")
    if any("**" in segment and segment != "**" for segment in segments):
        raise ValueError("has a `**` that is only a part of a folder's name; it stands for whole folders")
    if not _WILDCARD.search(folded):
        return Glob(exact=folded)
    if segments[-1] == "**" and len(segments) > 1 and not _WILDCARD.search("".join(segments[:-1])):
        return Glob(below="/".join(segments[:-1]))
    return Glob(pattern=re.compile(_expression(segments)))


def tag_glob(text: str) -> Glob:
    """For tags, with or without `#`. A tag is also those below it: `work` is `work/acme` too. ValueError as above."""
    folded = fold(text.strip().removeprefix("#")).strip("/")
    if not folded:
        raise ValueError("is empty")
    if _WILDCARD.search(folded):
        raise ValueError("has a wildcard; a tag stands for those below it without one")
    return Glob(below=folded)


def is_plain(text: str) -> bool:
    """Whether a pattern has no wildcard."""
    return not _WILDCARD.search(text)


def _expression(segments: Sequence[str]) -> str:
    """Folders that `**` stands for bring their slash along, so that there may be none."""
    expression, slash = "", ""
    for number, segment in enumerate(segments):
        if segment != "**":
            expression += slash + _segment(segment)
            slash = "/"
        elif number == len(segments) - 1:
            expression += "(?:/.*)?" if slash else ".*"
        else:
            expression += f"{slash}(?:.*/)?"
            slash = ""
    return f"(?s:{expression})"


def _segment(segment: str) -> str:
    """Each `*` but the last is settled by the first fit (hence `(?>`): a long name cannot make it slow."""
    first, *others = ["".join("[^/]" if one == "?" else re.escape(one) for one in part) for part in segment.split("*")]
    if not others:
        return first
    return first + "".join(f"(?>[^/]*?{part})" for part in others[:-1]) + "[^/]*" + others[-1]


class Lookup:
    """One condition of all rules at once: which rules (bit n: rule n) a value meets it of."""

    __slots__ = ("_any", "_below", "_exact", "_patterns")

    def __init__(self, wanted: Sequence[Collection[str]], parse: Callable[[str], Glob]) -> None:
        """`wanted[n]` are the patterns of rule n, one of which must match; empty: it has no such condition."""
        self._any = 0
        self._exact: dict[str, int] = {}
        self._below: dict[str, int] = {}
        patterns: dict[re.Pattern[str], int] = {}
        for number, texts in enumerate(wanted):
            rule = 1 << number
            if not texts:
                self._any |= rule
            for text in texts:
                glob = parse(text)
                if glob.pattern is not None:
                    patterns[glob.pattern] = patterns.get(glob.pattern, 0) | rule
                elif glob.below is not None:
                    self._below[glob.below] = self._below.get(glob.below, 0) | rule
                elif glob.exact is not None:
                    self._exact[glob.exact] = self._exact.get(glob.exact, 0) | rule
        self._patterns = tuple((pattern.fullmatch, rules) for pattern, rules in patterns.items())

    def rules(self, *values: str) -> int:
        """The rules whose condition one of the values meets. None given: those without the condition."""
        found = self._any
        for value in values:
            folded = fold(value)
            found |= self._exact.get(folded, 0)
            above = folded if self._below else ""
            while above:
                found |= self._below.get(above, 0)
                above = above.rpartition("/")[0]
            for fullmatch, rules in self._patterns:
                if rules & ~found and fullmatch(folded):
                    found |= rules
        return found
