"""One YAML file: its text, its node tree, and the faults that are found in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

MOST_BYTES = 1024 * 1024
"""A configuration is written by hand; what is longer is some other file."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: where, what, and how to mend it. `key` is a path like `memory.sources[1].path`."""

    file: str
    line: int | None
    key: str
    message: str
    mend: str
    column: int | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        key = f"{self.key}: " if self.key else ""
        return f"{place}: {key}{self.message}; mend: {self.mend}"


class ConfigError(Exception):
    """The configuration cannot be used. `faults` holds everything that is wrong with it, in the file's order."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = tuple(faults)


class Document:
    """A file that is being read, and what has been found wrong with it so far."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []

    def fault(self, node: yaml.Node, key: str, message: str, mend: str) -> None:
        line = node.start_mark.line + 1
        self.faults.append(Fault(self.file, line, _one_line(key), _one_line(message), _one_line(mend)))

    def finish(self) -> None:
        """Raise ConfigError if anything was wrong."""
        if self.faults:
            raise ConfigError(sorted(self.faults, key=lambda fault: fault.line or 0))


def parse_document(text: str, file: str) -> tuple[Document, yaml.Node | None]:
    """The document and its top node; None where the file holds nothing. Raises ConfigError for what is no YAML."""
    document = Document(file)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        fault = Fault(file, line, "", f"the character U+{error.character:04X} is not allowed", "remove it")
        raise ConfigError([fault]) from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError([_syntax(error, file)]) from None
    except RecursionError:
        raise ConfigError([Fault(file, None, "", "too many levels of brackets", "check its brackets")]) from None
    return document, node


def read_text(path: Path) -> str:
    """The file's text, without a byte order mark. Raises ConfigError."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except FileNotFoundError:
        fault = Fault(str(path), None, "", "there is no such file", "check the path, or leave it out")
        raise ConfigError([fault]) from None
    except OSError as error:
        fault = Fault(str(path), None, "", f"it cannot be read ({error.strerror})", "name a file that you may read")
        raise ConfigError([fault]) from None
    if len(data) > MOST_BYTES:
        raise ConfigError([Fault(str(path), None, "", "it is larger than 1 MiB", "name a configuration file")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([Fault(str(path), line, "", "it is not UTF-8", "save the file as UTF-8")]) from None


def _one_line(text: str) -> str:
    """A fault is one readable line, whatever stands in the file."""
    shown = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text[:200])
    return shown + ("…" if len(text) > 200 else "")


def _syntax(error: yaml.MarkedYAMLError, file: str) -> Fault:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or "no YAML"
    mend = "check the quotes, brackets and indentation here and on the line above"
    if "'\\t'" in problem:
        problem, mend = "a tab stands where spaces belong", "indent with spaces"
    elif "mapping values are not allowed" in problem:
        problem, mend = "a second colon, or a wrong indentation", "put the value in quotes, or align the line"
    elif "escape" in problem or "hexadecimal" in problem:
        problem, mend = "a backslash in double quotes", "use single quotes"
    elif "cannot start any token" in problem:
        mend = "put the value in quotes"
    elif "another document" in problem:
        problem, mend = "a second document starts here", "remove the `---`"
    line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
    return Fault(file, line, "", f"not valid YAML: {problem}", mend, column)
