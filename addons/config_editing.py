"""Changes one list of mitm.yaml in its text, and leaves all else as the person wrote it: comments, order, spacing. Pure.

A list that is written line by line is changed line by line. Any other (in brackets, empty, missing) goes through
ruamel.yaml's round trip; of what it lays out anew, only the lines that the change is about are taken.
"""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

_PLAIN = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_WIDE = 1 << 20  # columns; nothing is wrapped


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the list as it shall be: the one at index `at` of the list as it stands (None: a new one), with the
    keys of `changes` written anew. Values are text, flags, and lists of text; None takes a key away.
    """

    at: int | None
    changes: Mapping[str, object] = field(default_factory=dict)


def edit_list(text: str, path: Sequence[str], entries: Sequence[Entry]) -> str:
    """The text with the list at the keys `path` made of `entries`. `text` is valid YAML whose top is a mapping, or nothing.

    A list or a mapping on the way that is not there is made. The caller reads the result before it is used: a list that
    is an alias, or an anchor for others, may come out as something else.
    """
    ending = "\r\n" if "\r\n" in text else "\n"
    plain = text.replace("\r\n", "\n")
    node = _node_at(yaml.compose(plain, Loader=yaml.SafeLoader), path)
    if isinstance(node, yaml.SequenceNode) and _is_by_lines(plain.split("\n"), node):
        edited = _edit_lines(plain, node, entries)
    else:
        edited = _round_trip(plain, path, entries)
    return edited.replace("\n", ending)


def _node_at(node: yaml.Node | None, path: Sequence[str]) -> yaml.Node | None:
    for key in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for name, value in node.value if name.value == key), None)
    return node


def _is_by_lines(lines: Sequence[str], node: yaml.SequenceNode) -> bool:
    """Whether each entry begins behind a `-` on a line of its own."""
    heads = [lines[item.start_mark.line][: item.start_mark.column] for item in node.value]
    return not node.flow_style and bool(heads) and all(head.strip() == "-" for head in heads)


def _edit_lines(text: str, node: yaml.SequenceNode, entries: Sequence[Entry]) -> str:
    lines = text.split("\n")
    first = end = node.value[0].start_mark.line
    column = lines[first].index("-")
    above: list[list[str]] = []
    """What stands between an entry and the one before: comments and empty lines, which stay."""
    own: list[list[str]] = []
    for item in node.value:
        above.append(lines[end : item.start_mark.line])
        end = _last_line(item) + 1
        own.append(lines[item.start_mark.line : end])
    kept = {entry.at for entry in entries}
    left: list[str] = []
    for at, comments in enumerate(above):
        left += comments
        if at in kept:
            above[at], left = left, []
    new: list[str] = []
    for entry in entries:
        if entry.at is None:
            new += _indented(_dump(CommentedSeq([_made(entry.changes)])), column)
            continue
        new += above[entry.at]
        new += _indented(_changed(own[entry.at], column, entry.changes), column) if entry.changes else own[entry.at]
    return "\n".join([*lines[:first], *new, *left, *lines[end:]])


def _last_line(node: yaml.Node) -> int:
    """The line of a node's last sign; the end of a group in PyYAML is where the next one begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    # A text in `|` or `>` ends at the start of the line that follows it.
    return max(node.end_mark.line - (node.end_mark.column == 0), node.start_mark.line)


def _changed(lines: Sequence[str], column: int, changes: Mapping[str, object]) -> str:
    items = _yaml(offset=0).load("\n".join(line[column:] for line in lines) + "\n")
    _set(items[0], changes)
    return _dump(items)


def _indented(text: str, column: int) -> list[str]:
    return [" " * column + line for line in text.rstrip("\n").split("\n")]


def _round_trip(text: str, path: Sequence[str], entries: Sequence[Entry]) -> str:
    rt = _yaml(offset=2)
    data = rt.load(text)
    if data is None:  # comments at most, which the round trip would lose
        made: Any = CommentedSeq([_made(entry.changes) for entry in entries])
        for key in reversed(path):
            made = CommentedMap({key: made})
        start = text if not text or text.endswith("\n") else f"{text}\n"
        return start + _dump(made, offset=2)
    untouched = _dump(data, offset=2)
    parent = data
    for key in path[:-1]:
        if parent.get(key) is None:
            parent[key] = CommentedMap()
        parent = parent[key]
    items = parent.get(path[-1])
    if items is None:
        items = CommentedSeq()
        if path[-1] in parent:
            parent[path[-1]] = items
        elif len(path) > 1:  # first in its section: what stands below the last key is about something else
            parent.insert(0, path[-1], items)
        else:
            parent[path[-1]] = items
    old = list(items)
    for entry in entries:
        if entry.at is not None and entry.changes:
            _set(old[entry.at], entry.changes)
    # In place: the comments beside the list belong to this very object.
    items[:] = [_made(entry.changes) if entry.at is None else old[entry.at] for entry in entries]
    if not items:
        items.fa.set_flow_style()
    return _taken_over(text, untouched, _dump(data, offset=2))


def _taken_over(text: str, before: str, after: str) -> str:
    """What changed from `before` to `after`, in `text`, of which `before` is another layout, line by line."""
    lines, old, new = text.split("\n"), before.split("\n"), after.split("\n")
    if len(lines) != len(old):
        return after
    merged: list[str] = []
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        merged += lines[start:end] if tag == "equal" else new[new_start:new_end]
    return "\n".join(merged)


def _made(changes: Mapping[str, object]) -> CommentedMap:
    made = CommentedMap()
    made.fa.set_flow_style()
    _set(made, changes)
    return made


def _set(item: CommentedMap, changes: Mapping[str, object]) -> None:
    for key, value in changes.items():
        if value is None:
            item.pop(key, None)
        else:
            item[key] = _written(value)


def _written(value: object) -> object:
    """As YAML 1.1 and 1.2 both read it; text that is more than a word stands in quotes."""
    if isinstance(value, str):
        is_word = _PLAIN.fullmatch(value) and yaml.safe_load(value) == value
        return value if is_word else DoubleQuotedScalarString(value)
    if isinstance(value, Sequence):
        written = CommentedSeq([_written(one) for one in value])
        written.fa.set_flow_style()
        return written
    return value


def _yaml(*, offset: int) -> YAML:
    rt = YAML(typ="rt")
    rt.preserve_quotes = True
    rt.width = _WIDE
    rt.indent(mapping=2, sequence=2 + offset, offset=offset)
    return rt


def _dump(data: object, *, offset: int = 0) -> str:
    stream = io.StringIO()
    _yaml(offset=offset).dump(data, stream)
    return stream.getvalue()
