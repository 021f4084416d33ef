"""Where the values of a JSON text stand, so that something can be added to a body without writing it anew.

Caches of prompts hold what begins with the same bytes, and what is signed must not change by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from memory.json_text import RepeatedKeys, decode_value

_SPACE = re.compile(r"[ \t\r\n]*")


class Place(NamedTuple):
    """Of characters in a text."""

    start: int
    end: int

    def of(self, text: str) -> str:
        return text[self.start : self.end]


class Edit(NamedTuple):
    """What stands in place of a piece of a text; an empty piece: it is put in there."""

    place: Place
    text: str


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a decoded value is an object that names no key twice: which one of two a server reads is its choice."""
    return isinstance(value, dict) and not isinstance(value, RepeatedKeys)


def members(text: str, at: int = 0) -> dict[str, Place]:
    """The values of the object that begins at a place, or after white space there.

    Raises ValueError if that is no object, or one that names a key twice; RecursionError if it is too deep.
    """
    return {key: place for key, place, _ in _members(text, at)}


def opened(text: str) -> tuple[dict[str, Place], dict[str, Any]]:
    """The values of an object, by their places and decoded. Raises as `members` does."""
    found = list(_members(text, 0))
    return {key: place for key, place, _ in found}, {key: value for key, _, value in found}


def _members(text: str, at: int) -> Iterator[tuple[str, Place, Any]]:
    at = _open(text, at, "{")
    if text[at : at + 1] == "}":
        return
    seen = set()
    while True:
        key, end = decode_value(text, at)
        at = _after(text, end)
        if not isinstance(key, str) or key in seen or text[at : at + 1] != ":":
            raise ValueError("no object, or a key that stands twice")
        seen.add(key)
        start = _after(text, at + 1)
        value, end = decode_value(text, start)
        yield key, Place(start, end), value
        at = _after(text, end)
        if text[at : at + 1] == "}":
            return
        if text[at : at + 1] != ",":
            raise ValueError("no object")
        at = _after(text, at + 1)


def elements(text: str, at: int) -> list[Place]:
    """The values of the array that begins at a place, or after white space there. Raises as `members` does."""
    at = _open(text, at, "[")
    found: list[Place] = []
    if text[at : at + 1] == "]":
        return found
    while True:
        _, end = decode_value(text, at)
        found.append(Place(at, end))
        at = _after(text, end)
        if text[at : at + 1] == "]":
            return found
        if text[at : at + 1] != ",":
            raise ValueError("no array")
        at = _after(text, at + 1)


def appended(text: str, array: Place, values: Sequence[str]) -> Edit:
    """JSON values at the end of an array."""
    if not values:
        return Edit(Place(array.end - 1, array.end - 1), "")
    last = elements(text, array.start)
    at = last[-1].end if last else array.start + 1
    return Edit(Place(at, at), "".join(f",{value}" for value in values)[0 if last else 1 :])


def with_element(text: str, found: Mapping[str, Place], key: str, value: str) -> Edit:
    """A JSON value as the last one of the array under a key of the object whose `members` were found: one that is not there,
    or null, is made, at the end of the object. Raises as `members` does, also where it is something else.
    """
    array = found.get(key)
    if array is not None:
        return Edit(array, f"[{value}]") if array.of(text) == "null" else appended(text, array, [value])
    last = max(found.values(), default=None)
    at = last.end if last else _open(text, 0, "{")
    return Edit(Place(at, at), f'{"," if last else ""}"{key}":[{value}]')


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made. They may not overlap; those at one place are made in their order."""
    pieces, at = [], 0
    for place, new in sorted(edits, key=lambda edit: edit.place):
        pieces += [text[at : place.start], new]
        at = place.end
    return "".join([*pieces, text[at:]])


def _open(text: str, at: int, bracket: str) -> int:
    at = _after(text, at)
    if text[at : at + 1] != bracket:
        raise ValueError(f"no {bracket} here")
    return _after(text, at + 1)


def _after(text: str, at: int) -> int:
    """The next place that is no white space."""
    space = _SPACE.match(text, at)
    return space.end() if space else at
