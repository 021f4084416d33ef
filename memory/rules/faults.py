"""Rules that can never apply: each is a fault of the configuration (dispatch.md), which adds file and line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memory.exchange import Place
from memory.rules.conditions import SCANS, SEEN, Comparison, Rule, When
from memory.rules.globs import Glob, fold, is_plain, name_glob, path_glob, tag_glob

_MANY = 1_000_000
"""More notes than any request holds."""


class RuleFault(NamedTuple):
    """`rule` counts from 0, `key` is the key path below it (`when.folder`). `mend` says what to do."""

    rule: int
    key: str
    message: str
    mend: str


@dataclass(frozen=True, slots=True)
class Known:
    """What rules may speak of. None: that is not known here, and not checked."""

    sources: Collection[str] | None = None
    providers: Mapping[str, Place | None] | None = None
    targets: Mapping[str, Place | None] | None = None
    """Name -> where everything that is sent there ends up; None: that depends."""
    scans: bool = True
    """Whether notes are looked for at all."""
    tells_listings: bool = True
    """Whether folder listings are told from other names (`memory.mentions: careful`)."""


def faults_of(rules: Sequence[Rule], known: Known) -> Iterator[RuleFault]:
    """Why a rule can never apply, or cannot do what it says; one fault for each reason.

    Patterns must be ones that `RuleBook` takes.
    """
    for number, rule in enumerate(rules):
        faults = [*_of_then(rule, known), *_of_names(rule.when, known), *_of_when(rule.when, known)]
        for key, message, mend in faults:
            yield RuleFault(number, key, message, mend)
        if not faults and (before := next((one for one in rules[:number] if _takes_all(one.when, rule.when)), None)):
            message = f"never applies: `{before.name}` comes first and takes all that it would"
            yield RuleFault(number, "when", message, "put it before that rule, or remove one of them")


class _Fault(NamedTuple):
    key: str
    message: str
    mend: str


def _of_then(rule: Rule, known: Known) -> Iterator[_Fault]:
    when = rule.when
    if rule.then == "redirect":
        places = [known.targets.get(target) for target in rule.targets] if known.targets is not None else []
        if not rule.targets:
            yield _Fault("targets", "`redirect` has no targets", "name one from `targets`, like `targets: [ollama]`")
        elif when.to == "local" and places and all(place == "cloud" for place in places):
            message = "what goes to a local model would be sent to a cloud by it"
            yield _Fault("targets", message, "name a target of this machine, or write `to: cloud`")
    if rule.then == "redact":
        if not when.is_about_notes:
            mend = "say which notes, like `by: content` for all of them"
            yield _Fault("when", "names no notes whose text could be withheld", mend)
        elif when.by and "content" not in when.by:
            mend = "write `by: content`, or another `then`"
            yield _Fault("when.by", "notes that are only named have no text that could be withheld", mend)


def _of_names(when: When, known: Known) -> Iterator[_Fault]:
    if known.sources is not None:
        for key, patterns in (("source", when.source), ("folder", when.folder), ("note", when.note)):
            for pattern in patterns:
                if not any(_may_be_in(key, pattern, source) for source in known.sources):
                    yield _Fault(
                        f"when.{key}", f"`{pattern}` is in no source", _with_source(key, pattern, known.sources)
                    )
    if known.providers is not None:
        for pattern in when.provider:
            glob = name_glob(pattern)
            places = {place for name, place in known.providers.items() if glob.matches(fold(name))}
            if not places:
                mend = f"the providers are {', '.join(known.providers)}"
                yield _Fault("when.provider", f"`{pattern}` is no provider", mend)
            elif when.to is not None and not places & {None, when.to}:
                message = (
                    f"nothing that goes to `{pattern}` stays local" if when.to == "local" else f"`{pattern}` is local"
                )
                yield _Fault("when.provider", f"{message}, so the rule never applies", "change `to`, or remove it")
    if when.source and not all(_may_agree(when.source, paths) for paths in (when.folder, when.note)):
        yield _Fault("when.source", "`source` and the rest of the rule are about different notes", "remove one of them")
    elif when.folder and when.note and not _is_in_one(when.note, when.folder):
        yield _Fault("when.folder", "none of the notes in `note` is in `folder`", "remove one of them")


def _of_when(when: When, known: Known) -> Iterator[_Fault]:
    if when.is_about_notes and when.scan == ("unscanned",):
        message = "where nothing could be looked at no notes are seen, so the rule never applies"
        yield _Fault("when.scan", message, "remove `scan`, or the conditions on notes")
    if when.is_about_notes and not known.scans:
        message = "never applies: notes are not looked for, since `memory.track_sharing` is false"
        yield _Fault("when", message, "set `memory.track_sharing: true`")
    if when.by == ("listing",) and not known.tells_listings:
        message = "never applies: with `memory.mentions: seed` a name in a folder listing is a reference"
        yield _Fault("when.by", message, "write `by: reference`")
    if when.coverage is not None:
        if not _is_possible(when.coverage, 0, 100):
            yield _Fault("when.coverage", "no note's share is ever that", "write a share that there is, like `>=50%`")
        elif when.by and "content" not in when.by and not when.coverage.holds(0):
            message = "of a note that is only named no line is there, so the rule never applies"
            yield _Fault("when.coverage", message, "remove `coverage`, or write `by: content`")
    if when.notes is not None:
        most = len(when.note) if when.note and all(is_plain(note) for note in when.note) else _MANY
        if not _is_possible(when.notes, 1, _MANY):
            message = "holds for no number of notes: where none is seen, no rule on notes applies"
            yield _Fault("when.notes", message, "write a number that there can be, like `>=1`")
        elif not _is_possible(when.notes, 1, most):
            yield _Fault("when.notes", f"`note` names only {most}", "name more notes, or remove `notes`")


def _is_possible(comparison: Comparison, least: float, most: float) -> bool:
    return any(comparison.holds(value) for value in (least, most, min(max(comparison.number, least), most)))


def _with_source(key: str, pattern: str, sources: Collection[str]) -> str:
    """The mend for a pattern that is in none of the sources."""
    if not sources:
        return "add the source to `memory.sources`"
    if key == "note" and "/" not in pattern:
        return f"write it with its source, like `{next(iter(sources))}/{pattern}`"
    return f"the sources are {', '.join(sources)}"


def _may_be_in(key: str, pattern: str, source: str) -> bool:
    """Whether a pattern for a source, or for a path below one, can mean this source."""
    if key == "source":
        return name_glob(pattern).matches(fold(source))
    first, _, rest = fold(pattern.strip()).partition("/")
    if first == "**":
        return True
    if key == "note" and not rest:
        return False  # an id is the source's name, a slash and a path
    return path_glob(first).matches(fold(source))


def _may_agree(sources: Sequence[str], paths: Sequence[str]) -> bool:
    """Whether one of the paths can be in one of the sources; where wildcards leave it open it can."""
    if not paths or not all(is_plain(source) for source in sources):
        return True
    return any(_may_be_in("folder", path, source.strip()) for path in paths for source in sources)


def _is_in_one(notes: Sequence[str], folders: Sequence[str]) -> bool:
    if not all(is_plain(note) for note in notes):
        return True
    return any(path_glob(folder).matches(fold(note.strip()).rpartition("/")[0]) for note in notes for folder in folders)


def _takes_all(first: When, second: When) -> bool:
    """Whether every note (or request) that the second is about meets the first: never said unless it is certain."""
    if first == second:
        return True
    if first.is_about_notes != second.is_about_notes or first.notes is not None:
        return False
    return (
        _includes(first.source, second.source, name_glob)
        and _includes(first.folder, second.folder, path_glob)
        and _includes(first.note, second.note, path_glob)
        and _includes(first.tags, second.tags, tag_glob)
        and _has_all(first.by, second.by, SEEN)
        and first.coverage in {None, second.coverage}
        and _includes(first.client, second.client, name_glob)
        and _includes(first.provider, second.provider, name_glob)
        and _includes(first.model, second.model, name_glob)
        and first.to in {None, second.to}
        and _has_all(first.scan, second.scan, SCANS)
    )


def _includes(first: Sequence[str], second: Sequence[str], parse: Callable[[str], Glob]) -> bool:
    if not first:
        return True
    globs = [parse(pattern) for pattern in first]
    return bool(second) and all(
        glob in globs or any(_is_in(glob, other) for other in globs) for glob in (parse(pattern) for pattern in second)
    )


def _is_in(glob: Glob, other: Glob) -> bool:
    """Whether all that `glob` matches is matched by `other`: sure for a plain text, and for a folder in a folder."""
    if glob.exact is not None:
        return other.matches(glob.exact)
    return glob.below is not None and other.below is not None and other.matches(glob.below)


def _has_all(first: Sequence[str], second: Sequence[str], every: Sequence[str]) -> bool:
    return not first or set(second or every) <= set(first)
