"""Every string in a decoded body: keys too, and the strings of the JSON that strings hold. And where each one is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

from memory.body import TOO_DEEP
from memory.json_text import RepeatedKeys, Torn, decode_json

MOST_DECODINGS = 4
"""How often JSON in a string in JSON … is decoded. Clients nest it once or twice."""

NO_NAME = "{…}"
"""What stands in a pointer for a key that may be text."""
_NAME = re.compile(r"[A-Za-z0-9_.$@:/+~-]{0,64}")
_STRING = re.compile(r'(?:\A|")([^"\\]*+(?:\\.[^"\\]*+)*+)', re.DOTALL)
_OPENING = {"{": "}", "[": "]", '"': '"'}
_MAY_OPEN = frozenset('{[" \t\n\r')
_NONE: Any = object()
_ROOT: Any = object()
"""The token of what is where its container is itself."""


class Strings(NamedTuple):
    """The strings of one value. `inner` has the decoded JSON of those that hold some, by the string's `id`.

    The value keeps its strings alive, so that an `id` stays that string's.
    """

    root: Any
    texts: list[str]
    """Values that hold no JSON, and keys."""
    holding: list[str]
    """Strings whose JSON was decoded: names count there and not in these."""
    inner: dict[int, Any]

    def places[T](self, in_texts: Mapping[int, T], in_holding: Mapping[int, T]) -> Iterator[tuple[str, T]]:
        """(pointer, what was found) of strings, in the order of the value; found is told by the string's `id`.

        The pointer is RFC 6901, with `!` where the JSON inside a string begins.
        """
        inner = self.inner
        members: Iterator[tuple[str | int | None, Any]]
        # Each container with the place that it is in. A string goes into its JSON when it has been looked at itself.
        stack: list[tuple[_Place | None, bool, Iterator[tuple[str | int | None, Any]]]]
        stack = [(None, False, iter([(_ROOT, self.root)]))]
        while stack:
            parent, has_keys, members = stack[-1]
            for token, value in members:
                if has_keys and id(token) in in_texts:
                    yield _pointer(parent, token), in_texts[id(token)]
                if isinstance(value, str):
                    if id(value) in inner:
                        if id(value) in in_holding:
                            yield _pointer(parent, token), in_holding[id(value)]
                        into = _Place(_inside(parent, token), None)
                        stack.append((into, False, iter([(_ROOT, inner[id(value)])])))
                        break
                    if id(value) in in_texts:
                        yield _pointer(parent, token), in_texts[id(value)]
                elif isinstance(value, dict | list | _Loose):
                    here = _inside(parent, token)
                    stack.append((here, isinstance(value, dict), _members(value)))
                    break
            else:
                stack.pop()


class _Place(NamedTuple):
    """Where a value is, as a chain up to the root: a pointer is written out only where something is found."""

    parent: _Place | None
    token: str | int | None
    """A key, a position, or None: into the JSON that the string holds."""


class _Loose(tuple[str, ...]):
    """The strings of JSON that is torn: all are where it is itself."""

    __slots__ = ()


def strings_of(
    root: Any,
    reasons: dict[str, None],
    *,
    shortest: int = 0,
    wide: bool = False,
    dull: set[str] | None = None,
) -> Strings:
    """The strings of a value, however deep it is nested, in no order; `reasons` gets what could not be looked at.

    Left out are those with less than `shortest` characters, unless a name or JSON may be in them, or `wide` is true and
    some of their characters are not ASCII. `dull` gets the keys that were left out; those in it are left out.
    """
    root = RepeatedKeys(list(root)) if isinstance(root, tuple) else _loose(root)  # of a form: its names and texts
    texts: list[str] = []
    holding: list[str] = []
    inner: dict[int, Any] = {}
    dull = set() if dull is None else dull
    values, level = [root], 0
    while values:
        deeper: list[Any] = []
        for value in values:  # to which what is in containers is added meanwhile
            kind = type(value)
            if kind is str:
                if len(value) < shortest and not (  # `may_tell`, without a call for each of thousands
                    "." in value or "[[" in value or "\\" in value or (wide and not value.isascii())
                ):
                    continue
                if value[:1] not in _MAY_OPEN:
                    texts.append(value)
                elif id(value) not in inner:
                    json = _json_inside(value, level, reasons)
                    if json is _NONE:
                        texts.append(value)
                    else:
                        holding.append(value)
                        inner[id(value)] = json
                        deeper.append(json)
            elif kind is dict:
                if not dull.issuperset(value):
                    worth = [key for key in value if len(key) >= shortest or may_tell(key, wide=wide)]
                    texts += worth
                    dull.update(value.keys() - worth)
                values += value.values()
            elif kind is RepeatedKeys:
                texts += [key for key, _ in value.pairs if len(key) >= shortest or may_tell(key, wide=wide)]
                values += [one for _, one in value.pairs]
            elif kind is list or kind is _Loose:
                values += value
        values, level = deeper, level + 1
    return Strings(root, texts, holding, inner)


def may_tell(text: str, *, wide: bool) -> bool:
    """Whether a short string may name a note, or hold JSON that does, or be a quote."""
    return "." in text or "[[" in text or "\\" in text or (wide and not text.isascii())


def _members(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, RepeatedKeys):
        return iter(value.pairs)
    if isinstance(value, dict):
        return iter(value.items())
    if isinstance(value, _Loose):
        return zip(repeat(_ROOT), value)
    return enumerate(value)


def _json_inside(text: str, level: int, reasons: dict[str, None]) -> Any:
    """The JSON that a string is, decoded; `_NONE`: it is none, or only a number or a word."""
    inner = text.strip()
    if len(inner) < 2 or _OPENING.get(inner[0]) != inner[-1]:
        return _NONE
    try:
        value = decode_json(inner)
    except RecursionError:
        reasons[TOO_DEEP] = None
        value = Torn(inner)
    except ValueError:
        return _NONE
    if level >= MOST_DECODINGS:
        reasons[TOO_DEEP] = None
        return _NONE
    return _loose(value)


def _loose(value: Any) -> Any:
    return (
        _Loose(_unescaped(string[1]) for string in _STRING.finditer(value.text)) if isinstance(value, Torn) else value
    )


def _unescaped(string: str) -> str:
    """The text of a JSON string literal, without its quotes; as it stands where an escape in it is broken."""
    try:
        text = decode_json(f'"{string}"')
    except ValueError:
        return string
    return text if isinstance(text, str) else string


def _inside(parent: _Place | None, token: Any) -> _Place | None:
    return parent if token is _ROOT else _Place(parent, token)


def _pointer(parent: _Place | None, token: Any) -> str:
    tokens: list[str] = []
    place = _inside(parent, token)
    while place is not None:
        token = place.token
        tokens.append("!" if token is None else f"/{token}" if isinstance(token, int) else key_pointer(token))
        place = place.parent
    return "".join(reversed(tokens))


def key_pointer(key: str) -> str:
    """One key as a part of a pointer. A key that is no name may be the text of a note, which no pointer shows."""
    if not _NAME.fullmatch(key):
        return f"/{NO_NAME}"
    return "/" + key.replace("~", "~0").replace("/", "~1")
