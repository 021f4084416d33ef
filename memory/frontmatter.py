"""The YAML block at a note's start: found and read, whatever stands in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from memory.notes import SHARES, Share

_FRONTMATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_SHARE_LINE = re.compile(r"^share:[ \t]*[\"']?(\w+)[\"']?[ \t]*(?:#.*)?$", re.IGNORECASE | re.MULTILINE)


class _AsWritten(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen when libyaml is there
    """PyYAML's safe loader without the types that change how a scalar is written, and without `<<`.

    A title `1.10` must not become 1.1, nor `No` False; a date that is no date is still text. Merge keys can make a
    short text into gigabytes, and no note needs one. A key that is itself a mapping is left out, as in Obsidian: a
    template's `created: {{date}}` is YAML for that, and costs the template nothing else.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        node.value = [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


_AsWritten.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


# Most notes' blocks are of this kind, and PyYAML needs longer for one than all the rest of a note takes: one key and one
# value a line, values that are plain words, quoted without escapes, or lists of plain words.
_PLAIN = r"\w(?:[\w./ -]*[\w./-])?"
_PRINTABLE = r"\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"
_VALUE = (
    rf"(?:(?P<plain>{_PLAIN})"
    rf"|\"(?P<double>(?:(?![\"\\])[{_PRINTABLE}])*)\"|'(?P<single>(?:(?!')[{_PRINTABLE}])*)'"
    rf"|\[ *(?P<list>{_PLAIN}(?: *, *{_PLAIN})*)? *\])"
)
_PAIR = re.compile(rf"(?P<key>\w[\w-]{{0,99}}):(?: +{_VALUE})? *")
_ITEM = re.compile(rf"(?P<indent> *)- +{_VALUE} *")
_BETWEEN = re.compile(r" *, *")
_NULLS = frozenset({"null", "Null", "NULL"})


def plain_mapping(block: str) -> dict[str, Any] | None:
    """What PyYAML would make of a block of the plainest kind; None: only PyYAML can tell."""
    mapping: dict[str, Any] = {}
    items: list[Any] | None = None
    key = indent = ""
    for line in block.split("\n"):
        if match := _PAIR.fullmatch(line):
            key = match["key"]
            if key in _NULLS:
                return None
            mapping[key] = _plain_value(match)
            items = [] if line.rstrip(" ").endswith(":") else None
        elif items is not None and (match := _ITEM.fullmatch(line)):
            if not items:
                indent = match["indent"]
                mapping[key] = items
            elif match["indent"] != indent:
                return None
            items.append(_plain_value(match))
        elif line:
            return None
    return mapping


def _plain_value(match: re.Match[str]) -> Any:
    kind = match.lastgroup
    if kind is None or kind in {"key", "indent"}:
        return [] if "[" in match[0] else None
    if kind == "list":
        return [None if one in _NULLS else one for one in _BETWEEN.split(match["list"].rstrip(" "))]
    value = match[kind]
    return None if kind == "plain" and value in _NULLS else value


def read_yaml(block: str) -> Any:
    """Scalars as they are written. An empty block is an empty mapping. Raises whatever PyYAML lets through."""
    loaded = yaml.load(block, _AsWritten)  # noqa: S506  # a subclass of the safe loader
    return {} if loaded is None else loaded


def split_frontmatter(text: str) -> tuple[dict[str, Any] | None, str, str | None]:
    """(mapping or None, body, warning). Frontmatter begins with the note's first character, as Obsidian has it.

    Raises nothing that a text can cause.
    """
    match = _FRONTMATTER.match(text)
    if match is None:
        return None, text, None
    body = text[match.end() :]
    plain = plain_mapping(match[1])
    if plain is not None:
        return plain, body, None
    try:
        loaded = read_yaml(match[1])
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        return None, body, f"the frontmatter is not valid YAML (line {line}); read without it"
    except Exception as error:  # noqa: BLE001  # PyYAML lets ValueError, RecursionError and others of its parts through
        return None, body, f"the frontmatter cannot be read ({type(error).__name__}); read without it"
    if not isinstance(loaded, dict):
        # Text between two rules, not properties: it belongs to the body.
        return None, text, "the block between the first two --- is no YAML mapping; read as text"
    return loaded, body, None


def title_in(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def share_in(value: Any) -> tuple[Share | None, str | None]:
    """(how the note may be shared, warning). `true` is another program's word for a note that is published, and none of ours."""
    if value is None:
        return None, None
    written = value.strip().lower() if isinstance(value, str) else ""
    for share in SHARES:
        if written == share:
            return share, None
    if written in {"true", ""} and isinstance(value, str):
        return None, None
    return None, f"`share` in the frontmatter is none of {', '.join(SHARES)}; rules decide"


def share_line(text: str) -> Share | None:
    """`share: never` in a frontmatter that is no YAML: what stands there plainly counts all the same."""
    found = _SHARE_LINE.search(match[1]) if (match := _FRONTMATTER.match(text)) else None
    return share_in(found[1])[0] if found else None


def names_in(value: Any, separator: str) -> list[str]:
    """The names in `aliases` or `tags`: a string holding several, or a list; what is no string is left out."""
    if isinstance(value, str):
        value = re.split(separator, value)
    if not isinstance(value, list):
        return []
    return [one.strip() for one in value if isinstance(one, str) and one.strip()]


def strings_in(value: Any) -> Iterator[str]:
    """Every string in a frontmatter value, each container once: YAML anchors can make loops and huge repetitions."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict | list) and id(one) not in seen:
            seen.add(id(one))
            waiting.extend(reversed(one.values() if isinstance(one, dict) else one))
