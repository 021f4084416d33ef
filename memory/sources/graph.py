"""What a file of the MCP memory server holds: bytes in, documents and warnings out, whatever the bytes are."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from memory.links import is_attachment
from memory.notes import Link, MemoryDocument, SourceWarning

MOST_WARNINGS = 1_000

# What parts a path, and what would be read as one of these written out.
_PARTS_A_PATH = re.compile(r"[/\\]|%(?=25|2F|5C)")


@dataclass(frozen=True, slots=True)
class Graph:
    """What one file holds. `is_cut`: its end is missing, or nothing in it can be read."""

    documents: tuple[MemoryDocument, ...] = ()
    warnings: tuple[SourceWarning, ...] = ()
    is_cut: bool = False


def read_graph(content: bytes, file: str) -> Graph:
    """Read JSON Lines, or one JSON document: an array, or an object with `entities` and `relations`.

    `file` is the path in the warnings. A line that is no entity and no relation is one warning; nothing raises.
    """
    content = _as_utf8(content)
    builder = _Builder(file)
    whole = _whole_document(content)
    if whole is not None:
        return builder.build(*whole)
    lines = content.split(b"\n")
    records = [_record(f"line {number}", line) for number, line in enumerate(lines, start=1) if line.strip()]
    # The server writes no line end after the last line, so that is no sign of a cut.
    is_cut = bool(records) and bool(lines[-1].strip()) and isinstance(records[-1].value, _BadRecordError)
    graph = builder.build(records[:-1] if is_cut else records)
    if records and not graph.documents and not builder.relations:
        return Graph((), (SourceWarning(file, "nothing in it is an entity or a relation"),), is_cut=True)
    if is_cut:
        reason = f"{records[-1].where}: half-written; it is read again at the next scan"
        return Graph(graph.documents, (*graph.warnings, SourceWarning(file, reason)), is_cut=True)
    return graph


class _BadRecordError(ValueError):
    """What is wrong with a record. It stands in the place of its value, or is raised where that is read."""


class _Record(NamedTuple):
    """`where` it stands, for a warning ("line 3"); `flaw`: what was wrong with it, though it could be read."""

    where: str
    value: Any
    flaw: str | None = None


def _record(where: str, content: bytes) -> _Record:
    flaw: str | None = None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text, flaw = content.decode(errors="replace"), "not valid UTF-8; what cannot be read is replaced"
    try:
        return _Record(where, json.loads(text), flaw)
    except RecursionError:
        return _Record(where, _BadRecordError("too many levels of brackets"))
    except ValueError:  # JSONDecodeError, and a number with more digits than Python reads
        return _Record(where, _BadRecordError("not valid JSON"))


def _whole_document(content: bytes) -> tuple[list[_Record], str | None] | None:
    """(records, flaw) of a file that is one JSON array or object; None: it is none, so it is JSON Lines."""
    _, found, flaw = _record("", content)
    if isinstance(found, list):
        lists = {"": found}
    elif isinstance(found, dict):
        lists = {key: found[key] for key in ("entities", "relations") if isinstance(found.get(key), list)}
        if not lists:
            return [_Record("line 1", found)], flaw
    else:
        return None
    return [_Record(f"{key}[{at}]", one) for key, records in lists.items() for at, one in enumerate(records)], flaw


@dataclass(slots=True)
class _Entity:
    name: str
    kind: str
    observations: dict[str, None] = field(default_factory=dict)
    tags: dict[str, None] = field(default_factory=dict)
    links: dict[str, None] = field(default_factory=dict)
    """Names of other entities."""

    @property
    def path(self) -> str:
        folder = f"{_one_part(self.kind)}/" if self.kind else ""
        return f"{folder}{_one_part(self.name)}.md"


class _Builder:
    """Gathers entities and relations, and says what is wrong with a record."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._entities: dict[str, _Entity] = {}
        self.relations: dict[tuple[str, str], None] = {}
        self._warnings: list[SourceWarning] = []
        self._unsaid = 0

    def build(self, records: Iterable[_Record], complaint: str | None = None) -> Graph:
        if complaint:
            self._warn(complaint)
        for where, value, flaw in records:
            reasons = [flaw] if flaw else []
            try:
                self._add(value)
            except _BadRecordError as bad:
                reasons.append(str(bad))
            if reasons:
                self._warn(f"{where}: {'; '.join(reasons)}")
        loose = 0
        for start, end in self.relations:
            # A link belongs to a note: where only the end is one, the end keeps it.
            here, there = (start, end) if start in self._entities else (end, start)
            if here in self._entities:
                self._entities[here].links[there] = None
            else:
                loose += 1
        if loose:
            self._warn(f"{loose} relation{'' if loose == 1 else 's'} between entities that are not there")
        if self._unsaid:
            self._warnings.append(SourceWarning(self._file, f"and {self._unsaid} more lines like these"))
        return Graph(tuple(self._document(entity) for entity in self._entities.values()), tuple(self._warnings))

    def _add(self, record: Any) -> None:
        """Raises _BadRecordError for a record that is none, and for a part of it that was left out."""
        if isinstance(record, _BadRecordError):
            raise record
        if not isinstance(record, dict):
            raise _BadRecordError("no JSON object")
        said = record.get("type", record.get("_type"))
        if said == "relation" or (said != "entity" and "from" in record and "to" in record):
            self._add_relation(record)
        elif said == "entity" or "entityType" in record or "observations" in record:
            self._add_entity(record)
        else:
            raise _BadRecordError("neither an entity nor a relation")

    def _add_relation(self, record: dict[str, Any]) -> None:
        start, end = _text(record.get("from")), _text(record.get("to"))
        if not start or not end:
            raise _BadRecordError("a relation without `from` and `to`")
        self.relations[start, end] = None

    def _add_entity(self, record: dict[str, Any]) -> None:
        name, kind = _text(record.get("name")), _text(record.get("entityType")) or ""
        if not name:
            raise _BadRecordError("an entity without a name")
        entity = self._entities.setdefault(name, _Entity(name, kind))
        if kind:
            entity.tags[kind] = None
        observations = record.get("observations") or []
        if not isinstance(observations, list):
            raise _BadRecordError("observations that are no list are left out")
        left_out = 0
        for observation in observations:
            text = _text(observation.get("text") if isinstance(observation, dict) else observation)
            if text is None:
                left_out += 1
            else:
                entity.observations[text] = None
        if left_out:
            raise _BadRecordError(f"{left_out} observation{'' if left_out == 1 else 's'} without text left out")

    def _document(self, entity: _Entity) -> MemoryDocument:
        document = MemoryDocument(
            entity.path,
            "\n".join(entity.observations),
            title=entity.name,
            tags=tuple(entity.tags),
            links=tuple(self._link(name) for name in entity.links),
        )
        return replace(document, digest=blake2b(repr(document).encode(), digest_size=16).digest())

    def _link(self, name: str) -> Link:
        """Exactly that entity; for one that is not there, its name, which stays unresolved."""
        if (entity := self._entities.get(name)) is not None:
            return Link(f"/{entity.path}")
        return Link(f"{_one_part(name)}.md" if is_attachment(name) else _one_part(name))

    def _warn(self, reason: str) -> None:
        if len(self._warnings) < MOST_WARNINGS:
            self._warnings.append(SourceWarning(self._file, reason))
        else:
            self._unsaid += 1


def _text(value: Any) -> str | None:
    """A text that can be written as UTF-8: JSON can hold half a surrogate pair."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else None


def _one_part(name: str) -> str:
    """A name as one part of a path."""
    return _PARTS_A_PATH.sub(lambda found: f"%{ord(found[0]):02X}", name)


def _as_utf8(content: bytes) -> bytes:
    """Without a byte order mark; Windows' tools also write UTF-16, with one."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace").encode("utf-8", "replace")
    return content.removeprefix(codecs.BOM_UTF8)
