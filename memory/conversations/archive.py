"""The steps of putting a session away once it was summarised. Each can be repeated, and a crash between any two is mended.

1. `put_summary`: an earlier summary goes to `archive/{id}-summary-N.md`, the new one is `sessions/{id}-summary.md`.
2. The caller indexes it.
3. `put_away`: the transcript moves to `archive/{id}.md`. A transcript beside its summary means that this is yet to do.

`bring_back` undoes all of it, where something was deleted that a summary may tell of.
"""

from __future__ import annotations

import re
from pathlib import Path

from memory.conversations import files

_SUMMARY = "-summary.md"


def put_summary(folder: Path, session: str, text: str) -> list[Path]:
    """Make this the summary of the session. Returns the files that are new or changed, the summary last.

    Raises ValueError where there is no text in it, OSError where the disk refuses.
    """
    if not text.strip():
        raise ValueError("the summary is empty")
    summary = folder / "sessions" / f"{session}{_SUMMARY}"
    changed = _keep_earlier(folder, session, summary, text.encode())
    files.replace(summary, text.encode(), folder / files.UNFINISHED)
    return [*changed, summary]


def put_away(folder: Path, session: str) -> Path | None:
    """Move the transcript to the archive; None where it is there already. Returns where it was.

    Raises FileExistsError where another transcript of that name is archived, OSError where the disk refuses.
    """
    here, there = folder / "sessions" / f"{session}.md", folder / "archive" / f"{session}.md"
    if not here.exists():
        return None
    if there.exists() and there.read_bytes() != here.read_bytes():
        raise FileExistsError(f"{there} is another transcript than {here}: keep one of them")
    here.replace(there)
    return here


def bring_back(folder: Path, session: str) -> tuple[list[Path], list[Path]]:
    """The transcript is indexed again, and no summary of it is left. Returns (what is there anew, what is gone).

    Raises OSError.
    """
    here, there = folder / "sessions" / f"{session}.md", folder / "archive" / f"{session}.md"
    anew: list[Path] = []
    summaries = folder / "sessions" / f"{session}{_SUMMARY}", *earlier_summaries(folder, session)
    gone = [path for path in summaries if path.exists()]
    if there.exists() and not here.exists():
        there.replace(here)
        anew.append(here)
    for path in gone:
        path.unlink(missing_ok=True)
    return anew, gone


def earlier_summaries(folder: Path, session: str) -> list[Path]:
    """`archive/{id}-summary-N.md`, the oldest first."""
    numbered = re.compile(rf"{re.escape(session)}-summary-(\d{{1,9}})\.md")
    found = [(int(match[1]), path) for path in _files(folder / "archive") if (match := numbered.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def mend(folder: Path, *, current: str | None) -> tuple[Path, ...]:
    """Finish or take back what a crash has left half done. `current` is the session that is under way.

    Returns the files that changed or are no more. Raises OSError.
    """
    for path in _files(folder / files.UNFINISHED):
        path.unlink(missing_ok=True)
    changed: list[Path] = []
    for summary in _files(folder / "sessions"):
        session = summary.name.removesuffix(_SUMMARY)
        if session in {summary.name, current} or not summary.read_bytes().strip():
            continue
        if (was := put_away(folder, session)) is not None:
            changed += [was, summary]
    return tuple(changed)


def _keep_earlier(folder: Path, session: str, summary: Path, new: bytes) -> list[Path]:
    try:
        earlier = summary.read_bytes()
    except FileNotFoundError:
        return []
    kept = earlier_summaries(folder, session)
    if earlier == new or (kept and kept[-1].read_bytes() == earlier):
        return []
    number = int(kept[-1].stem.rpartition("-")[2]) + 1 if kept else 1
    path = folder / "archive" / f"{session}-summary-{number}.md"
    files.replace(path, earlier, folder / files.UNFINISHED)
    return [path]


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
