"""Sources of the user's own: a class named in mitm.yaml, an entry point, or an object handed over in code.

The protocol is four names (notes.md, "Sources"): `name`, `kind`, `location`, and `async load()`. What such a class does
wrong is an error of its source, in words that say what to mend; nothing here lets it reach the other sources.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from memory.notes import SHARES, Link, LoadReport, MemoryDocument, MemorySource
from memory.sources.limits import Limits

ENTRY_POINTS = "mitmemory.sources"
"""The group in which an installed package names its sources."""

_IMPORT_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")


class OwnSourceError(Exception):
    """A source of the user's own cannot be used. The message says why, and is the source's error."""


def is_import_path(kind: str) -> bool:
    """`package.module:ClassName`."""
    return _IMPORT_PATH.fullmatch(kind) is not None


def installed_kinds() -> tuple[str, ...]:
    """The names of the entry points; nothing is imported."""
    return tuple(sorted(entry_points(group=ENTRY_POINTS).names))


class OwnSource:
    """A source whose class the configuration names. The class is imported at the first load, not before.

    It is called with those of the keyword arguments `name` (text) and `path` (a `Path`) that it takes. While that fails
    it is tried again at each load, so that a package that is installed meanwhile is found. `limits` are kept here, so
    that the class need not know them.
    """

    def __init__(self, name: str, kind: str, path: Path | str, *, limits: Limits, enabled: bool = True) -> None:
        self.name = name
        self.kind = kind
        self.location = str(path)
        self.enabled = enabled
        self.report = LoadReport()
        self.on_progress: Callable[[int, int], None] | None = None
        self._limits = limits
        self._source: MemorySource | None = None

    async def load(self) -> list[MemoryDocument]:
        """Raises OwnSourceError, and whatever the user's `load` raises."""
        if self._source is None:
            self._source = await asyncio.to_thread(self._make)
        documents, skipped = self._limits.keep(await load_own(self._source))
        self.report = LoadReport(skipped)
        if self.on_progress is not None:
            self.on_progress(len(documents), len(documents))
        return documents

    async def stamp(self) -> object:
        """None: only a load tells whether something changed."""
        return None

    def _make(self) -> MemorySource:
        found = _find(self.kind)
        given = _accepted(found, {"name": self.name, "path": Path(self.location)})
        return check_source(_called(found, self.kind, given), self.kind)


class UnusableSource:
    """Stands for an object that is no source, so that it is seen where the other sources are: its load says why."""

    location = ""

    def __init__(self, name: str, kind: str, reason: str) -> None:
        self.name = name
        self.kind = kind
        self._reason = reason

    async def load(self) -> list[MemoryDocument]:
        raise OwnSourceError(self._reason)


def make_own(source: object) -> MemorySource:
    """The source that was handed over in code: an instance, or a class that needs no arguments.

    What has not the four names, or cannot be made, becomes an `UnusableSource`.
    """
    what = source.__name__ if isinstance(source, type) else type(source).__name__
    try:
        if isinstance(source, type):
            source = _called(source, what, {})
        return check_source(source, what)
    except OwnSourceError as error:
        name = getattr(source, "name", None)
        return UnusableSource(name if isinstance(name, str) and name else what, what, str(error))


def _called(found: Callable[..., object], what: str, arguments: Mapping[str, object]) -> object:
    try:
        return found(**arguments)
    except (Exception, SystemExit) as error:
        raise OwnSourceError(f"{what} cannot be made: {_said(error)}") from error


def check_source(source: object, what: str) -> MemorySource:
    """The same object, when it has the four names; `what` is what the message calls it."""
    for name in ("name", "kind", "location"):
        if not isinstance(getattr(source, name, None), str):
            raise OwnSourceError(f"{what} has no `{name}` that is a text; a source has name, kind, location and load()")
    if not isinstance(source, MemorySource) or not callable(source.load):
        raise OwnSourceError(f"{what} has no `load`; a source has name, kind, location and load()")
    return source


async def load_own(source: MemorySource) -> list[MemoryDocument]:
    """What the user's `load` gives, checked. Raises OwnSourceError for what is no document, and what `load` raises."""
    loading: object = source.load()
    if not inspect.isawaitable(loading):
        raise OwnSourceError("load() must be an `async def` that returns its documents")
    try:
        documents: object = await loading
    except SystemExit as error:
        raise OwnSourceError(f"load() ended with {_said(error)}") from error
    if not isinstance(documents, Iterable) or isinstance(documents, str | bytes | Mapping):
        raise OwnSourceError(f"load() gave {_a(documents)}, not a list of MemoryDocuments")
    # What was given may be a generator that reads as it goes: not on the thread of the proxy.
    return await asyncio.to_thread(lambda: [_checked(document) for document in documents])


def _checked(document: object) -> MemoryDocument:
    """The document with tuples where it has lists."""
    if not isinstance(document, MemoryDocument) or not isinstance(document.text, str):
        raise OwnSourceError("load() gave something that is no MemoryDocument with a text")
    path = document.path
    if not isinstance(path, str) or not path:
        raise OwnSourceError(f"load() gave a document whose path is {'empty' if path == '' else _a(path)}, not a name")
    if not isinstance(document.title, str | None):
        raise OwnSourceError(f"load() gave {path!r} with a title that is {_a(document.title)}, not a text")
    if not isinstance(document.size, int | None):
        raise OwnSourceError(f"load() gave {path!r} with a size that is {_a(document.size)}, not a number of bytes")
    if document.share is not None and document.share not in SHARES:
        raise OwnSourceError(f"load() gave {path!r} with a share that is none of {', '.join(SHARES)}")
    return MemoryDocument(
        path,
        document.text,
        document.title,
        _texts(path, "aliases", document.aliases, str),
        _texts(path, "tags", document.tags, str),
        _texts(path, "links", document.links, str | Link),
        document.size,
        share=document.share,
    )


def _texts(path: str, what: str, values: object, kind: Any) -> tuple[Any, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence | set | frozenset):
        raise OwnSourceError(f"load() gave {path!r} with {what} that are {_a(values)}, not a tuple of texts")
    for value in values:
        if not isinstance(value, kind):
            raise OwnSourceError(f"load() gave {path!r} with {_a(value)} among its {what}, where texts belong")
    return tuple(values) if isinstance(values, Sequence) else tuple(sorted(values, key=str))


def _find(kind: str) -> Callable[..., object]:
    """The class, or function, that `kind` names: an import path has a colon, the name of an entry point has none."""
    importlib.invalidate_caches()  # it may have been installed since
    found: object
    try:
        if is_import_path(kind):
            found = EntryPoint(kind, kind, ENTRY_POINTS).load()
        else:
            found = entry_points(group=ENTRY_POINTS)[kind].load()
    except KeyError:
        raise OwnSourceError(f"no installed package has a source {kind!r} (entry points {ENTRY_POINTS!r})") from None
    except ModuleNotFoundError as error:
        raise OwnSourceError(
            f"{kind} cannot be imported: {error}; install it beside mitmemory, or name its folder in PYTHONPATH"
        ) from error
    except (Exception, SystemExit) as error:
        raise OwnSourceError(f"{kind} cannot be imported: {_said(error)}") from error
    if not callable(found):
        raise OwnSourceError(f"{kind} is {_a(found)}, not a class")
    return found


def _accepted(found: Callable[..., object], given: Mapping[str, object]) -> dict[str, object]:
    """The keyword arguments that `found` takes."""
    parameters = inspect.signature(found).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return dict(given)
    names = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    return {key: value for key, value in given.items() if key in names}


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _a(value: object) -> str:
    name = type(value).__name__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
