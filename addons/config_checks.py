"""Single values of mitm.yaml: each function reads one, or reports what is wrong with it and gives None.

In a list only the entries with a fault are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pathspec

from addons.config_reader import Value, did_you_mean
from addons.config_values import parse_duration, parse_size
from addons.providers import parse_host
from memory.sources.own import installed_kinds, is_import_path

KINDS = {
    "markdown": "markdown",
    "Markdown": "markdown",
    "claude_code": "claude_code",
    "ClaudeCode": "claude_code",
    "knowledge_graph": "knowledge_graph",
    "KnowledgeGraph": "knowledge_graph",
    "conversations": "conversations",
    "Conversations": "conversations",
}
"""What a source's `type` may say for the built-in kinds, in this project's spelling and in the seed's."""

_PREFIX = re.compile(r"/(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*/)*")
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TOKEN = re.compile(r"[!-~]{16,}")


def integer(least: int) -> Callable[[Value], int | None]:
    return lambda value: value.integer(least)


def size(value: Value) -> int | None:
    return value.parsed(parse_size, "a size", "write a size from 1 byte, like `64MiB`, or a number of bytes")


def duration(value: Value) -> float | None:
    return value.parsed(parse_duration, "a duration", "write `1m`, `00:01:00`, or a number of seconds")


def name(value: Value) -> str | None:
    written = value.text("a name")
    if written is None:
        return None
    if not written or written != written.strip() or not written.isprintable():
        value.fault(f"{written!r} is no name", "write a word or two, like `vault`")
        return None
    return written


def source_name(value: Value) -> str | None:
    written = name(value)
    if written and ("/" in written or "\\" in written):
        value.fault(f"`{written}` holds a slash, which parts the folders in a note's id", "write it without")
        return None
    return written


def kind(value: Value) -> str | None:
    written = value.text("a type")
    if written is None:
        return None
    if found := KINDS.get(written):
        return found
    installed = installed_kinds()
    if is_import_path(written) or written in installed:
        return written
    if ":" in written:
        value.fault(f"`{written}` names no class", "write it like `package.module:ClassName`")
        return None
    mend = did_you_mean(written, (*tuple(KINDS)[::2], *installed))
    mend = (
        mend
        or "write `markdown`, `claude_code`, `knowledge_graph`, `conversations`, or `package.module:ClassName` for your own"
    )
    value.fault(f"`{written}` is no type of source", mend)
    return None


def globs(value: Value) -> tuple[str, ...]:
    """Patterns as in a .gitignore file (notes.md, "Sources")."""
    globs: list[str] = []
    for item in value.items():
        glob = item.text("a pattern")
        if glob is None:
            continue
        try:
            pathspec.GitIgnoreSpec.from_lines([glob])
        except ValueError:
            item.fault(f"`{glob}` is no pattern", "write it as in a .gitignore file, like `Templates/*`")
        else:
            globs.append(glob)
    return tuple(globs)


def extensions(value: Value) -> tuple[str, ...]:
    extensions: list[str] = []
    for item in value.items():
        extension = item.text("an extension")
        if extension is None:
            continue
        if re.fullmatch(r"\.[^\s/\\*?]+", extension):
            extensions.append(extension)
        else:
            item.fault(f"`{extension}` is no extension", f"write `.{extension.lstrip('*.') or 'txt'}`")
    return tuple(extensions)


def hosts(value: Value) -> Iterator[str]:
    for item in value.items():
        host = item.text("a host")
        if host is None:
            continue
        try:
            parse_host(host)
        except ValueError as error:
            item.fault(f"`{host}` {error}", "write it like `llm.example.com`, `*.example.com` or `127.0.0.1:8000`")
        else:
            yield host


def prefix(value: Value) -> str | None:
    written = value.text("a path")
    if written is None:
        return None
    prefix = written if written.endswith("/") else f"{written}/"
    if _PREFIX.fullmatch(prefix):
        return prefix
    value.fault(f"`{written}` is no path for a page", "write `/`, or a path like `/memory/`")
    return None


def variable(value: Value) -> str | None:
    """The name of a variable. The key itself may stand there by mistake: its text is in no fault."""
    if not value.is_text or not _VARIABLE.fullmatch(str(value.node.value)):
        mend = "write the variable's name, like `LMSTUDIO_KEY`, and the key into the variable"
        value.fault("it is no name of a variable, and the key itself does not belong here", mend)
        return None
    return str(value.node.value)


def token(value: Value) -> str | None:
    """Its text is in no fault: a fault may be logged."""
    if not value.is_text:
        value.fault("a token is text", "put it in quotes, or write `null` to have one made")
        return None
    if not _TOKEN.fullmatch(str(value.node.value)):
        value.fault("a token has at least 16 letters, digits or signs, and no space", "write `null` to have one made")
        return None
    return str(value.node.value)
