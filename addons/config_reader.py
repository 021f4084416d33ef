"""Reads one YAML document key by key and remembers every fault with its line, instead of stopping at the first.

PyYAML's node tree keeps what a loader throws away: the line of every value, and keys that are given twice. A
value is read from its text, as it was written: `00:01:00` stays three numbers.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import yaml

from addons.config_document import Document

_INTEGER = re.compile(r"[-+]?\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the document, with the key path it stands at."""

    document: Document
    key: str
    node: yaml.Node

    def fault(self, message: str, mend: str) -> None:
        self.document.fault(self.node, self.key, message, mend)

    @property
    def is_null(self) -> bool:
        return self.node.tag == "tag:yaml.org,2002:null"

    @property
    def name(self) -> str:
        """The last part of the key path."""
        return self.key.rpartition(".")[2]

    @property
    def is_text(self) -> bool:
        return isinstance(self.node, yaml.ScalarNode) and self.node.tag == "tag:yaml.org,2002:str"

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    @property
    def is_empty(self) -> bool:
        """Nothing, `[]` or `{}`."""
        return self.is_null or (isinstance(self.node, yaml.CollectionNode) and not self.node.value)

    def text(self, what: str = "text") -> str | None:
        """What was written, if it is text; `what` says in a fault what belongs here."""
        if self.is_text:
            return str(self.node.value)
        if isinstance(self.node, yaml.ScalarNode) and not self.is_null:
            self.fault(f"{_kind(self.node)} stands where {what} belongs", "put it in quotes")
        else:
            self.fault(f"{_kind(self.node)} stands where {what} belongs", f"write {what}")
        return None

    def literal(self, what: str) -> str | None:
        """What was written, if it is one plain value, number or text."""
        if isinstance(self.node, yaml.ScalarNode) and not self.is_null:
            return str(self.node.value)
        self.fault(f"{_kind(self.node)} stands where {what} belongs", f"write {what}")
        return None

    def flag(self) -> bool | None:
        if self.node.tag == "tag:yaml.org,2002:bool":
            return str(self.node.value).lower() in {"true", "yes", "on"}
        self.fault(f"{_kind(self.node)} stands where true or false belongs", "write `true` or `false`")
        return None

    def integer(self, least: int) -> int | None:
        written = self.literal("a whole number")
        if written is None:
            return None
        if self.node.tag != "tag:yaml.org,2002:int" or not _INTEGER.fullmatch(written):
            self.fault(f"`{written}` is no whole number", f"write a whole number, at least {least}")
            return None
        if int(written) < least:
            self.fault(f"{written} is too small", f"write at least {least}")
            return None
        return int(written)

    def parsed[T](self, parse: Callable[[str], T], what: str, mend: str) -> T | None:
        """Read by `parse`, whose ValueError says what is wrong in words that go on after the value."""
        written = self.literal(what)
        if written is None:
            return None
        try:
            return parse(written)
        except ValueError as error:
            self.fault(f"`{written}` {error}", mend)
            return None

    def choice[T: str](self, choices: Sequence[T]) -> T | None:
        written = self.literal(" or ".join(f"`{choice}`" for choice in choices))
        for choice in choices:
            if written == choice:
                return choice
        if written is not None:
            mend = did_you_mean(written, choices) or "write one of them"
            self.fault(f"`{written}` is not one of {', '.join(choices)}", mend)
        return None

    def items(self) -> Iterator[Value]:
        """The entries of a list; nothing counts as the empty list (all its lines may be comments)."""
        if isinstance(self.node, yaml.SequenceNode):
            for number, node in enumerate(self.node.value):
                yield Value(self.document, f"{self.key}[{number}]", node)
        elif not self.is_null:
            mend = "write `[…]`, or one line for each that starts with `- `"
            if isinstance(self.node, yaml.ScalarNode):
                mend = f'write `["{self.node.value}"]`'
            self.fault(f"{_kind(self.node)} stands where a list belongs", mend)

    def plain(self) -> str | int | float | bool | None:
        """One value as Python has it, for options that are not ours: YAML's own rules, without dates and octals."""
        written = str(self.node.value)
        match self.node.tag.rpartition(":")[2]:
            case "null":
                return None
            case "bool":
                return self.flag()
            case "int" if _INTEGER.fullmatch(written):
                return int(written)
            case "float":
                return _number(written)
            case _:
                return written


def entries(value: Value | None) -> Iterator[tuple[Value, Section]]:
    """The entries of a list of keys and values; none where there is no list. One with nothing in it is a fault."""
    for item in value.items() if value else ():
        if item.is_null:
            item.fault("nothing stands where keys and values belong", "remove the `-`")
        else:
            yield item, Section(item)


class Section:
    """The keys of one mapping; none where there is no value, or nothing in it (all its lines may be comments).

    Ask for each key that there may be, then `close` reports all the others.
    """

    def __init__(self, value: Value | None) -> None:
        self.value = value
        self._asked: list[str] = []
        self._entries: dict[str, tuple[yaml.Node, Value]] = {}
        if value is None or value.is_null:
            return
        if isinstance(value.node, yaml.MappingNode):
            for key_node, node in value.node.value:
                self._enter(value, key_node, node)
        else:
            value.fault(f"{_kind(value.node)} stands where keys and values belong", "write `key: value` lines")

    def _enter(self, value: Value, key_node: yaml.Node, node: yaml.Node) -> None:
        if not isinstance(key_node, yaml.ScalarNode):
            value.document.fault(key_node, value.key, f"{_kind(key_node)} stands where a key belongs", "write a word")
            return
        name = str(key_node.value)
        path = f"{value.key}.{name}" if value.key else name
        if name in self._entries:
            first = self._entries[name][0].start_mark.line + 1
            value.document.fault(key_node, path, f"given twice, first on line {first}", "keep one of them")
            return
        self._entries[name] = (key_node, Value(value.document, path, node))

    def get(self, name: str) -> Value | None:
        if name not in self._asked:
            self._asked.append(name)
        entry = self._entries.get(name)
        return entry[1] if entry else None

    def lacks(self, name: str) -> bool:
        """Is this a mapping without that key, or with nothing in it? (What is no mapping has been reported as such.)"""
        entry = self._entries.get(name)
        return self.value is not None and self.value.is_mapping and (entry is None or entry[1].is_null)

    def section(self, name: str) -> Section:
        return Section(self.get(name))

    def read[T](self, name: str, how: Callable[[Value], T | None], default: T) -> T:
        """What `how` makes of the key's value; the default where there is no such key, or a fault in it."""
        value = self.get(name)
        found = None if value is None else how(value)
        return default if found is None else found

    def read_optional[T](self, name: str, how: Callable[[Value], T | None], default: T | None = None) -> T | None:
        """The same, where `null` is an answer."""
        value = self.get(name)
        if value is not None and value.is_null:
            return None
        found = None if value is None else how(value)
        return default if found is None else found

    def take_all(self) -> tuple[Value, ...]:
        """Every value there is, whatever its key."""
        self._asked.extend(self._entries)
        return tuple(value for _, value in self._entries.values())

    def close(self) -> None:
        """Report every key that nobody asked for."""
        for name, (key_node, value) in self._entries.items():
            if name not in self._asked:
                mend = did_you_mean(name, self._asked) or f"the keys here are {', '.join(self._asked)}"
                value.document.fault(key_node, value.key, "no such key", mend)


def did_you_mean(written: str, choices: Sequence[str]) -> str | None:
    """A mend that names the nearest of the choices, if one is near."""
    lowered = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(written.lower(), lowered, n=1)
    return f"did you mean `{lowered[near[0]]}`?" if near else None


def _number(written: str) -> float | str:
    try:
        return float(written)
    except ValueError:
        return written


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a group of keys"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    kinds = {"null": "nothing", "bool": "true or false", "int": "a number", "float": "a number", "str": "text"}
    written = f" (`{node.value}`)" if node.tag.endswith((":int", ":float", ":bool")) else ""
    return kinds.get(node.tag.rpartition(":")[2], f"a value tagged `{node.tag}`") + written
