"""Claude Code's own memory: the user's `CLAUDE.md`, and the memory folder of each project.

Nothing else in its folder is opened: not agents, commands, settings or transcripts (notes.md, "Sources"). How Claude
Code lays its memory out: https://code.claude.com/docs/en/memory.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG

from memory.markdown import Parsed, parse
from memory.notes import Link, LoadReport, MemoryDocument, SourceWarning
from memory.sources.files import decode, readable
from memory.sources.limits import Limits

DEFAULT_FOLDER = "~/.claude"
USER_MEMORY = ("CLAUDE.md", "CLAUDE.local.md")
TAIL_WORDS = 3

_MEMORY_FILE = re.compile(r"projects/[^/]+/memory/[^/]+\.md", re.IGNORECASE)
_ENCODED = re.compile(r"[^A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class _File:
    """`path` is relative, with `/`; `real` is what is opened."""

    path: str
    real: str
    size: int
    stamp: tuple[int, int]


class ClaudeCodeSource:
    """`CLAUDE.md`, `CLAUDE.local.md` and `projects/*/memory/*.md` below `path`; None: below `~/.claude`.

    Symlinks are followed, but not to another file of the same folder that is no memory; each real file is one note.
    """

    kind = "claude_code"

    def __init__(
        self, name: str, path: Path | str | None = None, *, limits: Limits | None = None, enabled: bool = True
    ) -> None:
        self.name = name
        self.folder = Path(os.path.expanduser(DEFAULT_FOLDER)) if path is None else Path(path)  # noqa: PTH111  # no error
        self.location = str(self.folder)
        self.enabled = enabled
        self.report = LoadReport()
        self.on_progress: Callable[[int, int], None] | None = None
        self._limits = limits or Limits()
        self._parsed: dict[str, tuple[bytes, str | None, Parsed]] = {}

    async def load(self) -> list[MemoryDocument]:
        """Read every memory file: the user's first, then project by project.

        Raises OSError, with a message for the user, when the folder is missing or may not be read. What is wrong with
        one file is a warning in `report`.
        """
        return await asyncio.to_thread(self._load)

    async def stamp(self) -> object:
        """Equal to the last one as long as no memory file was added, changed or removed. Raises as `load`."""
        return await asyncio.to_thread(lambda: tuple(self._files(LoadReport())))

    def _load(self) -> list[MemoryDocument]:
        report = LoadReport()
        files = self._files(report)
        documents: list[MemoryDocument] = []
        parsed: dict[str, tuple[bytes, str | None, Parsed]] = {}
        for done, file in enumerate(files):
            if self.on_progress is not None:
                self.on_progress(done, len(files))
            if self._limits.is_too_large(file.size):
                report.skipped += 1
                continue
            try:
                documents.append(self._document(file, parsed, report))
            except OSError as error:
                report.warnings.append(SourceWarning(file.path, f"cannot be read: {error.strerror or error}"))
            except Exception as error:  # noqa: BLE001  # one broken file is one warning, never a failed scan (notes.md)
                report.warnings.append(SourceWarning(file.path, f"cannot be parsed ({type(error).__name__})"))
        if self.on_progress is not None:
            self.on_progress(len(files), len(files))
        documents, skipped = self._limits.keep(documents)
        report.skipped += skipped
        self._parsed, self.report = parsed, report
        return name_and_link(documents, {path: name for path, (_, name, _) in parsed.items()}, self.folder.parent)

    def _document(
        self, file: _File, parsed: dict[str, tuple[bytes, str | None, Parsed]], report: LoadReport
    ) -> MemoryDocument:
        content = Path(file.real).read_bytes()
        text, complaint = decode(content)
        digest = blake2b(content, digest_size=16).digest()
        known = self._parsed.get(file.path)
        if known is None or known[0] != digest:
            note = parse(text)
            known = digest, _name(note), replace(note, frontmatter=None)
        parsed[file.path] = known
        note = known[2]
        reasons = [reason for reason in (complaint, note.warning) if reason]
        if reasons:
            report.warnings.append(SourceWarning(file.path, "; ".join(reasons)))
        return MemoryDocument(
            file.path, text, note.title, note.aliases, note.tags, note.links, len(content), share=note.share
        )

    def _files(self, report: LoadReport) -> list[_File]:
        if not self.folder.exists():
            raise FileNotFoundError(f"{self.folder} does not exist")
        if not self.folder.is_dir():
            raise NotADirectoryError(f"{self.folder} is not a folder")
        if not os.access(self.folder, os.X_OK):
            raise PermissionError(f"{self.folder} cannot be read: permission denied")
        root = os.path.realpath(self.folder)
        files: dict[str, _File] = {}
        for path in self._candidates(report):
            if self._limits.excludes(path):
                continue
            try:
                real = os.path.realpath(self.folder / path)
                status = os.stat(real)  # noqa: PTH116  # `real` is a string
            except FileNotFoundError:
                continue
            except OSError as error:
                report.warnings.append(SourceWarning(readable(path), f"cannot be read: {error.strerror or error}"))
                continue
            if not S_ISREG(status.st_mode) or real in files:
                continue
            if not _is_memory(real, root):
                report.warnings.append(SourceWarning(readable(path), "a link to a file that is no memory; not opened"))
                continue
            files[real] = _File(readable(path), real, status.st_size, (status.st_mtime_ns, status.st_ctime_ns))
        return list(files.values())

    def _candidates(self, report: LoadReport) -> Iterator[str]:
        """The paths at which memory may be; only `projects` and the memory folders are listed."""
        yield from USER_MEMORY
        for project in self._names("projects", report):
            folder = f"projects/{project}/memory"
            yield from (f"{folder}/{name}" for name in self._names(folder, report) if name.lower().endswith(".md"))

    def _names(self, folder: str, report: LoadReport) -> list[str]:
        try:
            return sorted(os.listdir(self.folder / folder))  # noqa: PTH208  # names are all that is wanted
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            report.warnings.append(SourceWarning(readable(folder), f"cannot be read: {error.strerror or error}"))
            return []


def _is_memory(real: str, root: str) -> bool:
    """Whether a real path is memory, or lies outside of Claude Code's folder (dotfiles that are kept elsewhere)."""
    if not real.startswith(root + os.sep):
        return True
    path = real[len(root) + 1 :].replace(os.sep, "/")
    return path in USER_MEMORY or _MEMORY_FILE.fullmatch(path) is not None


def _name(note: Parsed) -> str | None:
    """`name` of the frontmatter, as Claude Code writes it into its topic files."""
    name = (note.frontmatter or {}).get("name")
    return name.strip() or None if isinstance(name, str) else None


# --- titles and links -------------------------------------------------------------------------------------------------


def name_and_link(
    documents: Iterable[MemoryDocument], names: Mapping[str, str | None], home: Path | str
) -> list[MemoryDocument]:
    """The documents with titles (`project · name`, or the frontmatter's name), and with links that stay in a project.

    `names` is path -> `name` in the frontmatter; `home` is the folder that Claude Code's own folder is in.
    """
    documents = list(documents)
    tails = project_tails({project for one in documents if (project := _project(one.path))}, str(home))
    targets: dict[tuple[str | None, str], str] = {}
    files = [(one.path, one.path.rpartition("/")[2]) for one in documents]
    stems = [(path, file.rpartition(".")[0]) for path, file in files]
    titles = [(one.path, names.get(one.path) or one.title or "") for one in documents]
    for path, form in (*files, *stems, *titles):
        targets.setdefault((_project(path), form.casefold()), path)
    named: list[MemoryDocument] = []
    for document, (_, stem) in zip(documents, stems, strict=True):
        project = _project(document.path)
        title = names.get(document.path) or document.title
        links = document.links
        if project is not None:
            title = title or f"{tails[project]} · {stem}"
            links = tuple(_within(project, link, targets) for link in links)
        named.append(replace(document, title=title, links=links))
    return named


def _project(path: str) -> str | None:
    parts = path.split("/")
    return parts[1] if len(parts) == 4 else None


def _within(project: str, link: Link | str, targets: Mapping[tuple[str | None, str], str]) -> Link:
    """A link by file name or by name means a note of the same project: other projects have notes of that name too."""
    link = Link(link) if isinstance(link, str) else link
    target = link.target.removeprefix("./")
    if not target or "/" in target or "\\" in target:
        return link
    path = targets.get((project, target.casefold()))
    return replace(link, target=f"/{path}" if path else f"./{target}")


def project_tails(projects: Collection[str], home: str) -> dict[str, str]:
    """Project folder -> what to call it.

    The folder's name is the project's path with `-` for every character that is no letter and no digit. It cannot be
    decoded, so it is not: shown are its last words without the home folder's, as many as tell the projects apart.
    """
    prefix = _ENCODED.sub("-", home) + "-"
    words = {
        project: tuple(word for word in project.removeprefix(prefix).split("-") if word) or (project,)
        for project in projects
    }
    tails: dict[str, str] = {}
    for count in range(TAIL_WORDS, max(map(len, words.values()), default=0) + TAIL_WORDS):
        shared = Counter(own[-count:] for own in words.values())
        for project, own in words.items():
            if project not in tails and (shared[own[-count:]] == 1 or count >= len(own)):
                tails[project] = "-".join(own[-count:])
    return tails
